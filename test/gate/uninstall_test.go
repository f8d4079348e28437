package gate

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
	"github.com/rotation-operator/rotation-operator/internal/store"
	"github.com/rotation-operator/rotation-operator/internal/uninstall"
)

// TestUninstall leaves in the middle of a rotation: a credential waits to go, a Deployment is under way, a NodeSet is
// deleted. Nothing goes that is held before somebody says so, and nothing of ours stays behind or hangs.
func TestUninstall(t *testing.T) {
	s := newStory(t)
	ctx, namespace := t.Context(), s.bed.Namespace()
	operator := start(t, namespace, fault{})
	s.write("user7")
	s.must(s.bed.CreateService(ctx, "nova", []string{"nova-cell1-compute-config"}, "", false))
	s.must(s.bed.CreateNodeSet(ctx, "edpm", []string{"compute-0", "compute-1"}, []string{"nova"}))
	s.must(s.bed.CreateGuard(ctx, "rabbitmquser"))
	for _, user := range []string{"user7", "user8"} {
		s.must(s.bed.CreateCredential(ctx, "rabbitmquser", user))
		s.isMarked(user)
	}
	s.deploy("initial", "")
	s.verdict("user7", rotationv1.VerdictHeld, "StillInCluster")
	s.write("user8")
	s.verdict("user7", rotationv1.VerdictHeld, "NodesBehind")
	s.must(s.c.Delete(ctx, s.user("user7")))
	s.must(s.bed.Start(ctx, testbed.Deployment{Name: "under-way", NodeSets: []string{"edpm"}}))
	deployment := &dataplanev1.OpenStackDataPlaneDeployment{}
	s.until("the Deployment is kept", deployment, "under-way", func(bool) bool {
		return controllerutil.ContainsFinalizer(deployment, rotationv1.EvidenceFinalizer)
	})
	s.must(s.c.Delete(ctx, deployment))

	var said bytes.Buffer
	options := uninstall.Options{Client: s.c, Namespaces: []string{namespace}, Out: &said}
	if err := uninstall.Run(ctx, options); !errors.Is(err, uninstall.ErrHeld) || !strings.Contains(err.Error(), "user7") || !strings.Contains(err.Error(), "compute-1") {
		t.Fatalf("user7 is held and is being deleted: %v", err)
	}
	s.stays("after an uninstall that was refused")
	operator.end()
	options.ReleaseHeld = true
	s.must(uninstall.Run(ctx, options))
	for _, want := range []string{"although held: RabbitMQUser " + namespace + "/user7", "let go of RabbitMQUser " + namespace + "/user8", "deleted CredentialGuard", "deleted SecretRollout", "cleared status"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, said.String())
		}
	}
	s.isClean()
	before := said.Len()
	s.must(uninstall.Run(ctx, options))
	if again := said.String()[before:]; strings.Contains(again, "let go") || strings.Contains(again, "deleted") {
		t.Errorf("the second time there is something left to do:\n%s", again)
	}
}

// isClean fails where anything of ours is left, or anything hangs.
func (s *story) isClean() {
	t, ctx := s.t, s.t.Context()
	t.Helper()
	users := &unstructured.UnstructuredList{}
	users.SetGroupVersionKind(userKind.GroupVersion().WithKind("RabbitMQUserList"))
	for _, list := range []client.ObjectList{
		users, &dataplanev1.OpenStackDataPlaneNodeSetList{}, &dataplanev1.OpenStackDataPlaneDeploymentList{}, &corev1.ConfigMapList{},
		&rotationv1.CredentialGuardList{}, &rotationv1.CredentialHoldList{}, &rotationv1.SecretRolloutList{},
	} {
		s.must(s.c.List(ctx, list, client.InNamespace(s.bed.Namespace())))
		items, err := meta.ExtractList(list)
		s.must(err)
		for _, item := range items {
			object := item.(client.Object)
			isOurs := strings.Contains(strings.Join(object.GetFinalizers(), " "), "rotation.openstack.org") ||
				object.GetAnnotations()[rotationv1.HeldAnnotation] != "" || object.GetLabels()[store.LabelNodeSet] != ""
			switch object := object.(type) {
			case *rotationv1.CredentialGuard, *rotationv1.CredentialHold, *rotationv1.SecretRollout:
				isOurs = true
			case *dataplanev1.OpenStackDataPlaneNodeSet:
				isOurs = isOurs || object.Status.SecretDeployment != nil
			}
			if isOurs || object.GetDeletionTimestamp() != nil {
				t.Errorf("%T %s is left: %v", object, object.GetName(), object.GetFinalizers())
			}
		}
	}
}

// TestUninstallSeesTheOperator: an operator that runs puts its marks on again, and is named.
func TestUninstallSeesTheOperator(t *testing.T) {
	s := newStory(t)
	ctx, namespace := t.Context(), s.bed.Namespace()
	defer start(t, namespace, fault{}).end()
	s.write("user7")
	s.must(s.bed.CreateService(ctx, "nova", []string{"nova-cell1-compute-config"}, "", false))
	s.must(s.bed.CreateNodeSet(ctx, "edpm", []string{"compute-0"}, []string{"nova"}))
	s.must(s.bed.Start(ctx, testbed.Deployment{Name: "under-way", NodeSets: []string{"edpm"}}))
	deployment := &dataplanev1.OpenStackDataPlaneDeployment{}
	s.until("the Deployment is kept", deployment, "under-way", func(bool) bool {
		return controllerutil.ContainsFinalizer(deployment, rotationv1.EvidenceFinalizer)
	})
	if err := uninstall.Run(ctx, uninstall.Options{Client: s.c, Namespaces: []string{namespace}, Out: &bytes.Buffer{}}); !errors.Is(err, uninstall.ErrComesBack) {
		t.Errorf("the operator runs, and uninstall says %v", err)
	}
}
