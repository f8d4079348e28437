package upstream

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// Memory is what is kept of a NodeSet between two looks at the world; it is what the store saves.
type Memory struct {
	Book ledger.Book
	// Settled are the Deployments, UID and name, whose runs are all in the book; of those that go on, their Jobs.
	Settled map[types.UID]string
	// Current is, for each Secret, the version that every node had when all last had the same one.
	Current map[string]fleet.Version
	// Lost says that there was a record before this one, which is gone: nodes may run anything.
	Lost bool
	// Inherited says that the book is of a deleted NodeSet of the same name.
	Inherited bool
}

// NewMemory is what is known of a NodeSet that was never looked at.
func NewMemory() *Memory {
	return &Memory{Book: ledger.NewBook(), Settled: map[types.UID]string{}, Current: map[string]fleet.Version{}}
}

// Clone is a copy to advance on trial.
func (m *Memory) Clone() *Memory {
	c := *m
	c.Book = ledger.Book{Nodes: maps.Clone(m.Book.Nodes), Runs: maps.Clone(m.Book.Runs), Secrets: maps.Clone(m.Book.Secrets), Scope: maps.Clone(m.Book.Scope)}
	c.Settled, c.Current = maps.Clone(m.Settled), maps.Clone(m.Current)
	return &c
}

// enrol brings the book's nodes in line with the NodeSet, and tells whether these are the first of which nobody knows what
// they held before.
func (m *Memory) enrol(w World) (doubtful bool) {
	origin := fleet.None // a node that joins later was not deployed through this NodeSet before
	isFirst := len(m.Book.Nodes) == 0 || m.Inherited
	if isFirst {
		origin = w.Origin()
	}
	if m.Lost && len(m.Book.Nodes) == 0 || m.Inherited && origin == fleet.Unknown {
		origin = fleet.Unknown
		before := m.Book.Nodes
		m.Book = ledger.NewBook()
		for name := range before {
			m.Book.Nodes[name] = ledger.Node{Origin: fleet.Unknown}
		}
	}
	m.Inherited = false
	m.Book.Enrol(w.Hosts(), origin)
	return isFirst && origin == fleet.Unknown
}

// Advance takes in the world as it is now and judges it. The world's own Settled is taken from the memory.
func (m *Memory) Advance(w World, now time.Time) verdict.Drift {
	w.Settled = m.Settled
	doubtful := m.enrol(w)
	maps.Copy(m.Book.Scope, w.Certs())
	w.Pods = m.sharpen(w.Pods)
	m.Book.Record(w.Runs())
	m.Book.Record(w.Vanished(m.Book, now))
	wanted := w.Wanted(m.delivered())
	for name := range wanted.Secrets {
		m.Book.Secrets[name] = w.Secrets[name].History
	}
	places := map[string][]string{}
	for name, want := range wanted.Secrets {
		places[name] = want.Places
	}
	if doubtful {
		m.Book.DoubtPast(fleet.Instant{Time: now}, places)
	}
	for _, uid := range w.Touching() {
		if m.Settled[uid] == "" {
			maps.Copy(m.Settled, w.JobsDone(uid, m.Book))
		}
		if m.Settled[uid] != "" || !w.Settles(uid) && (!w.Confirmed[uid] || !w.goes(uid)) {
			continue
		}
		deployment := w.Deployments[uid]
		if why, span := w.Unseen(uid, m.Book), w.spanOf(deployment, now); why != "" && !m.Book.IsPast(span) && !m.Book.IsGivenUp(string(uid)) {
			m.Book.GiveUp(deployment.Name, string(uid), why, span, places)
		}
		if w.Settles(uid) {
			m.Settled[uid] = deployment.Name
		}
	}
	m.forgetDeployments(w)
	if w.Quiet() {
		m.Book.Compact()
		m.trimHistories()
	}
	drift := verdict.Judge(m.Book, wanted, m.Current)
	for name, state := range drift.Secrets {
		m.Current[name] = state.Current
	}
	return drift
}

// sharpen gives pods the bounds in time that an earlier process knew better.
func (m *Memory) sharpen(pods map[types.UID]Pod) map[types.UID]Pod {
	pods = maps.Clone(pods)
	for uid, pod := range pods {
		if run, ok := m.Book.Runs[string(uid)]; ok {
			pod.Created = pod.Created.Later(run.Span.Began)
			if !pod.Mounted.IsZero() {
				pod.Mounted = pod.Mounted.Earlier(run.Mounted)
			}
			pods[uid] = pod
		}
	}
	return pods
}

// trimHistories forgets versions that no run of the book may have carried.
func (m *Memory) trimHistories() {
	for name, history := range m.Book.Secrets {
		m.Book.Secrets[name] = history.Trim(func(v fleet.Version) bool {
			for _, run := range m.Book.Runs {
				if run.Carried[name].Has(v) {
					return true
				}
			}
			return false
		})
	}
}

// delivered names the Secrets that runs of the book carried.
func (m *Memory) delivered() []string {
	names := map[string]bool{}
	for _, run := range m.Book.Runs {
		for name := range run.Carried {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// forgetDeployments drops settled Deployments that are gone with all their pods, and Jobs of those that do not go on.
func (m *Memory) forgetDeployments(w World) {
	maps.DeleteFunc(m.Settled, func(uid types.UID, name string) bool {
		if rest, isJob := strings.CutPrefix(name, jobPrefix); isJob {
			deployment, _, _ := strings.Cut(rest, "/")
			return m.Settled[types.UID(deployment)] != "" || w.Deployments[types.UID(deployment)] == nil
		}
		podOf := func(pod Pod) bool { return pod.Object.Labels[LabelDeployment] == name }
		return w.Deployments[uid] == nil && !slices.ContainsFunc(slices.Collect(maps.Values(w.Pods)), podOf)
	})
}
