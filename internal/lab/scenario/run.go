package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
)

// Options say how scenarios are run.
type Options struct {
	// Manager is the path of the operator's program; without it the one next to the running program is taken.
	Manager string
	// Ansible runs the real ansible-playbook instead of scripted runs.
	Ansible bool
	// Timeout bounds how long one expectation is waited for.
	Timeout time.Duration
	// JSON prints the results as JSON instead of a line per step.
	JSON bool
}

// errNotMet says that some expectation does not hold; which one has been printed.
var errNotMet = errors.New("not all expectations hold")

// Run plays the files one after the other, each in a namespace of its own with an operator of its own, on one control
// plane. It prints what came of them, and answers with an error unless every expectation of every file holds.
func Run(ctx context.Context, files []*File, options Options, out, errOut io.Writer) error {
	manager, err := testbed.FindManager(options.Manager)
	if err != nil {
		return err
	}
	options.Manager = manager
	plane, err := testbed.StartControlPlane(ctx, controlplane.Options{})
	if err != nil {
		return err
	}
	defer plane.Stop() //nolint:errcheck // all that could be left is a temporary directory
	dir, err := os.MkdirTemp("", "rotation-scenario-")
	if err != nil {
		return fmt.Errorf("no directory for logs: %w", err)
	}
	defer os.RemoveAll(dir)

	report := report{out: out, json: options.JSON, results: []Result{}}
	for _, file := range files {
		bed, err := testbed.New(ctx, testbed.Options{
			ControlPlane: plane, Namespace: "scenario-", Manager: options.Manager, Ansible: options.Ansible, Dir: dir, Timeout: options.Timeout,
		})
		if err != nil {
			return err
		}
		report.begin(file)
		results, err := Play(ctx, file, bed, report.told)
		bed.Close()
		if report.end(results, err); !report.isGood(results, err) {
			fmt.Fprintf(errOut, "%s: the operator's last words:\n%s\n", file.Path, bed.OperatorLog())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return report.close()
}

// report prints what comes of scenarios, as it comes or all at once as JSON.
type report struct {
	out     io.Writer
	json    bool
	results []Result
	broken  error
}

func (r *report) print(format string, args ...any) {
	if !r.json {
		fmt.Fprintf(r.out, format, args...)
	}
}

func (r *report) begin(file *File) { r.print("%s (%s)\n", file.Name, file.Path) }

func (r *report) told(step Step, result *Result) {
	switch {
	case result == nil:
		r.print("%5d    %s\n", step.At.Line, step.Action)
	case result.OK:
		r.print("%5d  ✓ %s\n", step.At.Line, step.Action)
	default:
		r.print("%5d  ✗ %s\n", step.At.Line, step.Action)
		for _, why := range result.Why {
			r.print("           %s\n", why)
		}
	}
}

func (r *report) end(results []Result, err error) {
	r.results = append(r.results, results...)
	if err != nil {
		r.print("       ✗ %v\n", err)
		r.broken = errors.Join(r.broken, err)
	}
	r.print("\n")
}

// isGood tells whether nothing went wrong with a file.
func (r *report) isGood(results []Result, err error) bool {
	return err == nil && !slices.ContainsFunc(results, func(result Result) bool { return !result.OK })
}

func (r *report) close() error {
	held := 0
	for _, result := range r.results {
		if result.OK {
			held++
		}
	}
	r.print("%d of %d expectations hold\n", held, len(r.results))
	if r.json {
		encoder := json.NewEncoder(r.out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r.results); err != nil {
			return err
		}
	}
	switch {
	case r.broken != nil:
		return r.broken
	case held < len(r.results):
		return errNotMet
	}
	return nil
}
