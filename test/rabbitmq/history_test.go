package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/executor"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
	"github.com/rotation-operator/rotation-operator/internal/store"
)

const (
	secretName = "nova-cell1-compute-config"
	password   = "pw"
	// brokerFinalizer is infra-operator's own.
	brokerFinalizer = "rabbitmquser.openstack.org/finalizer"
)

var userKind = schema.GroupVersionKind{Group: "rabbitmq.openstack.org", Version: "v1beta1", Kind: "RabbitMQUser"}

// run is a Deployment under way.
type run struct {
	name, url string
	hosts     []string
	outcome   executor.Outcome
	// halfway are failed hosts on which the file was written and the service not restarted.
	halfway map[string]bool
}

// history is one random rotation in a namespace of its own.
type history struct {
	t      *testing.T
	room   *room
	random *rand.Rand
	number uint64
	guard  bool
	bed    *testbed.Testbed
	c      client.WithWatch
	world  *world
	// nodes by NodeSet; user is whom the Secret names, old are those that it named before.
	nodes map[string][]string
	user  string
	old   []string
	runs  []run
	made  int
	// doubtful says that a run failed, so that delivering the same version again proves no restart; killed that the
	// operator was, so that it may have seen nothing of that run but its end.
	doubtful, killed bool
}

func newHistory(t *testing.T, r *room, number uint64, guard bool) *history {
	t.Helper()
	h := &history{
		t: t, room: r, number: number, guard: guard, random: rand.New(rand.NewPCG(r.seed, number)),
		c: testplane.Client(t), world: &world{agents: map[string]*agent{}}, nodes: map[string][]string{},
	}
	bed, err := testbed.New(t.Context(), testbed.Options{
		ControlPlane: testplane.Plane(t), Namespace: "rabbitmq-", Manager: r.manager, Dir: t.TempDir(), Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.bed = bed
	t.Cleanup(bed.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("history %d; again with ROTATION_SEED=%d ROTATION_HISTORY=%d\n%s\n%s",
				number, r.seed, number, h.world.told.String(), h.records())
		}
	})
	h.startBroker()
	h.must(bed.StartOperator(t.Context()))
	h.must(bed.CreateService(t.Context(), "nova", []string{secretName}, "", false))
	if guard {
		h.must(bed.CreateGuard(t.Context(), "rabbitmquser"))
	}
	h.rotate(true)
	for i := range 1 + h.random.IntN(2) {
		nodeSet := fmt.Sprintf("edpm-%d", i)
		for j := range 1 + h.random.IntN(3) {
			node := fmt.Sprintf("compute-%d-%d", i, j)
			h.nodes[nodeSet] = append(h.nodes[nodeSet], node)
			h.world.agents[node] = &agent{}
		}
		h.must(bed.CreateNodeSet(t.Context(), nodeSet, h.nodes[nodeSet], []string{"nova"}))
	}
	return h
}

func (h *history) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) tell(format string, values ...any) {
	h.world.mutex.Lock()
	defer h.world.mutex.Unlock()
	h.world.told.add(format, values...)
}

// records are what the operator has stored, for whoever has to understand a failure.
func (h *history) records() string {
	var list corev1.ConfigMapList
	err := h.c.List(context.WithoutCancel(h.t.Context()), &list, client.InNamespace(h.bed.Namespace()), client.HasLabels{store.LabelNodeSet})
	text := &strings.Builder{}
	for _, cm := range list.Items {
		for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
			fmt.Fprintf(text, "%s %s: %s\n", cm.Name, key, cm.Data[key])
		}
	}
	return fmt.Sprintf("%s%v", text, err)
}

// locked are the agents that could not log in, now or earlier.
func (h *history) locked() []string {
	h.world.mutex.Lock()
	defer h.world.mutex.Unlock()
	return slices.Clone(h.world.locked)
}

