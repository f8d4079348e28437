package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

func (t *tool) statusCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "status [NODESET]", Short: "Show how far each NodeSet is, and which credentials may go",
		Args: between(0, 1, "NODESET"), ValidArgsFunction: t.completeNodeSets,
		RunE: func(command *cobra.Command, args []string) error {
			r, err := t.report(command.Context())
			if err != nil {
				return err
			}
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			if r, err = t.selected(r, name); err != nil {
				return err
			}
			if err := t.emit(printed{value: r, names: namesOf(r), text: func(p *page) { p.status(r, name != "", t.allNamespaces) }}); err != nil {
				return err
			}
			if len(r.Serious("")) > 0 {
				return answered(NotKnown)
			}
			return nil
		},
	}
	return t.addFlags(command, outputs|repeated|everywhere|selects)
}

// namesOf are the objects of a report as kubectl names them.
func namesOf(r report.Report) []string {
	var all []string
	for _, nodeSet := range r.NodeSets {
		all = append(all, "openstackdataplanenodeset/"+nodeSet.Name)
	}
	return all
}

// status writes all there is in short; of one NodeSet in full.
func (p *page) status(r report.Report, full, namespaces bool) {
	if len(r.NodeSets) == 0 {
		p.nothing(r)
		p.notes(r.Notes)
		return
	}
	headers := []string{"NODESET", "NODES", "UPDATED", "BEHIND", "UNKNOWN", "DRIFT", "RUNNING"}
	var rows []row
	for _, n := range r.NodeSets {
		cells := []string{n.Name, fmt.Sprint(n.Nodes), fmt.Sprint(n.Updated), fmt.Sprint(n.Behind), fmt.Sprint(n.Unknown),
			since(r.CollectedAt, n.DriftSince), runningOf(n)}
		if namespaces {
			cells = append([]string{n.Namespace}, cells...)
		}
		rows = append(rows, row{cells, colourOf(n)})
	}
	if namespaces {
		headers = append([]string{"NAMESPACE"}, headers...)
	}
	p.table("", headers, rows)
	for i := range r.NodeSets {
		p.secrets(&r.NodeSets[i], full || len(r.NodeSets) == 1, r.CollectedAt)
	}
	p.credentials(r, namespaces)
	p.missing(r)
	p.notes(r.Notes)
	p.advice(r)
}

func colourOf(n report.NodeSet) string {
	switch {
	case n.AllUpdated:
		return green
	case n.Unknown > 0 || len(n.Missing) > 0:
		return red
	}
	return yellow
}

func runningOf(n report.NodeSet) string {
	if len(n.Running) == 0 {
		return "-"
	}
	var all []string
	for _, running := range n.Running {
		all = append(all, running.Name)
	}
	return names(all, 2)
}

// nothing says that nothing is tracked, and what to do.
func (p *page) nothing(r report.Report) {
	if len(r.Serious("")) > 0 {
		p.say("Nothing can be told: not everything could be read.")
		return
	}
	p.say("Nothing is tracked here: there is no OpenStackDataPlaneNodeSet.")
	p.say("Look at another namespace with -n, or at all with -A. Whether the operator is installed says")
	p.fix("  ", "kubectl rotation doctor")
}

// secrets writes the Secrets of a NodeSet; in short only those that are not everywhere.
func (p *page) secrets(n *report.NodeSet, full bool, now time.Time) {
	var rows []row
	for _, s := range n.Secrets {
		if full || s.Updated != s.Nodes {
			rows = append(rows, secretRow(s, now))
		}
	}
	hosts, late := len(n.HostSecrets), 0
	for _, s := range n.HostSecrets {
		if s.Updated != s.Nodes {
			late++
			if len(rows) < 20 || p.wide {
				rows = append(rows, secretRow(s, now))
			}
		}
	}
	if len(rows) == 0 && (!full || hosts == 0) {
		return
	}
	p.gap()
	p.text.WriteString(p.paint(bold, "Secrets of "+clean(n.Name)) + "\n")
	p.table("  ", []string{"SECRET", "UPDATED", "DRIFT", "IN CLUSTER", "NODES RUN"}, rows)
	if full && hosts > 0 {
		p.indent("  ", "  ", fmt.Sprintf("and %s made for single nodes, %d of them not delivered", plural(hosts, "Secret"), late))
	}
}

