// Package policies tries the admission policies on a real API server.
package policies

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
	"github.com/rotation-operator/rotation-operator/internal/operator"
)

func TestMain(m *testing.M) {
	testplane.MainWithPolicies(m)
}

// place is a namespace with the clients of those who meet there.
type place struct {
	t         *testing.T
	namespace string
	admin     client.Client
	// operator has the operator's name and may release; somebody may do everything but release, override and attest.
	operator, somebody client.Client
	somebodyName       string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, namespace: testplane.Namespace(t), admin: testplane.Client(t)}
	p.somebodyName = "somebody-in-" + p.namespace
	everything := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"},
		Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}}
	release := rbacv1.PolicyRule{APIGroups: []string{rotationv1.GroupVersion.Group}, Resources: []string{"credentialholds"}, Verbs: []string{rotationv1.ReleaseVerb}}
	p.operator = p.as("system:serviceaccount:"+p.namespace+":rotation-operator", everything, release)
	p.somebody = p.as(p.somebodyName, everything)
	return p
}

// as makes a client for a user with these rights in the namespace.
func (p *place) as(user string, rules ...rbacv1.PolicyRule) client.Client {
	p.t.Helper()
	ctx := p.t.Context()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "r-"}, Rules: rules}
	p.must(p.admin.Create(ctx, role))
	p.must(p.admin.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}}))
	config := rest.CopyConfig(testplane.Plane(p.t).Admin())
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	scheme, err := operator.Scheme()
	p.must(err)
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	p.must(err)
	p.eventually("rights of "+user, func() error {
		return c.List(ctx, &rotationv1.CredentialHoldList{}, client.InNamespace(p.namespace))
	})
	return interceptor.NewClient(c, interceptor.Funcs{Create: p.createKnown})
}

// createKnown creates an object of a kind that was defined just now: for some seconds, admission by a mutating policy
// does not know its schema.
func (p *place) createKnown(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = c.Create(ctx, object, options...)
		return last == nil || !strings.Contains(last.Error(), "There can be a delay"), nil
	})
	if last != nil {
		return last
	}
	return err
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// eventually tries until it works: the API server takes in rights, policies and their parameters a moment later.
func (p *place) eventually(what string, try func() error) {
	p.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(p.t.Context(), 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		p.t.Fatalf("%s: %v", what, last)
	}
}

// refused fails unless the error is a refusal that says all that.
func refused(t *testing.T, what string, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s is not refused", what)
		return
	}
	for _, want := range append([]string{"ValidatingAdmissionPolicy"}, says...) {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the refusal does not say %q: %v", what, want, err)
		}
	}
}

func (p *place) object(text string, args ...any) *unstructured.Unstructured {
	p.t.Helper()
	object := &unstructured.Unstructured{}
	p.must(yaml.Unmarshal(fmt.Appendf(nil, text, args...), &object.Object))
	object.SetNamespace(p.namespace)
	return object
}

const (
	guardText = `
apiVersion: rotation.openstack.org/v1alpha1
kind: CredentialGuard
metadata: {name: rabbitmquser}
spec:
  waitingUsers: [%s]
  credential: {apiVersion: rabbitmq.openstack.org/v1beta1, kind: RabbitMQUser, resource: rabbitmqusers, identityPaths: [.metadata.name]}
  sources: [{secretNames: ["*-compute-config"], keys: ["*.conf"], regexp: "rabbit://(?P<identity>[a-z0-9]+):"}]
`
	userText = `{apiVersion: rabbitmq.openstack.org/v1beta1, kind: RabbitMQUser, metadata: {name: %s}}`
	waiter   = "system:serviceaccount:openstack:infra-operator"
)

