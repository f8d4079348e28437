package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

func (t *tool) waitCommand() *cobra.Command {
	var goal string
	var timeout, every time.Duration
	command := &cobra.Command{
		Use: "wait --for safe|updated NAME", Short: "Wait until a credential may go, or a NodeSet is updated; exit 4 on timeout",
		Example: "  kubectl rotation wait --for updated edpm --timeout 60m\n  kubectl rotation wait --for safe rabbitmquser/user7",
		Args:    between(1, 1, "NAME"), ValidArgsFunction: t.completeCredentials,
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case goal != "safe" && goal != "updated":
				return misused("--for is safe or updated, not %q", goal)
			case timeout <= 0 || every <= 0:
				return misused("--timeout and --every must be longer than nothing")
			}
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			question := t.isUpdated
			if goal == "safe" {
				question = t.isSafe
			}
			return t.await(ctx, every, func(ctx context.Context) (bool, string, error) {
				r, err := t.report(ctx)
				if err != nil {
					return false, "", err
				}
				return question(r, args[0])
			})
		},
	}
	command.Flags().StringVar(&goal, "for", "", "safe (NAME is KIND/NAME of a credential) or updated (NAME is a NodeSet)")
	command.Flags().DurationVar(&timeout, "timeout", 30*time.Minute, "how long")
	command.Flags().DurationVar(&every, "every", 5*time.Second, "how long between two looks")
	return command
}

// await asks again and again, and tells when the answer changes.
func (t *tool) await(ctx context.Context, every time.Duration, ask func(context.Context) (bool, string, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	told := ""
	for {
		done, state, err := ask(ctx)
		switch {
		case ctx.Err() != nil:
			return ended(ctx, told)
		case err != nil:
			return err
		case done:
			return t.print(clean(state) + "\n")
		case state != told:
			fmt.Fprintln(t.streams.ErrOut, cleanLines(state))
			told = state
		}
		select {
		case <-ctx.Done():
			return ended(ctx, told)
		case <-ticker.C:
		}
	}
}

func ended(ctx context.Context, told string) error {
	if told == "" {
		told = "nothing had been read"
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return failure{TimedOut, "timed out; at last " + told}
	}
	return failure{Failed, "interrupted; at last " + told}
}

func (t *tool) isSafe(r report.Report, name string) (bool, string, error) {
	c, err := t.find(r, name)
	if err != nil {
		return false, "", err
	}
	a := judge(r, c)
	if a.code == Holds {
		return true, titleOf(c) + " may be deleted", nil
	}
	message := c.Message
	if a.But != "" {
		message = a.But
	}
	return false, fmt.Sprintf("%s may not go: %s", titleOf(c), message), nil
}

func (t *tool) isUpdated(r report.Report, name string) (bool, string, error) {
	one, err := t.selected(r, name)
	if err != nil {
		return false, "", err
	}
	n := one.NodeSets[0]
	against := r.Serious(n.Namespace)
	switch {
	case len(against) > 0:
		return false, fmt.Sprintf("NodeSet %s is not known: %s", n.Name, against[0].Text), nil
	case n.AllUpdated:
		return true, fmt.Sprintf("NodeSet %s: all %s updated", n.Name, plural(n.Nodes, "node")), nil
	case len(n.Missing) > 0:
		return false, fmt.Sprintf("NodeSet %s is not known: %s", n.Name, n.Missing[0]), nil
	}
	return false, fmt.Sprintf("NodeSet %s: %d of %s updated", n.Name, n.Updated, plural(n.Nodes, "node")), nil
}
