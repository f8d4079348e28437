package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/report"
)

const simulateLong = `Plays a rotation that has not happened, and the Deployment after it, on a copy
of the records, and says what would be held, by which nodes, and while what is
so. It goes by the same rules as the operator. Nothing is changed.

Without --identity the credential keeps its name, as when only a password
changes. Where the Secret carries several, say which: OLD=NEW.`

const simulateExample = `  kubectl rotation simulate --rotate nova-cell1-compute-config \
    --identity user8 --limit compute-0,compute-1 --fail compute-1
  kubectl rotation simulate --rotate nova-cell1-compute-config -f bundle.yaml`

func (t *tool) simulateCommand() *cobra.Command {
	var s report.Scenario
	var file string
	command := &cobra.Command{
		Use: "simulate --rotate SECRET", Short: "Say what a rotation and a Deployment would hold; nothing is touched",
		Long: simulateLong, Example: simulateExample, Args: between(0, 0, ""),
		RunE: func(command *cobra.Command, _ []string) error {
			if s.Secret = bare(s.Secret, "secret", "secrets"); s.Secret == "" {
				return misused("--rotate is missing: the Secret that would be rotated")
			}
			evidence, err := t.saved(command.Context(), file)
			if err != nil {
				return err
			}
			if s.Namespace, err = t.namespaceIn(evidence, file); err != nil {
				return err
			}
			simulation, err := report.Simulate(evidence, s)
			if err != nil {
				r := report.Build(evidence)
				return unread(r, failure{Failed, err.Error() + didYouMean(s.Secret, secretNames(r, s.Secret))})
			}
			return t.emit(printed{value: simulation, text: func(p *page) { p.simulation(simulation) }})
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.Secret, "rotate", "", "the Secret that would be rotated")
	flags.StringVar(&s.Identity, "identity", "", "the credential that it would carry: a name, or OLD=NEW; without it only the content changes")
	flags.StringVar(&s.Limit, "limit", "", "the Deployment's ansibleLimit; without it all nodes")
	flags.StringSliceVar(&s.Failed, "fail", nil, "nodes on which it would fail, as NODE or NODESET/NODE")
	flags.StringVarP(&file, "filename", "f", "", "a bundle that report has written, instead of the cluster; - is the standard input")
	return t.addFlags(command, outputs)
}

// saved reads a bundle, or the cluster where none is named.
func (t *tool) saved(ctx context.Context, file string) (report.Evidence, error) {
	if file == "" {
		return t.evidence(ctx)
	}
	return t.bundle(file)
}

// namespaceIn is the user's namespace, or the only one that a bundle has.
func (t *tool) namespaceIn(e report.Evidence, file string) (string, error) {
	if file != "" && len(e.Namespaces) == 1 && *t.flags.Namespace == "" {
		return e.Namespaces[0].Name, nil
	}
	return t.namespace()
}

// secretNames are those that are tracked; none where the Secret is one of them and something else was wrong.
func secretNames(r report.Report, secret string) []string {
	var all []string
	for _, n := range r.NodeSets {
		for _, s := range n.Secrets {
			if s.Name == secret {
				return nil
			}
			all = append(all, s.Name)
		}
	}
	return all
}

func (p *page) simulation(s report.Simulation) {
	for i, stage := range s.Stages {
		p.gap()
		p.indent(fmt.Sprintf("%d. ", i+1), "   ", fmt.Sprintf("%s: %d of %s updated", stage.What, stage.Updated, plural(stage.Nodes, "node")))
		var rows []row
		for _, c := range stage.Credentials {
			title := c.Kind + "/" + c.Name
			if c.Name == "" {
				title = c.Kind + "? " + c.Identity
			}
			colour := map[string]string{"Safe": green, "Held": yellow}[c.Verdict]
			rows = append(rows, row{[]string{title, c.Verdict, fmt.Sprint(len(c.Nodes)), orDash(strings.Join(c.Reasons, ", "))}, colour})
		}
		p.table("   ", []string{"CREDENTIAL", "VERDICT", "NODES", "BECAUSE"}, rows)
		if len(rows) == 0 {
			p.indent("   ", "   ", "No guard knows a credential in it.")
		}
	}
	for _, c := range s.Stages[len(s.Stages)-1].Credentials {
		if c.Verdict == string(rotationv1.VerdictSafe) {
			continue // an override lets it go although nodes may run it
		}
		for i, until := range c.Until {
			if i == 0 {
				p.gap()
				p.say("%s would be held%s while", c.Identity, heldBy(c.Nodes))
			}
			p.indent("- ", "  ", until)
		}
	}
	for i, note := range s.Notes {
		if i == 0 {
			p.gap()
		}
		p.indent("Note: ", "  ", note)
	}
}

// heldBy names nodes, with their NodeSet where there are several.
func heldBy(nodes []report.NodeRef) string {
	var all []string
	for _, node := range nodes {
		name := node.Name
		if node.NodeSet != nodes[0].NodeSet || nodes[len(nodes)-1].NodeSet != nodes[0].NodeSet {
			name = node.NodeSet + "/" + name
		}
		all = append(all, name)
	}
	if len(all) == 0 {
		return ""
	}
	const shown = 20
	return " by " + names(all, shown)
}