// user makes a user with a hold that says that; the operator has marked it. With "" the hold has no status.
func (p *place) user(name string, verdict rotationv1.HoldVerdict, message string) (*unstructured.Unstructured, *rotationv1.CredentialHold) {
	p.t.Helper()
	ctx := p.t.Context()
	user := p.object(userText, name)
	p.must(p.operator.Create(ctx, user))
	before := user.DeepCopy()
	user.SetAnnotations(map[string]string{rotationv1.HeldAnnotation: string(user.GetUID())})
	user.SetFinalizers([]string{rotationv1.CredentialFinalizer})
	p.must(p.operator.Patch(ctx, user, client.MergeFrom(before)))
	hold := &rotationv1.CredentialHold{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "rabbitmquser." + name},
		Spec: rotationv1.CredentialHoldSpec{Guard: "rabbitmquser", WaitingUsers: []string{waiter}, Credential: rotationv1.CredentialReference{
			Group: "rabbitmq.openstack.org", Kind: "RabbitMQUser", Resource: "rabbitmqusers", Name: name, UID: string(user.GetUID())}},
	}
	p.must(p.operator.Create(ctx, hold))
	if verdict != "" {
		hold.Status = rotationv1.CredentialHoldStatus{Verdict: verdict, Reason: "Test", Message: message}
		p.must(p.operator.Status().Update(ctx, hold))
	}
	return user, hold
}

// TestDeletes: what is held, unknown, not judged, not seen, or judged under another UID does not go; what is safe does.
func TestDeletes(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	p.must(p.somebody.Create(ctx, p.object(guardText, waiter)))
	held, _ := p.user("held", rotationv1.VerdictHeld, "1 node may still run held: compute-1")
	unknown, _ := p.user("unknown", rotationv1.VerdictUnknown, "it is not known")
	unjudged, _ := p.user("unjudged", "", "")
	safe, _ := p.user("safe", rotationv1.VerdictSafe, "")
	other, hold := p.user("other", rotationv1.VerdictSafe, "")
	before := hold.DeepCopy()
	hold.Spec.Credential.UID = "another"
	p.must(p.operator.Patch(ctx, hold, client.MergeFrom(before)))
	unseen := p.object(userText, "unseen")
	p.must(p.somebody.Create(ctx, unseen))
	copied := p.object(userText, "copied")
	copied.SetAnnotations(map[string]string{rotationv1.HeldAnnotation: string(safe.GetUID())})
	p.must(p.somebody.Create(ctx, copied))

	try := func(object *unstructured.Unstructured) error { return p.somebody.Delete(ctx, object, client.DryRunAll) }
	p.eventually("what is safe goes", func() error { return try(safe) })
	for _, tt := range []struct {
		object *unstructured.Unstructured
		says   []string
	}{
		{held, []string{"1 node may still run held: compute-1; run: kubectl rotation why-not rabbitmqusers/held"}},
		{unknown, []string{"it is not known; run: kubectl rotation why-not"}},
		{unjudged, []string{"has not judged it yet"}},
		{other, []string{"has not judged it yet"}},
		{unseen, []string{"CredentialGuard rabbitmquser", "has not judged it yet", "doctor"}},
		{copied, []string{"has not judged it yet"}},
	} {
		t.Run(tt.object.GetName(), func(t *testing.T) {
			p.eventually("the policies see it", func() error {
				if try(tt.object) == nil {
					return fmt.Errorf("it would be deleted")
				}
				return nil
			})
			refused(t, "delete", p.somebody.Delete(ctx, tt.object), tt.says...)
			refused(t, "delete by an administrator", p.admin.Delete(ctx, tt.object), tt.says...)
		})
	}
	t.Run("collection", func(t *testing.T) {
		err := p.somebody.DeleteAllOf(ctx, p.object(userText, ""), client.InNamespace(p.namespace),
			client.MatchingFields{"metadata.name": "held"})
		refused(t, "deletecollection", err, "compute-1")
	})
	t.Run("waiting user", func(t *testing.T) {
		infra := p.as(waiter, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
		p.must(infra.Delete(ctx, held))
		p.must(p.admin.Get(ctx, client.ObjectKeyFromObject(held), held))
		if held.GetDeletionTimestamp() == nil {
			t.Error("it does not wait")
		}
		p.must(p.somebody.Delete(ctx, held)) // once more changes nothing and is no error
		p.must(p.operator.Patch(ctx, copied, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":[]}}`))))
		refused(t, "delete of what has no finalizer", infra.Delete(ctx, copied), "has not judged it yet")
	})
	p.must(p.somebody.Delete(ctx, safe))
}

// TestMarks: nobody but the operator takes off what it put on, or writes holds.
func TestMarks(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	user, hold := p.user("user7", rotationv1.VerdictHeld, "held")
	deployment := p.object(`{apiVersion: dataplane.openstack.org/v1beta1, kind: OpenStackDataPlaneDeployment, metadata: {name: d, finalizers: [rotation.openstack.org/evidence]}, spec: {nodeSets: [edpm]}}`)
	p.must(p.somebody.Create(ctx, deployment))
	declared := p.object(guardText, "")
	declared.SetFinalizers([]string{rotationv1.GuardFinalizer})
	p.must(p.somebody.Create(ctx, declared))
	noMarks := `{"metadata":{"finalizers":[],"annotations":null}}`
	for _, tt := range []struct {
		what, patch string
		object      client.Object
	}{
		{"finalizer of a credential", `{"metadata":{"finalizers":[]}}`, user},
		{"finalizer among others", `{"metadata":{"finalizers":["other/finalizer"]}}`, user},
		{"annotation of a credential", `{"metadata":{"annotations":null}}`, user},
		{"forged annotation", `{"metadata":{"annotations":{"rotation.openstack.org/held":"x"}}}`, user},
		{"finalizer of a Deployment", noMarks, deployment},
		{"finalizer of a guard", noMarks, declared},
	} {
		for name, c := range map[string]client.Client{"somebody": p.somebody, "an administrator": p.admin} {
			err := c.Patch(ctx, tt.object.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(tt.patch)))
			refused(t, tt.what+" by "+name, err, "only the rotation operator")
		}
	}
	impostor := p.as("system:serviceaccount:elsewhere:rotation-operator", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"},
		Verbs: []string{"get", "list", "update", "patch", "delete"}})
	refused(t, "finalizer by one with the name alone", impostor.Patch(ctx, user.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(noMarks))), "only the rotation operator")
	p.must(p.somebody.Patch(ctx, user.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"},"finalizers":["rotation.openstack.org/credential","other/finalizer"]}}`))))

	before := hold.DeepCopy()
	hold.Status.Verdict = rotationv1.VerdictSafe
	refused(t, "a verdict by an administrator", p.admin.Status().Patch(ctx, hold.DeepCopy(), client.MergeFrom(before)), "only the rotation operator")
	refused(t, "deletion of a hold", p.admin.Delete(ctx, hold.DeepCopy()), "CredentialOverride")
	forged := before.DeepCopy()
	forged.ResourceVersion, forged.Name = "", "forged"
	refused(t, "a forged hold", p.somebody.Create(ctx, forged), "only the rotation operator")

	p.must(p.operator.Status().Patch(ctx, hold, client.MergeFrom(before)))
	for _, object := range []client.Object{user, deployment, declared} {
		p.must(p.operator.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(noMarks))))
	}
	p.must(p.operator.Delete(ctx, hold))
}

