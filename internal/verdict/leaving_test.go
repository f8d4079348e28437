package verdict_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

func gone(nodeSet, node string, given, until int) verdict.Gone {
	return verdict.Gone{NodeSet: nodeSet, Node: node, Override: verdict.Override{By: "alice", Reason: "scrapped", Given: at(given), Until: at(until)}}
}

// TestNodesThatAreGone: a word about a node counts for that node alone, while it lasts, and not against a later run.
func TestNodesThatAreGone(t *testing.T) {
	halfway := func() verdict.Request {
		return request(edpm(run("second", 100, ledger.Delivered, fleet.SetOf("b"), "n0")))
	}
	for _, tt := range []struct {
		name   string
		change func(*verdict.Request)
		want   string
	}{
		{"nobody says anything", func(*verdict.Request) {}, "Held NodesBehind [n1] [] []"},
		{"the node", func(r *verdict.Request) { r.Gone = []verdict.Gone{gone("edpm", "n1", 500, 2000)} },
			"Safe Safe [] [] [n1] No node can be running user7, and no Secret in the cluster carries it; 1 node is said to be gone: n1"},
		{"another node", func(r *verdict.Request) { r.Gone = []verdict.Gone{gone("edpm", "n0", 500, 2000)} }, "Held NodesBehind [n1] [] []"},
		{"another NodeSet", func(r *verdict.Request) { r.Gone = []verdict.Gone{gone("other", "n1", 500, 2000)} }, "Held NodesBehind [n1] [] []"},
		{"no longer", func(r *verdict.Request) { r.Gone = []verdict.Gone{gone("edpm", "n1", 500, 1000)} }, "Held NodesBehind [n1] [] []"},
		{"not yet", func(r *verdict.Request) { r.Gone = []verdict.Gone{gone("edpm", "n1", 1001, 2000)} }, "Held NodesBehind [n1] [] []"},
		{"nobody", func(r *verdict.Request) {
			r.Gone = []verdict.Gone{gone("edpm", "n1", 500, 2000)}
			r.Gone[0].By = ""
		}, "Held NodesBehind [n1] [] []"},
		{"before a run that may have reached it", func(r *verdict.Request) {
			r.Gone = []verdict.Gone{gone("edpm", "n1", 505, 2000)}
			r.NodeSets[0].Book.Record([]ledger.Run{run("late", 500, ledger.Attempted, fleet.SetOf("b"), "n1")})
		}, "Held NodesBehind [n1] [] []"},
		{"so soon after a run that clocks do not tell", func(r *verdict.Request) {
			late := run("late", 500, ledger.Attempted, fleet.SetOf("b"), "n1")
			r.Gone = []verdict.Gone{gone("edpm", "n1", 0, 2000)}
			r.Gone[0].Given = late.Span.Ended.Time.Add(4 * time.Second)
			r.NodeSets[0].Book.Record([]ledger.Run{late})
		}, "Held NodesBehind [n1] [] []"},
		{"surely after a run", func(r *verdict.Request) {
			late := run("late", 500, ledger.Attempted, fleet.SetOf("b"), "n1")
			r.Gone = []verdict.Gone{gone("edpm", "n1", 0, 2000)}
			r.Gone[0].Given = late.Span.Ended.Time.Add(5 * time.Second)
			r.NodeSets[0].Book.Record([]ledger.Run{late})
		}, "Safe Safe [] [] [n1]"},
		{"before a run that did not", func(r *verdict.Request) {
			r.Gone = []verdict.Gone{gone("edpm", "n1", 505, 2000)}
			r.NodeSets[0].Book.Record([]ledger.Run{run("late", 500, ledger.Delivered, fleet.SetOf("b"), "n0")})
		}, "Safe Safe [] [] [n1]"},
		{"while a run goes on", func(r *verdict.Request) {
			r.Gone = []verdict.Gone{gone("edpm", "n1", 600, 2000)}
			late := run("late", 500, ledger.Attempted, fleet.SetOf("b"), "n1")
			late.Span.Over = false
			r.NodeSets[0].Book.Record([]ledger.Run{late})
		}, "Held NodesBehind [n1] [] []"},
		{"an unknown one", func(r *verdict.Request) {
			r.NodeSets[0].Book.Record([]ledger.Run{run("late", 200, ledger.Delivered, fleet.SetOf("?"), "n1")})
			r.Gone = []verdict.Gone{gone("edpm", "n1", 500, 2000)}
		}, "Safe Safe [] [] [n1]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := halfway()
			tt.change(&r)
			d := verdict.MayGo(r)
			if got := fmt.Sprint(d.Outcome, " ", d.Reason, " ", d.Nodes, " ", d.UnknownNodes, " ", d.Attested, " ", d.Message); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if len(d.Attested) > 0 && !d.LookAgain.Equal(at(2000)) {
				t.Errorf("look again at %s", d.LookAgain)
			}
		})
	}
}

