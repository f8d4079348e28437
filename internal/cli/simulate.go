package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

func (t *tool) simulateCommand() *cobra.Command {
	var s report.Scenario
	command := &cobra.Command{
		Use: "simulate --secret SECRET", Short: "Say what a rotation and a Deployment would change; nothing is touched",
		Example: "  kubectl rotation simulate --secret nova-cell1-compute-config --identity user8 \\\n    --limit 'compute-*' --failed compute-3",
		Args:    between(0, 0, ""),
		RunE: func(command *cobra.Command, _ []string) error {
			if s.Secret == "" {
				return misused("--secret is missing: the Secret that would be rotated")
			}
			evidence, err := t.evidence(command.Context())
			if err != nil {
				return err
			}
			if s.Namespace, err = t.namespace(); err != nil {
				return err
			}
			simulation, err := report.Simulate(evidence, s)
			if err != nil {
				return unread(report.Build(evidence), failure{Failed, err.Error() + didYouMean(s.Secret, secretNames(report.Build(evidence)))})
			}
			return t.emit(printed{value: simulation, text: func(p *page) { p.simulation(simulation) }})
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.Secret, "secret", "", "the Secret that would be rotated")
	flags.StringVar(&s.Identity, "identity", "", "the credential that it would carry: a name, or OLD=NEW; without it only the content changes")
	flags.StringVar(&s.Limit, "limit", "", "the Deployment's ansibleLimit; without it all nodes")
	flags.StringSliceVar(&s.Failed, "failed", nil, "nodes on which it would fail, as NODE or NODESET/NODE")
	return t.addFlags(command, outputs)
}

func secretNames(r report.Report) []string {
	var all []string
	for _, n := range r.NodeSets {
		for _, s := range n.Secrets {
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
			may := map[string]string{"Safe": "yes", "Held": "no"}[c.Verdict]
			if may == "" {
				may = "unknown"
			}
			rows = append(rows, row{cells: []string{title, may, orDash(strings.Join(c.Reasons, ", ")), fmt.Sprint(len(c.Nodes))}})
		}
		p.table("   ", []string{"CREDENTIAL", "MAY GO", "BECAUSE", "NODES"}, rows)
		if i < len(s.Stages)-1 {
			continue
		}
		for _, c := range stage.Credentials {
			for _, until := range c.Until {
				p.indent("   ", "     ", c.Identity+" until: "+until)
			}
		}
	}
	for i, note := range s.Notes {
		if i == 0 {
			p.gap()
		}
		p.indent("Note: ", "  ", note)
	}
}