// TestWords: an override or an attestation needs a right of its own, and one's own name.
func TestWords(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	may := func(resource, verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{rotationv1.GroupVersion.Group}, Resources: []string{resource}, Verbs: []string{verb, "list"}}
	}
	everything := rbacv1.PolicyRule{APIGroups: []string{rotationv1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"create", "list"}}
	overrider := p.as("overrider-"+p.namespace, everything, may("credentialholds", rotationv1.OverrideVerb))
	attester := p.as("attester-"+p.namespace, everything, may("secretrollouts", rotationv1.AttestVerb))
	override := func(by string) client.Object {
		return p.object(`{apiVersion: rotation.openstack.org/v1alpha1, kind: CredentialOverride, metadata: {generateName: o-}, spec: {kind: RabbitMQUser, name: user7, by: %q, reason: a test, until: "2100-01-01T00:00:00Z"}}`, by)
	}
	attestation := func(by string) client.Object {
		return p.object(`{apiVersion: rotation.openstack.org/v1alpha1, kind: NodeAttestation, metadata: {generateName: a-}, spec: {nodeSet: edpm, nodes: [node-0], by: %q, reason: a test, until: "2100-01-01T00:00:00Z"}}`, by)
	}
	p.must(overrider.Create(ctx, override("overrider-"+p.namespace)))
	p.must(attester.Create(ctx, attestation("attester-"+p.namespace)))
	refused(t, "an override without the right", p.somebody.Create(ctx, override(p.somebodyName)), "override credentialholds")
	refused(t, "an override with the right to attest", attester.Create(ctx, override("attester-"+p.namespace)), "override credentialholds")
	refused(t, "an attestation without the right", p.somebody.Create(ctx, attestation(p.somebodyName)), "attest secretrollouts")
	refused(t, "an attestation with the right to override", overrider.Create(ctx, attestation("overrider-"+p.namespace)), "attest secretrollouts")
	refused(t, "another's name", overrider.Create(ctx, override("boss")), "your own name, overrider-"+p.namespace)
	refused(t, "another's name", attester.Create(ctx, attestation("boss")), "your own name, attester-"+p.namespace)
}

