package verdict_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// TestMain asks for thousands of fleets by default, and for many more in a deep run.
func TestMain(m *testing.M) {
	checks := "10000"
	if os.Getenv("ROTATION_DEEP") != "" {
		checks = "300000"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const (
	asked   = "guard"
	secret  = "nova-cell1-compute-config"
	another = "neutron-dhcp-agent-neutron-config"
)

func at(minute int) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(minute) * time.Minute)
}

// run is a run of ten minutes that began at the given one.
func run(id string, minute int, strength ledger.Strength, versions fleet.Versions, nodes ...string) ledger.Run {
	made := ledger.Run{ID: id, Place: "nova", Carried: map[string]fleet.Versions{secret: versions}, Reach: map[string]ledger.Strength{},
		Span: fleet.Span{Began: fleet.Instant{Time: at(minute)}, Ended: fleet.Instant{Time: at(minute + 10)}, Over: true}}
	for _, node := range nodes {
		made.Reach[node] = strength
	}
	return made
}

// edpm is a NodeSet with two nodes that got version a (user7) and, in the cluster, version b (user8).
func edpm(runs ...ledger.Run) verdict.NodeSet {
	n := verdict.NodeSet{Name: "edpm", Book: ledger.NewBook(), Wanted: verdict.Wanted{Nodes: []string{"n0", "n1"},
		Secrets: map[string]verdict.WantedSecret{secret: {Expected: "b", Places: []string{"nova"}}}}}
	n.Book.Enrol(n.Wanted.Nodes, fleet.None)
	n.Book.Record(append(runs, run("first", 0, ledger.Delivered, fleet.SetOf("a"), "n0", "n1")))
	n.Book.Secrets[secret] = ledger.History{Held: []ledger.Held{
		{Version: "a", Identities: map[string][]string{asked: {"other", "user7"}}},
		{Version: "u", Identities: map[string][]string{"another guard": {"user8"}}},
		{Version: "b", Identities: map[string][]string{asked: {"user8"}}},
	}}
	return n
}

func request(nodeSets ...verdict.NodeSet) verdict.Request {
	return verdict.Request{Identity: "user7", Question: asked, Now: at(1000), NodeSets: nodeSets,
		Covers:  func(name string) bool { return name == secret || name == another },
		Cluster: []verdict.ClusterSecret{{Name: secret, Identities: []string{"user8"}}}}
}

