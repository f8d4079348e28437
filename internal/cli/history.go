package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

func (t *tool) historyCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "history NODESET|NODE", Short: "Show the Ansible runs that are remembered, latest first",
		Args: between(1, 1, "NODESET or NODE"), ValidArgsFunction: t.completeNodeSets,
		RunE: func(command *cobra.Command, args []string) error {
			r, err := t.report(command.Context())
			if err != nil {
				return err
			}
			one, node, err := t.past(r, args[0])
			if err != nil {
				return err
			}
			var deployments []string
			for _, n := range one.NodeSets {
				for _, run := range n.Runs {
					if name := "openstackdataplanedeployment/" + run.Deployment; !slices.Contains(deployments, name) {
						deployments = append(deployments, name)
					}
				}
			}
			return t.emit(printed{value: one, names: deployments, text: func(p *page) {
				for i := range one.NodeSets {
					p.history(&one.NodeSets[i], node)
				}
				p.missing(one)
				p.notes(one.Notes)
			}})
		},
	}
	return t.addFlags(command, outputs|repeated)
}

// past keeps what concerns the NodeSet, or else the node of that name, which it gives too.
func (t *tool) past(r report.Report, name string) (report.Report, string, error) {
	r.Credentials = []report.Credential{}
	if one, err := t.selected(r, name); err == nil {
		return one, "", nil
	}
	wanted := bare(name, "node")
	within, node, qualified := strings.Cut(wanted, "/")
	if !qualified {
		within, node = "", wanted
	}
	known := nodeSetNames(r)
	kept := []report.NodeSet{}
	for _, n := range r.NodeSets {
		for i := range n.NodeList {
			known = append(known, n.NodeList[i].Name)
			if n.NodeList[i].Name == node && (within == "" || within == n.Name) {
				n.NodeList = []report.Node{n.NodeList[i]}
				n.Runs = slices.DeleteFunc(slices.Clone(n.Runs), func(run report.Run) bool {
					return !slices.Contains(run.Attempted, node) && !slices.Contains(run.Delivered, node)
				})
				kept = append(kept, n)
				break
			}
		}
	}
	if len(kept) == 0 {
		text := fmt.Sprintf("there is no NodeSet and no node %q%s%s", name, t.where(), didYouMean(name, known))
		return r, "", unread(r, failure{Failed, text})
	}
	r.NodeSets = kept
	return r, node, nil
}

func (p *page) history(n *report.NodeSet, node string) {
	p.gap()
	title := "Runs of NodeSet " + n.Name
	if node != "" {
		title += " on node " + node
	}
	p.text.WriteString(p.paint(bold, clean(title)) + "\n")
	if len(n.Runs) == 0 {
		p.say("None is remembered.")
		return
	}
	var rows []row
	var doubts []string
	for _, run := range n.Runs {
		rows = append(rows, runRow(run, node, p.wide))
		doubt := fmt.Sprintf("%s, %s, attempt %d: %s", run.Deployment, run.Service, run.Attempt, run.Doubt)
		if run.Attempt == 0 { // it stands for all that was done unseen
			doubt = run.Deployment + ": " + run.Doubt
		}
		if run.Doubt != "" && !slices.Contains(doubts, doubt) {
			doubts = append(doubts, doubt)
		}
	}
	p.table("", []string{"BEGAN (UTC)", "TOOK", "RESULT", "DEPLOYMENT", "SERVICE", "BROUGHT"}, rows)
	for _, doubt := range doubts {
		p.indent("", "  ", doubt)
	}
}

func runRow(run report.Run, node string, wide bool) row {
	took := "-"
	if run.Began != nil && run.Ended != nil {
		took = ago(run.Ended.Sub(*run.Began))
	}
	result, colour := fmt.Sprintf("%d ok", len(run.Delivered)), ""
	switch {
	case !run.Over:
		result, colour = "running", yellow
	case node != "" && slices.Contains(run.Delivered, node):
		result = "ok"
	case node != "":
		result, colour = "not proved", red
	case len(run.Attempted) > 0:
		result, colour = fmt.Sprintf("%d ok, %d not", len(run.Delivered), len(run.Attempted)), red
	}
	service := run.Service
	if run.Attempt > 1 {
		service += fmt.Sprintf(" #%d", run.Attempt)
	}
	return row{[]string{minute(run.Began), took, result, run.Deployment, service, brought(run, wide)}, colour}
}

// brought names what a run carried: the credentials, else one version.
func brought(run report.Run, wide bool) string {
	var all, credentials []string
	for _, carried := range run.Carried {
		var versions []string
		for _, version := range carried.Versions {
			versions = append(versions, named(version, nil))
		}
		if len(carried.Identities) > 0 {
			versions = carried.Identities
			credentials = append(credentials, carried.Identities...)
		}
		all = append(all, carried.Secret+"="+strings.Join(versions, "|"))
	}
	switch {
	case wide:
		return strings.Join(all, " ")
	case len(credentials) > 0:
		return names(credentials, 2)
	}
	return plural(len(all), "Secret")
}
