// Package cli is the kubectl plugin: it reads a fleet with the user's own rights and prints what internal/report says.
package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

// Exit codes. Scripts rely on them.
const (
	// Holds is for a question answered with yes, and for everything that is no question.
	Holds = 0
	// Failed is for an error.
	Failed = 1
	// Misused is for a command line that makes no sense.
	Misused = 2
	// HoldsNot is for a question answered with no.
	HoldsNot = 3
	// TimedOut is for a wait that was in vain.
	TimedOut = 4
	// NotKnown is for a question that cannot be answered, which is never a yes.
	NotKnown = 5
)

// failure is an error with an exit code. Without text the answer on the standard output says it all.
type failure struct {
	code int
	text string
}

func (f failure) Error() string { return f.text }

func misused(format string, values ...any) error {
	return failure{Misused, fmt.Sprintf(format, values...)}
}

// answered is the error of an answer other than yes.
func answered(code int) error {
	if code == Holds {
		return nil
	}
	return failure{code: code}
}

// scope is where to look: a namespace, or "" for all.
type scope struct{ namespace string }

// source reads the evidence in a scope.
type source func(context.Context, scope) (report.Evidence, error)

// tool is what all commands share.
type tool struct {
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	// read is the way to the evidence; tests put in another.
	read source
	// kindOf tells the kind that a short name stands for, empty where nobody knows.
	kindOf func(word string) string
	// now is the clock, and pause what lies between two looks of -w.
	now   func() time.Time
	pause time.Duration

	allNamespaces, noHeaders, watching bool
	output, selector                   string
	// printed is what -w has printed last.
	printed string
	// colour says that the output is a terminal that wants it.
	colour bool
}

// Run executes a command line and gives the exit code.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	t := &tool{streams: streams, flags: genericclioptions.NewConfigFlags(true), now: time.Now, pause: 2 * time.Second, colour: wantsColour(streams.Out)}
	t.read, t.kindOf = t.live, t.discovered
	return t.run(ctx, args)
}

func (t *tool) run(ctx context.Context, args []string) int {
	root := t.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return Holds
	}
	code := Failed
	var f failure
	if errors.As(err, &f) {
		code = f.code
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(t.streams.ErrOut, cleanLines("Error: "+text))
	}
	if code == Misused {
		fmt.Fprintln(t.streams.ErrOut, "See 'kubectl rotation --help'.")
	}
	return code
}

const long = `kubectl rotation tells which node runs which version of each Secret, and
whether a rotated credential may be deleted. It reads with your own rights and
changes nothing, except for attest and override, which write down your word.

Exit codes: 0 it holds, 1 error, 2 wrong usage, 3 it does not hold,
4 timed out, 5 not known (never take that for a yes).`

func (t *tool) root() *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-rotation", Short: "See which node runs which credential, and whether one may go", Long: long,
		Annotations:  map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl rotation"},
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(command *cobra.Command, _ []string) error { return t.check(command) },
		RunE:              func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return misused("there is no command %q%s", args[0], didYouMean(args[0], commandNames(root)))
	}
	root.SetIn(t.streams.In)
	root.SetOut(t.streams.Out)
	root.SetErr(t.streams.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misused("%v", err) })
	t.flags.AddFlags(root.PersistentFlags())
	hideConnection(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: see, Title: "To see:"}, &cobra.Group{ID: decide, Title: "To decide:"},
		&cobra.Group{ID: act, Title: "To act:"}, &cobra.Group{ID: help, Title: "To help yourself and others:"})
	for _, group := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{see, []*cobra.Command{t.statusCommand(), t.nodesCommand(), t.whoUsesCommand(), t.historyCommand(), t.watchCommand(), t.dashboardCommand()}},
		{decide, []*cobra.Command{t.canDeleteCommand(), t.whyNotCommand(), t.waitCommand(), t.simulateCommand()}},
		{act, []*cobra.Command{t.nextCommand(), t.attestCommand(), t.overrideCommand()}},
		{help, []*cobra.Command{t.doctorCommand(), t.reportCommand(), t.verifyCommand(), t.versionCommand()}},
	} {
		for _, command := range group.commands {
			command.GroupID = group.id
			root.AddCommand(command)
		}
	}
	root.SetHelpCommandGroupID(help)
	root.SetCompletionCommandGroupID(help)
	return root
}

const (
	see    = "see"
	decide = "decide"
	act    = "act"
	help   = "help"
)

// hideConnection keeps the help short: kubectl's flags for connections work, and kubectl options lists them.
func hideConnection(flags *pflag.FlagSet) {
	flags.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains([]string{"namespace", "context", "kubeconfig"}, flag.Name) {
			flag.Hidden = true
		}
	})
}

func commandNames(root *cobra.Command) []string {
	var names []string
	for _, command := range root.Commands() {
		names = append(names, command.Name())
	}
	return names
}

// Sets of flags that commands have.
type flagSet int

const (
	// outputs are -o and --no-headers.
	outputs flagSet = 1 << iota
	// everywhere is -A.
	everywhere
	// selects is -l.
	selects
	// repeated is -w.
	repeated
)

func (t *tool) addFlags(command *cobra.Command, set flagSet) *cobra.Command {
	flags := command.Flags()
	if set&outputs != 0 {
		flags.StringVarP(&t.output, "output", "o", "table", "table, wide, json, yaml, name or jsonpath=...")
		flags.BoolVar(&t.noHeaders, "no-headers", false, "print tables without headers")
	}
	if set&everywhere != 0 {
		flags.BoolVarP(&t.allNamespaces, "all-namespaces", "A", false, "look at all namespaces")
	}
	if set&selects != 0 {
		flags.StringVarP(&t.selector, "selector", "l", "", "only NodeSets with these labels")
	}
	if set&repeated != 0 {
		t.repeats(command)
	}
	return command
}

// check refuses flags that make no sense, before anything is read.
func (t *tool) check(command *cobra.Command) error {
	if command.Flags().Lookup("output") == nil || command.Flags().Lookup("no-headers") == nil {
		return nil
	}
	if slices.Contains([]string{"table", "wide", "json", "yaml", "name"}, t.output) || strings.HasPrefix(t.output, "jsonpath=") {
		return nil
	}
	return misused("there is no output %q: use table, wide, json, yaml, name or jsonpath=...", t.output)
}

// between asks for so many arguments, by what they are.
func between(least, most int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return misused("%s is missing", what)
		case most >= 0 && len(args) > most && most == 0:
			return misused("%q is not expected here", args[0])
		case most >= 0 && len(args) > most:
			return misused("%q is not expected after %s", args[most], what)
		}
		return nil
	}
}

// namespace is the one that the user means.
func (t *tool) namespace() (string, error) {
	namespace, _, err := t.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("no way to the API server: %w", err)
	}
	return namespace, nil
}

func (t *tool) scope() (scope, error) {
	if t.allNamespaces {
		return scope{}, nil
	}
	namespace, err := t.namespace()
	return scope{namespace: namespace}, err
}

// evidence reads what the user wants to see.
func (t *tool) evidence(ctx context.Context) (report.Evidence, error) {
	scope, err := t.scope()
	if err != nil {
		return report.Evidence{}, err
	}
	return t.read(ctx, scope)
}

func (t *tool) report(ctx context.Context) (report.Report, error) {
	evidence, err := t.evidence(ctx)
	if err != nil {
		return report.Report{}, err
	}
	return report.Build(evidence), nil
}
