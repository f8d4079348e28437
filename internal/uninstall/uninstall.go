// Package uninstall takes the operator's locks, marks and objects out of a cluster, so that nothing of it stays behind
// and nothing hangs.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/store"
)

// Options say what is taken away and how.
type Options struct {
	Client client.Client
	// Namespaces are those to clean, none for all.
	Namespaces []string
	// Policies are the admission policies and bindings of the project, in the order in which they are applied. They are
	// for the whole cluster.
	Policies []client.Object
	// ReleaseHeld says that credentials may go that somebody deleted and that are not safe.
	ReleaseHeld bool
	// Out is told what was done, a line each.
	Out io.Writer
}

// ErrHeld says that credentials would go that a node may still run.
var ErrHeld = errors.New("credentials that were deleted and are held would go at once, while nodes may still run them")

// ErrComesBack says that somebody puts marks on again: the operator still runs.
var ErrComesBack = errors.New("the operator still runs and marks objects again: stop it first (scale its Deployment to 0), then repeat this")

// leaver is one run of the uninstaller.
type leaver struct {
	Options
	kinds map[schema.GroupVersionKind]bool
}

// Run first removes the policies, then what the operator put on the objects of others, then its own objects. It can be
// repeated. The operator must not run meanwhile.
func Run(ctx context.Context, options Options) error {
	l := &leaver{Options: options, kinds: map[schema.GroupVersionKind]bool{}}
	if err := l.guardedKinds(ctx); err != nil {
		return err
	}
	if err := l.refuseHeld(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{l.policies, l.marks, l.numbers, l.objects, l.records, l.comesBack} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	l.say("done; the definitions (CRDs) of rotation.openstack.org may go now")
	return nil
}

func (l *leaver) say(format string, args ...any) { fmt.Fprintf(l.Out, format+"\n", args...) }

// each lists objects in all the namespaces; a kind that is not served has none.
func (l *leaver) each(ctx context.Context, list client.ObjectList, do func(client.Object) error) error {
	for _, namespace := range l.namespaces() {
		err := l.Client.List(ctx, list, client.InNamespace(namespace))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
		for _, item := range items {
			if err := do(item.(client.Object)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *leaver) namespaces() []string {
	if len(l.Namespaces) == 0 {
		return []string{""}
	}
	return l.Namespaces
}

// guardedKinds are those that any guard or hold names.
func (l *leaver) guardedKinds(ctx context.Context) error {
	err := l.each(ctx, &rotationv1.CredentialGuardList{}, func(o client.Object) error {
		declared := o.(*rotationv1.CredentialGuard).Spec.Credential
		l.kinds[schema.FromAPIVersionAndKind(declared.APIVersion, declared.Kind)] = true
		return nil
	})
	if err != nil {
		return err
	}
	return l.each(ctx, &rotationv1.CredentialHoldList{}, func(o client.Object) error {
		held := o.(*rotationv1.CredentialHold).Spec.Credential
		mapping, err := l.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: held.Group, Kind: held.Kind})
		if meta.IsNoMatchError(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("asking for %s: %w", held.Kind, err)
		}
		l.kinds[mapping.GroupVersionKind] = true
		return nil
	})
}

// refuseHeld stops where letting go would delete what a node may still run.
func (l *leaver) refuseHeld(ctx context.Context) error {
	verdicts := map[string]rotationv1.CredentialHoldStatus{}
	err := l.each(ctx, &rotationv1.CredentialHoldList{}, func(o client.Object) error {
		hold := o.(*rotationv1.CredentialHold)
		if hold.Status.Verdict != rotationv1.VerdictSafe {
			verdicts[hold.Spec.Credential.UID] = hold.Status
		}
		return nil
	})
	if err != nil {
		return err
	}
	var held []string
	err = l.eachGuarded(ctx, func(object *unstructured.Unstructured) error {
		status, isHeld := verdicts[string(object.GetUID())]
		if object.GetDeletionTimestamp() != nil && isHeld && isMarked(object) {
			held = append(held, fmt.Sprintf("%s %s/%s: %s", object.GetKind(), object.GetNamespace(), object.GetName(), status.Message))
		}
		return nil
	})
	if err != nil || len(held) == 0 {
		return err
	}
	slices.Sort(held)
	if l.ReleaseHeld {
		l.say("letting go although held: %s", strings.Join(held, "; "))
		return nil
	}
	return fmt.Errorf("%w: %s; deploy the nodes first, or say --release-held", ErrHeld, strings.Join(held, "; "))
}

func (l *leaver) eachGuarded(ctx context.Context, do func(*unstructured.Unstructured) error) error {
	for kind := range l.kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := l.each(ctx, list, func(o client.Object) error { return do(o.(*unstructured.Unstructured)) })
		if err != nil {
			return err
		}
	}
	return nil
}

func isMarked(o client.Object) bool {
	return controllerutil.ContainsFinalizer(o, rotationv1.CredentialFinalizer) || o.GetAnnotations()[rotationv1.HeldAnnotation] != ""
}

// policies go last applied, first removed, so that no binding names a policy that is gone.
func (l *leaver) policies(ctx context.Context) error {
	for _, policy := range slices.Backward(l.Policies) {
		switch err := l.Client.Delete(ctx, policy); {
		case err == nil:
			l.say("deleted %s %s", policy.GetObjectKind().GroupVersionKind().Kind, policy.GetName())
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		default:
			return fmt.Errorf("deleting %s: %w", policy.GetName(), err)
		}
	}
	return nil
}

// marks take finalizers and annotations off the objects of others.
func (l *leaver) marks(ctx context.Context) error {
	err := l.eachGuarded(ctx, func(object *unstructured.Unstructured) error {
		if !isMarked(object) {
			return nil
		}
		return l.change(ctx, object, "let go of", func() {
			controllerutil.RemoveFinalizer(object, rotationv1.CredentialFinalizer)
			annotations := object.GetAnnotations()
			delete(annotations, rotationv1.HeldAnnotation)
			object.SetAnnotations(annotations)
		})
	})
	if err != nil {
		return err
	}
	return l.each(ctx, &dataplanev1.OpenStackDataPlaneDeploymentList{}, func(object client.Object) error {
		if !controllerutil.ContainsFinalizer(object, rotationv1.EvidenceFinalizer) {
			return nil
		}
		return l.change(ctx, object, "let go of", func() { controllerutil.RemoveFinalizer(object, rotationv1.EvidenceFinalizer) })
	})
}

// change patches what is ours on an object. A policy that was just deleted may forbid it for a moment still.
func (l *leaver) change(ctx context.Context, object client.Object, what string, do func()) error {
	const pause, limit = 200 * time.Millisecond, time.Minute
	name := fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName())
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		name = fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName())
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, pause, limit, true, func(ctx context.Context) (bool, error) {
		if last != nil {
			if err := l.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
			}
		}
		before, ok := object.DeepCopyObject().(client.Object)
		if !ok {
			return false, fmt.Errorf("%s is no object", name)
		}
		do()
		last = l.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(last) || apierrors.IsForbidden(last) || apierrors.IsInvalid(last) {
			return false, nil
		}
		return true, client.IgnoreNotFound(last)
	})
	if wait.Interrupted(err) && last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	l.say("%s %s", what, name)
	return nil
}

