package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/report"
)

// answer is whether a credential may go, as an exit code.
type answer struct {
	report.Answer
	code int
}

func judge(r report.Report, c report.Credential) answer {
	a := answer{r.Answer(c), NotKnown}
	switch a.Verdict {
	case rotationv1.VerdictSafe:
		a.code = Holds
	case rotationv1.VerdictHeld:
		a.code = HoldsNot
	case rotationv1.VerdictUnknown:
	}
	return a
}

func (a answer) short() string {
	switch a.code {
	case Holds:
		return "yes"
	case HoldsNot:
		return "no"
	}
	return "unknown"
}

func (a answer) colour() string {
	return map[int]string{Holds: green, HoldsNot: yellow, NotKnown: red}[a.code]
}

func (t *tool) canDeleteCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "can-delete KIND/NAME", Short: "Say whether a credential may be deleted; exit 0 only if it may",
		Example: "  kubectl rotation can-delete rabbitmquser/user7 && kubectl delete rabbitmquser user7",
		Args:    between(1, 1, "KIND/NAME"), ValidArgsFunction: t.completeCredentials,
		RunE: func(command *cobra.Command, args []string) error {
			return t.credential(command, args[0], func(p *page, r report.Report, c report.Credential) {
				p.verdict(r, c)
				if judge(r, c).code != Holds {
					p.fix("  ", "kubectl rotation why-not "+strings.ToLower(c.Kind)+"/"+c.Name+" -n "+c.Namespace)
				}
			})
		},
	}
	return t.addFlags(command, outputs|repeated)
}

func (t *tool) whyNotCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "why-not KIND/NAME", Short: "Say all that keeps a credential from going, and what to do about it",
		Args: between(1, 1, "KIND/NAME"), ValidArgsFunction: t.completeCredentials,
		RunE: func(command *cobra.Command, args []string) error {
			return t.credential(command, args[0], func(p *page, r report.Report, c report.Credential) {
				p.verdict(r, c)
				p.checks(c)
			})
		},
	}
	return t.addFlags(command, outputs|repeated)
}

// credential looks one up, prints it and exits as the answer is.
func (t *tool) credential(command *cobra.Command, name string, text func(*page, report.Report, report.Credential)) error {
	r, err := t.report(command.Context())
	if err != nil {
		return err
	}
	c, err := t.find(r, name)
	if err != nil {
		return err
	}
	one := r
	one.NodeSets, one.Credentials = []report.NodeSet{}, []report.Credential{c}
	objects := []string{strings.ToLower(c.Kind) + "/" + c.Name}
	if err := t.emit(printed{value: one, names: objects, text: func(p *page) { text(p, r, c) }}); err != nil {
		return err
	}
	return answered(judge(r, c).code)
}

// kind tells what kind of credential a word means: the kind itself, its plural or its short name.
func (t *tool) kind(r report.Report, word string) (string, error) {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	var kinds []string
	for _, c := range r.Credentials {
		if !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
	}
	for _, kind := range kinds {
		if lower := strings.ToLower(kind); word == lower || word == lower+"s" {
			return kind, nil
		}
	}
	if kind := t.kindOf(word); slices.Contains(kinds, kind) {
		return kind, nil
	}
	text := fmt.Sprintf("nothing is known of any %q%s%s", word, t.where(), didYouMean(word, lowered(kinds)))
	if len(kinds) == 0 {
		text += "\nNo credential is guarded here: create a CredentialGuard (see config/guards), then ask again"
	} else {
		text += "\nKnown are: " + strings.Join(lowered(kinds), ", ") + ". Another kind needs a CredentialGuard (see config/guards)"
	}
	return "", failure{NotKnown, text}
}

func lowered(all []string) []string {
	var lower []string
	for _, one := range all {
		lower = append(lower, strings.ToLower(one))
	}
	return lower
}

