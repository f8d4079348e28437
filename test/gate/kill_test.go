// Package gate tries the deletion gate with the operator killed around every call that it makes, and with each of its
// rights taken away.
package gate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/controller/guard"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/executor"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
	"github.com/rotation-operator/rotation-operator/internal/operator"
	"github.com/rotation-operator/rotation-operator/internal/store"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	testplane.Main(m)
}

// patience bounds how long one thing is waited for; a test that passes does not use it up.
const patience = time.Minute

// fault ends an operator at one of its calls: before the API server sees it, or after it has done it.
type fault struct {
	at     int
	before bool
}

// wire counts an operator's calls, watches left out, and cuts it off at the fault.
type wire struct {
	fault fault
	to    http.RoundTripper
	calls *atomic.Int64
	cut   atomic.Bool
	// died is called once, at the fault, with the call that it happened at.
	died func(call string)
}

var errCut = errors.New("the operator was killed")

func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		return nil, errCut
	}
	if request.URL.Query().Get("watch") == "true" || w.calls.Add(1) != int64(w.fault.at) {
		return w.to.RoundTrip(request)
	}
	w.cut.Store(true)
	if !w.fault.before {
		if response, err := w.to.RoundTrip(request); err == nil {
			response.Body.Close()
		}
	}
	w.died(request.Method + " " + request.URL.Path)
	return nil, errCut
}

// process is an operator in this process that dies at the fault and is then started again.
type process struct {
	stop context.CancelFunc
	done sync.WaitGroup
	// at is the call at which it died, empty if it never did.
	at atomic.Value
	// calls counts those of its first life.
	calls atomic.Int64
}

// start runs the operator with exactly its own rights.
func start(t testing.TB, namespace string, f fault) *process {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p := &process{stop: stop}
	p.at.Store("")
	life, die := context.WithCancel(ctx)
	run := func(ctx context.Context, wrap func(http.RoundTripper) http.RoundTripper) error {
		config := rest.CopyConfig(testplane.Plane(t).Admin())
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":rotation-operator"}
		config.WrapTransport = wrap
		return operator.Run(ctx, config, operator.Options{Namespaces: []string{namespace}, MetricsAddress: "0", HealthAddress: "0"})
	}
	p.done.Go(func() {
		err := run(life, func(to http.RoundTripper) http.RoundTripper {
			return &wire{fault: f, to: to, calls: &p.calls, died: func(call string) { p.at.Store(call); die() }}
		})
		if ctx.Err() != nil {
			return
		}
		if life.Err() == nil {
			t.Errorf("the operator ended by itself: %v", err)
			return
		}
		if err := run(ctx, nil); err != nil && ctx.Err() == nil {
			t.Errorf("the operator that was started again ended by itself: %v", err)
		}
	})
	return p
}

func (p *process) end() { p.stop(); p.done.Wait() }

var userKind = schema.GroupVersionKind{Group: "rabbitmq.openstack.org", Version: "v1beta1", Kind: "RabbitMQUser"}

// story is one rotation in a namespace of its own.
type story struct {
	t   testing.TB
	c   client.WithWatch
	bed *testbed.Testbed
	// isOff is set before the run begins that takes user7 off the last node.
	isOff atomic.Bool
	// patience bounds how long one thing is waited for.
	patience time.Duration
}