// numbers clears our field in the status of NodeSets, for nobody is going to keep it right.
func (l *leaver) numbers(ctx context.Context) error {
	return l.each(ctx, &dataplanev1.OpenStackDataPlaneNodeSetList{}, func(object client.Object) error {
		nodeSet := object.(*dataplanev1.OpenStackDataPlaneNodeSet)
		if nodeSet.Status.SecretDeployment == nil {
			return nil
		}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"secretDeployment":null}}`))
		if err := l.Client.Status().Patch(ctx, nodeSet, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("status of NodeSet %s: %w", nodeSet.Name, err)
		}
		l.say("cleared status.secretDeployment of NodeSet %s/%s", nodeSet.Namespace, nodeSet.Name)
		return nil
	})
}

// objects are our own: guards lose their finalizer and go, and all the others with them.
func (l *leaver) objects(ctx context.Context) error {
	err := l.each(ctx, &rotationv1.CredentialGuardList{}, func(object client.Object) error {
		if controllerutil.ContainsFinalizer(object, rotationv1.GuardFinalizer) {
			return l.change(ctx, object, "released", func() { controllerutil.RemoveFinalizer(object, rotationv1.GuardFinalizer) })
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, list := range []client.ObjectList{
		&rotationv1.CredentialGuardList{}, &rotationv1.CredentialHoldList{}, &rotationv1.CredentialOverrideList{},
		&rotationv1.NodeAttestationList{}, &rotationv1.SecretRolloutList{},
	} {
		if err := l.each(ctx, list, func(object client.Object) error { return l.remove(ctx, object) }); err != nil {
			return err
		}
	}
	return nil
}

func (l *leaver) remove(ctx context.Context, object client.Object) error {
	name := fmt.Sprintf("%s %s/%s", strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1alpha1."), object.GetNamespace(), object.GetName())
	name = strings.Replace(name, "*v1.", "", 1)
	if err := l.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	l.say("deleted %s", name)
	return nil
}

// records are the ConfigMaps.
func (l *leaver) records(ctx context.Context) error {
	return l.each(ctx, &corev1.ConfigMapList{}, func(object client.Object) error {
		if object.GetLabels()[store.LabelNodeSet] == "" {
			return nil
		}
		return l.remove(ctx, object)
	})
}

// comesBack looks on for a moment: whoever marks objects again is an operator that runs.
func (l *leaver) comesBack(ctx context.Context) error {
	const pause, limit = 100 * time.Millisecond, 2 * time.Second
	err := wait.PollUntilContextTimeout(ctx, pause, limit, true, func(ctx context.Context) (bool, error) {
		marked := false
		err := l.eachGuarded(ctx, func(object *unstructured.Unstructured) error {
			marked = marked || isMarked(object)
			return nil
		})
		if err != nil {
			return false, err
		}
		err = l.each(ctx, &dataplanev1.OpenStackDataPlaneDeploymentList{}, func(object client.Object) error {
			marked = marked || controllerutil.ContainsFinalizer(object, rotationv1.EvidenceFinalizer)
			return nil
		})
		return marked, err
	})
	switch {
	case err == nil:
		return ErrComesBack
	case wait.Interrupted(err) && ctx.Err() == nil:
		return nil
	}
	return err
}