// find looks up KIND/NAME.
func (t *tool) find(r report.Report, name string) (report.Credential, error) {
	word, object, found := strings.Cut(name, "/")
	if !found || word == "" || object == "" || strings.Contains(object, "/") {
		return report.Credential{}, misused("%q is not KIND/NAME, such as rabbitmquser/user7", name)
	}
	kind, err := t.kind(r, word)
	if err != nil {
		return report.Credential{}, unread(r, err)
	}
	var known []string
	for _, c := range r.Credentials {
		if c.Kind != kind || c.Name == "" {
			continue
		}
		if c.Name == object {
			return c, nil
		}
		known = append(known, strings.ToLower(kind)+"/"+c.Name)
	}
	text := fmt.Sprintf("nothing is known of %s %q%s%s", kind, object, t.where(), didYouMean(strings.ToLower(kind)+"/"+object, known))
	for _, c := range r.Credentials {
		if c.Name == "" && c.Identity == object {
			text += fmt.Sprintf("\nSecrets carry the name %s, but no guarded object has it; 'kubectl rotation who-uses %s' shows where", object, object)
		}
	}
	return report.Credential{}, unread(r, failure{Failed, text})
}

// unread turns an unknown name into an unknown answer where not everything could be read.
func unread(r report.Report, err error) error {
	notes := r.Serious("")
	if len(notes) == 0 {
		return err
	}
	text := err.Error()
	for _, note := range notes {
		text += "\n" + note.Text
	}
	return failure{NotKnown, text}
}

// verdict writes the answer and what it rests on.
func (p *page) verdict(r report.Report, c report.Credential) {
	a := judge(r, c)
	word := map[int]string{Holds: "YES", HoldsNot: "NO", NotKnown: "UNKNOWN"}[a.code]
	sentence := map[int]string{
		Holds:    fmt.Sprintf("%s may be deleted", titleOf(c)),
		HoldsNot: fmt.Sprintf("%s must not be deleted (%s)", titleOf(c), c.Reason),
		NotKnown: fmt.Sprintf("nobody can tell whether %s may be deleted, so it must not (%s)", titleOf(c), c.Reason),
	}[a.code]
	if a.code == NotKnown && a.But != "" {
		sentence = fmt.Sprintf("the operator called %s safe, but what is there now speaks against it; wait for its next word", titleOf(c))
	}
	p.text.WriteString(p.paint(a.colour(), word) + ": ")
	for i, line := range wrap(clean(sentence), columns-len(word)-2) {
		if i > 0 {
			p.text.WriteString(strings.Repeat(" ", len(word)+2))
		}
		p.text.WriteString(line + "\n")
	}
	if a.But != "" {
		p.indent("  ", "  ", a.But)
	} else if c.Message != "" {
		p.indent("  ", "  ", c.Message)
	}
	var facts []string
	if len(c.Identities) > 1 || c.Identity != c.Name && c.Identity != "" {
		facts = append(facts, "in Secrets it is "+strings.Join(append([]string{c.Identity}, without(c.Identities, c.Identity)...), ", "))
	}
	if c.Gone > 0 {
		facts = append(facts, plural(c.Gone, "node")+" left out because somebody said that they are gone")
	}
	if c.Override != "" {
		facts = append(facts, "it rests on CredentialOverride "+c.Override)
	}
	if c.Deleting {
		facts = append(facts, "somebody deleted it, and the operator let it go")
	}
	if c.Since != nil {
		facts = append(facts, "judged so since "+minute(c.Since)+" UTC, "+since(r.CollectedAt, c.Since)+" ago")
	}
	for _, fact := range facts {
		p.indent("  ", "  ", fact)
	}
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == one })
}

// checks writes what it does not pass, in order, each with the nodes and what to do.
func (p *page) checks(c report.Credential) {
	if len(c.Checks) == 0 {
		p.say("Nothing stands in the way.")
		return
	}
	if c.Override != "" {
		p.gap()
		p.say("Without the override:")
	}
	for i, check := range c.Checks {
		p.gap()
		p.indent(fmt.Sprintf("%d. ", i+1), "   ", check.Reason+": "+check.Message)
		if len(check.Nodes) > 3 {
			p.indent("   ", "   ", "Nodes of "+refs(check.Nodes, p.wide))
		}
		for _, fix := range check.Fixes {
			p.fix("   ", fix)
		}
	}
}

// refs lists nodes by NodeSet.
func refs(nodes []report.NodeRef, wide bool) string {
	var order []string
	in := map[string][]string{}
	for _, node := range nodes {
		if in[node.NodeSet] == nil {
			order = append(order, node.NodeSet)
		}
		in[node.NodeSet] = append(in[node.NodeSet], node.Name)
	}
	var all []string
	for _, nodeSet := range order {
		all = append(all, nodeSet+": "+folded(in[nodeSet], wide))
	}
	return strings.Join(all, "; ")
}
