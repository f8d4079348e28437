package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

func (t *tool) nodesCommand() *cobra.Command {
	var secret string
	command := &cobra.Command{
		Use: "nodes NODESET", Short: "Show each node and what it runs, those behind first",
		Args: between(1, 1, "NODESET"), ValidArgsFunction: t.completeNodeSets,
		RunE: func(command *cobra.Command, args []string) error {
			r, err := t.report(command.Context())
			if err != nil {
				return err
			}
			if r, err = t.selected(r, args[0]); err != nil {
				return err
			}
			r.Credentials = []report.Credential{}
			n := &r.NodeSets[0]
			if err := onlySecret(n, secret); err != nil {
				return err
			}
			n.NodeList = behindFirst(n.NodeList)
			var nodes []string
			for _, node := range n.NodeList {
				nodes = append(nodes, "node/"+node.Name)
			}
			return t.emit(printed{value: r, names: nodes, text: func(p *page) {
				p.nodes(r, n)
				p.missing(r)
				p.notes(r.Notes)
			}})
		},
	}
	command.Flags().StringVar(&secret, "secret", "", "only this Secret")
	return t.addFlags(command, outputs|repeated)
}

// onlySecret drops all other Secrets from the NodeSet. The state of a node is then that of this Secret.
func onlySecret(n *report.NodeSet, name string) error {
	if name == "" {
		return nil
	}
	var known []string
	keep := func(secrets []report.Secret) []report.Secret {
		kept := []report.Secret{}
		for _, s := range secrets {
			known = append(known, s.Name)
			if s.Name == name {
				kept = append(kept, s)
			}
		}
		return kept
	}
	n.Secrets, n.HostSecrets = keep(n.Secrets), keep(n.HostSecrets)
	if len(n.Secrets)+len(n.HostSecrets) == 0 {
		return failure{Failed, fmt.Sprintf("Secret %q does not go to nodes of NodeSet %s%s", name, n.Name, didYouMean(name, known))}
	}
	nodes := []report.Node{}
	for _, node := range n.NodeList {
		for _, cell := range node.Cells {
			if cell.Secret == name {
				node.Cells, node.State = []report.Cell{cell}, cell.State
				nodes = append(nodes, node)
				break
			}
		}
	}
	n.NodeList = nodes
	n.Counts = report.Counts{}
	for _, s := range append(slices.Clone(n.Secrets), n.HostSecrets...) {
		n.Counts = s.Counts
	}
	return nil
}

// behindFirst sorts those that are not updated before the others; else the order stays.
func behindFirst(nodes []report.Node) []report.Node {
	rank := func(n report.Node) int {
		switch n.State {
		case report.Doubtful:
			return 0
		case report.Behind:
			return 1
		case report.Updated:
		}
		return 2
	}
	sorted := slices.Clone(nodes)
	slices.SortStableFunc(sorted, func(a, b report.Node) int { return cmp.Compare(rank(a), rank(b)) })
	return sorted
}

// maxAlike is how many nodes of the same state are listed one by one, unless all are wanted.
const maxAlike = 20

// nodes writes one line for each node and each Secret that it does not surely have; a node that has all gets one line.
func (p *page) nodes(r report.Report, n *report.NodeSet) {
	if len(n.NodeList) == 0 {
		p.say("NodeSet %s has no nodes.", n.Name)
		return
	}
	var rows []row
	seen := map[report.State]int{}
	left := map[report.State][]string{}
	for _, node := range n.NodeList {
		if seen[node.State]++; seen[node.State] > maxAlike && !p.wide {
			left[node.State] = append(left[node.State], node.Name)
			continue
		}
		rows = append(rows, nodeRows(r, node)...)
	}
	p.say("NodeSet %s: %s, %d updated, %d behind, %d unknown", n.Name, plural(n.Nodes, "node"), n.Updated, n.Behind, n.Unknown)
	p.table("", []string{"NODE", "STATE", "SECRET", "RUNS", "SINCE", "BY"}, rows)
	for _, state := range []report.State{report.Doubtful, report.Behind, report.Updated} {
		if len(left[state]) > 0 {
			p.indent("", "  ", fmt.Sprintf("and %d more are %s: %s", len(left[state]), strings.ToLower(string(state)), folded(left[state], false)))
		}
	}
	for i, why := range whys(n) {
		if i == 0 {
			p.gap()
		}
		p.indent("", "  ", why)
	}
}

// whys says why nodes are not updated, in one sentence for all nodes of which the same is true.
func whys(n *report.NodeSet) []string {
	var order []string
	nodes := map[string][]string{}
	add := func(why, node string) {
		if nodes[why] == nil {
			order = append(order, why)
		}
		nodes[why] = append(nodes[why], node)
	}
	for _, node := range n.NodeList {
		for _, cell := range node.Cells {
			if cell.Why != "" {
				add(cell.Secret+": "+cell.Why, node.Name)
			}
		}
		switch {
		case node.Departed && node.Gone != "":
			add(node.Gone, node.Name)
		case node.Departed:
			add("no longer in the NodeSet, and may still run what it was given", node.Name)
		}
	}
	var all []string
	for _, why := range order {
		all = append(all, folded(nodes[why], false)+": "+why)
	}
	return all
}

func nodeRows(r report.Report, node report.Node) []row {
	state := string(node.State)
	if node.Departed {
		state += ", left"
	}
	var rows []row
	for _, cell := range node.Cells {
		if cell.State == report.Updated && len(node.Cells) > 1 {
			continue
		}
		runs := named(cell.Version, cell.Identities)
		if len(cell.Candidates) > 1 && len(cell.Identities) < 2 {
			runs = fmt.Sprintf("one of %d versions", len(cell.Candidates))
		} else if len(cell.Candidates) > 1 {
			runs = strings.Join(cell.Identities, " or ")
		}
		rows = append(rows, row{[]string{node.Name, state, cell.Secret, runs, since(r.CollectedAt, cell.At), orDash(cell.Deployment)}, colourOfState(node.State)})
	}
	switch {
	case len(rows) > 0:
	case len(node.Cells) == 0:
		rows = append(rows, row{[]string{node.Name, state, "no Secret is known", "-", "-", "-"}, colourOfState(node.State)})
	default:
		last := node.Cells[0]
		for _, cell := range node.Cells {
			if cell.At != nil && (last.At == nil || cell.At.After(*last.At)) {
				last = cell
			}
		}
		rows = append(rows, row{[]string{node.Name, state, "all", "the latest", since(r.CollectedAt, last.At), orDash(last.Deployment)}, colourOfState(node.State)})
	}
	return rows
}

func colourOfState(state report.State) string {
	switch state {
	case report.Updated:
		return green
	case report.Behind:
		return yellow
	case report.Doubtful:
	}
	return red
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
