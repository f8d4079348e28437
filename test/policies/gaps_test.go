package policies

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

func merge(format string, args ...any) client.Patch {
	return client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, format, args...))
}

// untilRefused waits until a dry run of the deletion is refused: the server takes in holds and guards a moment later.
func (p *place) untilRefused(c client.Client, object client.Object) {
	p.t.Helper()
	p.eventually("refusal to delete "+object.GetName(), func() error {
		if c.Delete(p.t.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll) == nil {
			return fmt.Errorf("it would be deleted")
		}
		return nil
	})
}

// TestNobodyForgesAMark: whoever writes the right UID into the annotation would have an object without a hold go.
func TestNobodyForgesAMark(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	p.must(p.somebody.Create(ctx, p.object(guardText, "")))
	unseen := p.object(userText, "unseen")
	p.must(p.somebody.Create(ctx, unseen))
	mark := merge(`{"metadata":{"annotations":{%q:%q}}}`, rotationv1.HeldAnnotation, unseen.GetUID())
	for who, c := range map[string]client.Client{"somebody": p.somebody, "an administrator": p.admin} {
		refused(t, "a mark by "+who, c.Patch(ctx, unseen.DeepCopy(), mark), "writes its annotation")
	}
	p.untilRefused(p.somebody, unseen)
	refused(t, "delete", p.somebody.Delete(ctx, unseen.DeepCopy()), "has not judged it yet")
	p.must(p.somebody.Patch(ctx, unseen.DeepCopy(), merge(`{"metadata":{"annotations":{"other":"x"}}}`)))
	p.must(p.operator.Patch(ctx, unseen.DeepCopy(), mark))
	p.must(p.somebody.Delete(ctx, unseen.DeepCopy()))
}

// TestStatusTakesNoFinalizerOff: the policies look at the objects alone, because a write of the status changes no metadata.
func TestStatusTakesNoFinalizerOff(t *testing.T) {
	p := newPlace(t)
	user, _ := p.user("user7", rotationv1.VerdictHeld, "held")
	sent := user.DeepCopy()
	p.must(p.admin.Status().Patch(t.Context(), sent, merge(`{"metadata":{"finalizers":[],"annotations":null},"status":{"username":"x"}}`)))
	if !slices.Equal(sent.GetFinalizers(), user.GetFinalizers()) || sent.GetAnnotations()[rotationv1.HeldAnnotation] != string(user.GetUID()) {
		t.Errorf("a write of the status left %v and %v", sent.GetFinalizers(), sent.GetAnnotations())
	}
}

// TestImpostorsWriteNoHolds: neither the name nor the right to release makes the operator.
func TestImpostorsWriteNoHolds(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	rule := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: verbs}
	}
	for who, c := range map[string]client.Client{
		"one with the name alone":     p.as("system:serviceaccount:elsewhere:rotation-operator", rule("get", "list", "create", "update", "patch", "delete")),
		"one with the right alone":    p.as("system:serviceaccount:"+p.namespace+":default", rule("*")),
		"one with a name like it":     p.as("system:serviceaccount:"+p.namespace+":not-rotation-operator", rule("*")),
		"one with a longer name":      p.as("system:serviceaccount:"+p.namespace+":rotation-operator-2", rule("*")),
		"one who is no account":       p.as("rotation-operator", rule("*")),
		"a person whose name ends so": p.as("mallory:system:serviceaccount:"+p.namespace+":rotation-operator", rule("*")),
	} {
		user, hold := p.user(strings.ReplaceAll(who, " ", "-"), rotationv1.VerdictHeld, "held")
		forged := hold.DeepCopy()
		forged.ResourceVersion, forged.Name = "", "forged-"+hold.Name
		refused(t, "a new hold by "+who, c.Create(ctx, forged), "only the rotation operator writes")
		refused(t, "a change of a hold by "+who, c.Patch(ctx, hold.DeepCopy(), merge(`{"spec":{"waitingUsers":["me"]}}`)), "only the rotation operator writes")
		refused(t, "a verdict by "+who, c.Status().Patch(ctx, hold.DeepCopy(), merge(`{"status":{"verdict":"Safe"}}`)), "only the rotation operator writes")
		refused(t, "deletion of a hold by "+who, c.Delete(ctx, hold.DeepCopy()), "only the rotation operator writes")
		refused(t, "finalizer by "+who, c.Patch(ctx, user.DeepCopy(), merge(`{"metadata":{"finalizers":null}}`)), "only the rotation operator takes")
	}
}

