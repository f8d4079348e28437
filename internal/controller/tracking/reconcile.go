package tracking

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/store"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// readAgain is how soon a Secret is read again whose read was ahead of the watch. confirmAgain is how soon pods are listed
// again of which the watch has not told; when it does, that brings us here as well.
const (
	readAgain    = 20 * time.Millisecond
	confirmAgain = time.Second
)

// ReconcileNodeSet brings the record of one NodeSet up to date: gather, judge, store, tell.
func (t *Tracker) ReconcileNodeSet(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	select {
	case <-t.ready:
	case <-ctx.Done():
		return reconcile.Result{}, ctx.Err()
	}
	var nodeSet dataplanev1.OpenStackDataPlaneNodeSet
	if err := t.options.Client.Get(ctx, request.NamespacedName, &nodeSet); err != nil {
		if apierrors.IsNotFound(err) {
			t.forget(request.NamespacedName)
			t.tellJudged(request.Namespace, "")
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	state, err := t.stateOf(ctx, &nodeSet)
	if err != nil {
		return reconcile.Result{}, err
	}
	world, err := t.gather(ctx, &nodeSet, state)
	if err != nil {
		return reconcile.Result{}, err
	}
	// What cannot be read is unknown, and that has to be said: an error waits until everybody is told.
	ahead, unread := t.readSecrets(ctx, &world)
	unseen, unconfirmed := t.confirm(ctx, &world)
	if err := t.mendOutsideChange(ctx, state, &nodeSet); err != nil {
		return reconcile.Result{}, err
	}
	drift, err := t.judge(ctx, state, world)
	if err != nil {
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
			// Somebody else wrote since: look again at what stands there.
			return reconcile.Result{RequeueAfter: readAgain}, nil
		}
		drift.Missing = append(drift.Missing, fmt.Sprintf("The record cannot be stored: %v", err))
		return reconcile.Result{}, errors.Join(err, t.tell(ctx, state, world, drift))
	}
	t.release(state, world)
	if err := errors.Join(unread, unconfirmed, t.tell(ctx, state, world, drift)); err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case ahead:
		return reconcile.Result{RequeueAfter: readAgain}, nil
	case unseen:
		return reconcile.Result{RequeueAfter: confirmAgain}, nil
	}
	return reconcile.Result{}, nil
}

func (t *Tracker) forget(key types.NamespacedName) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.states, key)
	t.departed[key.Namespace] = true
}

// stateOf gives what is known of the NodeSet, from the store the first time.
func (t *Tracker) stateOf(ctx context.Context, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) (*state, error) {
	key := client.ObjectKeyFromObject(nodeSet)
	t.mutex.Lock()
	known := t.states[key]
	t.mutex.Unlock()
	if known != nil && known.uid == nodeSet.UID {
		return known, nil
	}
	loaded, err := t.load(ctx, nodeSet)
	if err != nil {
		return nil, err
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	loaded.memory.Lost = loaded.memory.Lost || known != nil && len(loaded.memory.Book.Nodes) == 0
	t.states[key] = loaded
	for name, history := range loaded.memory.Book.Secrets {
		t.journal(nodeSet.Namespace).Restore(name, history)
		loaded.interest[name] = true
	}
	return loaded, nil
}

// load reads the store. What cannot be read is set aside and everything about the past is unknown; text of a newer
// format is left alone, and nothing is judged.
func (t *Tracker) load(ctx context.Context, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) (*state, error) {
	stored, err := t.store.Load(ctx, client.ObjectKeyFromObject(nodeSet))
	if err != nil {
		return nil, err
	}
	s := &state{uid: nodeSet.UID, memory: upstream.NewMemory(), stored: stored, interest: map[string]bool{}, released: map[types.UID]bool{}}
	saved, current, err := trackmap.Decode(stored.Objects, string(nodeSet.UID))
	if errors.Is(err, trackmap.ErrForeign) {
		// A deleted NodeSet of that name: its nodes, if they are these or not, run on with what they were given.
		saved, _, err = trackmap.Decode(stored.Objects, "")
		current, s.memory.Inherited = map[string]fleet.Version{}, true
	}
	switch {
	case err == nil:
		s.sequence = saved.Sequence
		if t.lost {
			s.memory.Lost = true
			break
		}
		s.memory.Book, s.memory.Current = saved.Book, current
		for _, entry := range saved.Settled {
			_, name, _ := strings.Cut(entry, "/")
			uid := types.UID(uidOf(entry))
			s.memory.Settled[uid], s.released[uid] = name, true
		}
	case errors.Is(err, trackmap.ErrAbsent):
		// A NodeSet whose status we once wrote had a record: somebody deleted it.
		s.memory.Lost = nodeSet.Status.SecretDeployment != nil
	case store.IsLost(err):
		log.FromContext(ctx).Error(err, "The stored record cannot be read; it is set aside and found out anew")
		s.memory.Lost = true
		if s.aside, err = t.store.SetAside(ctx, client.ObjectKeyFromObject(nodeSet), stored); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("NodeSet %s: %w", nodeSet.Name, err)
	}
	return s, nil
}

// gather collects the world as the NodeSet's judgement sees it.
func (t *Tracker) gather(ctx context.Context, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, s *state) (upstream.World, error) {
	cached := &scene{}
	for _, list := range []client.ObjectList{&cached.deployments, &cached.services, &cached.jobs} {
		if err := t.options.Client.List(ctx, list, client.InNamespace(nodeSet.Namespace)); err != nil {
			return upstream.World{}, fmt.Errorf("listing: %w", err)
		}
	}
	world := t.worldOf(nodeSet, s.memory, cached)
	t.mutex.Lock()
	for _, name := range world.Interest() {
		s.interest[name] = true
	}
	t.mutex.Unlock()
	return world, t.readEnvironments(ctx, &world)
}

// view puts copies of the journal into the world, which nobody changes.
func (t *Tracker) view(world *upstream.World) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	journal := t.journal(world.NodeSet.Namespace)
	world.Pods, world.Secrets, world.SharedRevisions = maps.Clone(journal.Pods), maps.Clone(journal.Secrets), t.shared
}