// TestDeletionChecks has for each check what makes it speak, and how it does.
func TestDeletionChecks(t *testing.T) {
	delivered := func(versions ...fleet.Version) ledger.Run {
		return run("second", 100, ledger.Delivered, fleet.SetOf(versions...), "n0", "n1")
	}
	good := func() verdict.Request { return request(edpm(delivered("b"))) }
	override := func(given, until int) *verdict.Override {
		return &verdict.Override{By: "alice", Reason: "rack burnt", Given: at(given), Until: at(until)}
	}
	for _, tt := range []struct {
		name    string
		request verdict.Request
		change  func(*verdict.Request)
		want    string // outcome reason [nodes] [unknown nodes] message
	}{
		{"all delivered", good(), nil, "Safe Safe [] [] No node can be running user7"},

		{"a Secret that the guard cannot read", good(), func(r *verdict.Request) {
			r.Cluster = append(r.Cluster, verdict.ClusterSecret{Name: another, NotFound: "Secret x, key y: nothing there"})
		}, "Unknown IdentityNotFound [] [] The guard cannot read its Secrets: Secret x, key y: nothing there; correct"},
		{"such a Secret, and nodes behind", request(edpm()), func(r *verdict.Request) {
			r.Cluster[0] = verdict.ClusterSecret{Name: secret, NotFound: "Secret x, key y: nothing there"}
		}, "Unknown IdentityNotFound [n0 n1] [] "},

		{"not rotated", request(edpm()), func(r *verdict.Request) { r.Cluster[0].Identities = []string{"user7"} },
			"Held StillInCluster [n0 n1] [] Secret " + secret + " in the cluster still carries user7; rotate it"},
		{"another Secret carries it", good(), func(r *verdict.Request) {
			r.Cluster = append(r.Cluster, verdict.ClusterSecret{Name: another, Identities: []string{"user7"}})
		}, "Held StillInCluster [] [] Secret " + another},

		{"rotated, not deployed", request(edpm()), nil, "Held NodesBehind [n0 n1] [] 2 nodes may still run user7: n0, n1; deploy them"},
		{"one node deployed", request(edpm(run("second", 100, ledger.Delivered, fleet.SetOf("b"), "n0"))), nil, "Held NodesBehind [n1] [] 1 node may"},
		{"a failed run", request(edpm(run("second", 100, ledger.Attempted, fleet.SetOf("b"), "n0", "n1"))), nil, "Held NodesBehind [n0 n1] []"},
		{"a run that carried either", request(edpm(delivered("a", "b"))), nil, "Held NodesBehind [n0 n1] []"},
		{"delivered to another place", request(edpm(delivered("b"))), func(r *verdict.Request) {
			second := r.NodeSets[0].Book.Runs["second"]
			second.Place = "elsewhere"
			r.NodeSets[0].Book.Runs["second"] = second
		}, "Held NodesBehind [n0 n1] []"},
		{"A to B to A", request(edpm(delivered("b"), run("third", 200, ledger.Delivered, fleet.SetOf("a"), "n1"))), nil, "Held NodesBehind [n1] []"},
		{"a node that left", request(edpm(run("second", 100, ledger.Delivered, fleet.SetOf("b"), "n0"))), func(r *verdict.Request) {
			r.NodeSets[0].Wanted.Nodes = []string{"n0"}
			r.NodeSets[0].Book.Enrol([]string{"n0"}, fleet.None)
		}, "Held NodesBehind [n1] [] 1 node may still run user7: n1; no longer in their NodeSet: n1; say of them that they are gone"},
		{"a second Secret with the same identity", good(), func(r *verdict.Request) {
			made := run("dhcp", 100, ledger.Delivered, nil, "n1")
			made.Carried = map[string]fleet.Versions{another: fleet.SetOf("x")}
			r.NodeSets[0].Book.Record([]ledger.Run{made})
			r.NodeSets[0].Book.Secrets[another] = ledger.History{Held: []ledger.Held{{Version: "x", Identities: map[string][]string{asked: {"user7"}}}}}
		}, "Held NodesBehind [n1] []"},
		{"a Secret of no interest", good(), func(r *verdict.Request) {
			r.NodeSets[0].Wanted.Secrets["banner"] = verdict.WantedSecret{Expected: fleet.Unknown, Places: []string{"x"}}
			r.NodeSets[0].Book.Record([]ledger.Run{{ID: "x", Place: "x", Carried: map[string]fleet.Versions{"banner": fleet.SetOf("?")}, Reach: map[string]ledger.Strength{"n0": ledger.Delivered}}})
		}, "Safe Safe"},
		{"under way", request(edpm(run("second", 100, ledger.Attempted, fleet.SetOf("b"), "n0", "n1"))), func(r *verdict.Request) { r.NodeSets[0].Unsettled = []string{"dpl"} },
			"Held NodesBehind [n0 n1] [] 2 nodes may still run user7: n0, n1; deploy them; Deployment dpl is under way"},

		{"a lost restart", request(edpm(run("failed", 100, ledger.Attempted, fleet.SetOf("b"), "n0"), run("third", 200, ledger.Delivered, fleet.SetOf("b"), "n0", "n1"))), nil,
			"Held RestartUnproved [n0] [] 1 node may still run user7, they received"},
		{"a lost restart, and proof", request(edpm(run("failed", 100, ledger.Attempted, fleet.SetOf("b"), "n0", "n1"), run("third", 200, ledger.Proved, fleet.SetOf("b"), "n0", "n1"))), nil, "Safe Safe"},
		{"proof is asked for", good(), func(r *verdict.Request) { r.Proof = true }, "Held RestartUnproved [n0 n1] [] 2 nodes may still run user7, they did not prove"},
		{"proof is asked for and given", request(edpm(run("second", 100, ledger.Proved, fleet.SetOf("b"), "n0", "n1"))), func(r *verdict.Request) { r.Proof = true }, "Safe Safe"},
		{"proof is asked for of a node that never had anything", request(edpm(run("second", 100, ledger.Proved, fleet.SetOf("b"), "n0", "n1"))), func(r *verdict.Request) {
			r.Proof = true
			r.NodeSets[0].Wanted.Nodes = append(r.NodeSets[0].Wanted.Nodes, "n2")
			r.NodeSets[0].Book.Enrol(r.NodeSets[0].Wanted.Nodes, fleet.None)
		}, "Safe Safe"},

		{"a version that nobody read", request(edpm(delivered("?"))), nil, "Unknown NodesUnknown [] [n0 n1] 2 nodes may run user7, it is not known: n0, n1; deploy them again"},
		{"a version that is not in the history", request(edpm(delivered("c"))), nil, "Unknown NodesUnknown [] [n0 n1]"},
		{"a version into which only another guard looked", request(edpm(delivered("u"))), nil, "Unknown NodesUnknown [] [n0 n1]"},
		{"no history at all", good(), func(r *verdict.Request) { delete(r.NodeSets[0].Book.Secrets, secret) }, "Unknown NodesUnknown [] [n0 n1]"},
		{"a node from before", request(edpm(run("second", 100, ledger.Delivered, fleet.SetOf("b"), "n0", "n1"))), func(r *verdict.Request) {
			r.NodeSets[0].Wanted.Nodes = append(r.NodeSets[0].Wanted.Nodes, "n2")
			r.NodeSets[0].Book.Enrol(r.NodeSets[0].Wanted.Nodes, fleet.Unknown)
		}, "Unknown NodesUnknown [] [n2]"},
		{"a node that the book does not have", good(), func(r *verdict.Request) { r.NodeSets[0].Wanted.Nodes = append(r.NodeSets[0].Wanted.Nodes, "n2") }, "Unknown NodesUnknown [] [n2]"},
		{"two nodes of one name", good(), func(r *verdict.Request) { r.NodeSets[0].Wanted.Nodes = append(r.NodeSets[0].Wanted.Nodes, "n1") }, "Unknown NodesUnknown [] [n1]"},

		{"a Deployment of a NodeSet is not settled", good(), func(r *verdict.Request) {
			r.NodeSets = append(r.NodeSets, verdict.NodeSet{Name: "empty", Book: ledger.NewBook(), Unsettled: []string{"dpl"}})
		}, "Held DeploymentUnsettled [] [] Deployment dpl is not settled; wait"},

		{"a Secret that cannot be read", good(), func(r *verdict.Request) { r.Cluster[0] = verdict.ClusterSecret{Name: secret, Unread: "forbidden"} },
			"Unknown EvidenceIncomplete [] [] Secret " + secret + " cannot be read: forbidden"},
		{"a Secret that is missing", good(), func(r *verdict.Request) { r.Cluster = nil }, "Unknown EvidenceIncomplete [] [] Secret " + secret + " is missing"},
		{"a Service that is missing", good(), func(r *verdict.Request) { r.NodeSets[0].Wanted.Missing = []string{"no nova"} }, "Unknown EvidenceIncomplete [] [] no nova"},

		{"no NodeSets", request(), nil, "Unknown NothingTracked [] [] No node receives a Secret of the guard"},
		{"no nodes", request(verdict.NodeSet{Name: "empty", Book: ledger.NewBook(), Wanted: verdict.Wanted{Secrets: edpm().Wanted.Secrets}}), nil, "Unknown NothingTracked"},
		{"no Secrets", request(verdict.NodeSet{Name: "x", Book: ledger.NewBook(), Wanted: verdict.Wanted{Nodes: []string{"n0"}}}), func(r *verdict.Request) { r.Cluster = nil }, "Unknown NothingTracked"},
		{"nothing at all", verdict.Request{}, nil, "Unknown NothingTracked"},

		{"an override", request(edpm()), func(r *verdict.Request) { r.Override = override(500, 2000) },
			"Safe OverrideInForce [n0 n1] [] alice lets user7 go until 2023-11-16T07:33:20Z: rack burnt. Without that: 2 nodes may still run"},
		{"an override that is over", request(edpm()), func(r *verdict.Request) { r.Override = override(500, 1000) }, "Held NodesBehind"},
		{"an override of the future", request(edpm()), func(r *verdict.Request) { r.Override = override(1001, 2000) }, "Held NodesBehind"},
		{"an override without a reason", request(edpm()), func(r *verdict.Request) { r.Override = override(500, 2000); r.Override.Reason = "" }, "Held NodesBehind"},
		{"an override without a name", request(edpm()), func(r *verdict.Request) { r.Override = override(500, 2000); r.Override.By = "" }, "Held NodesBehind"},
		{"an override, and the credential is in use", request(edpm()), func(r *verdict.Request) {
			r.Override = override(500, 2000)
			r.Cluster[0].Identities = []string{"user7"}
		}, "Held StillInCluster"},
		{"an override, and a later run", request(edpm(run("late", 495, ledger.Attempted, fleet.SetOf("a"), "n0"))), func(r *verdict.Request) { r.Override = override(500, 2000) },
			"Held NodesBehind [n0 n1] [] 2 nodes may still run user7: n0, n1; deploy them; what alice said does not count, it was before a run on n0 had surely ended"},
		{"an override so soon after a run that clocks do not tell", request(edpm(run("late", 400, ledger.Attempted, fleet.SetOf("a"), "n0"))), func(r *verdict.Request) {
			r.Override = override(0, 2000)
			r.Override.Given = run("late", 400, ledger.Attempted, fleet.SetOf("a"), "n0").Span.Ended.Time.Add(4 * time.Second)
		}, "Held NodesBehind"},
		{"an override, and a later run of anything", request(edpm(run("late", 495, ledger.Delivered, fleet.SetOf("?"), "n0", "n1"))), func(r *verdict.Request) { r.Override = override(500, 2000) }, "Unknown NodesUnknown [] [n0 n1]"},
		{"an override, and a run that goes on", request(edpm(run("late", 400, ledger.Attempted, fleet.SetOf("a"), "n0"))), func(r *verdict.Request) {
			late := r.NodeSets[0].Book.Runs["late"]
			late.Span.Over = false
			r.NodeSets[0].Book.Runs["late"] = late
			r.Override = override(500, 2000)
		}, "Held NodesBehind"},
		{"an override, and a run of which nobody knows when it ended", request(edpm(run("late", 400, ledger.Attempted, fleet.SetOf("a"), "n0"))), func(r *verdict.Request) {
			late := r.NodeSets[0].Book.Runs["late"]
			late.Span.Ended = fleet.Instant{Revision: 7}
			r.NodeSets[0].Book.Runs["late"] = late
			r.Override = override(500, 2000)
		}, "Held NodesBehind"},
		{"an override that nobody needs", good(), func(r *verdict.Request) { r.Override = override(500, 2000) }, "Safe Safe"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.change != nil {
				tt.change(&tt.request)
			}
			d := verdict.MayGo(tt.request)
			got := fmt.Sprintf("%s %s %s %s %s", d.Outcome, d.Reason, d.Nodes, d.UnknownNodes, d.Message)
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if inForce := d.Reason == verdict.ReasonOverrideInForce; d.LookAgain.IsZero() == inForce || inForce && !d.LookAgain.Equal(at(2000)) {
				t.Errorf("look again at %s", d.LookAgain)
			}
		})
	}
}

