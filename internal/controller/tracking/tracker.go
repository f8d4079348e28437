// Package tracking keeps, for every NodeSet, the record of what its nodes run: it brings what watches tell into
// journals, has the pure rooms judge, stores the result and then says it in the NodeSet and its SecretRollout.
package tracking

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/store"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
)

// Options set a Tracker up.
type Options struct {
	// Client reads NodeSets, Deployments, Services and Jobs from the manager's cache, and writes.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// Watch lists and watches pods, and Secrets without their content.
	Watch client.WithWatch
	// Namespaces are those to look at; none means all.
	Namespaces []string
	// Margin is how long before a pod's creation a kubelet may still have served the older content of a Secret.
	Margin time.Duration
	// Judged, if there is one, is told of each namespace in which something came out differently, and of each Secret
	// that was written.
	Judged func(namespace, secret string)
}

// Tracker holds what is known between reconciles.
type Tracker struct {
	options Options
	store   store.Store
	// changed tells the NodeSet reconciler whom something concerns; settled tells the Deployment reconciler.
	changed chan event.TypedGenericEvent[*dataplanev1.OpenStackDataPlaneNodeSet]
	settled chan event.TypedGenericEvent[*dataplanev1.OpenStackDataPlaneDeployment]

	mutex    sync.Mutex
	journals map[string]*upstream.Journal
	// identify are the guards' questions, by namespace.
	identify map[string]upstream.Identify
	states   map[types.NamespacedName]*state
	// recorded are the NodeSets whose books have all there is to know of pods that are gone.
	recorded map[types.UID]map[string]bool
	feeds    []*progress
	ready    chan struct{}
	// departed are namespaces in which something may be stored of NodeSets that do not exist any more.
	departed map[string]bool
	// shared says that revisions of Secrets and pods come from one counter.
	shared bool
	// lost says that the API server went back to an older state, so that stored books speak of another history.
	lost bool
}

// state is what is known of one NodeSet.
type state struct {
	uid types.UID
	// mutex is held while the memory is advanced or copied.
	mutex    sync.Mutex
	memory   *upstream.Memory
	sequence int64
	stored   store.Stored
	// interest are the Secrets that the NodeSet's judgement rests on.
	interest map[string]bool
	// released are the Deployments whose evidence is stored, so that they may go.
	released map[types.UID]bool
	// aside names the ConfigMap with what could not be read, if that happened.
	aside string
}

// progress is how far one feed is.
type progress struct {
	position uint64
	caughtUp bool
}

// NewTracker makes a tracker that knows nothing yet.
func NewTracker(options Options) *Tracker {
	return &Tracker{
		options: options, store: store.Store{Client: options.Client, Reader: options.Live},
		changed:  make(chan event.TypedGenericEvent[*dataplanev1.OpenStackDataPlaneNodeSet], 1024),
		settled:  make(chan event.TypedGenericEvent[*dataplanev1.OpenStackDataPlaneDeployment], 1024),
		journals: map[string]*upstream.Journal{}, states: map[types.NamespacedName]*state{}, identify: map[string]upstream.Identify{},
		departed: map[string]bool{}, recorded: map[types.UID]map[string]bool{}, ready: make(chan struct{}),
	}
}

// Start brings the feeds up and keeps them going until the context ends; see manager.Runnable.
func (t *Tracker) Start(ctx context.Context) error {
	namespaces := t.options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	shared, err := t.revisionsAreShared(ctx, namespaces[0])
	if err != nil {
		return err
	}
	var feeds []*feed
	for _, namespace := range namespaces {
		position := uint64(0)
		if shared {
			if position, err = t.resumeFrom(ctx, namespace); err != nil {
				return err
			}
		}
		pods, secrets := &progress{}, &progress{}
		feeds = append(feeds,
			&feed{client: t.options.Watch, namespace: namespace, selector: client.MatchingLabels{upstream.LabelApp: upstream.AppValue},
				newList: podList, position: position, sink: podSink{t, pods, namespace}},
			&feed{client: t.options.Watch, namespace: namespace, selector: client.MatchingLabels{},
				newList: secretList, position: position, sink: secretSink{t, secrets, namespace}})
		t.mutex.Lock()
		t.shared, t.feeds = shared, append(t.feeds, pods, secrets)
		t.mutex.Unlock()
	}
	var group sync.WaitGroup
	for _, f := range feeds {
		group.Go(func() { f.run(ctx) })
	}
	group.Wait()
	return nil
}

