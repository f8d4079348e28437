package upstream_test

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// watcher is the operator's side: what was brought to it, and what it keeps.
type watcher struct {
	c              *cluster
	journal        *upstream.Journal
	memory         *upstream.Memory
	podsAt, secsAt int // events brought so far
	behind         int // pod events that this process must have been brought before it knows all pods
	stored         trackmap.Objects
	recordLost     bool
	asOf           uint64
}

func newWatcher(c *cluster) *watcher {
	return &watcher{c: c, journal: newJournal(), memory: upstream.NewMemory()}
}

// question is what the journal asks of Secrets: the user inside.
const question = "q"

func newJournal() *upstream.Journal {
	journal := upstream.NewJournal()
	journal.Identify = func(secret string, data map[string][]byte) map[string][]string {
		if secret != secretName {
			return nil
		}
		return map[string][]string{question: {string(data["nova.conf"])}}
	}
	return journal
}

// safe names the users that may go, by all that is known.
func (w *watcher) safe() []string {
	var safe []string
	for _, user := range []string{"user0", "user1", "user2"} {
		world := w.world()
		answer := verdict.MayGo(verdict.Request{
			Identity: user, Question: question, Covers: func(secret string) bool { return secret == secretName },
			Cluster:  []verdict.ClusterSecret{{Name: secretName, Identities: []string{string(w.c.secrets[secretName].Data["nova.conf"])}}},
			NodeSets: []verdict.NodeSet{{Name: "edpm", Book: w.memory.Book, Wanted: world.Wanted(nil), Unsettled: world.Unsettled()}},
			Now:      w.c.clock,
		})
		if answer.Outcome == verdict.Safe {
			safe = append(safe, user)
		}
	}
	return safe
}

// bring delivers events up to the given counts.
func (w *watcher) bring(pods, secrets int) {
	for ; w.podsAt < pods; w.podsAt++ {
		event, began := w.c.podEvents[w.podsAt], uint64(0)
		if event.added {
			began = event.revision
		}
		w.journal.PodSeen(event.object, began, event.gone)
	}
	for ; w.secsAt < secrets; w.secsAt++ {
		w.journal.SecretWritten(w.c.secEvents[w.secsAt].object, false)
	}
}

func (w *watcher) world() upstream.World {
	world := upstream.World{NodeSet: w.c.nodeSet, Deployments: w.c.deploys, Services: map[string]*dataplanev1.OpenStackDataPlaneService{"nova": w.c.service},
		Jobs: w.c.jobs, Pods: w.journal.Pods, Secrets: w.journal.Secrets, SharedRevisions: true, Settled: w.memory.Settled, Confirmed: map[types.UID]bool{}}
	for uid, deployment := range w.c.deploys {
		world.Confirmed[uid] = true
		for _, p := range w.c.pods {
			if p.object.Labels[upstream.LabelDeployment] == deployment.Name && !world.HasSeen(p.object) {
				world.Confirmed[uid] = false
			}
		}
	}
	return world
}

// look reads what is stale, judges and stores, and gives the candidates of each node.
func (w *watcher) look() map[string]fleet.Versions {
	for name, history := range w.memory.Book.Secrets { // the store is read after the watches have told what they can
		w.journal.Restore(name, history)
	}
	for _, name := range w.world().Reads() {
		w.journal.SecretRead(w.c.secrets[name], w.journal.Turn())
	}
	drift := w.memory.Advance(w.world(), w.c.clock)
	w.c.tell("operator looks, pods %d/%d secrets %d/%d", w.podsAt, len(w.c.podEvents), w.secsAt, len(w.c.secEvents))
	position := func(at int, revision func(int) uint64) uint64 {
		if at == 0 {
			return 0
		}
		return revision(at - 1)
	}
	w.asOf = min(position(w.podsAt, func(i int) uint64 { return w.c.podEvents[i].revision }),
		position(w.secsAt, func(i int) uint64 { return w.c.secEvents[i].revision }))
	var settled []string
	for uid, name := range w.memory.Settled {
		settled = append(settled, string(uid)+"/"+name)
	}
	objects, err := trackmap.Encode(trackmap.State{NodeSetUID: "edpm", AsOf: w.asOf, Book: w.memory.Book, Settled: settled}, drift)
	if err != nil {
		w.c.t.Fatal(err)
	}
	w.stored, w.recordLost = objects, false
	candidates := map[string]fleet.Versions{}
	for node := range drift.Secrets[secretName].Nodes {
		candidates[node] = w.memory.Book.Cell(node, secretName, []string{"nova"}).Candidates()
	}
	return candidates
}

// die loses everything but what is stored, and comes back: told again what happened since, or given a list only.
func (w *watcher) die(forgotten bool) {
	w.c.tell("operator dies, forgotten=%t, asOf %d", forgotten, w.asOf)
	w.journal, w.memory = newJournal(), upstream.NewMemory()
	w.podsAt, w.secsAt, w.behind = 0, 0, len(w.c.podEvents)
	w.memory.Lost = w.recordLost
	if w.stored != nil {
		state, current, err := trackmap.Decode(w.stored, "edpm")
		if err != nil {
			w.c.t.Fatal(err)
		}
		w.memory.Book, w.memory.Current = state.Book, current
		for _, entry := range state.Settled {
			uid, name, _ := strings.Cut(entry, "/")
			w.memory.Settled[types.UID(uid)] = name
		}
	}
	if !forgotten && w.asOf != 0 {
		for _, uid := range slices.Sorted(maps.Keys(w.c.pods)) {
			p := w.c.pods[uid]
			if upstream.Revision(p.object.ResourceVersion) <= w.asOf {
				w.journal.PodSeen(p.object, 0, false)
			}
		}
		for _, secret := range w.c.secrets {
			if upstream.Revision(secret.ResourceVersion) <= w.asOf {
				w.journal.SecretWritten(secret, false)
			}
		}
		for w.podsAt < len(w.c.podEvents) && w.c.podEvents[w.podsAt].revision <= w.asOf {
			w.podsAt++
		}
		for w.secsAt < len(w.c.secEvents) && w.c.secEvents[w.secsAt].revision <= w.asOf {
			w.secsAt++
		}
		return
	}
	w.list(0)
}

// loseRecord is what happens when somebody deletes the record of a NodeSet that had one. Only a list brings back what
// there is; the operator that comes back knows that there was more.
func (w *watcher) loseRecord() {
	w.c.tell("the record is lost")
	w.stored, w.asOf, w.recordLost = nil, 0, w.recordLost || w.stored != nil
}

// relist is what happens when a watch cannot go on in the same process.
func (w *watcher) relist() {
	told := uint64(0)
	if w.podsAt > 0 && w.podsAt >= w.behind {
		told = w.c.podEvents[w.podsAt-1].revision
	}
	w.list(told)
}

func (w *watcher) list(since uint64) {
	var pods []corev1.Pod
	for _, uid := range slices.Sorted(maps.Keys(w.c.pods)) {
		pods = append(pods, *w.c.pods[uid].object)
	}
	var secrets []metav1.Object
	for _, secret := range w.c.secrets {
		secrets = append(secrets, secret)
	}
	w.journal.PodsListed(pods, since)
	w.journal.SecretsListed(secrets)
	w.podsAt, w.secsAt, w.behind = len(w.c.podEvents), len(w.c.secEvents), 0
}