// play takes random steps. After each of them the administrator tries to delete every user but the current one.
func (h *history) play() {
	const most = 10
	h.deploy(true)
	for range 4 + h.random.IntN(most-4) {
		switch h.random.IntN(8) {
		case 0, 1:
			h.rotate(true)
		case 2, 3:
			h.deploy(false)
		case 4:
			h.begin()
		case 5:
			h.end()
		case 6:
			h.changeOperator()
		case 7:
			h.reboot()
		}
		h.deleteOld()
		if h.guard && len(h.locked()) > 0 {
			h.t.Fatalf("%s", strings.Join(h.locked(), "\n"))
		}
	}
}

// finish brings all nodes up to date as an administrator would. Then every old user goes, and the current one does not.
func (h *history) finish() {
	ctx := h.t.Context()
	h.must(h.bed.StartOperator(ctx))
	for len(h.runs) > 0 {
		h.end()
	}
	if h.doubtful || len(h.old) == 0 {
		// Times of the API are whole seconds: what the Secret gets in the second in which a run failed, that run may have
		// left behind, and then the next run that delivers it proves no restart.
		nextSecond := time.Now().Truncate(time.Second).Add(time.Second)
		<-time.After(time.Until(nextSecond))
		h.rotate(false)
	}
	h.deploy(true)
	if h.doubtful && h.killed {
		// What the failed run left behind may be any version, the one that was delivered just now included. What is
		// delivered after that is another.
		h.rotate(false)
		h.deploy(true)
	}
	for _, user := range h.old {
		switch err := h.c.Get(ctx, client.ObjectKey{Namespace: h.bed.Namespace(), Name: user}, newUser()); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			h.t.Fatal(err)
		}
		h.tell("%s has to go", user)
		_, left, err := h.bed.AwaitDeletion(ctx, "rabbitmquser", user, false, nil)
		h.must(err)
		if len(left) > 0 {
			h.t.Fatalf("all nodes are up to date and %s does not go: %s", user, strings.Join(left, "; "))
		}
		h.room.accepted.Add(1)
	}
	_, left, err := h.bed.AwaitDeletion(ctx, "rabbitmquser", h.user, true, func(string) []string { return nil })
	h.must(err)
	if len(left) > 0 {
		h.t.Errorf("all nodes run %s: %s", h.user, strings.Join(left, "; "))
	}
	var urls []string
	for _, user := range h.old {
		urls = append(urls, h.room.broker.URL(user, password))
	}
	answers, err := logins(ctx, urls)
	h.must(err)
	for url, accepted := range answers {
		if accepted {
			h.t.Errorf("the user is gone, and the broker lets it in: %s", url)
		}
	}
	h.must(h.world.change(ctx, func() error { return nil }))
	if locked := h.locked(); len(locked) > 0 {
		h.t.Errorf("%s", strings.Join(locked, "\n"))
	}
}

// rotate makes a new user, or goes back to one that is not gone if it may, and puts it into the Secret.
func (h *history) rotate(mayGoBack bool) {
	ctx, before := h.t.Context(), h.user
	h.user = ""
	if back := h.present(); mayGoBack && len(back) > 0 && h.random.IntN(5) == 0 {
		h.user = back[h.random.IntN(len(back))]
		h.old = slices.DeleteFunc(h.old, func(user string) bool { return user == h.user })
	}
	if h.user == "" {
		h.made++
		h.user = fmt.Sprintf("%s-user%d", h.bed.Namespace(), h.made)
		h.must(h.room.broker.AddUser(ctx, h.user, password))
		h.must(h.bed.CreateCredential(ctx, "rabbitmquser", h.user))
		h.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the operator writes it too
			user := newUser()
			if err := h.c.Get(ctx, client.ObjectKey{Namespace: h.bed.Namespace(), Name: h.user}, user); err != nil {
				return err
			}
			unmarked := user.DeepCopy()
			controllerutil.AddFinalizer(user, brokerFinalizer)
			return h.c.Patch(ctx, user, client.MergeFromWithOptions(unmarked, client.MergeFromWithOptimisticLock{}))
		}))
	}
	if before != "" {
		h.old = append(h.old, before)
	}
	h.tell("the Secret names %s instead of %q", h.user, before)
	_, err := h.bed.SetSecret(ctx, secretName, map[string]string{"01-nova.conf": "[DEFAULT]\ntransport_url=" + h.url() + "\n"})
	h.must(err)
}