// resumeFrom gives the revision from which everything has to be told again: where the books of the namespace end,
// the earliest of them. Those of deleted NodeSets do not count.
func (t *Tracker) resumeFrom(ctx context.Context, namespace string) (uint64, error) {
	records, err := t.store.Records(ctx, namespace)
	if err != nil {
		return 0, err
	}
	nodeSets := &metav1.PartialObjectMetadataList{}
	nodeSets.SetGroupVersionKind(dataplanev1.GroupVersion.WithKind("OpenStackDataPlaneNodeSetList"))
	if err := t.options.Live.List(ctx, nodeSets, client.InNamespace(namespace)); err != nil {
		return 0, fmt.Errorf("listing NodeSets: %w", err)
	}
	there := map[types.NamespacedName]bool{}
	for i := range nodeSets.Items {
		there[client.ObjectKeyFromObject(&nodeSets.Items[i])] = true
	}
	earliest := uint64(0)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, record := range records {
		if !there[record.NodeSet] {
			t.departed[record.NodeSet.Namespace] = true
		}
		if there[record.NodeSet] && record.Position != 0 && (earliest == 0 || record.Position < earliest) {
			earliest = record.Position
		}
	}
	return earliest, nil
}

// revisionsAreShared finds out whether pods and Secrets count their revisions together. The API promises that only
// within one kind, and an API server may keep Secrets in an etcd of their own. A list of Secrets between two of pods
// lies between them if there is one counter.
func (t *Tracker) revisionsAreShared(ctx context.Context, namespace string) (bool, error) {
	var revisions []uint64
	for _, list := range []client.ObjectList{podList(), secretList(), podList()} {
		if err := t.options.Watch.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
			return false, fmt.Errorf("comparing revisions: %w", err)
		}
		revisions = append(revisions, upstream.Revision(list.GetResourceVersion()))
	}
	return revisions[0] != 0 && slices.IsSorted(revisions), nil
}

// Ready closes once the feeds have caught up for the first time: nothing is judged before that.
func (t *Tracker) Ready() <-chan struct{} { return t.ready }

func (t *Tracker) journal(namespace string) *upstream.Journal {
	if t.journals[namespace] == nil {
		t.journals[namespace] = upstream.NewJournal()
		t.journals[namespace].Identify = t.identify[namespace]
	}
	return t.journals[namespace]
}

// position is the revision up to which every feed has brought everything; 0 where revisions do not compare.
func (t *Tracker) position() uint64 {
	lowest := uint64(0)
	for _, p := range t.feeds {
		if lowest == 0 || p.position < lowest {
			lowest = p.position
		}
	}
	if !t.shared {
		return 0
	}
	return lowest
}

func (t *Tracker) advanced(p *progress, position uint64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	p.position, p.caughtUp = max(p.position, position), true
	for _, other := range t.feeds {
		if !other.caughtUp {
			return
		}
	}
	select {
	case <-t.ready:
	default:
		close(t.ready)
	}
}

// forgetAll drops every book: what the API server says belongs to another history now. Of the journals it drops what one
// feed has brought; the other feed finds out by itself, sooner or later, and what it has listed since is of now.
func (t *Tracker) forgetAll(drop func(*upstream.Journal)) {
	t.mutex.Lock()
	t.lost = true
	for _, journal := range t.journals {
		drop(journal)
	}
	keys := slices.Collect(maps.Keys(t.states))
	t.states = map[types.NamespacedName]*state{}
	t.mutex.Unlock()
	for _, key := range keys {
		t.concern(key.Namespace, key.Name)
	}
}