// TestDeletionChain has everything against it at once; what is told is taken away, and the next is told.
func TestDeletionChain(t *testing.T) {
	lost := []ledger.Run{run("failed", 100, ledger.Attempted, fleet.SetOf("b"), "n0"), run("second", 200, ledger.Delivered, fleet.SetOf("b"), "n0")}
	b := edpm(append(lost, run("clean", 200, ledger.Delivered, fleet.SetOf("?"), "n1"))...)
	a := edpm()
	a.Name, a.Unsettled, a.Wanted.Missing = "other", []string{"dpl"}, []string{"no nova"}
	r := request(a, b)
	r.Cluster = append(r.Cluster, verdict.ClusterSecret{Name: another, NotFound: "no"}, verdict.ClusterSecret{Name: "c", Identities: []string{"user7"}})
	deploy := func(n *verdict.NodeSet, id string, strength ledger.Strength) {
		n.Book.Record([]ledger.Run{run(id, 300, strength, fleet.SetOf("b"), "n0", "n1")})
	}
	for _, step := range []struct {
		reason verdict.Reason
		nodes  string
		cure   func()
	}{
		{verdict.ReasonIdentityNotFound, "edpm/n0 other/n0 other/n1|edpm/n1|edpm other", func() { r.Cluster = slices.Delete(r.Cluster, 1, 2) }},
		{verdict.ReasonStillInCluster, "edpm/n0 other/n0 other/n1|edpm/n1|edpm other", func() { r.Cluster = r.Cluster[:1] }},
		{verdict.ReasonNodesBehind, "edpm/n0 other/n0 other/n1|edpm/n1|edpm other", func() { deploy(&r.NodeSets[0], "x", ledger.Delivered) }},
		{verdict.ReasonRestartUnproved, "edpm/n0|edpm/n1|edpm", func() {
			r.NodeSets[1].Book.Record([]ledger.Run{run("proof", 400, ledger.Proved, fleet.SetOf("b"), "n0")})
		}},
		{verdict.ReasonNodesUnknown, "|edpm/n1|edpm", func() { deploy(&r.NodeSets[1], "y", ledger.Delivered) }},
		{verdict.ReasonDeploymentUnsettled, "||", func() { r.NodeSets[0].Unsettled = nil }},
		{verdict.ReasonEvidenceIncomplete, "||", func() { r.NodeSets[0].Wanted.Missing = nil }},
		{verdict.ReasonSafe, "||", func() { r.NodeSets = nil }},
		{verdict.ReasonNothingTracked, "||", func() {}},
	} {
		d := verdict.MayGo(r)
		nodes := strings.Join(d.Nodes, " ") + "|" + strings.Join(d.UnknownNodes, " ") + "|" + strings.Join(d.NodeSets, " ")
		if d.Reason != step.reason || nodes != step.nodes {
			t.Errorf("got %s %s: %s, want %s %s", d.Reason, nodes, d.Message, step.reason, step.nodes)
		}
		step.cure()
	}
}

