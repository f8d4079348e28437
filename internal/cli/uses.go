package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

func (t *tool) whoUsesCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "who-uses IDENTITY", Short: "Show the nodes and Secrets that have a credential, by its name in Secrets",
		Example: "  kubectl rotation who-uses user7",
		Args:    between(1, 1, "IDENTITY"), ValidArgsFunction: t.completeIdentities,
		RunE: func(command *cobra.Command, args []string) error {
			r, err := t.report(command.Context())
			if err != nil {
				return err
			}
			usage := r.WhoUses(args[0])
			if err := t.strange(r, usage); err != nil {
				return err
			}
			var nodes []string
			for _, user := range usage.Users {
				nodes = append(nodes, "node/"+user.Name)
			}
			if err := t.emit(printed{value: usage, names: nodes, text: func(p *page) {
				p.usage(usage, t.allNamespaces)
				p.missing(r)
				p.notes(r.Notes)
			}}); err != nil {
				return err
			}
			if usage.Guards == 0 || len(r.Serious("")) > 0 {
				return answered(NotKnown)
			}
			return nil
		},
	}
	return t.addFlags(command, outputs|repeated|everywhere)
}

// strange is the error of a name that nobody ever found, where others were.
func (t *tool) strange(r report.Report, usage report.Usage) error {
	if usage.Guards == 0 || slices.Contains(usage.Known, usage.Identity) || len(usage.Credentials) > 0 {
		return nil
	}
	text := fmt.Sprintf("no credential named %q was ever found%s%s", usage.Identity, t.where(), didYouMean(usage.Identity, usage.Known))
	if len(usage.Known) > 0 {
		text += "\nKnown are: " + names(usage.Known, 10)
	}
	if len(usage.Unknown) > 0 {
		text += fmt.Sprintf("\n%s may run anything, also that", plural(len(usage.Unknown), "node"))
		return failure{NotKnown, text}
	}
	return unread(r, failure{Failed, text})
}

func (p *page) usage(u report.Usage, namespaces bool) {
	if u.Guards == 0 {
		p.say("Nobody looks for credentials here: there is no CredentialGuard. Create one, see config/guards.")
		return
	}
	what := u.Identity
	if len(u.Credentials) > 0 {
		what += " (" + strings.Join(u.Credentials, ", ") + ")"
	}
	switch {
	case len(u.Users)+len(u.Unknown)+len(u.InCluster) == 0:
		p.say("No node can be running %s, and no Secret in the cluster carries it.", what)
	default:
		text := fmt.Sprintf("%s: %s may run it", what, plural(len(u.Users), "node"))
		if len(u.Unknown) > 0 {
			text += fmt.Sprintf(", and %d of which nothing is known", len(u.Unknown))
		}
		p.say("%s", text)
	}
	if len(u.InCluster) > 0 {
		p.say("In the cluster it is in Secret %s", names(u.InCluster, 5))
	}
	p.users(u.Users, "Nodes that may run it", namespaces)
	p.users(u.Unknown, "Nodes that may run anything", namespaces)
}

func (p *page) users(users []report.User, title string, namespaces bool) {
	if len(users) == 0 {
		return
	}
	p.gap()
	p.text.WriteString(p.paint(bold, title) + "\n")
	var order []string
	alike := map[string][]report.User{}
	for _, user := range users {
		key := fmt.Sprint(user.Namespace, user.NodeSet, user.Departed, user.Surely, user.Because)
		if alike[key] == nil {
			order = append(order, key)
		}
		alike[key] = append(alike[key], user)
	}
	for _, key := range order {
		first := alike[key][0]
		var nodes []string
		for _, user := range alike[key] {
			nodes = append(nodes, user.Name)
		}
		line := first.NodeSet + ": " + folded(nodes, p.wide)
		if namespaces {
			line = first.Namespace + "/" + line
		}
		if first.Departed {
			line += ", no longer in the NodeSet"
		}
		p.indent("  ", "    ", line)
		sure := "maybe"
		if first.Surely {
			sure = "surely"
		}
		for _, because := range first.Because {
			p.indent("    ", "      ", sure+": "+because)
		}
	}
}
