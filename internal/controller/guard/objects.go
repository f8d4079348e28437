package guard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/controller/tracking"
	"github.com/rotation-operator/rotation-operator/internal/identity"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// maxIdentities is how many identities of one object a hold can have.
const maxIdentities = 64

// HoldName is the name of the hold that a guard has on an object.
func HoldName(guard, object string) string {
	const limit = 253
	name := guard + "." + object
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	end := "-" + hex.EncodeToString(sum[:8])
	return name[:limit-len(end)] + end
}

// subjectsOf gives the guard's objects, each with its hold, its finalizer and the annotation that says so. The guard
// gets its own finalizer first.
func (c *Controller) subjectsOf(ctx context.Context, g guarded, served bool) ([]*subject, error) {
	if controllerutil.AddFinalizer(g.CredentialGuard, rotationv1.GuardFinalizer) {
		before := g.DeepCopy()
		controllerutil.RemoveFinalizer(before, rotationv1.GuardFinalizer)
		if err := c.options.Client.Patch(ctx, g.CredentialGuard, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, fmt.Errorf("finalizer of CredentialGuard %s: %w", g.Name, err)
		}
	}
	if !served {
		return nil, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(g.kind)
	if err := c.options.Client.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
		return nil, fmt.Errorf("listing %s: %w", g.Spec.Credential.Resource, err)
	}
	var subjects []*subject
	for i := range list.Items {
		s := &subject{guard: g, object: &list.Items[i]}
		if s.object.GetDeletionTimestamp() != nil && !controllerutil.ContainsFinalizer(s.object, rotationv1.CredentialFinalizer) {
			continue // it is no longer ours to hold
		}
		if err := c.ensureHold(ctx, s); err != nil {
			return nil, err
		}
		if err := c.mark(ctx, s); err != nil {
			return nil, err
		}
		subjects = append(subjects, s)
	}
	return subjects, nil
}

// ensureHold finds or makes the hold and brings its spec and identities in line with guard and object. Identities that
// the object showed once stay.
func (c *Controller) ensureHold(ctx context.Context, s *subject) error {
	want := rotationv1.CredentialHoldSpec{
		Guard: s.guard.Name, WaitingUsers: s.guard.Spec.WaitingUsers,
		Credential: rotationv1.CredentialReference{Group: s.guard.kind.Group, Kind: s.guard.kind.Kind, Resource: s.guard.Spec.Credential.Resource,
			Name: s.object.GetName(), UID: string(s.object.GetUID())},
	}
	hold := &rotationv1.CredentialHold{}
	key := client.ObjectKey{Namespace: s.object.GetNamespace(), Name: HoldName(s.guard.Name, s.object.GetName())}
	err := c.options.Client.Get(ctx, key, hold)
	switch {
	case apierrors.IsNotFound(err):
		*hold = rotationv1.CredentialHold{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{rotationv1.GuardLabel: labelValue(s.guard.Name)}}, Spec: want}
		err = c.options.Client.Create(ctx, hold)
	case err == nil && hold.Spec.Credential.UID != want.Credential.UID:
		// Another object of that name: nothing that was found of the old one is true of it.
		if err = c.options.Client.Delete(ctx, hold, client.Preconditions{UID: &hold.UID}); err == nil {
			return c.ensureHold(ctx, s)
		}
	case err == nil && !equality.Semantic.DeepEqual(hold.Spec, want):
		hold.Spec = want
		err = c.options.Client.Update(ctx, hold)
	}
	if err != nil {
		return fmt.Errorf("CredentialHold %s: %w", key.Name, err)
	}
	s.stored, s.hold = hold, hold.DeepCopy()
	current, noIdentity := identity.OfObject(s.guard.Spec.Credential, s.object.Object)
	s.noIdentity = noIdentity
	if noIdentity == nil {
		s.hold.Status.Identity = current
		s.hold.Status.Identities = append(s.hold.Status.Identities, current)
		slices.Sort(s.hold.Status.Identities)
		s.hold.Status.Identities = slices.Compact(s.hold.Status.Identities)
	}
	if len(s.hold.Status.Identities) > 0 {
		s.noIdentity = nil // those that it had before are known
	}
	return nil
}

