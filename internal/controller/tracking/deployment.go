package tracking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// ReconcileDeployment puts the finalizer on a Deployment at first sight and takes it off when every NodeSet that it
// names has stored what it tells.
func (t *Tracker) ReconcileDeployment(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var deployment dataplanev1.OpenStackDataPlaneDeployment
	if err := t.options.Client.Get(ctx, request.NamespacedName, &deployment); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	released, err := t.isReleased(ctx, &deployment)
	if err != nil {
		return reconcile.Result{}, err
	}
	held := controllerutil.ContainsFinalizer(&deployment, rotationv1.EvidenceFinalizer)
	before := deployment.DeepCopy()
	switch {
	case held && released:
		controllerutil.RemoveFinalizer(&deployment, rotationv1.EvidenceFinalizer)
	case !held && !released && deployment.DeletionTimestamp == nil:
		controllerutil.AddFinalizer(&deployment, rotationv1.EvidenceFinalizer)
	default:
		return reconcile.Result{}, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := t.options.Client.Patch(ctx, &deployment, patch, client.FieldOwner(FieldManager)); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(fmt.Errorf("finalizer of Deployment %s: %w", deployment.Name, err))
	}
	return reconcile.Result{}, nil
}

// isReleased tells whether no NodeSet has anything to learn from the Deployment: each has stored what it tells, or
// does not exist, and then what the Deployment may have brought to its nodes is unknown from now on.
func (t *Tracker) isReleased(ctx context.Context, deployment *dataplanev1.OpenStackDataPlaneDeployment) (bool, error) {
	for _, name := range deployment.Spec.NodeSets {
		key := types.NamespacedName{Namespace: deployment.Namespace, Name: name}
		t.mutex.Lock()
		state := t.states[key]
		stored := state != nil && state.released[deployment.UID]
		t.mutex.Unlock()
		if stored {
			continue
		}
		if err := t.options.Live.Get(ctx, key, &dataplanev1.OpenStackDataPlaneNodeSet{}); !apierrors.IsNotFound(err) {
			return false, err
		}
		if err := t.giveUp(ctx, key, deployment); err != nil {
			return false, err
		}
	}
	return true, nil
}

// giveUp notes in the record of a deleted NodeSet that nobody will find out what the Deployment brought to its nodes,
// unless it had been settled before.
func (t *Tracker) giveUp(ctx context.Context, nodeSet client.ObjectKey, deployment *dataplanev1.OpenStackDataPlaneDeployment) error {
	stored, err := t.store.Load(ctx, nodeSet)
	if err != nil {
		return err
	}
	saved, _, err := trackmap.Decode(stored.Objects, "")
	if errors.Is(err, trackmap.ErrAbsent) || errors.Is(err, trackmap.ErrCorrupt) {
		return nil // there is nothing to conclude from, or nothing that anybody will conclude anything from
	}
	if err != nil {
		return fmt.Errorf("ConfigMap of the deleted NodeSet %s: %w", nodeSet.Name, err)
	}
	isThis := func(entry string) bool { return uidOf(entry) == string(deployment.UID) }
	if slices.ContainsFunc(saved.Settled, isThis) || saved.Book.IsGivenUp(string(deployment.UID)) {
		return nil
	}
	const why = "the NodeSet was deleted before the Deployment was over"
	span := fleet.Span{Began: fleet.Instant{Time: deployment.CreationTimestamp.Time}, Ended: fleet.Instant{Time: time.Now().Add(upstream.AnsibleTimeout)}, Over: true}
	saved.Book.GiveUp(deployment.Name, string(deployment.UID), why, span, nil)
	saved.Sequence++
	objects, err := trackmap.Encode(saved, verdict.Judge(saved.Book, verdict.Wanted{}, nil))
	if err != nil {
		return fmt.Errorf("ConfigMap of the deleted NodeSet %s: %w", nodeSet.Name, err)
	}
	_, err = t.store.Save(ctx, nodeSet, objects, stored)
	return err
}
