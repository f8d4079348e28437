package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

// verdictsOf tells what the books say of the credentials and the nodes, so that two reports can be compared.
func verdictsOf(r report.Report) string {
	var text strings.Builder
	for _, c := range r.Credentials {
		fmt.Fprintf(&text, "%s %s:", c.Identity, c.Books)
		for _, check := range c.Checks {
			fmt.Fprintf(&text, " %s%v", check.Reason, check.Nodes)
		}
		text.WriteString("\n")
	}
	for _, n := range r.NodeSets {
		for _, node := range n.NodeList {
			fmt.Fprintf(&text, "%s/%s %s\n", n.Name, node.Name, node.State)
		}
	}
	return text.String()
}

// TestSimulationComesTrue: what a simulation says is what the books say once it has really happened.
func TestSimulationComesTrue(t *testing.T) {
	nodes := map[string][]string{"edpm": {"compute-0", "compute-1", "compute-2", "compute-10"}, "edge": {"edge-0", "edge-1"}}
	rapid.Check(t, func(t *rapid.T) {
		story, fleets := reporttest.New(), map[string]*reporttest.Fleet{}
		for _, name := range []string{"edge", "edpm"} {
			fleets[name] = story.NodeSet(name, nodes[name]...)
		}
		story.Write(reporttest.NovaConfig, "user6").Write("ceilometer-compute-config-data", "x").At(hour)
		for i, name := range []string{"edge", "edpm"} {
			if rapid.Bool().Draw(t, "deployed "+name) {
				fleets[name].Deploy(fmt.Sprint("initial-", i), reporttest.Outcome{})
			}
		}
		if rapid.Bool().Draw(t, "rotated before") {
			story.At(5*hour).Write(reporttest.NovaConfig, "user7")
		}
		story.At(10 * hour)
		all := slices.Concat(nodes["edge"], nodes["edpm"])
		limit := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, -1, rapid.ID).Draw(t, "limit")
		failed := rapid.SliceOfDistinct(rapid.SampledFrom(limit), rapid.ID).Draw(t, "failed")
		simulation, err := report.Simulate(story.Evidence(), report.Scenario{
			Namespace: reporttest.Namespace, Secret: reporttest.NovaConfig, Identity: "user8", Limit: strings.Join(limit, ","), Failed: failed})
		if err != nil {
			t.Fatal(err)
		}
		now := report.Build(story.Evidence())
		story.Write(reporttest.NovaConfig, "user8")
		rotated := report.Build(story.Evidence())
		story.At(12 * hour)
		for name, fleet := range fleets {
			mine := func(of []string) []string {
				return slices.DeleteFunc(slices.Clone(of), func(node string) bool { return !slices.Contains(nodes[name], node) })
			}
			if len(mine(limit)) > 0 {
				fleet.Deploy("all-"+name, reporttest.Outcome{Limit: mine(limit), Failed: mine(failed), Secrets: []string{reporttest.NovaConfig}})
			}
		}
		for i, want := range []report.Report{now, rotated, report.Build(story.Evidence())} {
			if got := verdictsOf(simulation.Stages[i].Report); got != verdictsOf(want) {
				t.Fatalf("%s, simulated:\n%s\nreally:\n%s", simulation.Stages[i].Name, got, verdictsOf(want))
			}
		}
	})
}

// TestSimulateStages is one rotation with a node that fails, as it is told.
func TestSimulateStages(t *testing.T) {
	story := reporttest.Healthy()
	before := verdictsOf(report.Build(story.Evidence()))
	simulation, err := report.Simulate(story.Evidence(), report.Scenario{
		Namespace: reporttest.Namespace, Secret: reporttest.NovaConfig, Identity: "user8", Failed: []string{"compute-2", "edge/edge-0"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, stage := range simulation.Stages {
		line := fmt.Sprintf("%s %d/%d", stage.Name, stage.Updated, stage.Nodes)
		for _, c := range stage.Credentials {
			line += fmt.Sprintf(", %s %s", c.Identity, c.Verdict)
			for _, node := range c.Nodes {
				line += " " + node.Name
			}
		}
		got = append(got, line)
	}
	all := "edge-0 edge-1 compute-0 compute-1 compute-2 compute-10"
	want := []string{"Now 6/6, user7 Held " + all, "Rotated 0/6, user7 Held " + all + ", user8 Held",
		"Deployed 4/6, user7 Held edge-0 compute-2, user8 Held " + all}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if after := verdictsOf(report.Build(story.Evidence())); after != before {
		t.Error("the simulation changed the evidence")
	}
}

// TestSimulateRefuses: what cannot be simulated is an error that names the thing.
func TestSimulateRefuses(t *testing.T) {
	of := func(change func(*report.Scenario)) report.Scenario {
		s := report.Scenario{Namespace: reporttest.Namespace, Secret: reporttest.NovaConfig, Identity: "user8"}
		change(&s)
		return s
	}
	for want, s := range map[string]report.Scenario{
		"namespace nowhere":          of(func(s *report.Scenario) { s.Namespace = "nowhere" }),
		"receives Secret other":      of(func(s *report.Scenario) { s.Secret = "other" }),
		"reaches no node":            of(func(s *report.Scenario) { s.Limit = "nobody" }),
		"no credential user1":        of(func(s *report.Scenario) { s.Identity = "user1=user2" }),
		"does not go to a node x":    of(func(s *report.Scenario) { s.Failed = []string{"x"} }),
		"a node edpm/edge-0":         of(func(s *report.Scenario) { s.Failed = []string{"edpm/edge-0"} }),
		"carries no credential that": of(func(s *report.Scenario) { s.Secret = "ceilometer-compute-config-data" }),
		"a node compute-10, so":      of(func(s *report.Scenario) { s.Limit, s.Failed = "compute-1", []string{"compute-10"} }),
		"user7=: what is it called":  of(func(s *report.Scenario) { s.Identity = "user7=" }),
	} {
		if _, err := report.Simulate(reporttest.Healthy().Evidence(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	same, err := report.Simulate(reporttest.Healthy().Evidence(), of(func(s *report.Scenario) { s.Identity = "" }))
	if err != nil || len(same.Notes) == 0 {
		t.Errorf("without an identity: %v %v", same.Notes, err)
	}
}
