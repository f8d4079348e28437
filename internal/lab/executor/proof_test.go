package executor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotation-operator/rotation-operator/config/proof"
)

// TestProof runs the shipped proof with real Ansible: it fails on a node with the old file, on one whose process is older
// than its file, on one without a process, and passes where file and process are new. It changes nothing there.
func TestProof(t *testing.T) {
	b := newAnsibleBed(t)
	b.edpm()
	services, err := proof.Services()
	b.must(err)
	for i := range services {
		services[i].Namespace = b.options.Namespace
		b.create(&services[i])
	}
	loaded := filepath.Join(b.options.NodesDir, "compute-1", "run", "nova.loaded")
	started := func(at time.Time) { b.must(os.Chtimes(loaded, at, at)) }
	for i, stage := range []struct {
		name   string
		change func()
		failed string
	}{
		{"old and running", func() {}, ""},
		{"rotated", func() { b.user("user8") }, `"compute-0","compute-1"`},
		{"one deployed", func() { b.ran("one", func(s *deploymentSpec) { s.AnsibleLimit = "compute-0" }, ok) }, `"compute-1"`},
		{"all deployed", func() { b.ran("all", nil, ok) }, ""},
		{"process old", func() { started(time.Now().Add(-time.Hour)) }, `"compute-1"`},
		{"process new", func() { started(time.Now()) }, ""},
		{"no process", func() { b.must(os.Remove(loaded)) }, `"compute-1"`},
	} {
		t.Run(stage.name, func(t *testing.T) {
			stage.change()
			before := snapshot(t, b.options.NodesDir)
			name := "prove-" + string(rune('a'+i))
			b.deployment(name, func(s *deploymentSpec) { s.ServicesOverride = []string{"prove-nova"} }, "edpm")
			b.must(b.Run(t.Context(), name, []Outcome{ok}))
			state := b.pods("prove-nova-" + name + "-edpm")[0].Status.ContainerStatuses[0].State.Terminated
			if !strings.Contains(state.Message, `"failedHostList":[`+stage.failed+`]`) || !strings.Contains(state.Message, `"totalHosts":2`) {
				t.Errorf("recap %s, want failed %s", state.Message, stage.failed)
			}
			if isGood := stage.failed == ""; (state.ExitCode == 0) != isGood {
				t.Errorf("exit code %d", state.ExitCode)
			}
			if after := snapshot(t, b.options.NodesDir); after != before {
				t.Errorf("the nodes have changed:\n%s\n%s", before, after)
			}
		})
	}
}

// snapshot lists all files with what tells that they were touched.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			all.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