// readEnvironments reads the ConfigMaps that unsettled runs take variables from.
func (t *Tracker) readEnvironments(ctx context.Context, world *upstream.World) error {
	for _, name := range world.EnvironmentsToRead() {
		var cm corev1.ConfigMap
		err := t.options.Live.Get(ctx, client.ObjectKey{Namespace: world.NodeSet.Namespace, Name: name}, &cm)
		switch {
		case err == nil:
			world.Environments[name] = upstream.Environment{Data: cm.Data}
		case apierrors.IsNotFound(err):
			world.Environments[name] = upstream.Environment{}
		case apierrors.IsForbidden(err):
			world.Environments[name] = upstream.Environment{Err: err}
		default:
			return fmt.Errorf("reading ConfigMap %s: %w", name, err)
		}
	}
	return nil
}

// readSecrets reads, one by one, the Secrets whose content is not known as of now. Ahead tells that a read was ahead
// of the watch, which has to tell what came before it first. One that cannot be read hinders no other.
func (t *Tracker) readSecrets(ctx context.Context, world *upstream.World) (ahead bool, unread error) {
	for _, name := range world.Reads() {
		t.mutex.Lock()
		turn := t.journal(world.NodeSet.Namespace).Turn()
		t.mutex.Unlock()
		var secret corev1.Secret
		err := t.options.Live.Get(ctx, client.ObjectKey{Namespace: world.NodeSet.Namespace, Name: name}, &secret)
		if err != nil && !apierrors.IsNotFound(err) {
			unread = errors.Join(unread, fmt.Errorf("reading Secret %s: %w", name, err))
			continue
		}
		t.mutex.Lock()
		if err != nil {
			t.journal(world.NodeSet.Namespace).SecretAbsent(name, turn)
		} else if !t.journal(world.NodeSet.Namespace).SecretRead(&secret, turn) {
			ahead = true
		}
		t.mutex.Unlock()
	}
	t.view(world)
	return ahead, unread
}

// confirm lists what belongs to the Deployments that seem to have nothing more to tell. Unseen tells that there is a pod of
// which the watch has not told yet as it is now.
func (t *Tracker) confirm(ctx context.Context, world *upstream.World) (unseen bool, err error) {
	for _, uid := range world.Settling() {
		deployment, jobs, pods := world.Deployments[uid], batchv1.JobList{}, corev1.PodList{}
		of := client.MatchingLabels{upstream.LabelApp: upstream.AppValue, upstream.LabelDeployment: deployment.Name}
		for _, list := range []client.ObjectList{&jobs, &pods} {
			if err := t.options.Live.List(ctx, list, client.InNamespace(deployment.Namespace), of); err != nil {
				return unseen, fmt.Errorf("listing what Deployment %s did: %w", deployment.Name, err)
			}
		}
		for i := range jobs.Items {
			world.Jobs[jobs.Items[i].UID] = &jobs.Items[i]
		}
		isNew := func(pod corev1.Pod) bool { return !world.HasSeen(&pod) }
		world.Confirmed[uid] = !slices.ContainsFunc(pods.Items, isNew)
		unseen = unseen || !world.Confirmed[uid]
	}
	return unseen, nil
}

