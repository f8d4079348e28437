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

// states are the recorded states with what must hold of the NodeSet edpm and of the credential user7.
var states = map[string]struct {
	story *reporttest.Story
	// edpm is nodes, updated, behind, unknown; user7 is verdict, reason, and the reasons of the failed checks.
	edpm, user7 string
}{
	"healthy":    {reporttest.Healthy(), "4 4 0 0", "Held StillInCluster [StillInCluster NodesBehind]"},
	"drifted":    {reporttest.Drifted(), "4 0 4 0", "Held NodesBehind [NodesBehind]"},
	"partial":    {reporttest.Partial(), "4 2 0 2", "Held NodesBehind [NodesBehind DeploymentUnsettled]"},
	"unknown":    {reporttest.Unknown(), "3 0 1 2", "Held NodesBehind [NodesBehind NodesUnknown EvidenceIncomplete]"},
	"retried":    {reporttest.Retried(), "4 3 0 1", "Held RestartUnproved [NodesBehind RestartUnproved]"},
	"departed":   {reporttest.Departed(), "3 3 0 0", "Held NodesBehind [NodesBehind]"},
	"unsettled":  {reporttest.Unsettled(), "4 4 0 0", "Held DeploymentUnsettled [DeploymentUnsettled]"},
	"done":       {reporttest.Done(), "4 4 0 0", "Safe Safe []"},
	"unseen":     {reporttest.Unseen(), "4 0 0 4", "Held StillInCluster [StillInCluster NodesBehind EvidenceIncomplete]"},
	"unjudged":   {reporttest.Unjudged(), "4 0 4 0", "Unknown NotJudged [NotJudged]"},
	"overridden": {reporttest.Overridden(), "4 0 4 0", "Safe OverrideInForce [NodesBehind]"},
}

func TestStates(t *testing.T) {
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			r := report.Build(state.story.Evidence())
			if len(r.NodeSets) != 2 || r.NodeSets[1].Name != "edpm" {
				t.Fatalf("there are NodeSets %v", r.NodeSets)
			}
			c := r.NodeSets[1].Counts
			if got := fmt.Sprint(c.Nodes, c.Updated, c.Behind, c.Unknown); got != state.edpm {
				t.Errorf("edpm has %s, want %s", got, state.edpm)
			}
			i := slices.IndexFunc(r.Credentials, func(c report.Credential) bool { return c.Name == "user7" })
			if i < 0 {
				t.Fatal("there is no credential user7")
			}
			credential := r.Credentials[i]
			if credential.Books == "Safe" && credential.Verdict != "Safe" {
				t.Errorf("the books call user7 safe")
			}
			var reasons []string
			for _, check := range credential.Checks {
				reasons = append(reasons, check.Reason)
				if len(check.Fixes) == 0 {
					t.Errorf("%s has no fix", check.Reason)
				}
			}
			if got := fmt.Sprint(credential.Verdict, " ", credential.Reason, " ", reasons); got != state.user7 {
				t.Errorf("user7 is %s, want %s", got, state.user7)
			}
		})
	}
}

// TestCountsAgree: the counts of NodeSets, Secrets and versions are those of the grid.
func TestCountsAgree(t *testing.T) {
	for name, state := range states {
		for _, nodeSet := range report.Build(state.story.Evidence()).NodeSets {
			if nodeSet.Updated+nodeSet.Behind+nodeSet.Unknown != nodeSet.Nodes {
				t.Errorf("%s: %s has %v", name, nodeSet.Name, nodeSet.Counts)
			}
			for _, secret := range nodeSet.Secrets {
				counts := map[report.State]int{}
				for _, node := range nodeSet.NodeList {
					for _, cell := range node.Cells {
						if cell.Secret == secret.Name && !node.Departed {
							counts[cell.State]++
						}
						if cell.State == report.Doubtful && cell.Why == "" {
							t.Errorf("%s: %s does not say why %s on %s is doubtful", name, nodeSet.Name, cell.Secret, node.Name)
						}
					}
				}
				want := report.Counts{Nodes: secret.Nodes, Updated: counts[report.Updated], Behind: counts[report.Behind], Unknown: counts[report.Doubtful]}
				if secret.Counts != want {
					t.Errorf("%s: %s has %v, the grid %v", name, secret.Name, secret.Counts, want)
				}
			}
		}
	}
}

// TestNaturalOrder is an order, and numbers count by their value.
func TestNaturalOrder(t *testing.T) {
	got := report.SortNatural([]string{"compute-10", "compute-2", "compute-02", "a", "compute-1.x", "compute", "b10c2", "b10c10", "b9z"})
	want := "a b9z b10c2 b10c10 compute compute-1.x compute-02 compute-2 compute-10"
	if strings.Join(got, " ") != want {
		t.Errorf("sorted: %v, want %s", got, want)
	}
	name := rapid.StringOfN(rapid.SampledFrom([]rune("ab019-.")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(name).Draw(t, "names")
		once := report.SortNatural(slices.Clone(names))
		slices.Reverse(names)
		if again := report.SortNatural(names); !slices.Equal(once, again) {
			t.Fatalf("the order depends on where one begins: %q and %q", once, again)
		}
	})
}
