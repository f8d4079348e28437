package operator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/config/crd"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane"
	"github.com/rotation-operator/rotation-operator/internal/operator"
)

// TestMissingKindsAreNamed starts the operator on an API server that has none of the kinds.
func TestMissingKindsAreNamed(t *testing.T) {
	plane, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	err = operator.Run(t.Context(), plane.Admin(), operator.Options{MetricsAddress: "0", HealthAddress: "0"})
	if err == nil || !strings.Contains(err.Error(), "does not serve") || !strings.Contains(err.Error(), "install") && !strings.Contains(err.Error(), "apply") {
		t.Errorf("unclear: %v", err)
	}
}

// TestStockDefinitions runs the operator where NodeSets have no status.secretDeployment, as openstack-operator's own
// definition has none: the numbers stand in the SecretRollout, and nothing fails.
func TestStockDefinitions(t *testing.T) {
	plane, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	definitions, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
		if definition.Spec.Names.Kind == "OpenStackDataPlaneNodeSet" {
			makeStock(t, definition)
		}
	}
	if err := plane.InstallCRDs(definitions); err != nil {
		t.Fatal(err)
	}
	scheme, err := operator.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(plane.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() {
		stopped <- operator.Run(ctx, plane.Admin(), operator.Options{Namespaces: []string{"default"}, MetricsAddress: "0", HealthAddress: "0"})
	}()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: meta("nova-config"), Data: map[string][]byte{"nova.conf": []byte("user7")}},
		&dataplanev1.OpenStackDataPlaneService{ObjectMeta: meta("nova"), Spec: dataplanev1.OpenStackDataPlaneServiceSpec{
			Playbook: "osp.edpm.nova", DataSources: []dataplanev1.DataSource{{SecretRef: &dataplanev1.SourceReference{Name: "nova-config"}}}}},
		&dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: meta("edpm"), Spec: dataplanev1.OpenStackDataPlaneNodeSetSpec{
			NodeTemplate: dataplanev1.NodeTemplate{AnsibleSSHPrivateKeySecret: "ssh"}, Services: []string{"nova"},
			Nodes: map[string]dataplanev1.NodeSection{"compute-0": {}}}},
	} {
		if err := c.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	var rollout rotationv1.SecretRollout
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "edpm"}, &rollout)
		return rollout.Status.TotalNodes == 1 && len(rollout.Status.Secrets) == 1, client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Errorf("the SecretRollout does not have the numbers: %v\n%+v", err, rollout.Status)
	}
	var nodeSet dataplanev1.OpenStackDataPlaneNodeSet
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "edpm"}, &nodeSet); err != nil || nodeSet.Status.SecretDeployment != nil {
		t.Errorf("the definition was not the stock one after all: %v %+v", err, nodeSet.Status.SecretDeployment)
	}
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// makeStock takes our field and our leniency out of a definition's status.
func makeStock(t *testing.T, definition *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	status := schema.Properties["status"]
	if _, ok := status.Properties["secretDeployment"]; !ok {
		t.Fatal("our definition has no status.secretDeployment")
	}
	delete(status.Properties, "secretDeployment")
	status.XPreserveUnknownFields = nil
	schema.Properties["status"] = status
}

// TestStandBy: a process that only stood by takes nothing back when it ends.
func TestStandBy(t *testing.T) {
	plane, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	definitions, err := crd.Definitions()
	if err == nil {
		err = plane.InstallCRDs(definitions)
	}
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := operator.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(plane.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	hold := &rotationv1.CredentialHold{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "user7"}, Spec: rotationv1.CredentialHoldSpec{
		Guard: "rabbitmquser", Credential: rotationv1.CredentialReference{Group: "g", Kind: "K", Resource: "r", Name: "user7", UID: "u"}}}
	if err := c.Create(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	hold.Status = rotationv1.CredentialHoldStatus{Verdict: rotationv1.VerdictSafe, Reason: "Safe", Message: "nobody runs it"}
	if err := c.Status().Update(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	options := operator.Options{MetricsAddress: "0", HealthAddress: "0", LeaderElection: true, LeaderElectionNamespace: "default"}
	if err := operator.Run(ended, plane.Admin(), options); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(hold), hold); err != nil || hold.Status.Verdict != rotationv1.VerdictSafe {
		t.Errorf("%v: the hold is %+v", err, hold.Status)
	}
}
