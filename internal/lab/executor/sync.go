package executor

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
)

// authoritiesSecret is what openstack-operator makes of its certificate authorities; Services mount it by default.
const authoritiesSecret = "combined-ca-bundle"

// SyncNodeSet brings the NodeSet's inventory Secret and status up to its spec and its Deployments. The inventory stays
// as it is while a Deployment of the NodeSet runs. What every run mounts and the lab has no use for, the bundle of
// authorities and the key to log in with, is made up where it is missing.
func (e *Executor) SyncNodeSet(ctx context.Context, name string) error {
	var nodeSet dataplanev1.OpenStackDataPlaneNodeSet
	if err := e.get(ctx, name, &nodeSet); err != nil {
		return fmt.Errorf("NodeSet %s: %w", name, err)
	}
	deployments, err := e.deploymentsOf(ctx, name)
	if err != nil {
		return err
	}
	known, err := e.services(ctx, slices.Compact(slices.Sorted(slices.Values(nodeSet.Spec.Services))))
	if err != nil {
		return err
	}
	if err := e.ensureInputs(ctx, &nodeSet); err != nil {
		return fmt.Errorf("NodeSet %s: %w", name, err)
	}
	before := nodeSet.DeepCopy()
	status := &nodeSet.Status
	status.ObservedGeneration = nodeSet.Generation
	status.AllHostnames, status.AllIPs = hostNames(&nodeSet), addresses(&nodeSet)
	hash, err := objectHash(nodeSet.Spec)
	if err != nil {
		return err
	}
	if hash != status.DeployedConfigHash { // otherwise it stays at what it was before a change that was taken back
		status.ConfigHash = hash
	}
	state := replay(&nodeSet, deployments)
	var problem error
	if !state.running {
		if problem = e.writeInventory(ctx, &nodeSet, known); problem == nil {
			status.InventorySecretName = inventoryName(name)
		}
	}
	status.Conditions = nodeSetConditions(&nodeSet, state, problem, metav1.Now())
	if !equality.Semantic.DeepEqual(before.Status, nodeSet.Status) {
		err = e.options.Client.Status().Patch(ctx, &nodeSet, client.MergeFrom(before), client.FieldOwner(asOperator))
	}
	if err != nil {
		return fmt.Errorf("status of NodeSet %s: %w", name, err)
	}
	return problem
}

// deploymentsOf gives the NodeSet's Deployments that are not being deleted, oldest first.
func (e *Executor) deploymentsOf(ctx context.Context, nodeSet string) ([]*dataplanev1.OpenStackDataPlaneDeployment, error) {
	var list dataplanev1.OpenStackDataPlaneDeploymentList
	if err := e.options.Client.List(ctx, &list, client.InNamespace(e.options.Namespace)); err != nil {
		return nil, fmt.Errorf("Deployments of NodeSet %s: %w", nodeSet, err)
	}
	var deployments []*dataplanev1.OpenStackDataPlaneDeployment
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil && slices.Contains(list.Items[i].Spec.NodeSets, nodeSet) {
			deployments = append(deployments, &list.Items[i])
		}
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return inOrder(deployments, e.changes), nil
}

