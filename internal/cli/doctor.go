package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rotation-operator/rotation-operator/config/crd"
	"github.com/rotation-operator/rotation-operator/config/policies"
	"github.com/rotation-operator/rotation-operator/internal/operator"
	"github.com/rotation-operator/rotation-operator/internal/report"
)

// Diagnosis is what the doctor found.
type Diagnosis struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string    `json:"namespace"`
	Findings        []Finding `json:"findings"`
}

// Finding is one thing that was looked at.
type Finding struct {
	// What was looked at, and its State: OK, Note, Bad or Unknown.
	What  string `json:"what"`
	State string `json:"state"`
	// Text says what was found, Fix what to do about it.
	Text string `json:"text"`
	Fix  string `json:"fix,omitempty"`
}

const (
	fine    = "OK"
	remark  = "Note"
	wrong   = "Bad"
	notSeen = "Unknown"
)

func (d *Diagnosis) add(what, state, text, fix string) {
	d.Findings = append(d.Findings, Finding{what, state, text, fix})
}

// code is how the command ends: what is wrong weighs more than what is not known.
func (d *Diagnosis) code() int {
	code := Holds
	for _, f := range d.Findings {
		switch f.State {
		case wrong:
			return HoldsNot
		case notSeen:
			code = NotKnown
		}
	}
	return code
}

func (t *tool) doctorCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "doctor", Short: "Check that the operator is installed wholly, and what you may do",
		Args: between(0, 0, ""),
		RunE: func(command *cobra.Command, _ []string) error {
			namespace, err := t.namespace()
			if err != nil {
				return err
			}
			c, err := t.client()
			if err != nil {
				return err
			}
			d := &Diagnosis{TypeMeta: metav1.TypeMeta{APIVersion: report.GroupVersion, Kind: "Diagnosis"}, Namespace: namespace}
			for _, look := range []func(context.Context, client.Client, *Diagnosis) error{t.versions, t.definitions, t.gate, t.rights, t.works} {
				if err := look(command.Context(), c, d); err != nil {
					return err
				}
			}
			if err := t.emit(printed{value: d, text: func(p *page) { p.diagnosis(d) }}); err != nil {
				return err
			}
			return answered(d.code())
		},
	}
	return t.addFlags(command, outputs)
}

func (t *tool) versions(_ context.Context, _ client.Client, d *Diagnosis) error {
	d.add("this program", fine, "version "+operator.Version, "")
	discovery, err := t.flags.ToDiscoveryClient()
	if err != nil {
		return fmt.Errorf("no way to the API server: %w", err)
	}
	version, err := discovery.ServerVersion()
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	d.add("API server", fine, "version "+version.GitVersion, "")
	return nil
}

// definitions tells which kinds the API server serves. That needs no right.
func (t *tool) definitions(_ context.Context, c client.Client, d *Diagnosis) error {
	definitions, err := crd.Definitions()
	if err != nil {
		return fmt.Errorf("own definitions: %w", err)
	}
	for _, definition := range definitions {
		kind := metav1.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}
		_, err := c.RESTMapper().RESTMapping(schema.GroupKind(kind), definition.Spec.Versions[0].Name)
		switch {
		case err == nil:
			d.add(kind.Kind, fine, "is served", "")
		case !meta.IsNoMatchError(err):
			return fmt.Errorf("asking for %s: %w", kind.Kind, err)
		case strings.HasPrefix(kind.Group, "dataplane."):
			d.add(kind.Kind, wrong, "is not served: openstack-operator is not installed here, or this is another cluster", "kubectl config current-context")
		default:
			d.add(kind.Kind, wrong, "is not served: the rotation operator is not installed wholly",
				"kubectl apply --server-side -f config/crd/"+kind.Group+"_"+definition.Spec.Names.Plural+".yaml")
		}
	}
	return nil
}

