package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/report"
)

// word is what makes somebody's word count, as flags.
type word struct {
	reason string
	span   time.Duration
	dryRun bool
}

const late = `A word that is given within 5 seconds after a run ended does not count against
that run, for clocks may differ: wait a moment after a run.`

func (w *word) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&w.reason, "reason", "", "why, for those who read it later")
	flags.DurationVar(&w.span, "for", 24*time.Hour, "how long it counts")
	flags.BoolVar(&w.dryRun, "dry-run", false, "let the API server check it, but write nothing down")
}

// check refuses what the API server would refuse, in words that help.
func (w *word) check() error {
	const least, most = 4, 512
	switch reason := strings.TrimSpace(w.reason); {
	case reason == "":
		return misused("--reason is missing: say why, for those who read it later")
	case len([]rune(reason)) < least || len([]rune(reason)) > most:
		return misused("--reason must have %d to %d characters", least, most)
	case w.span <= 0:
		return misused("--for must be longer than nothing")
	}
	return nil
}

func (t *tool) attestCommand() *cobra.Command {
	var w word
	command := &cobra.Command{
		Use: "attest NODESET/NODE... --reason REASON", Short: "Give your word that nodes are gone for good",
		Long: `Writes a NodeAttestation: your word that the nodes are powered off, re-installed
or scrapped, so that they run nothing of what they were given. They then count
for no credential, until it expires or a run reaches them again.
You need the right to attest secretrollouts in rotation.openstack.org.

` + late,
		Example: "  kubectl rotation attest edpm/compute-7 --reason 'scrapped, ticket 4711' --for 24h --dry-run",
		Args:    between(1, -1, "NODESET/NODE"), ValidArgsFunction: t.completeNodes,
		RunE: func(command *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			for _, arg := range args {
				if set, node, found := strings.Cut(arg, "/"); !found || set == "" || node == "" {
					return misused("%q is not NODESET/NODE, such as edpm/compute-7", arg)
				}
			}
			r, err := t.report(command.Context())
			if err != nil {
				return err
			}
			bySet := map[string][]string{}
			var order []string
			for _, arg := range args {
				set, node, _ := strings.Cut(arg, "/")
				if err := t.isNode(r, set, node); err != nil {
					return err
				}
				if bySet[set] == nil {
					order = append(order, set)
				}
				if !slices.Contains(bySet[set], node) {
					bySet[set] = append(bySet[set], node)
				}
			}
			for _, set := range order {
				object := &rotationv1.NodeAttestation{Spec: rotationv1.NodeAttestationSpec{NodeSet: set, Nodes: bySet[set]}}
				what := fmt.Sprintf("%s of NodeSet %s: gone", names(bySet[set], 5), set)
				if err := t.give(command.Context(), w, object, &object.Spec.Word, what); err != nil {
					return err
				}
			}
			return nil
		},
	}
	w.addTo(command)
	return command
}

// isNode refuses a word about a node that nobody knows: it would count for nothing.
func (t *tool) isNode(r report.Report, set, node string) error {
	for _, n := range r.NodeSets {
		if n.Name != set {
			continue
		}
		var known []string
		for _, one := range n.NodeList {
			if one.Name == node {
				return nil
			}
			known = append(known, set+"/"+one.Name)
		}
		return failure{Failed, fmt.Sprintf("NodeSet %s has and had no node %q%s", set, node, didYouMean(set+"/"+node, known))}
	}
	for _, note := range r.Notes { // of a deleted one only the operator knows the nodes
		if strings.HasPrefix(note.Text, deletedNodeSet+set+" ") {
			return nil
		}
	}
	return t.unknownNodeSet(r, set)
}

func (t *tool) overrideCommand() *cobra.Command {
	var w word
	command := &cobra.Command{
		Use: "override KIND/NAME --reason REASON", Short: "Give your word that a credential may go although it is held",
		Long: `Writes a CredentialOverride: your word that a credential may go although the
operator cannot call it safe. Nodes that still run it lose their access. It does
not count while a Secret in the cluster carries the credential, nor against what
reaches a node later.
You need the right to override credentialholds in rotation.openstack.org.

` + late,
		Example: "  kubectl rotation override rabbitmquser/user7 --reason 'leaked, ticket 4711' --for 1h --dry-run",
		Args:    between(1, 1, "KIND/NAME"), ValidArgsFunction: t.completeCredentials,
		RunE: func(command *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			r, err := t.report(command.Context())
			if err != nil {
				return err
			}
			c, err := t.find(r, args[0])
			if err != nil {
				return err
			}
			object := &rotationv1.CredentialOverride{Spec: rotationv1.CredentialOverrideSpec{Kind: c.Kind, Name: c.Name}}
			if a := judge(r, c); a.code != Holds {
				fmt.Fprintln(t.streams.ErrOut, clean("Now: "+c.Message))
			}
			return t.give(command.Context(), w, object, &object.Spec.Word, titleOf(c)+": may go")
		},
	}
	w.addTo(command)
	return command
}

// give writes a word down, in the user's own name.
func (t *tool) give(ctx context.Context, w word, object client.Object, into *rotationv1.Word, what string) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	me := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, me); err != nil {
		return fmt.Errorf("asking the API server who you are: %w", err)
	}
	namespace, err := t.namespace()
	if err != nil {
		return err
	}
	object.SetNamespace(namespace)
	object.SetGenerateName("word-")
	*into = rotationv1.Word{By: me.Status.UserInfo.Username, Reason: strings.TrimSpace(w.reason), Until: metav1.NewTime(t.now().Add(w.span).Truncate(time.Second))}
	var options []client.CreateOption
	done := "Written down"
	if w.dryRun {
		options, done = append(options, client.DryRunAll), "Would be written down (dry run)"
	}
	err = c.Create(ctx, object, options...)
	switch {
	case apierrors.IsForbidden(err):
		return failure{Failed, "you may not say that: " + err.Error()}
	case err != nil:
		return fmt.Errorf("writing it down: %w", err)
	}
	text := fmt.Sprintf("%s: %s, by %s until %s UTC.", done, what, into.By, minute(&into.Until.Time))
	if !w.dryRun {
		kind := "nodeattestation"
		if _, ok := object.(*rotationv1.CredentialOverride); ok {
			kind = "credentialoverride"
		}
		text += fmt.Sprintf("\nTo take it back: kubectl -n %s delete %s %s", namespace, kind, object.GetName())
	}
	return t.print(clean(text) + "\n")
}
