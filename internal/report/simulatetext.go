package report

import (
	"fmt"
	"strings"
)

// Text tells the simulation stage by stage.
func (s Simulation) Text() string {
	var text strings.Builder
	line := func(format string, args ...any) { text.WriteString(oneLine(fmt.Sprintf(format, args...)) + "\n") }
	line("Nothing of this has happened. Secret %s of namespace %s:", s.Secret, s.Namespace)
	for _, stage := range s.Stages {
		text.WriteString("\n")
		line("%s. %d of %d nodes are updated.", stage.What, stage.Updated, stage.Nodes)
		for _, c := range stage.Credentials {
			line("  %-7s %s%s", c.Verdict, c.title(), reasons(c.Reasons))
			for _, nodes := range byNodeSet(c.Nodes) {
				line("            held by %s", nodes)
			}
			for _, until := range c.Until {
				line("            while %s", until)
			}
		}
		if len(stage.Credentials) == 0 {
			line("  No guard knows a credential in it.")
		}
	}
	for i, note := range s.Notes {
		if i == 0 {
			text.WriteString("\n")
		}
		line("Note: %s.", note)
	}
	return text.String()
}

func (o Outlook) title() string {
	if o.Name == "" || o.Name == o.Identity {
		return o.Kind + " " + o.Identity
	}
	return fmt.Sprintf("%s %s (%s)", o.Kind, o.Name, o.Identity)
}

func reasons(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(all, ", ")
}

// byNodeSet names the nodes of each NodeSet together.
func byNodeSet(nodes []NodeRef) []string {
	var texts []string
	for from := 0; from < len(nodes); {
		to := from
		var names []string
		for to < len(nodes) && nodes[to].NodeSet == nodes[from].NodeSet {
			names = append(names, nodes[to].Name)
			to++
		}
		texts = append(texts, fmt.Sprintf("%s: %s", nodes[from].NodeSet, someOf(names)))
		from = to
	}
	return texts
}
