package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

func (t *tool) nextCommand() *cobra.Command {
	var batch string
	command := &cobra.Command{
		Use: "next [NODESET]", Short: "Print the smallest Deployments that bring what is missing; nothing is created",
		Long: `Prints the smallest Deployments that bring the nodes up to date that are not,
as YAML for kubectl apply. Nothing is created. What no Deployment helps stands
in comments. -o wide shows a table instead.`,
		Example: "  kubectl rotation next edpm --batch 25% | kubectl apply -f -",
		Args:    between(0, 1, "NODESET"), ValidArgsFunction: t.completeNodeSets,
		RunE: func(command *cobra.Command, args []string) error {
			var options report.NextOptions
			var err error
			if batch != "" {
				if options.Batch, err = report.ParseBatch(batch); err != nil {
					return misused("--batch: %v", err)
				}
			}
			r, err := t.report(command.Context())
			if err != nil {
				return err
			}
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			chosen, err := t.selected(r, name)
			if err != nil {
				return err
			}
			if len(chosen.NodeSets) == 0 {
				return unread(r, failure{NotKnown, "nothing is tracked here: there is no OpenStackDataPlaneNodeSet" + t.where()})
			}
			if name != "" || t.selector != "" {
				options.NodeSets = nodeSetNames(chosen)
			}
			plan, err := r.Next(options)
			if err != nil {
				return fmt.Errorf("planning: %w", err)
			}
			return t.plan(plan)
		},
	}
	command.Flags().StringVar(&batch, "batch", "", "at most so many nodes at once: a number, or a share such as 25%")
	return t.addFlags(command, outputs|selects)
}

func (t *tool) plan(plan report.Plan) error {
	if t.output == "table" {
		text, err := plan.YAML()
		if err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		return t.print(text)
	}
	var names []string
	for _, m := range plan.Manifests {
		names = append(names, "openstackdataplanedeployment/"+m.Name)
	}
	return t.emit(printed{value: plan, names: names, text: func(p *page) {
		var rows []row
		for _, m := range plan.Manifests {
			limit := m.Limit
			if limit == "" {
				limit = "all"
			}
			rows = append(rows, row{cells: []string{fmt.Sprintf("%d/%d", m.Batch, m.Batches), m.Name, fmt.Sprint(len(m.Nodes)), limit}})
		}
		p.table("", []string{"BATCH", "DEPLOYMENT", "NODES", "LIMIT"}, rows)
		for _, left := range plan.Left {
			p.indent("", "  ", fmt.Sprintf("%s/%s: %s", left.NodeSet, left.Name, left.Why))
		}
		for _, note := range plan.Notes {
			p.indent("", "  ", note)
		}
		if p.text.Len() == 0 {
			p.say("Nothing is left to deploy.")
		}
	}})
}

// isTerminal tells whether somebody reads along at the other end.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