func secretRow(s report.Secret, now time.Time) row {
	var runs []string
	for _, v := range s.Versions {
		runs = append(runs, fmt.Sprintf("%s (%d)", named(v.Version, v.Identities), v.Nodes))
	}
	colour := ""
	switch {
	case s.Unknown > 0:
		colour = red
	case s.Behind > 0:
		colour = yellow
	}
	return row{[]string{s.Name, fmt.Sprintf("%d/%d", s.Updated, s.Nodes), since(now, s.DriftSince),
		named(s.Expected, s.ExpectedIdentities), names(runs, 2)}, colour}
}

// named is a version as people know it: by the credentials inside, else by the first characters of its hash.
func named(version fleet.Version, identities []string) string {
	switch {
	case version == fleet.Unknown:
		return "unknown"
	case version == fleet.None:
		return "none"
	case len(identities) > 0:
		return strings.Join(identities, "+")
	}
	return version.Short()
}

// credentials writes the verdicts with what the operator says.
func (p *page) credentials(r report.Report, namespaces bool) {
	if len(r.Credentials) == 0 {
		return
	}
	p.gap()
	headers := []string{"CREDENTIAL", "MAY GO", "ON NODES", "SINCE", "REASON"}
	var rows []row
	for _, c := range r.Credentials {
		a := judge(r, c)
		cells := []string{titleOf(c), a.short(), onNodes(c), since(r.CollectedAt, c.Since), a.Reason}
		if namespaces {
			cells = append([]string{c.Namespace}, cells...)
		}
		rows = append(rows, row{cells, a.colour()})
	}
	if namespaces {
		headers = append([]string{"NAMESPACE"}, headers...)
	}
	p.table("", headers, rows)
	for _, c := range r.Credentials {
		if c.Name == "" {
			p.say("A name with ? was found in Secrets and belongs to no known object.")
			break
		}
	}
}

// onNodes counts the nodes that may run it.
func onNodes(c report.Credential) string {
	if c.Unknown > 0 {
		return fmt.Sprintf("%d, %d unknown", c.Affected, c.Unknown)
	}
	return fmt.Sprint(c.Affected)
}

// missing says why not everything is known.
func (p *page) missing(r report.Report) {
	first := true
	for _, n := range r.NodeSets {
		for _, why := range n.Missing {
			if first {
				p.gap()
			}
			first = false
			p.indent("! ", "  ", n.Name+": "+why)
		}
	}
}

// notes says what the reader must know to trust the rest.
func (p *page) notes(notes []report.Note) {
	for i, note := range notes {
		if i == 0 {
			p.gap()
		}
		mark := "  "
		if note.Serious {
			mark = "! "
		}
		p.indent(mark, "  ", note.Text)
		if note.Fix != "" {
			p.fix("    ", note.Fix)
		}
	}
}

// advice is the one command that helps next.
func (p *page) advice(r report.Report) {
	var next []string
	var namespaces []string
	late, running := 0, 0
	for _, n := range r.NodeSets {
		late += n.Behind + n.Unknown
		running += len(n.Running)
		namespaces = append(namespaces, n.Namespace)
	}
	in := " -A"
	if slices.Sort(namespaces); len(slices.Compact(namespaces)) == 1 {
		in = " -n " + namespaces[0]
	}
	switch {
	case running > 0:
		next = append(next, "kubectl rotation watch"+in, "until what runs is over")
	case late > 0:
		next = append(next, "kubectl rotation next"+in, "left to deploy")
	}
	for _, c := range r.Credentials {
		if c.Name != "" && judge(r, c).code != Holds && c.Reason != string(verdict.ReasonStillInCluster) {
			next = append(next, "kubectl rotation why-not "+strings.ToLower(c.Kind)+"/"+c.Name+" -n "+c.Namespace, "what is in the way")
			break
		}
	}
	if len(next) == 0 {
		return
	}
	p.gap()
	const most = 80
	longest := 0
	for i := 0; i < len(next); i += 2 {
		longest = max(longest, len(clean(next[i])))
	}
	for i := 0; i < len(next); i += 2 {
		line := fmt.Sprintf("%-*s # %s", longest, clean(next[i]), next[i+1])
		if len(line) > most {
			line = clean(next[i])
		}
		fmt.Fprintln(&p.text, line)
	}
}
