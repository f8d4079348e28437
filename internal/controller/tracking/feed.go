package tracking

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rotation-operator/rotation-operator/internal/upstream"
)

// feed brings one kind's objects of one namespace (all of them for "") into the journals, event by event. An informer
// would not do: it merges events and starts from a list, while the order of a pod's creation and a Secret's change
// decides what the pod mounted. A feed goes on from the revision where the last process stopped, as long as the
// API server remembers it.
type feed struct {
	client    client.WithWatch
	namespace string
	selector  client.ListOption
	newList   func() client.ObjectList
	// sink takes what the feed brings.
	sink sink
	// position is the revision up to which everything was brought, 0 for none.
	position uint64
	// complete says that this process was told of everything that there was at the position.
	complete bool
}

// sink is where a feed's objects go. Began is the revision of the object's creation for an event of just that.
type sink interface {
	seen(object client.Object, began uint64, gone bool)
	// listed brings all objects there are, after a time in which no watch told of anything. Since is the revision up
	// to which everything had been brought, 0 where nothing had.
	listed(objects []client.Object, since uint64)
	// caughtUp is called again and again once everything up to the position was brought.
	caughtUp(position uint64)
	// rewound says that the API server's revisions went back: it was restored from an older state.
	rewound()
}

// retryAfter spaces attempts to list or watch that failed.
const retryAfter = time.Second

// run brings objects until the context ends.
func (f *feed) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.once(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		log.FromContext(ctx).Error(err, "Watch failed, trying again", "kind", fmt.Sprintf("%T", f.newList()))
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// once lists, goes on watching from the known position if there is one, and returns when the watch ends.
func (f *feed) once(ctx context.Context) error {
	objects, revision, err := f.list(ctx)
	if err != nil {
		return err
	}
	if f.position > revision {
		f.position = 0
		f.sink.rewound()
	}
	if f.position != 0 {
		for _, object := range objects {
			if upstream.Revision(object.GetResourceVersion()) <= f.position {
				f.sink.seen(object, 0, false)
			}
		}
		expired, err := f.watch(ctx, f.position, behind(objects, f.position))
		if !expired {
			return err
		}
		log.FromContext(ctx).Info("The API server no longer remembers where the watch stopped; something may have been missed", "revision", f.position)
	}
	since := uint64(0)
	if f.complete {
		since = f.position
	}
	f.sink.listed(objects, since)
	f.complete = true
	f.advance(revision)
	_, err = f.watch(ctx, revision, nil)
	return err
}

// behind gives the revisions of listed objects that a watch from the position is still to bring.
func behind(objects []client.Object, position uint64) map[string]uint64 {
	awaited := map[string]uint64{}
	for _, object := range objects {
		if revision := upstream.Revision(object.GetResourceVersion()); revision > position {
			awaited[string(object.GetUID())] = revision
		}
	}
	return awaited
}

func (f *feed) list(ctx context.Context) ([]client.Object, uint64, error) {
	list := f.newList()
	if err := f.client.List(ctx, list, client.InNamespace(f.namespace), f.selector); err != nil {
		return nil, 0, fmt.Errorf("listing: %w", err)
	}
	var objects []client.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("unexpected item %T in a list", item)
		}
		objects = append(objects, object)
		return nil
	})
	return objects, upstream.Revision(list.GetResourceVersion()), err
}

// watch brings events from the position on. Awaited are the revisions, by UID, that must have come before the feed
// has caught up with its list. Expired says that the API server no longer remembers the position.
func (f *feed) watch(ctx context.Context, from uint64, awaited map[string]uint64) (expired bool, err error) {
	watcher, err := f.client.Watch(ctx, f.newList(), client.InNamespace(f.namespace), f.selector,
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: fmt.Sprint(from), AllowWatchBookmarks: true}})
	if err != nil {
		return apierrors.IsResourceExpired(err) || apierrors.IsGone(err), err
	}
	defer watcher.Stop()
	if len(awaited) == 0 {
		f.complete = true
		f.sink.caughtUp(from)
	}
	for event := range watcher.ResultChan() {
		if event.Type == watch.Error {
			err := apierrors.FromObject(event.Object)
			return apierrors.IsResourceExpired(err) || apierrors.IsGone(err), err
		}
		object, ok := event.Object.(client.Object)
		if !ok {
			return false, errors.New("a watch brought something that is no object")
		}
		revision := upstream.Revision(object.GetResourceVersion())
		if event.Type != watch.Bookmark {
			began := uint64(0)
			if event.Type == watch.Added {
				began = revision
			}
			f.sink.seen(object, began, event.Type == watch.Deleted)
		}
		f.advance(revision)
		if want, ok := awaited[string(object.GetUID())]; ok && revision >= want {
			delete(awaited, string(object.GetUID()))
		}
		if len(awaited) == 0 {
			f.complete = true
			f.sink.caughtUp(revision)
		}
	}
	return false, nil
}

func (f *feed) advance(revision uint64) { f.position = max(f.position, revision) }

// podList and secretList are what the feeds watch: pods whole, Secrets without their content.
func podList() client.ObjectList { return &corev1.PodList{} }

func secretList() client.ObjectList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	return list
}