// ensureInputs makes what a NodeSet needs and nobody in the lab has made.
func (e *Executor) ensureInputs(ctx context.Context, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) error {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: e.options.Namespace, Name: name}
	}
	account := &corev1.ServiceAccount{ObjectMeta: meta(nodeSet.Name)}
	account.OwnerReferences = []metav1.OwnerReference{ownedBy(nodeSet)}
	objects := []client.Object{
		account,
		&corev1.Secret{ObjectMeta: meta(authoritiesSecret), Data: map[string][]byte{"tls-ca-bundle.pem": []byte("the lab has no authorities\n")}},
	}
	if key := nodeSet.Spec.NodeTemplate.AnsibleSSHPrivateKeySecret; key != "" {
		objects = append(objects, &corev1.Secret{ObjectMeta: meta(key), Data: map[string][]byte{sshKey: []byte("the lab does not log in\n")}})
	}
	for _, object := range objects {
		err := e.get(ctx, object.GetName(), object.DeepCopyObject().(client.Object))
		if apierrors.IsNotFound(err) {
			err = e.options.Client.Create(ctx, object, client.FieldOwner(asOperator))
		}
		if err != nil {
			return fmt.Errorf("%T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func ownedBy(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(nodeSet, dataplanev1.GroupVersion.WithKind("OpenStackDataPlaneNodeSet"))
}

// writeInventory brings the inventory Secret up to the spec.
func (e *Executor) writeInventory(ctx context.Context, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, known map[string]*dataplanev1.OpenStackDataPlaneService) error {
	var places []string
	for _, name := range nodeSet.Spec.Services {
		place := name
		if service := known[name]; service != nil {
			place = placeOf(service)
		}
		places = append(places, place)
	}
	text, err := inventoryOf(nodeSet, places)
	if err != nil {
		return err
	}
	labels := map[string]string{"openstack.org/operator-name": "dataplane", labelNodeSet: nodeSet.Name, "inventory": "true"}
	maps.Copy(labels, nodeSet.Labels)
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: e.options.Namespace, Name: inventoryName(nodeSet.Name), Labels: labels,
		OwnerReferences: []metav1.OwnerReference{ownedBy(nodeSet)},
	}, Data: map[string][]byte{inventoryKey: text}}
	var live corev1.Secret
	switch err := e.get(ctx, secret.Name, &live); {
	case apierrors.IsNotFound(err):
		err = e.options.Client.Create(ctx, &secret, client.FieldOwner(asOperator))
		return wrap(err, "inventory Secret "+secret.Name)
	case err != nil:
		return fmt.Errorf("inventory Secret %s: %w", secret.Name, err)
	case bytes.Equal(live.Data[inventoryKey], text):
		return nil
	}
	before := live.DeepCopy()
	live.Data = secret.Data
	if live.Labels == nil {
		live.Labels = map[string]string{}
	}
	maps.Copy(live.Labels, labels)
	return wrap(e.options.Client.Patch(ctx, &live, client.MergeFrom(before), client.FieldOwner(asOperator)), "inventory Secret "+secret.Name)
}

func wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// source reads a data source; nil where there is none and that is excused.
func (e *Executor) source(ctx context.Context, from dataplanev1.DataSource) (client.Object, error) {
	reference, object := from.ConfigMapRef, client.Object(&corev1.ConfigMap{})
	if reference == nil {
		reference, object = from.SecretRef, &corev1.Secret{}
	}
	if reference == nil {
		return nil, nil // nothing named is nothing to mount
	}
	err := e.get(ctx, reference.Name, object)
	if apierrors.IsNotFound(err) && reference.Optional != nil && *reference.Optional {
		return nil, nil
	}
	return object, err
}

// hash adds the versions of everything that the services could have delivered, as they are now: at the end of the
// Deployment, which need not be what its pods mounted. An error leaves the maps as far as they got, as upstream.
func (e *Executor) hash(ctx context.Context, s *session, status *dataplanev1.OpenStackDataPlaneDeploymentStatus) {
	names := servicesOf(s.nodeSets, s.deployment.Spec.ServicesOverride)
	known, err := e.services(ctx, names)
	if err != nil {
		e.options.Log("hashes of Deployment %s: %v", s.deployment.Name, err)
	}
	for _, name := range names {
		if known[name] == nil {
			e.options.Log("hashes of Deployment %s: Service %s is gone", s.deployment.Name, name)
			return
		}
		for _, from := range known[name].Spec.DataSources {
			object, err := e.source(ctx, from)
			if err != nil {
				e.options.Log("hashes of Deployment %s: %v", s.deployment.Name, err)
				return
			}
			switch o := object.(type) {
			case *corev1.Secret:
				status.SecretHashes = withEntry(status.SecretHashes, o.Name, string(fingerprint.Of(o.Data, string(o.Type))))
			case *corev1.ConfigMap:
				hash, _ := objectHash(configMap{o.Data, o.BinaryData}) // text and bytes can always be written
				status.ConfigMapHashes = withEntry(status.ConfigMapHashes, o.Name, hash)
			}
		}
	}
}

// configMap is the part of a ConfigMap that counts, with the names and the order of lib-common's configmap.Hash.
type configMap struct {
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
}