func (h *history) url() string { return h.room.broker.URL(h.user, password) }

// present are the old users that nobody has asked to delete.
func (h *history) present() []string {
	var present []string
	for _, name := range h.old {
		user := newUser()
		err := h.c.Get(h.t.Context(), client.ObjectKey{Namespace: h.bed.Namespace(), Name: name}, user)
		h.must(client.IgnoreNotFound(err))
		if err == nil && user.GetDeletionTimestamp() == nil {
			present = append(present, name)
		}
	}
	return present
}

// newRun is a Deployment of some nodes or all, with an outcome.
func (h *history) newRun(well bool) (run, testbed.Deployment) {
	r := run{name: fmt.Sprintf("d%d", h.random.Uint32()), url: h.url(), halfway: map[string]bool{}, outcome: executor.Outcome{Succeeded: true}}
	d := testbed.Deployment{Name: r.name}
	for _, nodeSet := range slices.Sorted(maps.Keys(h.nodes)) {
		if well || h.random.IntN(3) > 0 || len(h.nodes) == 1 {
			d.NodeSets = append(d.NodeSets, nodeSet)
			r.hosts = append(r.hosts, h.nodes[nodeSet]...)
		}
	}
	if len(d.NodeSets) == 0 {
		d.NodeSets, r.hosts = []string{"edpm-0"}, slices.Clone(h.nodes["edpm-0"])
	}
	if well {
		return r, d
	}
	if len(d.NodeSets) == 1 && h.random.IntN(2) == 0 {
		h.random.Shuffle(len(r.hosts), func(i, j int) { r.hosts[i], r.hosts[j] = r.hosts[j], r.hosts[i] })
		r.hosts = r.hosts[:1+h.random.IntN(len(r.hosts))]
		d.Limit = strings.Join(r.hosts, ",")
	}
	if h.random.IntN(3) == 0 {
		h.doubtful, r.outcome = true, executor.Outcome{Hosts: map[string]executor.HostOutcome{}}
		outcomes := []executor.HostOutcome{executor.HostOK, executor.HostFailed, executor.HostFailed, executor.HostUnreachable}
		for _, host := range r.hosts {
			r.outcome.Hosts[host] = outcomes[h.random.IntN(len(outcomes))]
			r.halfway[host] = h.random.IntN(2) == 0
		}
		r.outcome.Hosts[r.hosts[0]] = executor.HostFailed
	}
	return r, d
}

// happen is what the run really does to its nodes.
func (h *history) happen(r run) {
	h.must(h.world.change(h.t.Context(), func() error {
		for _, host := range r.hosts {
			outcome, named := r.outcome.Hosts[host]
			switch {
			case r.outcome.Succeeded, named && outcome == executor.HostOK:
				h.world.agents[host].write(r.url, true)
			case outcome == executor.HostFailed && r.halfway[host]:
				h.world.agents[host].write(r.url, false)
			}
		}
		h.world.told.add("%s has brought %s to %v: %v, written without a restart: %v", r.name, r.url, r.hosts, r.outcome, r.halfway)
		return nil
	}))
}

func (h *history) deploy(well bool) {
	r, d := h.newRun(well)
	h.tell("%s of %s to %v with limit %q", d.Name, h.user, d.NodeSets, d.Limit)
	h.must(h.bed.Start(h.t.Context(), d))
	h.happen(r) // before its end shows, from which the operator concludes something
	h.must(h.bed.Finish(h.t.Context(), r.name, r.outcome))
}

