// Package scenarios plays the scenario files of this directory against the real operator.
package scenarios

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/scenario"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
)

func TestMain(m *testing.M) { testplane.MainWithPolicies(m) }

// patience bounds how long one thing is waited for; a test that passes does not use it up.
const patience = time.Minute

// manager builds the operator.
func manager(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manager")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/manager").CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, out)
	}
	return path
}

// shipped are the scenario files.
func shipped(t *testing.T) []*scenario.File {
	t.Helper()
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	files := make([]*scenario.File, len(paths))
	for i, path := range paths {
		if files[i], err = scenario.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// play plays a file on a testbed of its own.
func play(t *testing.T, plane *controlplane.ControlPlane, manager string, file *scenario.File, timeout time.Duration) ([]scenario.Result, error) {
	t.Helper()
	bed, err := testbed.New(t.Context(), testbed.Options{
		ControlPlane: plane, Namespace: "scenario-", Manager: manager, Dir: t.TempDir(), Timeout: timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer bed.Close()
	return scenario.Play(t.Context(), file, bed, func(scenario.Step, *scenario.Result) {})
}

// holds plays a file and reports every expectation that does not hold.
func holds(t *testing.T, plane *controlplane.ControlPlane, manager string, file *scenario.File) {
	t.Helper()
	results, err := play(t, plane, manager, file, patience)
	if err != nil {
		t.Error(err)
	}
	for _, result := range results {
		if !result.OK {
			t.Errorf("line %d: %s", result.Line, strings.Join(result.Why, "; "))
		}
	}
	if len(results) == 0 {
		t.Error("nothing was expected")
	}
	expectations.Add(int64(len(results)))
}

// expectations and kills count what the tests did.
var expectations, kills atomic.Int64

func TestShipped(t *testing.T) {
	manager, files := manager(t), shipped(t)
	t.Run("", func(t *testing.T) {
		for _, file := range files {
			t.Run(file.Name, func(t *testing.T) {
				t.Parallel()
				holds(t, testplane.Plane(t), manager, file)
			})
		}
	})
	fmt.Fprintf(os.Stdout, "» scenarios: %d files played, %d expectations checked\n", len(files), expectations.Swap(0))
}

// TestOlderServer: the gate holds on the oldest API server that this one can serve as, which has no
// MutatingAdmissionPolicy.
func TestOlderServer(t *testing.T) {
	plane, err := testbed.StartControlPlane(t.Context(), controlplane.Options{Emulate: "1.33"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	file, err := scenario.ReadFile("deletions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	holds(t, plane, manager(t), file)
}

// Killing the operator between any two steps and starting it again changes no answer. By default it is killed between
// all of them in one go; with ROTATION_DEEP=1 also between each two of them alone.
func TestKilledBetweenSteps(t *testing.T) {
	manager, files := manager(t), shipped(t)
	t.Run("", func(t *testing.T) {
		for _, file := range files {
			gaps := gapsOf(file)
			choices := [][]int{gaps}
			if os.Getenv("ROTATION_DEEP") == "1" {
				for _, gap := range gaps {
					choices = append(choices, []int{gap})
				}
			}
			for _, after := range choices {
				t.Run(fmt.Sprint(file.Name, after), func(t *testing.T) {
					t.Parallel()
					holds(t, testplane.Plane(t), manager, killed(file, after))
					kills.Add(int64(len(after)))
				})
			}
		}
	})
	fmt.Fprintf(os.Stdout, "» scenarios: operator killed between two steps %d times, %d expectations checked\n", kills.Load(), expectations.Swap(0))
}

// gapsOf gives the steps after which the operator is up, so that killing and starting it leaves it as it was.
func gapsOf(file *scenario.File) []int {
	var gaps []int
	isUp := true
	for i, step := range file.Steps {
		if operator, ok := step.Action.(scenario.Operator); ok {
			isUp = operator.Verb.Text == "start" || operator.Verb.Text == "restart"
		}
		if isUp {
			gaps = append(gaps, i)
		}
	}
	return gaps
}

// killed is the file with the operator killed and started again after these steps.
func killed(file *scenario.File, after []int) *scenario.File {
	changed := *file
	changed.Steps = nil
	for i, step := range file.Steps {
		changed.Steps = append(changed.Steps, step)
		if !slices.Contains(after, i) {
			continue
		}
		for _, verb := range []string{"kill", "start"} {
			changed.Steps = append(changed.Steps, scenario.Step{
				Number: step.Number, At: step.At, Action: scenario.Operator{Verb: scenario.Word{Text: verb}},
			})
		}
	}
	return &changed
}

const head = `
services: {nova: {secrets: [nova]}}
secrets: {nova: {as: v1, data: {k: user7}}}
nodeSets: {edpm: {nodes: [compute-0, compute-1], services: [nova]}}
steps:
- deploy: {name: initial, nodeSets: [edpm]}
`

// What was right a moment ago, and what is plainly wrong, does not hold; what comes after a step that could not be
// taken does not hold either.
func TestWhatDoesNotHold(t *testing.T) {
	good, dead := manager(t), filepath.Join(t.TempDir(), "dead")
	if err := os.WriteFile(dead, []byte("#!/bin/sh\necho no operator here\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	died := "the operator has ended by itself (exit status 0); its last words:\nno operator here"
	for _, tt := range []struct {
		name, manager, steps string
		want                 []string
		wantErr              string
	}{
		{"stale", good, `
- expect: {nodeSet: edpm, updatedNodes: 2}
- rotate: {secret: nova, as: v2, data: {k: user8}}
- expect: {nodeSet: edpm, updatedNodes: 2, allNodesUpdated: true, expectedHash: {nova: v1}}
- deploy: {name: c0, nodeSets: [edpm], limit: compute-0}
- expect: {nodeSet: edpm, updatedNodes: 0, nodes: {compute-0: {nova: [v1]}}}
- start: {name: c1, nodeSets: [edpm], limit: compute-1}
- expect: {nodeSet: edpm, nodes: {compute-1: {nova: [v1]}}}
`, []string{"",
			"updatedNodes: expected 2, seen 0; allNodesUpdated: expected true, seen false; expectedHash.nova: expected v1, seen [v2]",
			"updatedNodes: expected 0, seen 1; nodes.compute-0.nova: expected [v1], seen [v2]",
			"nodes.compute-1.nova: expected [v1], seen [v1, v2]"}, ""},
		{"no such Secret to mount", good, `
- delete: {kind: Secret, name: nova}
- expect: {nodeSet: edpm, updatedNodes: 0}
- deploy: {name: again, nodeSets: [edpm]}
- expect: {nodeSet: edpm, updatedNodes: 0}
`, []string{"", `a step before it failed: line 9: deploy again on edpm: service nova of NodeSet edpm cannot start: secrets "nova" not found`},
			`line 9: deploy again on edpm: service nova of NodeSet edpm cannot start: secrets "nova" not found`},
		{"dead", dead, `
- expect: {nodeSet: edpm}
`, []string{"a step before it failed: " + died}, died},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file, err := scenario.Parse("f.yaml", []byte(head+strings.TrimPrefix(tt.steps, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			const short = 5 * time.Second // what does not hold takes that long
			results, err := play(t, testplane.Plane(t), tt.manager, file, short)
			var got []string
			for _, result := range results {
				if result.OK != (len(result.Why) == 0) {
					t.Errorf("line %d: OK is %t, and why: %q", result.Line, result.OK, result.Why)
				}
				got = append(got, strings.Join(result.Why, "; "))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if text := fmt.Sprint(err); text != tt.wantErr && (err != nil || tt.wantErr != "") {
				t.Errorf("error %q, want %q", text, tt.wantErr)
			}
		})
	}
}