// labelValue is a name as far as the value of a label can hold it.
func labelValue(name string) string {
	const limit = 63
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// mark puts the finalizer and the annotation on an object that has a hold now.
func (c *Controller) mark(ctx context.Context, s *subject) error {
	if s.object.GetDeletionTimestamp() != nil {
		return nil
	}
	before := s.object.DeepCopy()
	changed := controllerutil.AddFinalizer(s.object, rotationv1.CredentialFinalizer)
	if annotations := s.object.GetAnnotations(); annotations[rotationv1.HeldAnnotation] != string(s.object.GetUID()) {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[rotationv1.HeldAnnotation] = string(s.object.GetUID()) // a copy of the object has another
		s.object.SetAnnotations(annotations)
		changed = true
	}
	if !changed {
		return nil
	}
	return c.patch(ctx, s.object, before)
}

// patch changes what is ours on a guarded object, if it is still as it was seen.
func (c *Controller) patch(ctx context.Context, object, before *unstructured.Unstructured) error {
	err := c.options.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(tracking.FieldManager))
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// dropHolds deletes the holds in a namespace that are on nothing any more.
func (c *Controller) dropHolds(ctx context.Context, namespace string, kept map[string]bool) error {
	var holds rotationv1.CredentialHoldList
	if err := c.options.Client.List(ctx, &holds, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing holds: %w", err)
	}
	for i := range holds.Items {
		hold := &holds.Items[i]
		if kept[hold.Name] {
			continue
		}
		if there, err := c.isThere(ctx, hold); err != nil {
			return err
		} else if there {
			continue // the cache is behind; its next word brings us here again
		}
		if err := client.IgnoreNotFound(c.options.Client.Delete(ctx, hold, client.Preconditions{UID: &hold.UID})); err != nil {
			return fmt.Errorf("CredentialHold %s: %w", hold.Name, err)
		}
	}
	return nil
}

// isThere tells whether both the guard and the object of a hold exist, the object not on its way out.
func (c *Controller) isThere(ctx context.Context, hold *rotationv1.CredentialHold) (bool, error) {
	var declared rotationv1.CredentialGuard
	err := c.options.Live.Get(ctx, client.ObjectKey{Namespace: hold.Namespace, Name: hold.Spec.Guard}, &declared)
	if apierrors.IsNotFound(err) || err == nil && declared.DeletionTimestamp != nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("CredentialGuard %s: %w", hold.Spec.Guard, err)
	}
	if declared.Spec.Credential.Kind != hold.Spec.Credential.Kind {
		return false, nil
	}
	g := prepare(&declared)
	object, err := c.live(ctx, g, hold.Namespace, hold.Spec.Credential.Name)
	if object == nil || err != nil {
		return false, err
	}
	return string(object.GetUID()) == hold.Spec.Credential.UID && controllerutil.ContainsFinalizer(object, rotationv1.CredentialFinalizer), nil
}

// live reads a guarded object from the API server; nil where it does not exist.
func (c *Controller) live(ctx context.Context, g guarded, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(g.kind)
	err := c.options.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", g.kind.Kind, name, err)
	}
	return object, nil
}