// TestMessages: what the operator says in several lines arrives, and a long message still names the way on.
func TestMessages(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	const longest = 4096
	long := strings.Repeat("x", longest)
	for name, tt := range map[string]struct{ message, want string }{
		"lines": {"reading Secret a: forbidden\nreading Secret b: forbidden", "reading Secret a: forbidden reading Secret b: forbidden; run: kubectl rotation why-not rabbitmqusers/lines"},
		"long":  {long, long + "; run: kubectl rotation why-not rabbitmqusers/long"},
		"empty": {"", "; run: kubectl rotation why-not rabbitmqusers/empty"},
	} {
		user, _ := p.user(name, rotationv1.VerdictUnknown, tt.message)
		p.eventually("the policies see the verdict", func() error {
			err := p.somebody.Delete(ctx, user.DeepCopy(), client.DryRunAll)
			if err == nil || strings.Contains(err.Error(), "has not judged") {
				return fmt.Errorf("the verdict is not known yet: %w", err)
			}
			return nil
		})
		refused(t, name, p.somebody.Delete(ctx, user), tt.want)
	}
}

// TestMistakenGuards: a guard or hold with a wrong plural or a wrong kind does not open the gate; one of another group
// or object has no say.
func TestMistakenGuards(t *testing.T) {
	for name, tt := range map[string]struct {
		from, to string
		isMine   bool
	}{
		"wrong plural":  {"rabbitmqusers", "rabbitmquser", true},
		"wrong kind":    {"RabbitMQUser", "RabbitmqUser", true},
		"other kind":    {"RabbitMQUser,rabbitmqusers", "RabbitMQVhost,rabbitmqvhosts", false},
		"other group":   {"rabbitmq.openstack.org", "rabbitmq.openstack.orgs", false},
		"no group":      {"rabbitmq.openstack.org", "", false},
		"other objects": {"user7", "user8", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			ctx := t.Context()
			with := func(text string) string {
				to := strings.Split(tt.to, ",")
				for i, from := range strings.Split(tt.from, ",") {
					text = strings.ReplaceAll(text, from, to[i])
				}
				return text
			}
			user, hold := p.user("user7", rotationv1.VerdictHeld, "held")
			ref := hold.Spec.Credential
			p.must(p.operator.Patch(ctx, hold, merge(`{"spec":{"credential":{"group":%q,"kind":%q,"resource":%q,"name":%q}}}`,
				with(ref.Group), with(ref.Kind), with(ref.Resource), with(ref.Name))))
			another, _ := p.user("another", rotationv1.VerdictHeld, "held")
			p.untilRefused(p.somebody, another) // from then on the policies know the first hold as well
			try := func(object *unstructured.Unstructured) error {
				return p.somebody.Delete(ctx, object.DeepCopy(), client.DryRunAll)
			}
			if tt.isMine {
				p.untilRefused(p.somebody, user)
				refused(t, "delete under the hold", try(user), "held; run: kubectl rotation why-not rabbitmqusers/user7")
			} else {
				p.eventually("the hold says nothing of it", func() error { return try(user) })
			}
			if name == "other objects" {
				return
			}
			unseen := p.object(userText, "unseen")
			p.must(p.somebody.Create(ctx, unseen))
			p.must(try(unseen))
			declared := p.object(strings.ReplaceAll(with(guardText), "{apiVersion: /", "{apiVersion: "), "")
			p.must(p.somebody.Create(ctx, declared))
			right := p.object(guardText, "")
			right.SetName("right")
			if tt.isMine {
				p.untilRefused(p.somebody, unseen)
				refused(t, "delete under the guard", try(unseen), "CredentialGuard rabbitmquser guards it")
				return
			}
			p.must(p.somebody.Create(ctx, right))
			p.untilRefused(p.somebody, unseen) // from then on the policies know the other guard as well
			if err := try(unseen); strings.Contains(err.Error(), "CredentialGuard rabbitmquser guards it") {
				t.Errorf("a guard of something else has a say: %v", err)
			}
		})
	}
}

// TestCollections: of a collection what is safe goes and what is held stays.
func TestCollections(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	held, _ := p.user("held", rotationv1.VerdictHeld, "compute-1 has it")
	p.user("a-safe", rotationv1.VerdictSafe, "")
	p.user("z-safe", rotationv1.VerdictSafe, "")
	p.untilRefused(p.somebody, held)
	refused(t, "deletecollection", p.somebody.DeleteAllOf(ctx, p.object(userText, ""), client.InNamespace(p.namespace)), "compute-1 has it")
	p.must(p.admin.Get(ctx, client.ObjectKeyFromObject(held), held))
	if held.GetDeletionTimestamp() != nil {
		t.Error("what is held is being deleted")
	}
}

