package tracking

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rotation-operator/rotation-operator/internal/upstream"
)

// TestRewound: the API server was restored from an older state. Each feed finds that out by itself, one after the other:
// what the first has listed anew must outlive the second's finding, and every NodeSet has to be looked at again.
func TestRewound(t *testing.T) {
	tracker := NewTracker(Options{})
	key := types.NamespacedName{Namespace: "openstack", Name: "edpm"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: "nova-edpm", UID: "1", ResourceVersion: "7", Labels: map[string]string{upstream.LabelApp: upstream.AppValue},
	}}
	pods := podSink{tracker, &progress{}, metav1.NamespaceAll}
	secrets := secretSink{tracker, &progress{}, metav1.NamespaceAll}
	pods.seen(pod, 0, false)
	for _, s := range []sink{pods, secrets} {
		tracker.states[key] = &state{} // as after a look between the two
		s.rewound()
		if len(tracker.states) != 0 || !tracker.lost {
			t.Errorf("%T: the books are still there", s)
		}
		select {
		case event := <-tracker.changed:
			if event.Object.GetNamespace() != key.Namespace || event.Object.GetName() != key.Name {
				t.Errorf("%T: %s is looked at", s, event.Object.GetName())
			}
		default:
			t.Errorf("%T: nobody looks at %s again", s, key.Name)
		}
		if s == sink(pods) {
			if len(tracker.journals[key.Namespace].Pods) != 0 {
				t.Error("pods of another history are still there")
			}
			pods.seen(pod, 0, false)
		}
	}
	if len(tracker.journals[key.Namespace].Pods) != 1 {
		t.Error("the pods that were listed anew are lost")
	}
}
