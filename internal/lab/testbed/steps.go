package testbed

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
	"github.com/rotation-operator/rotation-operator/internal/lab/executor"
)

// Deployment is an OpenStackDataPlaneDeployment to create. Limit, Tags and SkipTags are its ansibleLimit, ansibleTags
// and ansibleSkipTags, Services its servicesOverride.
type Deployment struct {
	Name                  string
	NodeSets              []string
	Limit, Tags, SkipTags string
	Services              []string
}

// sshKey is the Secret with the key that Ansible would log in with; the executor makes it.
const sshKey = "dataplane-ansible-ssh-private-key-secret"

func (b *Testbed) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: b.namespace, Name: name}
}

// CreateService creates an OpenStackDataPlaneService with the Secrets as data sources. Kind is its edpmServiceType,
// empty for its name; global makes it run once for all NodeSets of a Deployment.
func (b *Testbed) CreateService(ctx context.Context, name string, secrets []string, kind string, global bool) error {
	service := &dataplanev1.OpenStackDataPlaneService{ObjectMeta: b.meta(name)}
	service.Spec.Playbook = "osp.edpm." + name
	service.Spec.EDPMServiceType, service.Spec.DeployOnAllNodeSets = kind, global
	for _, secret := range secrets {
		service.Spec.DataSources = append(service.Spec.DataSources,
			dataplanev1.DataSource{SecretRef: &dataplanev1.SourceReference{Name: secret}})
	}
	return b.create(ctx, service)
}

// CreateNodeSet creates an OpenStackDataPlaneNodeSet.
func (b *Testbed) CreateNodeSet(ctx context.Context, name string, nodes, services []string) error {
	no := false
	nodeSet := &dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: b.meta(name)}
	nodeSet.Spec.NodeTemplate.AnsibleSSHPrivateKeySecret = sshKey
	nodeSet.Spec.PreProvisioned, nodeSet.Spec.TLSEnabled = true, &no
	nodeSet.Spec.Services, nodeSet.Spec.Nodes = services, map[string]dataplanev1.NodeSection{}
	for _, node := range nodes {
		nodeSet.Spec.Nodes[node] = dataplanev1.NodeSection{HostName: node}
	}
	if err := b.create(ctx, nodeSet); err != nil {
		return err
	}
	return b.executor.SyncNodeSet(ctx, name)
}

