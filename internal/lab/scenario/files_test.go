package scenario

import (
	"path/filepath"
	"testing"
)

// shipped are the scenario files of the project.
func shipped(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../../../test/scenarios/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	return paths
}
func TestX(t *testing.T) {
	for _, p := range shipped(t) {
		if _, err := ReadFile(p); err != nil {
			t.Error(err)
		}
	}
}