// tell writes the answer into the hold, if it says anything new, and an event if verdict or reason changed.
func (c *Controller) tell(ctx context.Context, s *subject, said words, reads map[string]string, now metav1.Time) error {
	_, override := said.override(s)
	stored, want := s.stored, s.hold.DeepCopy()
	if len(want.Status.Identities) > maxIdentities {
		want.Status.Identities = want.Status.Identities[:maxIdentities]
	}
	want.Status = statusOf(stored, want, s.answer, override, now)
	if !equality.Semantic.DeepEqual(stored.Status, want.Status) {
		want.Status.Reads = holdReads(reads)
	}
	s.hold = want
	if equality.Semantic.DeepEqual(stored.Status, want.Status) {
		return nil
	}
	if err := c.options.Client.Status().Patch(ctx, want, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}), client.FieldOwner(tracking.FieldManager)); err != nil {
		return fmt.Errorf("status of CredentialHold %s: %w", s.hold.Name, err)
	}
	if stored.Status.Verdict != want.Status.Verdict || stored.Status.Reason != want.Status.Reason {
		kind := corev1.EventTypeNormal
		if want.Status.Verdict != rotationv1.VerdictSafe {
			kind = corev1.EventTypeWarning
		}
		c.options.Events.Eventf(s.object, want, kind, want.Status.Reason, "Judge", "%s", cutEvent(want.Status.Message))
		log.FromContext(ctx).Info("Judged", "credential", want.Status.Identity, "kind", s.object.GetKind(), "name", s.object.GetName(),
			"verdict", want.Status.Verdict, "reason", want.Status.Reason)
	}
	return nil
}

// cutEvent keeps a note within the 1024 bytes that an event may have.
func cutEvent(text string) string {
	const limit = 1000
	if len(text) > limit {
		return text[:limit] + "..."
	}
	return text
}

// letGo takes the finalizer off the objects that somebody deleted and that every guard calls safe, and off all that are
// deleted in a namespace that is going away. Again says that something has to be judged anew first.
func (c *Controller) letGo(ctx context.Context, namespace string, subjects []*subject) (again bool, err error) {
	byObject := map[types.UID][]*subject{}
	for _, s := range subjects {
		if s.object.GetDeletionTimestamp() != nil {
			byObject[s.object.GetUID()] = append(byObject[s.object.GetUID()], s)
		}
	}
	if len(byObject) == 0 {
		return false, nil
	}
	going, err := c.namespaceIsGoing(ctx, namespace)
	if err != nil {
		return false, fmt.Errorf("namespace %s: %w", namespace, err)
	}
	for _, mine := range byObject {
		if slices.ContainsFunc(mine, func(s *subject) bool { return s.answer.Outcome != verdict.Safe }) && !going {
			continue
		}
		changed, oneErr := c.grant(ctx, mine)
		again, err = again || changed, errors.Join(err, oneErr)
	}
	return again, err
}

// grant records that an object may go and then lets it. It answers true if the object is not what was judged.
func (c *Controller) grant(ctx context.Context, mine []*subject) (changed bool, err error) {
	object, err := c.live(ctx, mine[0].guard, mine[0].object.GetNamespace(), mine[0].object.GetName())
	if err != nil || object == nil {
		return false, err
	}
	if object.GetUID() != mine[0].object.GetUID() || object.GetDeletionTimestamp() == nil {
		return true, nil
	}
	for _, s := range mine {
		if shown, err := identity.OfObject(s.guard.Spec.Credential, object.Object); err == nil && !slices.Contains(s.hold.Status.Identities, shown) {
			return true, nil
		}
	}
	now := metav1.Now()
	for _, s := range mine {
		if s.hold.Status.Granted != nil {
			continue
		}
		before := s.hold.DeepCopy()
		s.hold.Status.Granted = &now
		if err := c.options.Client.Status().Patch(ctx, s.hold, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(tracking.FieldManager)); err != nil {
			return false, fmt.Errorf("status of CredentialHold %s: %w", s.hold.Name, err)
		}
	}
	before := object.DeepCopy()
	if !controllerutil.RemoveFinalizer(object, rotationv1.CredentialFinalizer) {
		return false, nil
	}
	if err := c.patch(ctx, object, before); err != nil {
		if apierrors.IsConflict(err) {
			return true, nil
		}
		return false, client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("Let go", "kind", object.GetKind(), "name", object.GetName(), "credential", mine[0].hold.Status.Identity)
	return false, nil
}