func (b *Testbed) create(ctx context.Context, object client.Object) error {
	if err := b.client.Create(ctx, object); err != nil {
		return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// SetSecret gives a Secret that content, creates it where it is not there, and answers with its version. The operator
// is waited for first, for what the Secret held until now may be what nodes run.
func (b *Testbed) SetSecret(ctx context.Context, name string, data map[string]string) (fleet.Version, error) {
	if err := b.CatchUp(ctx); err != nil {
		return "", err
	}
	secret := &corev1.Secret{}
	err := b.client.Get(ctx, b.key(name), secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("Secret %s: %w", name, err)
	}
	secret.Data, secret.ObjectMeta.Name, secret.ObjectMeta.Namespace = map[string][]byte{}, name, b.namespace
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	if err != nil {
		err = b.client.Create(ctx, secret)
	} else {
		err = b.client.Update(ctx, secret)
	}
	if err != nil {
		return "", fmt.Errorf("Secret %s: %w", name, err)
	}
	return fingerprint.Of(secret.Data, string(secret.Type)), nil
}

// Start creates a Deployment and brings the pods of its first service up to where they have mounted their Secrets.
func (b *Testbed) Start(ctx context.Context, deployment Deployment) error {
	if err := b.createDeployment(ctx, deployment, 1); err != nil {
		return err
	}
	return b.executor.Start(ctx, deployment.Name)
}

// Finish lets a started Deployment end like that.
func (b *Testbed) Finish(ctx context.Context, name string, outcome executor.Outcome) error {
	if err := b.executor.Finish(ctx, name, outcome); err != nil {
		return err
	}
	return b.ended(ctx, name)
}

// Deploy creates a Deployment and runs it to its end; each Job has one pod per attempt until one succeeds.
func (b *Testbed) Deploy(ctx context.Context, deployment Deployment, attempts []executor.Outcome) error {
	if err := b.createDeployment(ctx, deployment, len(attempts)); err != nil {
		return err
	}
	if err := b.executor.Run(ctx, deployment.Name, attempts); err != nil {
		return err
	}
	return b.ended(ctx, deployment.Name)
}

// RunNew runs every Deployment that somebody else creates, as openstack-operator would, until the context ends; where
// runs are scripted every host ends well. It collects what deleted ones leave behind. Ran is told how each went.
func (b *Testbed) RunNew(ctx context.Context, ran func(deployment string, err error)) error {
	for {
		var deployments dataplanev1.OpenStackDataPlaneDeploymentList
		if err := b.client.List(ctx, &deployments, client.InNamespace(b.namespace)); err != nil {
			return fmt.Errorf("listing Deployments: %w", err)
		}
		for i := range deployments.Items {
			if deployment := &deployments.Items[i]; !b.over[deployment.UID] {
				ran(deployment.Name, b.executor.Run(ctx, deployment.Name, []executor.Outcome{{Succeeded: true}}))
				b.over[deployment.UID] = true
			}
		}
		if err := b.executor.CollectGarbage(ctx); err != nil {
			return fmt.Errorf("collecting garbage: %w", err)
		}
		select {
		case <-b.bell:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// createDeployment creates a Deployment whose Jobs have so many pods at most.
func (b *Testbed) createDeployment(ctx context.Context, d Deployment, attempts int) error {
	deployment := &dataplanev1.OpenStackDataPlaneDeployment{ObjectMeta: b.meta(d.Name)}
	deployment.Spec.NodeSets, deployment.Spec.ServicesOverride = d.NodeSets, d.Services
	deployment.Spec.AnsibleLimit, deployment.Spec.AnsibleTags, deployment.Spec.AnsibleSkipTags = d.Limit, d.Tags, d.SkipTags
	retries := int32(attempts - 1)
	deployment.Spec.BackoffLimit = &retries
	return b.create(ctx, deployment)
}

// ended takes down that a Deployment is over.
func (b *Testbed) ended(ctx context.Context, name string) error {
	var deployment dataplanev1.OpenStackDataPlaneDeployment
	if err := b.client.Get(ctx, b.key(name), &deployment); err != nil {
		return fmt.Errorf("Deployment %s: %w", name, err)
	}
	b.over[deployment.UID] = true
	return nil
}

// ChangeNodes adds a node to a NodeSet or removes one; either name may be empty.
func (b *Testbed) ChangeNodes(ctx context.Context, nodeSet, add, remove string) error {
	if err := b.CatchUp(ctx); err != nil {
		return err
	}
	object := &dataplanev1.OpenStackDataPlaneNodeSet{}
	if err := b.client.Get(ctx, b.key(nodeSet), object); err != nil {
		return fmt.Errorf("NodeSet %s: %w", nodeSet, err)
	}
	before := object.DeepCopy()
	if add != "" {
		object.Spec.Nodes[add] = dataplanev1.NodeSection{HostName: add}
	}
	delete(object.Spec.Nodes, remove)
	if err := b.client.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("NodeSet %s: %w", nodeSet, err)
	}
	return b.executor.SyncNodeSet(ctx, nodeSet)
}

// Delete deletes an object, and what goes with it. A Deployment that the operator holds on to goes once the operator
// is up and lets it.
func (b *Testbed) Delete(ctx context.Context, kind schema.GroupVersionKind, name string) error {
	if err := b.CatchUp(ctx); err != nil {
		return err
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	if err := b.client.Get(ctx, b.key(name), object); err != nil {
		return fmt.Errorf("deleting %s %s: %w", kind.Kind, name, err)
	}
	// A Job would wait for a garbage collector to orphan its pods.
	if err := b.client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return fmt.Errorf("deleting %s %s: %w", kind.Kind, name, err)
	}
	if kind.Kind == "OpenStackDataPlaneDeployment" {
		b.deleted[object.UID] = name
		return b.CatchUp(ctx)
	}
	return b.executor.CollectGarbage(ctx)
}

// reaches gives a function that tells whether a pod may have touched any node of the NodeSet.
func reaches(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) func(corev1.Pod) bool {
	inventory := hostpattern.Inventory{Groups: []hostpattern.Group{{Name: nodeSet.Name}}}
	for node := range nodeSet.Spec.Nodes {
		inventory.Groups[0].Hosts = append(inventory.Groups[0].Hosts, nodeSet.InventoryHost(node))
	}
	slices.Sort(inventory.Groups[0].Hosts)
	return func(pod corev1.Pod) bool {
		for _, variable := range pod.Spec.Containers[0].Env {
			if variable.Name == "RUNNER_CMDLINE" {
				return len(hostpattern.ResolveRun(inventory, "all", variable.Value).Perhaps) > 0
			}
		}
		return true
	}
}