// gate tells which admission policies are in force.
func (t *tool) gate(ctx context.Context, c client.Client, d *Diagnosis) error {
	objects, err := policies.Objects()
	if err != nil {
		return fmt.Errorf("own policies: %w", err)
	}
	for _, object := range objects {
		kind := object.GroupVersionKind()
		what := object.GetName()
		if strings.HasSuffix(kind.Kind, "Binding") {
			what += ", binding"
		}
		var have metav1.PartialObjectMetadata
		have.SetGroupVersionKind(kind)
		err := c.Get(ctx, client.ObjectKeyFromObject(object), &have)
		fix := "kubectl apply --server-side -f config/policies"
		switch {
		case err == nil:
			d.add(what, fine, "is in force", "")
		case meta.IsNoMatchError(err) && strings.HasPrefix(kind.Kind, "Mutating"):
			d.add(what, remark, kind.Kind+" is not served by this API server: a new object is marked a moment after its creation, not with it", "")
		case meta.IsNoMatchError(err):
			d.add(what, wrong, kind.Kind+" is not served by this API server: nothing refuses deletions", "Use Kubernetes 1.30 or later")
		case apierrors.IsNotFound(err):
			d.add(what, wrong, "there is no such "+kind.Kind, fix)
		case apierrors.IsForbidden(err):
			d.add(what, notSeen, "you may not get "+kind.Kind+" objects", "Ask somebody who may, or for that right")
		default:
			return fmt.Errorf("asking for %s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
	return nil
}

// need is a right that commands use.
type need struct{ verb, group, resource, use string }

const (
	dataplane = "dataplane.openstack.org"
	rotation  = "rotation.openstack.org"
	reading   = "to read"
)

func needs() []need {
	all := []need{{"get", "", "configmaps", reading}, {"list", "", "secrets", "to notice new Secrets"}}
	for _, resource := range []string{"openstackdataplanenodesets", "openstackdataplanedeployments", "openstackdataplaneservices"} {
		all = append(all, need{"list", dataplane, resource, reading})
	}
	for _, resource := range []string{"secretrollouts", "credentialguards", "credentialholds", "credentialoverrides", "nodeattestations"} {
		all = append(all, need{"list", rotation, resource, reading})
	}
	return append(all, need{"create", rotation, "nodeattestations", "for attest"}, need{"attest", rotation, "secretrollouts", "for attest"},
		need{"create", rotation, "credentialoverrides", "for override"}, need{"override", rotation, "credentialholds", "for override"})
}

// rights asks what the user may do in the namespace.
func (t *tool) rights(ctx context.Context, c client.Client, d *Diagnosis) error {
	for _, one := range needs() {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: d.Namespace, Verb: one.verb, Group: one.group, Resource: one.resource}}}
		if err := c.Create(ctx, review); err != nil {
			return fmt.Errorf("asking what you may do: %w", err)
		}
		what := "you: " + one.verb + " " + one.resource
		switch {
		case review.Status.Allowed:
			d.add(what, fine, one.use, "")
		case one.use != reading:
			d.add(what, remark, "you may not, "+one.use, "")
		default:
			d.add(what, notSeen, "you may not, so answers are not sure", fmt.Sprintf("Ask for the right to %s %s in namespace %s", one.verb, one.resource, d.Namespace))
		}
	}
	return nil
}

// works tells from what is stored whether the operator works here.
func (t *tool) works(ctx context.Context, _ client.Client, d *Diagnosis) error {
	if d.code() == HoldsNot {
		return nil // what is not installed cannot work
	}
	evidence, err := t.read(ctx, scope{namespace: d.Namespace})
	if err != nil {
		return err
	}
	r := report.Build(evidence)
	for _, note := range r.Notes {
		if note.Serious {
			d.add("evidence", notSeen, note.Text, note.Fix)
		}
	}
	if len(r.NodeSets) == 0 {
		d.add("NodeSets", remark, "there is none in namespace "+d.Namespace, "")
	}
	guards := 0
	for _, n := range evidence.Namespaces {
		guards += len(n.Guards)
	}
	if guards == 0 {
		d.add("guards", remark, "there is no CredentialGuard: no deletion is refused here", "kubectl -n "+d.Namespace+" apply -f config/guards")
	}
	for _, n := range r.NodeSets {
		what := "NodeSet " + n.Name
		switch {
		case n.Note == "" || strings.HasPrefix(n.Note, "NodesBehind"):
			d.add(what, fine, "the operator has looked at it", "")
		case len(n.Missing) > 0:
			d.add(what, notSeen, n.Missing[0], "")
		default:
			d.add(what, remark, n.Note, "")
		}
	}
	return nil
}

func (p *page) diagnosis(d *Diagnosis) {
	var rows []row
	good := 0
	for _, f := range d.Findings {
		if f.State == fine && !p.wide {
			good++
			continue
		}
		rows = append(rows, row{[]string{f.State, f.What, f.Text}, map[string]string{wrong: red, notSeen: yellow, fine: green}[f.State]})
	}
	for _, one := range rows {
		p.text.WriteString(p.paint(one.colour, fmt.Sprintf("%-8s", one.cells[0])))
		for i, line := range wrap(clean(one.cells[1]+": "+one.cells[2]), columns-9) {
			if i > 0 {
				p.text.WriteString(strings.Repeat(" ", 8))
			}
			p.text.WriteString(line + "\n")
		}
	}
	if good > 0 {
		p.say("%-7s %s; -o wide lists them", fine, plural(good, "check"))
	}
	var fixes []string
	for _, f := range d.Findings {
		if f.Fix != "" && !strings.Contains(strings.Join(fixes, "\n")+"\n", f.Fix+"\n") {
			fixes = append(fixes, f.Fix)
		}
	}
	for i, fix := range fixes {
		if i == 0 {
			p.gap()
			p.say("What to do:")
		}
		p.fix("  ", fix)
	}
}