// needsMutation skips what an API server without MutatingAdmissionPolicy cannot do, where the tests are run with one.
func (p *place) needsMutation() {
	p.t.Helper()
	_, err := p.admin.RESTMapper().RESTMapping(schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"})
	if os.Getenv("ROTATION_EMULATE") != "" && meta.IsNoMatchError(err) {
		p.t.Skip("this API server has no MutatingAdmissionPolicy")
	}
	p.must(err)
}

// TestCreation: our finalizers are there from the beginning, where a guard or a rollout says so, and keep others.
func TestCreation(t *testing.T) {
	p := newPlace(t)
	p.needsMutation()
	ctx := t.Context()
	unguarded := p.object(userText, "unguarded")
	p.must(p.somebody.Create(ctx, unguarded))
	deployment := func(name string) *unstructured.Unstructured {
		return p.object(`{apiVersion: dataplane.openstack.org/v1beta1, kind: OpenStackDataPlaneDeployment, metadata: {name: %s}, spec: {nodeSets: [edge, edpm]}}`, name)
	}
	untracked := deployment("untracked")
	p.must(p.somebody.Create(ctx, untracked))
	if len(unguarded.GetFinalizers())+len(untracked.GetFinalizers()) > 0 {
		t.Errorf("marked without a reason: %v %v", unguarded.GetFinalizers(), untracked.GetFinalizers())
	}
	p.must(p.somebody.Create(ctx, p.object(guardText, "")))
	p.must(p.somebody.Create(ctx, p.object(`{apiVersion: rotation.openstack.org/v1alpha1, kind: SecretRollout, metadata: {name: edpm}}`)))
	for _, tt := range []struct {
		object *unstructured.Unstructured
		want   string
	}{
		{p.object(userText, "user7"), rotationv1.CredentialFinalizer},
		{deployment("d"), rotationv1.EvidenceFinalizer},
	} {
		tt.object.SetFinalizers([]string{"other/finalizer"})
		p.eventually(tt.want, func() error {
			object := tt.object.DeepCopy()
			if err := p.somebody.Create(ctx, object, client.DryRunAll); err != nil {
				return err
			}
			if got := strings.Join(object.GetFinalizers(), " "); got != "other/finalizer "+tt.want {
				return fmt.Errorf("finalizers %q", got)
			}
			return nil
		})
	}
}

// TestNamespaceGoes: a namespace that is going away is not held up, and deletes of hundreds of holds are bearable.
func TestNamespaceGoes(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	p.must(p.somebody.Create(ctx, p.object(guardText, "")))
	many := 200
	if os.Getenv("ROTATION_DEEP") == "1" {
		many = 1000
	}
	for i := range many - 1 {
		p.user(fmt.Sprintf("user-%d", i), rotationv1.VerdictSafe, "")
	}
	held, hold := p.user("held", rotationv1.VerdictHeld, "compute-1")
	p.eventually("the policies see it", func() error {
		if err := p.somebody.Delete(ctx, held, client.DryRunAll); err == nil {
			return fmt.Errorf("it would be deleted")
		}
		return nil
	})
	refused(t, "delete among many", p.somebody.Delete(ctx, held), "compute-1")
	namespace := p.object(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, p.namespace)
	namespace.SetNamespace("")
	p.must(p.admin.Delete(ctx, namespace))
	p.eventually("everything goes", func() error {
		if err := p.admin.Delete(ctx, held, client.DryRunAll); err != nil {
			return err
		}
		return p.admin.Delete(ctx, hold, client.DryRunAll)
	})
	p.must(p.admin.Delete(ctx, hold))
	p.must(p.admin.Delete(ctx, held))
	p.must(p.admin.Patch(ctx, held, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":[]}}`))))
}
