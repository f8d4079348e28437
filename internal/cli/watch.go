package cli

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/cli/watch"
	"github.com/rotation-operator/rotation-operator/internal/report"
)

const watchLong = `Show the fleet as it changes, until you leave with q: NodeSets, how far each
Secret is, every node by the version that it runs, verdicts, and what happened.

Where the output is no terminal, or with --lines, a line is printed for what
there is and one for each change.`

// leastInterval keeps a watch from keeping the API server busy.
const leastInterval = time.Second

func (t *tool) watchCommand() *cobra.Command {
	var every time.Duration
	var lines bool
	command := &cobra.Command{
		Use: "watch [NODESET]", Short: "Watch a rotation: a screen on a terminal, elsewhere a line for each change", Long: watchLong,
		Args: between(0, 1, "NODESET"), ValidArgsFunction: t.completeNodeSets,
		RunE: func(command *cobra.Command, args []string) error {
			if every < leastInterval {
				return misused("--every must be %s at least", leastInterval)
			}
			source := func(ctx context.Context) (report.Report, error) {
				r, err := t.report(ctx)
				if err != nil || len(args) == 0 && t.selector == "" {
					return r, err
				}
				return t.selected(r, strings.Join(args, ""))
			}
			if lines || !isTerminal(t.streams.Out) || !isTerminal(t.streams.In) {
				return watch.Lines(command.Context(), source, every, t.streams.Out)
			}
			return watch.Screen(command.Context(), source, every, tea.WithInput(t.streams.In), tea.WithOutput(t.streams.Out))
		},
	}
	command.Flags().DurationVar(&every, "every", 2*time.Second, "how long between two looks")
	command.Flags().BoolVar(&lines, "lines", false, "print a line for each change, on a terminal too")
	return t.addFlags(command, everywhere|selects)
}
