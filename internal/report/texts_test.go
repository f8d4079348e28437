package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rotation-operator/rotation-operator/internal/report"
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

// TestTexts are plans as they are printed.
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
}
