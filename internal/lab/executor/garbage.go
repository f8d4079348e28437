package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

// collected are the kinds of what Deployments, their Jobs and NodeSets own, owners first.
var collected = []schema.GroupVersionKind{
	batchv1.SchemeGroupVersion.WithKind("Job"),
	corev1.SchemeGroupVersion.WithKind("Pod"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	rotationv1.GroupVersion.WithKind("SecretRollout"),
}

// CollectGarbage deletes the objects whose owners are all gone. A pod that was still running is ended first, as a
// kubelet would end it.
func (e *Executor) CollectGarbage(ctx context.Context) error {
	for _, kind := range collected {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		switch err := e.options.Client.List(ctx, list, client.InNamespace(e.options.Namespace)); {
		case meta.IsNoMatchError(err):
			continue // there is no such kind, hence no such object
		case err != nil:
			return fmt.Errorf("looking for %ss without owners: %w", kind.Kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			orphaned, err := e.isOrphaned(ctx, object)
			if err == nil && orphaned {
				err = e.collect(ctx, kind, object)
			}
			if err != nil {
				return fmt.Errorf("%s %s: %w", kind.Kind, object.Name, err)
			}
		}
	}
	return e.forget(ctx)
}

// isOrphaned tells whether the object has owners and none of them is there.
func (e *Executor) isOrphaned(ctx context.Context, object *metav1.PartialObjectMetadata) (bool, error) {
	for _, reference := range object.OwnerReferences {
		owner := &metav1.PartialObjectMetadata{}
		owner.SetGroupVersionKind(schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind))
		switch err := e.get(ctx, reference.Name, owner); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return false, err
		case owner.UID == reference.UID:
			return false, nil
		}
	}
	return len(object.OwnerReferences) > 0, nil
}

func (e *Executor) collect(ctx context.Context, kind schema.GroupVersionKind, object *metav1.PartialObjectMetadata) error {
	e.options.Log("collecting %s %s, whose owner is gone", kind.Kind, object.Name)
	if kind.Kind == "Pod" {
		return e.collectPod(ctx, object.Name)
	}
	err := e.options.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}

// collectPod deletes a pod: the API server gives a running one time to end, the kubelet ends it and says so, the Job
// controller lets go of it, and it is gone.
func (e *Executor) collectPod(ctx context.Context, name string) error {
	var pod corev1.Pod
	c := e.options.Client
	for _, step := range []func() error{
		func() error { return e.get(ctx, name, &pod) },
		func() error { return c.Delete(ctx, &pod, client.Preconditions{UID: &pod.UID}) },
		func() error { return e.get(ctx, name, &pod) },
		func() error {
			if pod.Status.Phase != corev1.PodRunning {
				return nil
			}
			return patch(ctx, c.Status(), asKubelet, &pod, func(pod *corev1.Pod) { setTerminated(pod, end{exitCode: exitKilled}, metav1.Now()) })
		},
		func() error { return e.release(ctx, &pod) },
		func() error { return c.Delete(ctx, &pod, client.GracePeriodSeconds(0)) },
	} {
		switch err := step(); {
		case apierrors.IsNotFound(err):
			return nil // gone at any step is gone
		case err != nil:
			return err
		}
	}
	return nil
}

// forget drops the sessions of Deployments that are gone.
func (e *Executor) forget(ctx context.Context) error {
	var list dataplanev1.OpenStackDataPlaneDeploymentList
	if err := e.options.Client.List(ctx, &list, client.InNamespace(e.options.Namespace)); err != nil {
		return errors.Join(errors.New("looking for Deployments that are gone"), err)
	}
	there := func(uid types.UID) bool {
		return slices.ContainsFunc(list.Items, func(d dataplanev1.OpenStackDataPlaneDeployment) bool { return d.UID == uid })
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for uid := range e.running {
		if !there(uid) {
			delete(e.running, uid)
		}
	}
	return nil
}
