package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

// odd are host names that mean something in a limit, or that are also names of groups.
var odd = []string{"compute-0", "compute-1", "compute-10", "compute-1x", "all", "ungrouped", "edpm", "edge", "web", "localhost", "c", "a-b", "*", "comp*",
	"?ompute-0", "~c", "~^compute-1", "!compute-0", "&compute-1", "@compute-0", "-compute", "a,b", "a b", "'q'", `"q"`, `b\s`, "$HOME", "$(X)", "10", "_x", "ä", "a\tb", "#c", "compute-0;x", "a:b", "fe80::1", "x]", "true"}

// randomFleet is a namespace in which something was rotated and half deployed.
type randomFleet struct {
	story *reporttest.Story
	sets  map[string]*reporttest.Fleet
	hosts map[string][]string
}

func drawFleet(t *rapid.T, failures bool) randomFleet {
	r := randomFleet{story: reporttest.New(), sets: map[string]*reporttest.Fleet{}, hosts: map[string][]string{}}
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"edpm", "edge", "web", "compute-1"}), 1, 3, rapid.ID).Draw(t, "NodeSets")
	for _, name := range names {
		r.hosts[name] = rapid.SliceOfNDistinct(rapid.SampledFrom(odd), 1, 8, rapid.ID).Draw(t, name)
		r.sets[name] = r.story.NodeSet(name, r.hosts[name]...)
	}
	secrets := []string{reporttest.NovaConfig, "ceilometer-compute-config-data"}
	r.story.Write(secrets[0], "user7").Write(secrets[1], "x").At(1 * hour)
	for i := range rapid.IntRange(0, 6).Draw(t, "steps") {
		r.story.At(hoursOf(2 + i))
		if rapid.Bool().Draw(t, "rotate") {
			r.story.Write(rapid.SampledFrom(secrets).Draw(t, "secret"), fmt.Sprint("user", 8+i))
			continue
		}
		name := rapid.SampledFrom(names).Draw(t, "deploy")
		subset := rapid.SliceOfDistinct(rapid.SampledFrom(r.hosts[name]), rapid.ID).Draw(t, "limit")
		outcome := reporttest.Outcome{Limit: subset, Secrets: rapid.SampledFrom([][]string{nil, secrets[:1], secrets[1:]}).Draw(t, "secrets")}
		if failures && len(subset) > 0 && rapid.Bool().Draw(t, "fails") {
			outcome.Failed = subset[:1]
		}
		r.sets[name].Deploy(fmt.Sprint("d", i), outcome)
	}
	r.story.At(hoursOf(20))
	return r
}

func optionsOf(t *rapid.T) report.NextOptions {
	return report.NextOptions{Batch: rapid.SampledFrom([]report.Batch{{}, {}, {Nodes: 1}, {Nodes: 3}, {Percent: 25}, {Percent: 100}}).Draw(t, "batch")}
}

// TestNextIsExact: the manifests go to exactly the nodes that are behind or unknown, each to exactly those that it says,
// and whatever is left out says why.
func TestNextIsExact(t *testing.T) {
	for range 20 {
		rapid.Check(t, nextIsExact)
	}
}

