package guard

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

// NewController makes a controller that guards nothing yet.
func NewController() *Controller {
	return &Controller{covers: map[string]func(string) bool{}, followed: map[schema.GroupVersionKind]bool{}}
}

// SetupWithManager adds the controller to the manager. Mapper and Follow of the options are set here.
func (c *Controller) SetupWithManager(manager ctrl.Manager, options Options) error {
	c.options = options
	const backlog = 1024
	changed := make(chan event.GenericEvent, backlog)
	c.mutex.Lock()
	c.changed = func(namespace string) {
		object := &rotationv1.CredentialGuard{}
		object.SetNamespace(namespace)
		changed <- event.GenericEvent{Object: object}
	}
	c.mutex.Unlock()
	toNamespace := handler.EnqueueRequestsFromMapFunc(namespaceOf)
	controller, err := ctrl.NewControllerManagedBy(manager).
		Named("credential-guard").
		Watches(&rotationv1.CredentialGuard{}, toNamespace).
		Watches(&rotationv1.CredentialHold{}, toNamespace, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&rotationv1.CredentialOverride{}, toNamespace).
		Watches(&rotationv1.NodeAttestation{}, toNamespace).
		WatchesRawSource(source.Channel(changed, toNamespace)).
		Build(reconcile.Func(c.Reconcile))
	if err != nil {
		return fmt.Errorf("setting up the controller of guards: %w", err)
	}
	c.options.Mapper = manager.GetRESTMapper()
	c.options.Follow = func(kind schema.GroupVersionKind) error {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		return controller.Watch(source.Kind[client.Object](manager.GetCache(), object, toNamespace))
	}
	return nil
}

func namespaceOf(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: object.GetNamespace()}}}
}