func newStory(t testing.TB) *story {
	t.Helper()
	bed, err := testbed.New(t.Context(), testbed.Options{ControlPlane: testplane.Plane(t), Namespace: "gate-", Dir: t.TempDir(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Close)
	return &story{t: t, c: testplane.Client(t), bed: bed, patience: patience}
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) write(user string) {
	s.t.Helper()
	_, err := s.bed.SetSecret(s.t.Context(), "nova-cell1-compute-config", map[string]string{
		"01-nova.conf": "[DEFAULT]\ntransport_url=rabbit://" + user + ":pw@rabbitmq:5671/\n"})
	s.must(err)
}

func (s *story) deploy(name, limit string) {
	s.t.Helper()
	s.must(s.bed.Deploy(s.t.Context(), testbed.Deployment{Name: name, NodeSets: []string{"edpm"}, Limit: limit}, []executor.Outcome{{Succeeded: true}}))
}

// until waits for something about an object; a missing object is nil.
func (s *story) until(what string, object client.Object, name string, is func(there bool) bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 10*time.Millisecond, s.patience, true, func(ctx context.Context) (bool, error) {
		err := s.c.Get(ctx, client.ObjectKey{Namespace: s.bed.Namespace(), Name: name}, object)
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
		return is(err == nil), nil
	})
	if err != nil {
		s.t.Fatalf("%s: %v: %+v", what, err, object)
	}
}

func (s *story) user(name string) *unstructured.Unstructured {
	user := &unstructured.Unstructured{}
	user.SetGroupVersionKind(userKind)
	user.SetNamespace(s.bed.Namespace())
	user.SetName(name)
	return user
}

func (s *story) isMarked(name string) {
	s.t.Helper()
	user := s.user(name)
	s.until(name+" gets its finalizer", user, name, func(bool) bool {
		return controllerutil.ContainsFinalizer(user, rotationv1.CredentialFinalizer) && user.GetAnnotations()[rotationv1.HeldAnnotation] != ""
	})
}

// verdict waits until the hold of a user says that.
func (s *story) verdict(user string, want rotationv1.HoldVerdict, reason string) {
	s.t.Helper()
	s.verdictOf("rabbitmquser", user, want, reason)
}

func (s *story) verdictOf(guardName, user string, want rotationv1.HoldVerdict, reason string) {
	s.t.Helper()
	hold := &rotationv1.CredentialHold{}
	s.until(fmt.Sprintf("%s is %s, %s", user, want, reason), hold, guard.HoldName(guardName, user), func(bool) bool {
		return hold.Status.Verdict == want && hold.Status.Reason == reason
	})
}

// stays fails if user7 is gone.
func (s *story) stays(when string) {
	s.t.Helper()
	user := s.user("user7")
	if err := s.c.Get(s.t.Context(), client.ObjectKeyFromObject(user), user); err != nil {
		s.t.Fatalf("user7 %s: %v", when, err)
	}
}

// tell plays the rotation; user7 is deleted while a node still runs it. Nothing may be lost or stuck.
func (s *story) tell() {
	t, ctx := s.t, s.t.Context()
	t.Helper()
	s.write("user7")
	s.must(s.bed.CreateService(ctx, "nova", []string{"nova-cell1-compute-config"}, "", false))
	s.must(s.bed.CreateNodeSet(ctx, "edpm", []string{"compute-0", "compute-1"}, []string{"nova"}))
	s.must(s.bed.CreateGuard(ctx, "rabbitmquser"))
	for _, user := range []string{"user7", "user8"} {
		s.must(s.bed.CreateCredential(ctx, "rabbitmquser", user))
	}
	s.isMarked("user7")
	s.isMarked("user8")
	s.application()
	s.deploy("initial", "")
	s.verdict("user7", rotationv1.VerdictHeld, "StillInCluster")
	s.write("user8")
	s.halfway()
	s.verdict("user7", rotationv1.VerdictHeld, "NodesBehind")
	s.must(s.c.Delete(ctx, s.user("user7")))
	s.stays("while compute-1 runs it")
	s.isOff.Store(true)
	s.deploy("second", "")
	s.until("user7 goes", s.user("user7"), "user7", func(there bool) bool { return !there })
	s.until("its hold goes", &rotationv1.CredentialHold{}, guard.HoldName("rabbitmquser", "user7"), func(there bool) bool { return !there })
	s.verdict("user8", rotationv1.VerdictHeld, "StillInCluster")

	rollout := &rotationv1.SecretRollout{}
	s.until("the rollout is told", rollout, "edpm", func(bool) bool { return rollout.Status.UpdatedNodes == 2 })
	nodeSet := &dataplanev1.OpenStackDataPlaneNodeSet{}
	s.until("the NodeSet has the numbers", nodeSet, "edpm", func(bool) bool {
		return nodeSet.Status.SecretDeployment != nil && nodeSet.Status.SecretDeployment.UpdatedNodes == 2
	})
	s.leave()
}

// leave takes the NodeSet away, whose record stays while a guard is there, and then the guards.
func (s *story) leave() {
	t, ctx := s.t, s.t.Context()
	t.Helper()
	s.must(s.bed.Delete(ctx, dataplanev1.GroupVersion.WithKind("OpenStackDataPlaneNodeSet"), "edpm"))
	declared := &rotationv1.CredentialGuard{ObjectMeta: metav1.ObjectMeta{Namespace: s.bed.Namespace(), Name: "rabbitmquser"}}
	s.setWaitingUsers(declared)
	other := &rotationv1.CredentialGuard{ObjectMeta: metav1.ObjectMeta{Namespace: s.bed.Namespace(), Name: "keystoneapplicationcredential"}}
	s.must(s.c.Delete(ctx, other))
	s.must(s.c.Get(ctx, client.ObjectKey{Namespace: s.bed.Namespace(), Name: store.ConfigMapName("edpm")}, &corev1.ConfigMap{}))
	s.must(s.c.Delete(ctx, declared))
	s.until("the guard goes", declared, declared.Name, func(there bool) bool { return !there })
	user8 := s.user("user8")
	s.must(s.c.Get(ctx, client.ObjectKeyFromObject(user8), user8))
	if controllerutil.ContainsFinalizer(user8, rotationv1.CredentialFinalizer) || len(user8.GetAnnotations()) > 0 {
		t.Errorf("user8 keeps what the guard put on it: %v", user8.Object["metadata"])
	}
	var holds rotationv1.CredentialHoldList
	s.must(s.c.List(ctx, &holds, client.InNamespace(s.bed.Namespace())))
	if len(holds.Items) > 0 {
		t.Errorf("%d holds outlive the guard", len(holds.Items))
	}
	s.until("the record goes", &corev1.ConfigMap{}, store.ConfigMapName("edpm"), func(there bool) bool { return !there })
}

// told waits for the event that says that user7 may go, and one that came before, so that both had to be written.
func (s *story) told() {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 10*time.Millisecond, s.patience, true, func(ctx context.Context) (bool, error) {
		var events eventsv1.EventList
		err := s.c.List(ctx, &events, client.InNamespace(s.bed.Namespace()))
		reasons := map[string]bool{}
		for _, event := range events.Items {
			reasons[event.Regarding.Name+" "+event.Reason] = true
		}
		return reasons["user7 NodesBehind"] && reasons["user7 Safe"], err
	})
	if err != nil {
		s.t.Fatalf("there are no events about user7: %v", err)
	}
}