func nextIsExact(t *rapid.T) {
	fleet := drawFleet(t, true)
	built := report.Build(fleet.story.Evidence())
	options := optionsOf(t)
	plan, err := built.Next(options)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, nodeSet := range built.NodeSets {
		for _, node := range nodeSet.NodeList {
			if node.State != report.Updated {
				want = append(want, nodeSet.Name+"/"+node.Name)
			}
		}
	}
	for _, left := range plan.Left {
		got = append(got, left.NodeSet+"/"+left.Name)
		if left.Why == "" {
			t.Fatalf("%s is left out without a reason", left.Name)
		}
	}
	names := map[string]bool{}
	for _, m := range plan.Manifests {
		for _, node := range m.Nodes {
			got = append(got, node.NodeSet+"/"+node.Name)
		}
		reaches(t, m, fleet.hosts)
		if names[m.Name] || len(m.Name) > 63 {
			t.Fatalf("two are called %s, or it is too long", m.Name)
		}
		names[m.Name] = true
		if n := options.Batch.Nodes; n > 0 && len(m.Nodes) > n {
			t.Fatalf("a batch of %d has %d nodes", n, len(m.Nodes))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("planned for %q, not updated are %q", got, want)
	}
}

// reaches fails unless the limit reaches just the nodes of the manifest, in the inventory of each of its NodeSets.
func reaches(t *rapid.T, m report.Manifest, hosts map[string][]string) {
	for _, nodeSet := range m.NodeSets {
		var want []string
		for _, node := range m.Nodes {
			if node.NodeSet == nodeSet {
				want = append(want, node.Name)
			}
		}
		slices.Sort(want)
		inventory := hostpattern.Inventory{Groups: []hostpattern.Group{{Name: nodeSet, Hosts: hosts[nodeSet]}}}
		for _, play := range []string{"all", nodeSet} {
			got := hostpattern.ResolveRun(inventory, play, hostpattern.Compose("", m.Limit, ""))
			if !got.Decided || !slices.Equal(got.Surely, want) {
				t.Fatalf("%q reaches %q of %s (%s%s), want %q", m.Limit, got.Surely, nodeSet, got.Err, got.Why, want)
			}
		}
	}
}

// TestNextIsEnough: whatever was deployed badly, once the plan is carried out every node that it went to is updated, and
// nothing in it was in vain.
func TestNextIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := drawFleet(t, false)
		before := report.Build(fleet.story.Evidence())
		plan, err := before.Next(optionsOf(t))
		if err != nil {
			t.Fatal(err)
		}
		brings := map[string]string{"nova": reporttest.NovaConfig, "telemetry": "ceilometer-compute-config-data"}
		went := map[string]bool{}
		for i, m := range plan.Manifests {
			fleet.story.At(hoursOf(30 + i))
			var secrets []string
			for _, service := range m.Services {
				secrets = append(secrets, brings[service])
			}
			nodes := map[string][]string{}
			for _, node := range m.Nodes {
				nodes[node.NodeSet] = append(nodes[node.NodeSet], node.Name)
				went[node.NodeSet+"/"+node.Name] = true
				for _, secret := range secrets {
					if stateIn(before, node, secret) == report.Updated {
						t.Fatalf("%s is to get %s, which it has", node.Name, secret)
					}
				}
			}
			for nodeSet, names := range nodes {
				fleet.sets[nodeSet].Deploy(m.Name, reporttest.Outcome{Limit: names, Secrets: secrets})
			}
		}
		fleet.story.At(hoursOf(90))
		for _, nodeSet := range report.Build(fleet.story.Evidence()).NodeSets {
			for _, node := range nodeSet.NodeList {
				if node.State != report.Updated && went[nodeSet.Name+"/"+node.Name] {
					t.Fatalf("%s of %s is %s after the plan was carried out: %v", node.Name, nodeSet.Name, node.State, node.Cells)
				}
			}
		}
	})
}

func stateIn(r report.Report, ref report.NodeRef, secret string) report.State {
	for _, nodeSet := range r.NodeSets {
		for _, node := range nodeSet.NodeList {
			for _, cell := range node.Cells {
				if nodeSet.Name == ref.NodeSet && node.Name == ref.Name && cell.Secret == secret {
					return cell.State
				}
			}
		}
	}
	return report.Doubtful
}

// TestNextStories are the recorded states: what is to be done in each, in one line a manifest.
func TestNextStories(t *testing.T) {
	all := "edge,edpm nova  | "
	for name, want := range map[string]string{
		"healthy": "", "done": "", "unsettled": "", "drifted": all, "unjudged": all, "overridden": all, "unseen": all,
		"departed": "left compute-2 | ", "partial": "edge,edpm nova compute-2,compute-10,edge-0,edge-1 | ",
		"retried": "edge nova  | left compute-1 | ",
		"unknown": "edge,edpm nova,telemetry compute-1,compute-2,edge-0,edge-1 | edpm nova compute-0 | ",
	} {
		plan, err := report.Build(states[name].story.Evidence()).Next(report.NextOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, m := range plan.Manifests {
			got += fmt.Sprintf("%s %s %s | ", strings.Join(m.NodeSets, ","), strings.Join(m.Services, ","), m.Limit)
		}
		for _, left := range plan.Left {
			got += "left " + left.Name + " | "
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestNextNames: a name that a Deployment has is not given again, and the same need gets the same name.
func TestNextNames(t *testing.T) {
	story := reporttest.Drifted()
	plan := func() report.Plan {
		plan, err := report.Build(story.Evidence()).Next(report.NextOptions{NodeSets: []string{"edpm"}})
		if err != nil || len(plan.Manifests) != 1 {
			t.Fatal(plan, err)
		}
		return plan
	}
	first := plan().Manifests[0].Name
	if again := plan().Manifests[0].Name; again != first {
		t.Errorf("the same need is called %s and %s", first, again)
	}
	story.Change(func(n *report.Namespace) {
		var d dataplanev1.OpenStackDataPlaneDeployment
		d.Name, d.UID = first, "uid-other"
		n.Deployments = append(n.Deployments, d)
	})
	if second := plan().Manifests[0].Name; second != first+"-2" {
		t.Errorf("beside %s it is called %s", first, second)
	}
	if _, err := report.Build(story.Evidence()).Next(report.NextOptions{NodeSets: []string{"nowhere"}}); err == nil {
		t.Error("a NodeSet that does not exist is no error")
	}
}

func TestParseBatch(t *testing.T) {
	for text, want := range map[string]report.Batch{"5": {Nodes: 5}, "25%": {Percent: 25}, "100%": {Percent: 100}} {
		if got, err := report.ParseBatch(text); err != nil || got != want {
			t.Errorf("%s is %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "0%", "101%", "x", "5 %", "%"} {
		if got, err := report.ParseBatch(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

const hour = time.Hour

func hoursOf(n int) time.Duration { return time.Duration(n) * hour }