// drawFleet draws NodeSets with any runs at all.
func drawFleet(t *rapid.T) []verdict.NodeSet {
	versions := []fleet.Version{"a", "b", "b", "b", "c", "u", fleet.Unknown}
	var nodeSets []verdict.NodeSet
	for i := range rapid.IntRange(1, 2).Draw(t, "NodeSets") {
		n := verdict.NodeSet{Name: fmt.Sprint("s", i), Book: ledger.NewBook(), Wanted: verdict.Wanted{Secrets: map[string]verdict.WantedSecret{}}}
		all := []string{"n0", "n1", "n2"}
		n.Book.Enrol(all[:rapid.IntRange(0, 3).Draw(t, "enrolled")], rapid.SampledFrom([]fleet.Version{fleet.None, fleet.None, fleet.None, fleet.Unknown}).Draw(t, "origin"))
		n.Wanted.Nodes = all[:rapid.IntRange(0, 3).Draw(t, "listed")]
		n.Book.Enrol(n.Wanted.Nodes, fleet.None)
		names := []string{secret, another}[:rapid.IntRange(1, 2).Draw(t, "Secrets")]
		for _, name := range names {
			if rapid.IntRange(0, 3).Draw(t, "wanted") > 0 {
				n.Wanted.Secrets[name] = verdict.WantedSecret{Expected: "b", Places: []string{rapid.SampledFrom([]string{"nova", "dhcp"}).Draw(t, "place")}}
			}
			n.Book.Secrets[name] = edpm().Book.Secrets[secret]
		}
		for j := range rapid.IntRange(0, 6).Draw(t, "runs") {
			made := run(fmt.Sprint("r", j), rapid.IntRange(0, 80).Draw(t, "minute"), 0, nil)
			made.Place = rapid.SampledFrom([]string{"nova", "nova", "dhcp"}).Draw(t, "to")
			made.Span.Over = rapid.IntRange(0, 9).Draw(t, "over") > 0
			made.Carried = map[string]fleet.Versions{rapid.SampledFrom(names).Draw(t, "carries"): fleet.SetOf(rapid.SliceOfN(rapid.SampledFrom(versions), 1, 2).Draw(t, "versions")...)}
			for _, node := range all {
				if reach := rapid.IntRange(-1, 4).Draw(t, "reach"); reach >= 0 {
					made.Reach[node] = []ledger.Strength{0, 1, 1, 1, 2}[reach]
				}
			}
			n.Book.Record([]ledger.Run{made})
		}
		nodeSets = append(nodeSets, n)
	}
	return nodeSets
}

