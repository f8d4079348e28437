package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// facts are what the rooms before this one say of a NodeSet.
type facts struct {
	namespace *Namespace
	questions []question
	world     upstream.World
	book      ledger.Book
	wanted    verdict.Wanted
	drift     verdict.Drift
	unsettled []string
}

// Build makes the report. Nothing is left out silently: what cannot be told stands in Notes or in a NodeSet's Missing.
func Build(e Evidence) Report {
	report := Report{
		TypeMeta:    metav1.TypeMeta{APIVersion: GroupVersion, Kind: "Report"},
		CollectedAt: e.CollectedAt, NodeSets: []NodeSet{}, Credentials: []Credential{},
	}
	for i := range e.Namespaces {
		namespace := &e.Namespaces[i]
		questions, notes := questionsOf(namespace)
		for _, unread := range namespace.Unread {
			text := unread.What + " cannot be read: " + unread.Why
			report.Notes = append(report.Notes, Note{Namespace: namespace.Name, Text: text, Fix: unread.Fix, Serious: unread.Needed})
		}
		report.Notes = append(report.Notes, notes...)
		var judged []NodeSet
		for _, tracked := range namespace.NodeSets {
			judged = append(judged, nodeSetOf(namespace, questions, tracked))
		}
		slices.SortFunc(judged, func(a, b NodeSet) int { return cmp.Compare(a.Name, b.Name) })
		report.NodeSets = append(report.NodeSets, judged...)
		report.Credentials = append(report.Credentials, credentialsOf(namespace, questions, judged, e.CollectedAt)...)
	}
	return report
}

// nodeSetOf says what there is to say of one NodeSet.
func nodeSetOf(namespace *Namespace, questions []question, tracked Tracked) NodeSet {
	f := factsOf(namespace, tracked)
	f.questions = questions
	n := NodeSet{
		Namespace: namespace.Name, Name: tracked.NodeSet.Name, Labels: tracked.NodeSet.Labels,
		Missing: f.wanted.Missing, Secrets: []Secret{}, NodeList: []Node{}, facts: f,
	}
	n.addNodes()
	n.addSecrets(tracked)
	n.addRuns()
	n.AllUpdated = f.drift.AllNodesUpdated()
	if tracked.Rollout == nil {
		n.Note = "there is no SecretRollout of it yet: the operator has not looked at it"
		return n
	}
	for _, c := range tracked.Rollout.Status.Conditions {
		if c.Type == "Ready" && c.Status != metav1.ConditionTrue {
			n.Note = c.Reason + ": " + c.Message
		}
	}
	return n
}

// factsOf asks the rooms before this one, as the operator does.
func factsOf(namespace *Namespace, tracked Tracked) facts {
	nodeSet := tracked.NodeSet
	f := facts{namespace: namespace, book: ledger.NewBook()}
	state, current, err := trackmap.Decode(tracked.Record, string(nodeSet.UID))
	var missing []string
	if err != nil {
		missing = append(missing, recordProblem(namespace, nodeSet.Name, err))
		state = trackmap.State{Book: ledger.NewBook(), Settled: namespace.settledBy(tracked.Rollout)}
	}
	f.book = state.Book
	f.world = worldOf(namespace, &nodeSet, state)
	if why := namespace.unread("OpenStackDataPlaneServices"); why != "" {
		missing = append(missing, "OpenStackDataPlaneServices cannot be read: "+why)
		f.world.NodeSet.Spec.Services = nil
	}
	delivered := map[string]bool{}
	for _, run := range f.book.Runs {
		for secret := range run.Carried {
			delivered[secret] = true
		}
	}
	f.wanted = f.world.Wanted(slices.Sorted(maps.Keys(delivered)))
	f.wanted.Missing = append(missing, f.wanted.Missing...)
	f.outdate()
	for _, uid := range f.world.Touching() {
		if f.world.Settled[uid] == "" {
			f.unsettled = append(f.unsettled, f.world.Deployments[uid].Name)
		}
	}
	slices.Sort(f.unsettled)
	f.drift = verdict.Judge(f.book, f.wanted, current)
	return f
}

// worldOf puts together what the operator would see of the NodeSet, without pods: their runs are in the book.
func worldOf(namespace *Namespace, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, state trackmap.State) upstream.World {
	world := upstream.World{
		NodeSet: nodeSet, Secrets: map[string]upstream.Secret{}, Settled: map[types.UID]string{},
		Services:    map[string]*dataplanev1.OpenStackDataPlaneService{},
		Deployments: map[types.UID]*dataplanev1.OpenStackDataPlaneDeployment{},
	}
	for i := range namespace.Services {
		world.Services[namespace.Services[i].Name] = &namespace.Services[i]
	}
	for i := range namespace.Deployments {
		world.Deployments[namespace.Deployments[i].UID] = &namespace.Deployments[i]
	}
	for name, history := range state.Book.Secrets {
		secret := upstream.Secret{History: history}
		if host, scoped := state.Book.Scope[name]; scoped && history.UID != "" {
			secret.Labels = upstream.CertLabels(nodeSet.Name, host)
		}
		world.Secrets[name] = secret
	}
	for _, entry := range state.Settled {
		uid, _, _ := strings.Cut(entry, "/") // behind it stands the Deployment's name
		world.Settled[types.UID(uid)] = "settled"
	}
	return world
}

// outdate takes back what the record says of Secrets that were written since: the operator has not read them yet.
func (f *facts) outdate() {
	if f.namespace.Secrets == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(f.wanted.Secrets)) {
		history := f.book.Secrets[name]
		sight, there := f.namespace.Secrets[name]
		if there && sight.UID == history.UID && sight.ResourceVersion == fmt.Sprint(history.Revision) || !there && history.UID == "" {
			continue
		}
		want := f.wanted.Secrets[name]
		if len(history.Held) > 0 {
			f.wanted.Missing = append(f.wanted.Missing, fmt.Sprintf("Secret %s was written after the operator last read it", name))
		}
		want.Expected = fleet.Unknown
		f.wanted.Secrets[name] = want
	}
}

// settledBy are the Deployments that are settled as the SecretRollout has it, for want of a record.
func (n *Namespace) settledBy(rollout *rotationv1.SecretRollout) []string {
	var settled []string
	for _, deployment := range n.Deployments {
		if rollout != nil && deployment.Status.Deployed && !slices.Contains(rollout.Status.UnsettledDeployments, deployment.Name) {
			settled = append(settled, string(deployment.UID))
		}
	}
	return settled
}

func recordProblem(namespace *Namespace, nodeSet string, err error) string {
	name := "ConfigMap " + nodeSet + "-secret-tracking"
	switch why := namespace.unread(name); {
	case why != "":
		return name + " cannot be read: " + why
	case errors.Is(err, trackmap.ErrAbsent):
		return name + " does not exist: the operator has not looked at the NodeSet yet, or the record was deleted"
	case errors.Is(err, trackmap.ErrNewer):
		return name + " is of a newer format than this program knows: use the program of the operator's version"
	}
	return name + " cannot be used: " + err.Error()
}

// unread says why something could not be read, empty where it could.
func (n *Namespace) unread(what string) string {
	for _, unread := range n.Unread {
		if unread.What == what {
			return unread.Why
		}
	}
	return ""
}

// timeOf is nil for no time.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