// halfway deploys one node, and sees that the Deployment is kept for as long as it has something to tell.
func (s *story) halfway() {
	s.t.Helper()
	ctx := s.t.Context()
	s.must(s.bed.Start(ctx, testbed.Deployment{Name: "first", NodeSets: []string{"edpm"}, Limit: "compute-0"}))
	deployment := &dataplanev1.OpenStackDataPlaneDeployment{}
	s.until("the Deployment is kept", deployment, "first", func(bool) bool {
		return controllerutil.ContainsFinalizer(deployment, rotationv1.EvidenceFinalizer)
	})
	s.must(s.bed.Finish(ctx, "first", executor.Outcome{Succeeded: true}))
	s.until("the Deployment is let go", deployment, "first", func(bool) bool {
		return !controllerutil.ContainsFinalizer(deployment, rotationv1.EvidenceFinalizer)
	})
}

// application lets an application credential go that is on no node.
func (s *story) application() {
	ctx := s.t.Context()
	s.must(s.bed.CreateGuard(ctx, "keystoneapplicationcredential"))
	s.must(s.bed.CreateCredential(ctx, "keystoneapplicationcredential", "ac"))
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "keystone.openstack.org", Version: "v1beta1", Kind: "KeystoneApplicationCredential"})
	s.until("ac gets its finalizer", object, "ac", func(bool) bool {
		return controllerutil.ContainsFinalizer(object, rotationv1.CredentialFinalizer)
	})
	s.verdictOf("keystoneapplicationcredential", "ac", rotationv1.VerdictUnknown, "NoIdentity")
	before := object.DeepCopy()
	s.must(unstructured.SetNestedField(object.Object, "4711", "status", "acID"))
	s.must(s.c.Status().Patch(ctx, object, client.MergeFrom(before)))
	s.verdictOf("keystoneapplicationcredential", "ac", rotationv1.VerdictSafe, "Safe")
	s.must(s.c.Delete(ctx, object))
	s.until("ac goes", object, "ac", func(there bool) bool { return !there })
}

