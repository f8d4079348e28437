package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

const nextLong = `Prints the smallest Deployments that bring exactly those nodes up to date that
are not: only the services that bring what drifts, only the nodes that lack it.
Nothing is created. What no Deployment helps stands in comments.

With --batch each Deployment is one batch: wait for it before you apply the next
one. --first prints the first batch alone. Every output but wide can be applied.`

const nextExample = `  kubectl rotation next edpm | kubectl apply -f -
  kubectl rotation next edpm --batch 25% --first | kubectl apply -f -`

func (t *tool) nextCommand() *cobra.Command {
	var batch string
	var first bool
	command := &cobra.Command{
		Use: "next [NODESET]", Short: "Print the smallest Deployments that bring what is missing; nothing is created",
		Long: nextLong, Example: nextExample, Args: between(0, 1, "NODESET"), ValidArgsFunction: t.completeNodeSets,
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
			chosen, err := t.selected(r, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if len(chosen.NodeSets) == 0 {
				return unread(r, failure{NotKnown, "nothing is tracked here: there is no OpenStackDataPlaneNodeSet" + t.where()})
			}
			plan, err := chosen.Next(options)
			if err != nil {
				return fmt.Errorf("planning: %w", err)
			}
			if first {
				plan = plan.First()
			}
			t.warn(r)
			return t.plan(plan)
		},
	}
	command.Flags().StringVar(&batch, "batch", "", "at most so many nodes at once: a number, or a share such as 25%")
	command.Flags().BoolVar(&first, "first", false, "print only the first batch")
	return t.addFlags(command, outputs|everywhere|selects)
}

// plan prints manifests. Who pipes them on reads the remarks on the error output.
func (t *tool) plan(plan report.Plan) error {
	text, err := plan.YAML()
	if err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if t.output != "wide" && !isTerminal(t.streams.Out) {
		for _, remark := range plan.Remarks() {
			fmt.Fprintln(t.streams.ErrOut, cleanLines(remark))
		}
	}
	if t.output == "table" || t.output == "yaml" {
		return t.print(foldComments(text))
	}
	var names []string
	for _, m := range plan.Manifests {
		names = append(names, "openstackdataplanedeployment/"+m.Name)
	}
	return t.emit(printed{value: plan.List(), names: names, text: func(p *page) { p.plan(plan) }})
}

// foldComments breaks the comments of manifests so that they fit a terminal, apart from commands, which are indented.
func foldComments(text string) string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		comment, found := strings.CutPrefix(line, "# ")
		if !found || strings.HasPrefix(comment, " ") {
			lines = append(lines, line)
			continue
		}
		lines = append(lines, "# "+strings.Join(wrap(comment, columns-2), "\n# "))
	}
	return strings.Join(lines, "\n")
}

// plan is the table of the manifests.
func (p *page) plan(plan report.Plan) {
	var rows []row
	for _, m := range plan.Manifests {
		limit := m.Limit
		if limit == "" {
			limit = "all"
		}
		rows = append(rows, row{cells: []string{fmt.Sprintf("%d/%d", m.Batch, m.Batches), m.Name, strings.Join(m.Services, ","),
			fmt.Sprintf("%d/%d", len(m.Nodes), m.Of), limit}})
	}
	p.table("", []string{"BATCH", "DEPLOYMENT", "SERVICES", "NODES", "LIMIT"}, rows)
	for _, remark := range plan.Remarks() {
		p.indent("", "  ", remark)
	}
}

// warn says on the error output what keeps answers from being sure.
func (t *tool) warn(r report.Report) {
	for _, note := range r.Serious("") {
		fmt.Fprintln(t.streams.ErrOut, cleanLines("Warning: "+note.Text))
	}
}

// isTerminal tells whether somebody reads along at the other end.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
