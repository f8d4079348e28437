package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", path, got, want)
	}
}

// TestTexts are plans, simulations and verifications as they are printed.
func TestTexts(t *testing.T) {
	for name, options := range map[string]report.NextOptions{"partial": {}, "unknown": {}, "departed": {}, "done": {}, "drifted": {Batch: report.Batch{Nodes: 4}}} {
		plan, err := report.Build(states[name].story.Evidence()).Next(options)
		if err != nil {
			t.Fatal(err)
		}
		text, err := plan.YAML()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "next-"+name+".yaml", text)
	}
	for name, s := range map[string]report.Scenario{
		"failed": {Identity: "user8", Failed: []string{"compute-2", "edge/edge-0"}}, "limited": {Identity: "user8", Limit: "compute-0,compute-1"}, "password": {},
	} {
		s.Namespace, s.Secret = reporttest.Namespace, reporttest.NovaConfig
		simulation, err := report.Simulate(reporttest.Healthy().Evidence(), s)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "simulate-"+name+".txt", simulation.Text())
	}
	wrong := judgedLikeTheBooks(reporttest.Partial())
	hold := &wrong.Namespaces[0].Holds[0].Status
	hold.Verdict, hold.Reason, hold.Message, hold.AffectedNodes = "Safe", "Safe", "No node can be running user7, and no Secret in the cluster carries it", 0
	for name, e := range map[string]report.Evidence{
		"equal": judgedLikeTheBooks(reporttest.Partial()), "different": wrong, "unjudged": reporttest.Unjudged().Evidence(), "lost": judgedLikeTheBooks(reporttest.Unknown()),
	} {
		golden(t, "verify-"+name+".txt", report.Verify(e).Text())
	}
}