// begin starts a Deployment that ends later, perhaps after another rotation and other Deployments.
func (h *history) begin() {
	r, d := h.newRun(false)
	h.tell("%s of %s begins, to %v with limit %q", d.Name, h.user, d.NodeSets, d.Limit)
	h.must(h.bed.Start(h.t.Context(), d))
	if r.outcome.Succeeded && h.random.IntN(3) == 0 {
		h.happen(r) // it writes early; its end comes late
	}
	h.runs = append(h.runs, r)
}

// end lets a Deployment that was begun end.
func (h *history) end() {
	if len(h.runs) == 0 {
		return
	}
	i := h.random.IntN(len(h.runs))
	r := h.runs[i]
	h.runs = slices.Delete(h.runs, i, i+1)
	h.tell("%s ends", r.name)
	h.happen(r)
	h.must(h.bed.Finish(h.t.Context(), r.name, r.outcome))
}

// reboot starts a node's service with what is on its disk.
func (h *history) reboot() {
	nodes := slices.Sorted(maps.Keys(h.world.agents))
	node := nodes[h.random.IntN(len(nodes))]
	h.must(h.world.change(h.t.Context(), func() error {
		h.world.told.add("%s reboots", node)
		h.world.agents[node].runs = h.world.agents[node].file
		return nil
	}))
}

// changeOperator kills the operator, and mostly starts it again.
func (h *history) changeOperator() {
	h.tell("the operator is killed")
	h.bed.KillOperator()
	h.room.kills.Add(1)
	h.killed = true
	if h.random.IntN(3) > 0 {
		h.tell("the operator is back")
		h.must(h.bed.StartOperator(h.t.Context()))
	}
}

// deleteOld is the administrator who tries to delete every user that the Secret does not name any more.
func (h *history) deleteOld() {
	for _, name := range h.present() {
		user := newUser()
		user.SetNamespace(h.bed.Namespace())
		user.SetName(name)
		switch err := h.c.Delete(h.t.Context(), user); {
		case err == nil:
			h.tell("deleting %s is accepted", name)
			h.room.accepted.Add(1)
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			h.tell("deleting %s is refused: %v", name, err)
			h.room.refused.Add(1)
		default:
			h.t.Fatal(err)
		}
	}
}

func newUser() *unstructured.Unstructured {
	user := &unstructured.Unstructured{}
	user.SetGroupVersionKind(userKind)
	return user
}

// startBroker is infra-operator: it deletes a user at the broker when nobody else's finalizer is left on the object.
func (h *history) startBroker() {
	ctx, stop := context.WithCancel(context.WithoutCancel(h.t.Context()))
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(userKind.GroupVersion().WithKind("RabbitMQUserList"))
	watcher, err := h.c.Watch(ctx, list, client.InNamespace(h.bed.Namespace()))
	h.must(err)
	done := make(chan error, 1)
	go func() {
		defer close(done)
		released := map[types.UID]bool{}
		for event := range watcher.ResultChan() {
			user, ok := event.Object.(*unstructured.Unstructured)
			if !ok || user.GetDeletionTimestamp() == nil || !slices.Equal(user.GetFinalizers(), []string{brokerFinalizer}) || released[user.GetUID()] {
				continue
			}
			released[user.GetUID()] = true
			if err := h.release(ctx, user); err != nil {
				done <- fmt.Errorf("letting go of %s: %w", user.GetName(), err)
				return
			}
		}
	}()
	h.t.Cleanup(func() {
		stop()
		watcher.Stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			h.t.Error(err)
		}
	})
}

func (h *history) release(ctx context.Context, user *unstructured.Unstructured) error {
	err := h.world.change(ctx, func() error {
		h.world.told.add("%s goes from the broker", user.GetName())
		h.room.gone.Add(1)
		return h.room.broker.DeleteUser(ctx, user.GetName())
	})
	if err != nil {
		return err
	}
	before := user.DeepCopy()
	controllerutil.RemoveFinalizer(user, brokerFinalizer)
	return h.c.Patch(ctx, user, client.MergeFrom(before))
}
