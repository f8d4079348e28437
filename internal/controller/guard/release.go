package guard

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

// release lets go of what a guard that is being deleted held and no other guard holds, and then of the guard.
func (c *Controller) release(ctx context.Context, declared *rotationv1.CredentialGuard, others []guarded) error {
	if !controllerutil.ContainsFinalizer(declared, rotationv1.GuardFinalizer) {
		return nil
	}
	g := prepare(declared)
	isHeldByOther := slices.ContainsFunc(others, func(other guarded) bool { return other.kind.GroupKind() == g.kind.GroupKind() })
	if !isHeldByOther && g.kind.Version != "" {
		if err := c.unmarkAll(ctx, g); err != nil {
			return err
		}
	}
	var holds rotationv1.CredentialHoldList
	if err := c.options.Live.List(ctx, &holds, client.InNamespace(g.Namespace)); err != nil {
		return fmt.Errorf("listing holds: %w", err)
	}
	for i := range holds.Items {
		if holds.Items[i].Spec.Guard != g.Name {
			continue
		}
		if err := client.IgnoreNotFound(c.options.Client.Delete(ctx, &holds.Items[i])); err != nil {
			return fmt.Errorf("CredentialHold %s: %w", holds.Items[i].Name, err)
		}
	}
	before := declared.DeepCopy()
	controllerutil.RemoveFinalizer(declared, rotationv1.GuardFinalizer)
	err := c.options.Client.Patch(ctx, declared, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("finalizer of CredentialGuard %s: %w", g.Name, err)
	}
	return nil
}

// unmarkAll takes our finalizer and annotation off all objects of the guard's kind.
func (c *Controller) unmarkAll(ctx context.Context, g guarded) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(g.kind)
	err := c.options.Live.List(ctx, list, client.InNamespace(g.Namespace))
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", g.Spec.Credential.Resource, err)
	}
	for i := range list.Items {
		if err := c.unmark(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) unmark(ctx context.Context, object *unstructured.Unstructured) error {
	before := object.DeepCopy()
	changed := controllerutil.RemoveFinalizer(object, rotationv1.CredentialFinalizer)
	if annotations := object.GetAnnotations(); annotations[rotationv1.HeldAnnotation] != "" {
		delete(annotations, rotationv1.HeldAnnotation)
		object.SetAnnotations(annotations)
		changed = true
	}
	if !changed {
		return nil
	}
	return client.IgnoreNotFound(c.patch(ctx, object, before))
}