// judge lets the pure rooms work and stores what they found, if anything changed.
func (t *Tracker) judge(ctx context.Context, s *state, world upstream.World) (verdict.Drift, error) {
	t.mutex.Lock()
	position := t.position()
	t.mutex.Unlock()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	drift := s.memory.Advance(world, time.Now())
	saved := trackmap.State{
		NodeSetUID: string(s.uid), Sequence: s.sequence, Book: s.memory.Book, Settled: settledEntries(s.memory.Settled),
		AsOf: position, Shards: shardsOf(s.stored),
	}
	unchanged, err := sameAsStored(saved, drift, s.stored)
	if err != nil || unchanged {
		return drift, err
	}
	saved.Sequence++
	objects, err := trackmap.Encode(saved, drift)
	if err != nil {
		return drift, fmt.Errorf("NodeSet %s: %w", world.NodeSet.Name, err)
	}
	stored, err := t.store.Save(ctx, client.ObjectKeyFromObject(world.NodeSet), objects, s.stored)
	s.stored = stored
	if err != nil {
		return drift, err
	}
	s.sequence = saved.Sequence
	t.tellJudged(world.NodeSet.Namespace, "")
	return drift, nil
}

func settledEntries(settled map[types.UID]string) []string {
	var entries []string
	for uid, name := range settled {
		entries = append(entries, string(uid)+"/"+name)
	}
	slices.Sort(entries)
	return entries
}

// uidOf gives the UID of an entry that settledEntries made.
func uidOf(entry string) string {
	uid, _, _ := strings.Cut(entry, "/")
	return uid
}

func shardsOf(stored store.Stored) map[string]string {
	shards, err := trackmap.Shards(stored.Objects[""])
	if err != nil {
		return nil
	}
	return shards
}

// sameAsStored tells whether the text would say what is stored already, up to how far the watches are.
func sameAsStored(s trackmap.State, drift verdict.Drift, stored store.Stored) (bool, error) {
	if stored.Version() == "" {
		return false, nil
	}
	asOf, err := trackmap.Position(stored.Objects[""])
	if err != nil {
		return false, nil
	}
	s.AsOf = asOf
	objects, err := trackmap.Encode(s, drift)
	if err != nil {
		return false, err
	}
	return maps.EqualFunc(objects, stored.Objects, maps.Equal), nil
}

// release lets go of the Deployments whose evidence is stored: those that are settled, and those that somebody has deleted.
func (t *Tracker) release(s *state, world upstream.World) {
	for _, uid := range world.Touching() {
		deployment := world.Deployments[uid]
		_, settled := s.memory.Settled[uid]
		if !settled && (deployment.DeletionTimestamp == nil || !world.Confirmed[uid]) {
			continue
		}
		t.mutex.Lock()
		s.released[uid] = true
		t.mutex.Unlock()
		if controllerutil.ContainsFinalizer(deployment, rotationv1.EvidenceFinalizer) {
			t.settled <- event.TypedGenericEvent[*dataplanev1.OpenStackDataPlaneDeployment]{Object: deployment}
		}
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	maps.DeleteFunc(s.released, func(uid types.UID, _ bool) bool { return world.Deployments[uid] == nil })
	t.journal(world.NodeSet.Namespace).ForgetPods(func(pod upstream.Pod) bool { return t.isRecorded(pod, world) })
}

// isRecorded notes that the NodeSet's book has what there is to know of a pod that is gone, and tells whether the
// books of all NodeSets that it worked for have. The mutex is held.
func (t *Tracker) isRecorded(pod upstream.Pod, world upstream.World) bool {
	if !pod.Gone || world.Pods[pod.Object.UID].Ended != pod.Ended {
		return false
	}
	uid := pod.Object.UID
	if t.recorded[uid] == nil {
		t.recorded[uid] = map[string]bool{}
	}
	t.recorded[uid][world.NodeSet.Name] = true
	for _, name := range nodeSetsOf(pod.Object.Spec.Volumes) {
		if t.states[types.NamespacedName{Namespace: world.NodeSet.Namespace, Name: name}] != nil && !t.recorded[uid][name] {
			return false
		}
	}
	delete(t.recorded, uid)
	return true
}
