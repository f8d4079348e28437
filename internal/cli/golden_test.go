package cli

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// states are the fleets that everything is printed of.
var states = map[string]func() *reporttest.Story{
	"healthy": reporttest.Healthy, "drifted": reporttest.Drifted, "partial": reporttest.Partial, "unknown": reporttest.Unknown,
	"retried": reporttest.Retried, "departed": reporttest.Departed, "unsettled": reporttest.Unsettled, "done": reporttest.Done,
	"unseen": reporttest.Unseen, "unjudged": reporttest.Unjudged, "overridden": reporttest.Overridden, "empty": reporttest.New,
	"large": func() *reporttest.Story { return reporttest.Large(1000, 6) },
}

// outcome is what a command line gave.
type outcome struct {
	code     int
	out, err string
}

// try runs a command line on evidence.
func try(t *testing.T, evidence report.Evidence, args ...string) outcome {
	t.Helper()
	return tryWith(t.Context(), t, func(context.Context, scope) (report.Evidence, error) { return evidence, nil }, args...)
}

func tryWith(ctx context.Context, t *testing.T, read source, args ...string) outcome {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var out, errOut bytes.Buffer
	namespace := reporttest.Namespace
	flags := genericclioptions.NewConfigFlags(true)
	flags.Namespace = &namespace
	to := &tool{streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, flags: flags, read: read, pause: time.Millisecond,
		kindOf: func(word string) string { return map[string]string{"rmquser": "RabbitMQUser"}[word] },
		now:    func() time.Time { return reporttest.Start.Add(75 * time.Hour) }}
	code := to.run(ctx, args)
	return outcome{code, out.String(), errOut.String()}
}

// text is the whole outcome as somebody sees it.
func (o outcome) text(args []string) string {
	text := "$ kubectl rotation " + strings.Join(args, " ") + "\n" + o.out
	if o.err != "" {
		text += "--- standard error\n" + o.err
	}
	return text + "--- exit " + string(rune('0'+o.code)) + "\n"
}

// questions are the command lines that are tried on each state.
var questions = [][]string{
	{"status"}, {"status", "-A"}, {"status", "edpm"}, {"status", "-o", "name"}, {"nodes", "edpm"},
	{"nodes", "edpm", "--secret", reporttest.NovaConfig}, {"who-uses", "user7"}, {"can-delete", "rabbitmquser/user7"},
	{"why-not", "rabbitmquser/user7"}, {"history", "edpm"}, {"history", "compute-2"}, {"next"}, {"next", "edpm", "--batch", "50%"},
	{"simulate", "--rotate", reporttest.NovaConfig, "--identity", "user9", "--fail", "compute-1"},
}

// TestGolden: what is printed of each state is what somebody has looked at, and fits a terminal.
func TestGolden(t *testing.T) {
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			evidence := state().Evidence()
			var all []string
			for _, args := range questions {
				o := try(t, evidence, args...)
				narrow(t, args, o.out+o.err)
				all = append(all, o.text(args))
			}
			golden(t, name+".txt", strings.Join(all, "\n"))
		})
	}
}

// narrow complains of lines that are wider than a terminal, apart from what is copied as it is.
func narrow(t *testing.T, args []string, text string) {
	t.Helper()
	for _, line := range strings.Split(text, "\n") {
		isCopied := strings.HasPrefix(line, "  ansibleLimit: ") || strings.HasPrefix(line, "#   kubectl ")
		if ansi.StringWidth(line) > columns && !isCopied {
			t.Errorf("%s prints more than %d columns:\n%s", strings.Join(args, " "), columns, line)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); look at it, then run the test with -update:\n%s", name, diff)
	}
}

func newFlags() *genericclioptions.ConfigFlags { return genericclioptions.NewConfigFlags(true) }
