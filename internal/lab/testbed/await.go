package testbed

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/store"
)

// watch rings the bell whenever an object of the list's kind changes, until the context ends.
func (b *Testbed) watch(ctx context.Context, list client.ObjectList) {
	const pause = 100 * time.Millisecond
	for ctx.Err() == nil {
		watcher, err := b.client.Watch(ctx, list, client.InNamespace(b.namespace))
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		for range watcher.ResultChan() { // a new watch begins with everything there is, so nothing is missed
			select {
			case b.bell <- struct{}{}:
			default:
			}
		}
		watcher.Stop()
	}
}

// await looks again and again, whenever something has changed, until nothing is left to wait for. What is left when
// the time is up is the second answer.
func (b *Testbed) await(ctx context.Context, look func(context.Context) (waitingFor string, err error)) (string, error) {
	timeout := time.NewTimer(b.options.Timeout)
	defer timeout.Stop()
	for {
		waitingFor, err := look(ctx)
		if err != nil || waitingFor == "" {
			return "", err
		}
		select {
		case <-b.bell:
		case <-timeout.C:
			return waitingFor, nil
		case <-b.operator.done():
			return "", b.operator.died()
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// Show gives what the cluster shows of the NodeSet now, whether it is of now or not.
func (b *Testbed) Show(ctx context.Context, nodeSet string) (State, error) {
	sight, err := b.see(ctx, nodeSet)
	if err != nil {
		return State{}, err
	}
	state, _ := sight.lag()
	return state, nil
}

// Await waits until the cluster shows of the NodeSet what is wanted: until differs gives no differences. While the
// operator is up, a state counts only once it rests on everything that is in the cluster; while it is down, what the
// cluster shows is not going to change. Left is what differs, or what the operator has not taken in, at the end.
func (b *Testbed) Await(ctx context.Context, nodeSet string, differs func(State) []string) (state State, left []string, err error) {
	if !b.operator.isUp() {
		state, err = b.Show(ctx, nodeSet)
		return state, differs(state), err
	}
	_, err = b.await(ctx, func(ctx context.Context) (string, error) {
		sight, err := b.see(ctx, nodeSet)
		if err != nil {
			return "", err
		}
		var lag string
		state, lag = sight.lag()
		left = differs(state)
		if lag != "" {
			left = append(left, "the operator has not taken in everything: "+lag)
		}
		return strings.Join(left, "; "), nil
	})
	return state, left, err
}

// CatchUp waits until the operator, if it is up, has taken in everything that there is. Steps that take something
// away (a version of a Secret, a Deployment) wait for that first: what nobody has read nobody can know.
func (b *Testbed) CatchUp(ctx context.Context) error {
	if !b.operator.isUp() {
		return nil
	}
	waitingFor, err := b.await(ctx, func(ctx context.Context) (string, error) {
		if lag, err := b.departing(ctx); lag != "" || err != nil {
			return lag, err
		}
		var nodeSets dataplanev1.OpenStackDataPlaneNodeSetList
		if err := b.client.List(ctx, &nodeSets, client.InNamespace(b.namespace)); err != nil {
			return "", fmt.Errorf("listing NodeSets: %w", err)
		}
		for _, nodeSet := range nodeSets.Items {
			sight, err := b.see(ctx, nodeSet.Name)
			if err != nil {
				return "", err
			}
			if _, lag := sight.lag(); lag != "" {
				return lag, nil
			}
		}
		return "", nil
	})
	if err == nil && waitingFor != "" {
		err = fmt.Errorf("the operator has not taken in everything after %s: %s; its last words:\n%s",
			b.options.Timeout, waitingFor, b.operator.lastWords())
	}
	return err
}

// departing collects what deleted objects leave behind, and names a deleted Deployment that is still there.
func (b *Testbed) departing(ctx context.Context) (string, error) {
	if len(b.deleted) == 0 {
		return "", nil
	}
	for uid, name := range b.deleted {
		var deployment dataplanev1.OpenStackDataPlaneDeployment
		err := b.client.Get(ctx, b.key(name), &deployment)
		if err != nil && !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("Deployment %s: %w", name, err)
		}
		if err == nil && deployment.UID == uid {
			return fmt.Sprintf("Deployment %s is deleted and not let go", name), nil
		}
	}
	if err := b.executor.CollectGarbage(ctx); err != nil {
		return "", fmt.Errorf("collecting garbage: %w", err)
	}
	b.deleted = map[types.UID]string{}
	return "", nil
}

func (b *Testbed) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: b.namespace, Name: name}
}

// see reads everything that a NodeSet's numbers rest on from the API server.
func (b *Testbed) see(ctx context.Context, nodeSet string) (sight, error) {
	s := sight{
		nodeSet: &dataplanev1.OpenStackDataPlaneNodeSet{}, services: map[string]*dataplanev1.OpenStackDataPlaneService{},
		secrets: map[string]corev1.Secret{}, pods: map[types.UID]corev1.Pod{}, over: maps.Clone(b.over),
	}
	if err := b.client.Get(ctx, b.key(nodeSet), s.nodeSet); err != nil {
		return s, fmt.Errorf("NodeSet %s: %w", nodeSet, err)
	}
	s.reach = reaches(s.nodeSet)
	var deployments dataplanev1.OpenStackDataPlaneDeploymentList
	var services dataplanev1.OpenStackDataPlaneServiceList
	var secrets corev1.SecretList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&deployments, &services, &secrets, &pods} {
		if err := b.client.List(ctx, list, client.InNamespace(b.namespace)); err != nil {
			return s, fmt.Errorf("listing: %w", err)
		}
	}
	s.deployments = deployments.Items
	for i := range services.Items {
		s.services[services.Items[i].Name] = &services.Items[i]
	}
	for _, secret := range secrets.Items {
		s.secrets[secret.Name] = secret
	}
	for _, pod := range pods.Items {
		s.pods[pod.UID] = pod
	}
	stored, err := store.Store{Client: b.client, Reader: b.client}.Load(ctx, client.ObjectKeyFromObject(s.nodeSet))
	if err != nil {
		return s, err
	}
	s.objects = stored.Objects
	rollout := &rotationv1.SecretRollout{}
	switch err := b.client.Get(ctx, b.key(nodeSet), rollout); {
	case err == nil:
		s.rollout = rollout
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("SecretRollout %s: %w", nodeSet, err)
	}
	return s, nil
}