// setWaitingUsers changes the guard, and waits until its holds have it.
func (s *story) setWaitingUsers(declared *rotationv1.CredentialGuard) {
	ctx := s.t.Context()
	s.must(s.c.Get(ctx, client.ObjectKeyFromObject(declared), declared))
	before := declared.DeepCopy()
	declared.Spec.WaitingUsers = []string{"somebody"}
	s.must(s.c.Patch(ctx, declared, client.MergeFrom(before)))
	hold := &rotationv1.CredentialHold{}
	s.until("the hold has the waiting users", hold, guard.HoldName("rabbitmquser", "user8"), func(bool) bool { return len(hold.Spec.WaitingUsers) == 1 })
}

// watchOver fails when user7 goes, or is called safe, before the run began that takes it off the last node.
func (s *story) watchOver() {
	users := &unstructured.UnstructuredList{}
	users.SetGroupVersionKind(userKind.GroupVersion().WithKind("RabbitMQUserList"))
	var watchers sync.WaitGroup
	var stops []func()
	for _, list := range []client.ObjectList{users, &rotationv1.CredentialHoldList{}} {
		watch, err := s.c.Watch(s.t.Context(), list, client.InNamespace(s.bed.Namespace()))
		s.must(err)
		stops = append(stops, watch.Stop)
		watchers.Go(func() {
			for event := range watch.ResultChan() {
				isOff := s.isOff.Load()
				switch object := event.Object.(type) {
				case *unstructured.Unstructured:
					if event.Type == apiwatch.Deleted && object.GetName() == "user7" && !isOff {
						s.t.Error("user7 went while compute-1 ran it")
					}
				case *rotationv1.CredentialHold:
					if object.Status.Identity == "user7" && object.Status.Verdict == rotationv1.VerdictSafe && !isOff {
						s.t.Errorf("user7 was called safe while it was in use: %s", object.Status.Message)
					}
				}
			}
		})
	}
	s.t.Cleanup(func() {
		for _, stop := range stops {
			stop()
		}
		watchers.Wait()
	})
}

// TestKilledAroundEveryCall kills the operator right before and right after each call that it makes in a rotation, and
// starts it again: user7 never goes too early, and everything goes in the end. By default it takes some of the calls;
// with ROTATION_DEEP=1 every one.
func TestKilledAroundEveryCall(t *testing.T) {
	var plain atomic.Int64
	t.Run("not killed", func(t *testing.T) { plain.Store(int64(play(t, fault{}))) })
	calls := int(plain.Load())
	if calls < 40 {
		t.Fatalf("only %d calls", calls)
	}
	const some = 14
	step := max(calls/some, 1)
	if os.Getenv("ROTATION_DEEP") == "1" {
		step = 1
	}
	var died atomic.Int64
	t.Run("", func(t *testing.T) {
		for at := 1 + rand.IntN(step); at <= calls; at += step {
			for _, before := range []bool{true, false} {
				t.Run(fmt.Sprintf("call %d before %t", at, before), func(t *testing.T) {
					t.Parallel()
					if play(t, fault{at, before}) < 0 {
						died.Add(1)
					}
				})
			}
		}
	})
	fmt.Fprintf(os.Stdout, "» gate: operator killed %d times around its %d calls\n", died.Load(), calls)
	if died.Load() == 0 {
		t.Error("it was never killed")
	}
}

// play plays the story with a fault; it answers with the number of calls, or with -1 where the operator was killed.
func play(t *testing.T, f fault) int {
	t.Helper()
	s := newStory(t)
	s.watchOver()
	operator := start(t, s.bed.Namespace(), f)
	defer operator.end()
	s.tell()
	if call := operator.at.Load().(string); call != "" {
		t.Log("killed at ", call)
		return -1
	}
	return int(operator.calls.Load())
}
