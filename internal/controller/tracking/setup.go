package tracking

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/store"
)

// SetupWithManager adds the tracker and its two reconcilers, of NodeSets and of Deployments, to the manager.
func (t *Tracker) SetupWithManager(manager ctrl.Manager) error {
	if err := manager.Add(t); err != nil {
		return fmt.Errorf("adding the tracker: %w", err)
	}
	toNodeSet := &handler.TypedEnqueueRequestForObject[*dataplanev1.OpenStackDataPlaneNodeSet]{}
	ours := builder.WithPredicates(predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetLabels()[store.LabelNodeSet] != ""
	}))
	err := ctrl.NewControllerManagedBy(manager).
		Named("nodeset-tracking").
		For(&dataplanev1.OpenStackDataPlaneNodeSet{}).
		Owns(&rotationv1.SecretRollout{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(nodeSetOfRecord), builder.OnlyMetadata, ours).
		Watches(&dataplanev1.OpenStackDataPlaneDeployment{}, handler.EnqueueRequestsFromMapFunc(nodeSetsOfDeployment)).
		Watches(&dataplanev1.OpenStackDataPlaneService{}, handler.EnqueueRequestsFromMapFunc(t.nodeSetsOfService)).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(nodeSetsOfJob)).
		WatchesRawSource(source.TypedChannel(t.changed, toNodeSet)).
		Complete(reconcile.Func(t.ReconcileNodeSet))
	if err != nil {
		return fmt.Errorf("setting up the controller of NodeSets: %w", err)
	}
	err = ctrl.NewControllerManagedBy(manager).
		Named("deployment-evidence").
		For(&dataplanev1.OpenStackDataPlaneDeployment{}).
		Watches(&dataplanev1.OpenStackDataPlaneNodeSet{}, handler.EnqueueRequestsFromMapFunc(t.deploymentsOfNodeSet),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.TypedChannel(t.settled, &handler.TypedEnqueueRequestForObject[*dataplanev1.OpenStackDataPlaneDeployment]{})).
		Complete(reconcile.Func(t.ReconcileDeployment))
	if err != nil {
		return fmt.Errorf("setting up the controller of Deployments: %w", err)
	}
	return nil
}

func requests(namespace string, names ...string) []reconcile.Request {
	var all []reconcile.Request
	for _, name := range names {
		all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	return all
}

func nodeSetOfRecord(_ context.Context, object client.Object) []reconcile.Request {
	if name := store.NodeSetOf(object.GetName()); name != "" {
		return requests(object.GetNamespace(), name)
	}
	return nil
}

func nodeSetsOfDeployment(_ context.Context, object client.Object) []reconcile.Request {
	if deployment, ok := object.(*dataplanev1.OpenStackDataPlaneDeployment); ok {
		return requests(deployment.Namespace, deployment.Spec.NodeSets...)
	}
	return nil
}

func nodeSetsOfJob(_ context.Context, object client.Object) []reconcile.Request {
	if job, ok := object.(*batchv1.Job); ok {
		return requests(job.Namespace, nodeSetsOf(job.Spec.Template.Spec.Volumes)...)
	}
	return nil
}

func (t *Tracker) nodeSetsOfService(ctx context.Context, object client.Object) []reconcile.Request {
	var nodeSets dataplanev1.OpenStackDataPlaneNodeSetList
	if err := t.options.Client.List(ctx, &nodeSets, client.InNamespace(object.GetNamespace())); err != nil {
		return nil
	}
	var all []reconcile.Request
	for _, nodeSet := range nodeSets.Items {
		if slices.Contains(nodeSet.Spec.Services, object.GetName()) {
			all = append(all, requests(nodeSet.Namespace, nodeSet.Name)...)
		}
	}
	return all
}

func (t *Tracker) deploymentsOfNodeSet(ctx context.Context, object client.Object) []reconcile.Request {
	var deployments dataplanev1.OpenStackDataPlaneDeploymentList
	if err := t.options.Client.List(ctx, &deployments, client.InNamespace(object.GetNamespace())); err != nil {
		return nil
	}
	var all []reconcile.Request
	for _, deployment := range deployments.Items {
		if slices.Contains(deployment.Spec.NodeSets, object.GetName()) {
			all = append(all, requests(deployment.Namespace, deployment.Name)...)
		}
	}
	return all
}