// TestUnseenObjectsWait: who may wait may delete what has the finalizer, seen by the operator or not, and once more
// deleting it is no error for anybody.
func TestUnseenObjectsWait(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	p.must(p.somebody.Create(ctx, p.object(guardText, waiter)))
	infra := p.as(waiter, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	unjudged, _ := p.user("unjudged", "", "")
	unseen := p.object(userText, "unseen")
	unseen.SetFinalizers([]string{rotationv1.CredentialFinalizer})
	p.must(p.somebody.Create(ctx, unseen))
	for _, object := range []*unstructured.Unstructured{unjudged, unseen} {
		p.untilRefused(p.somebody, object)
		p.must(infra.Delete(ctx, object.DeepCopy()))
		p.must(p.admin.Get(ctx, client.ObjectKeyFromObject(object), object))
		if object.GetDeletionTimestamp() == nil {
			t.Errorf("%s does not wait", object.GetName())
		}
		p.must(p.somebody.Delete(ctx, object.DeepCopy()))
	}
}

// TestNamespaceGoesUnseen: in a namespace that goes away an object goes that the operator has never seen, but nobody
// makes up verdicts there.
func TestNamespaceGoesUnseen(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	p.must(p.somebody.Create(ctx, p.object(guardText, "")))
	unseen := p.object(userText, "unseen")
	p.must(p.somebody.Create(ctx, unseen))
	_, hold := p.user("held", rotationv1.VerdictHeld, "held")
	p.untilRefused(p.admin, unseen)
	namespace := p.object(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, p.namespace)
	namespace.SetNamespace("")
	p.must(p.admin.Delete(ctx, namespace))
	p.eventually("what nobody has seen goes", func() error { return p.admin.Delete(ctx, unseen.DeepCopy(), client.DryRunAll) })
	refused(t, "a verdict in a namespace that goes away", p.admin.Status().Patch(ctx, hold.DeepCopy(), merge(`{"status":{"verdict":"Safe"}}`)), "only the rotation operator writes")
}

// TestCreationIsForGuarded: no finalizer that nobody would take off again.
func TestCreationIsForGuarded(t *testing.T) {
	p := newPlace(t)
	p.needsMutation()
	ctx := t.Context()
	leaving := p.object(guardText, "")
	leaving.SetFinalizers([]string{rotationv1.GuardFinalizer})
	p.must(p.somebody.Create(ctx, leaving))
	made := func(text string, args ...any) []string {
		object := p.object(text, args...)
		p.must(p.somebody.Create(ctx, object, client.DryRunAll))
		return object.GetFinalizers()
	}
	p.eventually("a guard", func() error {
		if len(made(userText, "user")) == 0 {
			return fmt.Errorf("not marked")
		}
		return nil
	})
	const application = `{apiVersion: keystone.openstack.org/v1beta1, kind: KeystoneApplicationCredential, metadata: {name: %s}}`
	if got := made(application, "nova"); len(got) > 0 {
		t.Errorf("marked without a guard of its kind: %v", got)
	}
	keystone := p.object(strings.NewReplacer("{name: rabbitmquser}", "{name: other}", "rabbitmq.openstack.org", "keystone.openstack.org",
		"RabbitMQUser", "KeystoneApplicationCredential", "rabbitmqusers", "keystoneapplicationcredentials").Replace(guardText), "")
	p.must(p.somebody.Create(ctx, keystone))
	p.eventually("a guard of application credentials", func() error {
		if len(made(application, "nova")) != 1 {
			return fmt.Errorf("not marked")
		}
		return nil
	})
	p.must(p.somebody.Delete(ctx, leaving.DeepCopy()))
	p.eventually("a guard that is going away", func() error {
		if got := made(userText, "user"); len(got) > 0 {
			return fmt.Errorf("still marked: %v", got)
		}
		return nil
	})
	p.must(p.somebody.Create(ctx, p.object(`{apiVersion: rotation.openstack.org/v1alpha1, kind: SecretRollout, metadata: {name: edpm}}`)))
	const deployment = `{apiVersion: dataplane.openstack.org/v1beta1, kind: OpenStackDataPlaneDeployment, metadata: {name: d}, spec: {nodeSets: [%s]}}`
	p.eventually("a rollout", func() error {
		if len(made(deployment, "edpm")) != 1 {
			return fmt.Errorf("not marked")
		}
		return nil
	})
	if got := made(deployment, "edge"); len(got) > 0 {
		t.Errorf("marked without a rollout of its NodeSets: %v", got)
	}
}

// TestWordsStay: also a change that leaves what is said alone is for who said it, in the hour that they may say it.
func TestWordsStay(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	rule := rbacv1.PolicyRule{APIGroups: []string{rotationv1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}}
	speaker, other := p.as("speaker-"+p.namespace, rule), p.as("other-"+p.namespace, rule)
	word := p.object(`{apiVersion: rotation.openstack.org/v1alpha1, kind: CredentialOverride, metadata: {name: o}, spec: {kind: RabbitMQUser, name: user7, by: %q, reason: a test, until: "2100-01-01T00:00:00Z"}}`, "speaker-"+p.namespace)
	p.must(speaker.Create(ctx, word))
	refused(t, "a change by another", other.Patch(ctx, word.DeepCopy(), merge(`{"metadata":{"labels":{"a":"b"}}}`)), "your own name")
	refused(t, "a change by one without the right", p.somebody.Patch(ctx, word.DeepCopy(), merge(`{"metadata":{"labels":{"a":"b"}}}`)), "right to override")
	p.must(speaker.Patch(ctx, word.DeepCopy(), merge(`{"metadata":{"labels":{"a":"b"}}}`)))
	p.must(p.somebody.Delete(ctx, word))
}