// TestADeletedNodeSetHolds: its nodes run on with what they were given.
func TestADeletedNodeSetHolds(t *testing.T) {
	n := edpm()
	n.Deleted, n.Wanted = true, verdict.Wanted{}
	n.Book.Enrol(nil, fleet.None)
	d := verdict.MayGo(request(n))
	if d.Reason != verdict.ReasonNodesBehind || !slices.Equal(d.Nodes, []string{"n0", "n1"}) || !strings.Contains(d.Message, "no longer in their NodeSet") {
		t.Errorf("got %+v", d)
	}
	n.Book.Record([]ledger.Run{run("second", 100, ledger.Delivered, fleet.SetOf("b"), "n0", "n1")})
	if d := verdict.MayGo(request(n)); d.Outcome != verdict.Safe {
		t.Errorf("after a delivery: %+v", d)
	}
	open := run("third", 200, ledger.Attempted, fleet.SetOf("b"), "n0")
	open.Span.Over = false
	n.Book.Record([]ledger.Run{open})
	if d := verdict.MayGo(request(n)); d.Reason != verdict.ReasonNodesUnknown || len(d.UnknownNodes) != 2 {
		t.Errorf("with a run that nobody saw end: %+v", d)
	}
}

// TestWhatIsSaidToBeDelivered: a Secret of a service that is gone, from before anything was seen.
func TestWhatIsSaidToBeDelivered(t *testing.T) {
	n := edpm(run("second", 100, ledger.Delivered, fleet.SetOf("b"), "n0", "n1"))
	n.Told = []string{another, "banner"}
	if d := verdict.MayGo(request(n)); d.Outcome != verdict.Safe {
		t.Errorf("to nodes that had nothing: %+v", d)
	}
	n.Book.Nodes["n1"] = ledger.Node{Origin: fleet.Unknown}
	if d := verdict.MayGo(request(n)); d.Reason != verdict.ReasonNodesUnknown || !slices.Equal(d.UnknownNodes, []string{"n1"}) {
		t.Errorf("to a node from before: %+v", d)
	}
}

// TestAKubeletMayServeTheOld: shortly after a change a pod may still mount what was there before.
func TestAKubeletMayServeTheOld(t *testing.T) {
	n := edpm(run("second", 100, ledger.Delivered, fleet.SetOf("b"), "n0", "n1"))
	held := n.Book.Secrets[secret].Held
	held[1].Since, held[2].Since = fleet.Instant{Time: at(90)}, fleet.Instant{Time: at(999)}
	r := request(n)
	r.Margin = 2 * time.Minute
	if d := verdict.MayGo(r); d.Reason != verdict.ReasonStillInCluster || !d.LookAgain.Equal(at(1001)) {
		t.Errorf("got %+v", d)
	}
	r.Now = at(1001)
	if d := verdict.MayGo(r); d.Outcome != verdict.Safe {
		t.Errorf("later: %+v", d)
	}
}

// TestAllGenerations: what belongs to nobody else goes with the object, and holds it.
func TestAllGenerations(t *testing.T) {
	r := request(edpm(run("second", 100, ledger.Delivered, fleet.SetOf("b"), "n0")))
	r.Identity = "user9"
	if d := verdict.MayGo(r); d.Outcome != verdict.Safe {
		t.Fatalf("nobody has user9: %+v", d)
	}
	r.Adopt([]string{"other", "user8"})
	if d := verdict.MayGo(r); d.Reason != verdict.ReasonNodesBehind || !slices.Equal(d.Nodes, []string{"n1"}) || !slices.Equal(r.Also, []string{"user7"}) {
		t.Errorf("user7 is nobody's: %v %+v", r.Also, d)
	}
	r.Also = nil
	r.Adopt([]string{"other"})
	if d := verdict.MayGo(r); d.Reason != verdict.ReasonStillInCluster {
		t.Errorf("user8 is nobody's: %v %+v", r.Also, d)
	}
	r.Also = nil
	r.Adopt([]string{"other", "user7", "user8"})
	if d := verdict.MayGo(r); d.Outcome != verdict.Safe {
		t.Errorf("all belong to others: %v %+v", r.Also, d)
	}
}