// concern tells the reconciler of NodeSets.
func (t *Tracker) concern(namespace string, names ...string) {
	for _, name := range names {
		t.changed <- event.TypedGenericEvent[*dataplanev1.OpenStackDataPlaneNodeSet]{
			Object: &dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		}
	}
}

// podSink takes pods.
type podSink struct {
	*Tracker
	*progress
	namespace string
}

func (s podSink) seen(object client.Object, began uint64, gone bool) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	s.mutex.Lock()
	s.journal(pod.Namespace).PodSeen(pod, began, gone)
	s.mutex.Unlock()
	s.concern(pod.Namespace, nodeSetsOf(pod.Spec.Volumes)...)
}

func (s podSink) listed(objects []client.Object, since uint64) {
	byNamespace := map[string][]corev1.Pod{}
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			byNamespace[pod.Namespace] = append(byNamespace[pod.Namespace], *pod)
		}
	}
	s.mutex.Lock()
	for namespace := range s.journals {
		if _, ok := byNamespace[namespace]; !ok && (s.namespace == namespace || s.namespace == metav1.NamespaceAll) {
			byNamespace[namespace] = nil
		}
	}
	for namespace, pods := range byNamespace {
		s.journal(namespace).PodsListed(pods, since)
	}
	s.mutex.Unlock()
	s.concernAll()
}

func (s podSink) caughtUp(position uint64) { s.advanced(s.progress, position) }
func (s podSink) rewound() {
	s.forgetAll(func(j *upstream.Journal) { j.Pods = map[types.UID]upstream.Pod{} })
}

// secretSink takes Secrets, without their content.
type secretSink struct {
	*Tracker
	*progress
	namespace string
}

func (s secretSink) seen(object client.Object, _ uint64, gone bool) {
	s.mutex.Lock()
	s.journal(object.GetNamespace()).SecretWritten(object, gone)
	var names []string
	for key, state := range s.states {
		if key.Namespace == object.GetNamespace() && (state.interest[object.GetName()] || upstream.IsCertFor(object, key.Name)) {
			names = append(names, key.Name)
		}
	}
	s.mutex.Unlock()
	s.concern(object.GetNamespace(), names...)
	s.tellJudged(object.GetNamespace(), object.GetName())
}

func (s secretSink) listed(objects []client.Object, _ uint64) {
	byNamespace := map[string][]metav1.Object{}
	for _, object := range objects {
		byNamespace[object.GetNamespace()] = append(byNamespace[object.GetNamespace()], object)
	}
	s.mutex.Lock()
	for namespace := range s.journals {
		if _, ok := byNamespace[namespace]; !ok && (s.namespace == namespace || s.namespace == metav1.NamespaceAll) {
			byNamespace[namespace] = nil
		}
	}
	for namespace, list := range byNamespace {
		s.journal(namespace).SecretsListed(list)
	}
	s.mutex.Unlock()
	s.concernAll()
}

func (s secretSink) caughtUp(position uint64) { s.advanced(s.progress, position) }
func (s secretSink) rewound() {
	s.forgetAll(func(j *upstream.Journal) { j.Secrets = map[string]upstream.Secret{} })
}

func (t *Tracker) concernAll() {
	t.mutex.Lock()
	keys := make([]types.NamespacedName, 0, len(t.states))
	for key := range t.states {
		keys = append(keys, key)
	}
	t.mutex.Unlock()
	for _, key := range keys {
		t.concern(key.Namespace, key.Name)
	}
}

// nodeSetsOf names the NodeSets whose inventories are among the volumes of a pod or Job.
func nodeSetsOf(volumes []corev1.Volume) []string {
	var names []string
	for _, volume := range volumes {
		if volume.Secret == nil {
			continue
		}
		if name, ok := strings.CutPrefix(volume.Secret.SecretName, upstream.InventoryPrefix); ok {
			names = append(names, name)
		}
	}
	return names
}