// mayRun is the naive model: it asks every cell there is for its candidates; what no run reached and no service
// brings is as it was before everything. Of the versions a has user7 inside, b
// and c do not or are not known, and into u nobody looked.
func mayRun(nodeSets []verdict.NodeSet) (nodes map[string]bool, cells int) {
	nodes = map[string]bool{}
	for _, n := range nodeSets {
		for _, name := range []string{secret, another} {
			_, wanted := n.Wanted.Secrets[name]
			_, known := n.Book.Secrets[name]
			if !wanted && !known && len(n.Book.Carriers(name)) == 0 {
				continue
			}
			for _, node := range []string{"n0", "n1", "n2"} {
				if _, enrolled := n.Book.Nodes[node]; !enrolled {
					continue
				}
				cells++
				cell := n.Book.Cell(node, name, n.Wanted.Secrets[name].Places)
				if len(cell) == 0 {
					cell = ledger.Cell{ledger.Origin("", n.Book.Nodes[node].Origin)}
				}
				for _, candidate := range cell.Candidates() {
					if candidate != "b" && candidate != fleet.None {
						nodes[n.Name+"/"+node] = true
					}
				}
			}
		}
	}
	return nodes, cells
}

// TestNeverSafeWhileANodeMayRunIt is the promise.
func TestNeverSafeWhileANodeMayRunIt(t *testing.T) {
	fleets, safe := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := request(drawFleet(t)...)
		r.Cluster = append(r.Cluster, verdict.ClusterSecret{Name: another, Identities: []string{"user8"}})
		d := verdict.MayGo(r)
		may, cells := mayRun(r.NodeSets)
		fleets++
		if isSafe := d.Outcome == verdict.Safe; isSafe != (len(may) == 0 && cells > 0) {
			t.Fatalf("%s %s: %s; of %d cells there may run it %v", d.Outcome, d.Reason, d.Message, cells, may)
		} else if isSafe {
			safe++
		}
		if len(d.Nodes)+len(d.UnknownNodes) != len(may) {
			t.Fatalf("nodes %s and %s, but there may run it %v", d.Nodes, d.UnknownNodes, may)
		}
	})
	if safe == 0 || safe == fleets {
		t.Errorf("%d of %d fleets were safe: the property held vacuously", safe, fleets)
	}
	fmt.Fprintf(os.Stdout, "» deletion: %d random fleets, never safe while a node may run it (%d were safe)\n", fleets, safe)
}
