package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// manager is the operator's program, built once.
var manager = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rotation-manager-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "manager")
	if out, err := exec.Command("go", "build", "-o", path, "../../../cmd/manager").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the operator: %w\n%s", err, out)
	}
	return path, nil
})

// shipped are the project's scenario files.
func shipped(t *testing.T) []*File {
	t.Helper()
	paths, err := filepath.Glob("../../../test/scenarios/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	files := make([]*File, len(paths))
	for i, path := range paths {
		if files[i], err = ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// play runs the file on a testbed of its own.
func play(t *testing.T, file *File, timeout time.Duration) []Result {
	t.Helper()
	program, err := manager()
	if err != nil {
		t.Fatal(err)
	}
	bed, err := testbed.New(t.Context(), testbed.Options{
		ControlPlane: testplane.Plane(t), Namespace: "scenario-", Manager: program, Dir: t.TempDir(), Timeout: timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer bed.Close()
	player := player{file: file, bed: bed, aliases: aliases{}, told: func(Step, *Result) {}}
	results, err := player.play(t.Context())
	if err != nil {
		t.Error(err)
	}
	return results
}

// holds reports every expectation that does not hold.
func holds(t *testing.T, results []Result) {
	t.Helper()
	for _, result := range results {
		if !result.OK {
			t.Errorf("line %d: %s", result.Line, strings.Join(result.Why, "; "))
		}
	}
	if len(results) == 0 {
		t.Error("nothing was expected")
	}
}

// patience bounds how long one thing is waited for in tests; a test that passes does not use it up.
const patience = time.Minute

func TestShippedScenarios(t *testing.T) {
	for _, file := range shipped(t) {
		t.Run(file.Name, func(t *testing.T) {
			t.Parallel()
			holds(t, play(t, file, patience))
		})
	}
}

// Killing the operator between any two steps and starting it again changes no answer. By default it is killed between
// all of them in one go; with ROTATION_DEEP=1 also between each two of them alone.
func TestKilledBetweenSteps(t *testing.T) {
	for _, file := range shipped(t) {
		gaps := gapsOf(file)
		kills := [][]int{gaps}
		if os.Getenv("ROTATION_DEEP") == "1" {
			for _, gap := range gaps {
				kills = append(kills, []int{gap})
			}
		}
		for _, at := range kills {
			t.Run(fmt.Sprint(file.Name, at), func(t *testing.T) {
				t.Parallel()
				holds(t, play(t, killed(file, at), patience))
			})
		}
	}
}

// gapsOf gives the steps after which the operator is up, so that killing and starting it leaves it as it was.
func gapsOf(file *File) []int {
	var gaps []int
	isUp := true
	for i, step := range file.Steps {
		if operator, ok := step.Action.(Operator); ok {
			isUp = operator.Verb.Text == "start" || operator.Verb.Text == "restart"
		}
		if isUp {
			gaps = append(gaps, i)
		}
	}
	return gaps
}

// killed is the file with the operator killed and started again after these steps.
func killed(file *File, after []int) *File {
	changed := *file
	changed.Steps = nil
	for i, step := range file.Steps {
		changed.Steps = append(changed.Steps, step)
		if slices.Contains(after, i) {
			for _, verb := range []string{"kill", "start"} {
				changed.Steps = append(changed.Steps, Step{Number: step.Number, At: step.At, Action: Operator{Word{Text: verb}}})
			}
		}
	}
	return &changed
}
