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

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// Scenario is a rotation that did not happen, with the Deployment that would follow it.
type Scenario struct {
	// Namespace and Secret say what is rotated.
	Namespace, Secret string
	// Identity is the credential that the new content carries: a name, or OLD=NEW where there are several. Empty keeps
	// the names, as when only a password changes.
	Identity string
	// Limit is the Deployment's ansibleLimit, empty for all nodes.
	Limit string
	// Failed are the nodes on which it does not end well, as NODE or NODESET/NODE.
	Failed []string
}

// Simulation is what would be held, and for how long.
type Simulation struct {
	metav1.TypeMeta `json:",inline"`
	CollectedAt     time.Time `json:"collectedAt"`
	Namespace       string    `json:"namespace"`
	Secret          string    `json:"secret"`
	// Stages are now, after the rotation, and after the Deployment.
	Stages []Stage `json:"stages"`
	// Notes say what the simulation cannot tell, in sentences without a full stop.
	Notes []string `json:"notes,omitempty"`
}

// Stage is the fleet at one moment of a simulation.
type Stage struct {
	// Name is Now, Rotated or Deployed. What says what was done, without a full stop.
	Name string `json:"name"`
	What string `json:"what"`
	// Updated and Nodes count the nodes of the NodeSets that receive the Secret.
	Updated int `json:"updated"`
	Nodes   int `json:"nodes"`
	// Credentials are those that the Secret carries at any stage, or that nodes may run of it at the beginning.
	Credentials []Outlook `json:"credentials"`
	// Report is everything that there would be to say.
	Report Report `json:"-"`
}

// Outlook is the verdict on one credential at one stage, by the books alone.
type Outlook struct {
	Kind     string `json:"kind"`
	Name     string `json:"name,omitempty"`
	Identity string `json:"identity"`
	Verdict  string `json:"verdict"`
	// Reasons are those of all checks that it does not pass, the first decides.
	Reasons []string `json:"reasons,omitempty"`
	// Nodes are those that hold it.
	Nodes []NodeRef `json:"nodes,omitempty"`
	// Until says what must happen for it to be safe, each a sentence without a full stop.
	Until []string `json:"until,omitempty"`
}

// Simulate plays the scenario on a copy of the evidence. It goes through the same code as everything else: the rotation
// and the runs are put into the books, and the books are judged anew.
func Simulate(e Evidence, s Scenario) (Simulation, error) {
	simulation := Simulation{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: "Simulation"}, CollectedAt: e.CollectedAt,
		Namespace: s.Namespace, Secret: s.Secret}
	world, err := newImagined(e, s)
	if err != nil {
		return simulation, err
	}
	stages := []Stage{{Name: "Now", What: "As it is", Report: world.judge()}}
	world.running = stages[0].running(world)
	if err := world.rotate(); err != nil {
		return simulation, err
	}
	stages = append(stages, Stage{Name: "Rotated", What: fmt.Sprintf("Secret %s is rotated%s", s.Secret, world.identities()), Report: world.judge()})
	what, err := world.deploy()
	if err != nil {
		return simulation, err
	}
	stages = append(stages, Stage{Name: "Deployed", What: what, Report: world.judge()})
	for i := range stages {
		stages[i].look(world)
	}
	simulation.Stages, simulation.Notes = stages, world.notes
	return simulation, nil
}

// imagined is a copy of a namespace in which things happen that did not.
type imagined struct {
	evidence Evidence
	scenario Scenario
	// names are the NodeSets that receive the Secret, states their books.
	names    []string
	states   map[string]*trackmap.State
	old, new []string
	// running are the credentials of the Secret that nodes may run at the beginning, also such as were rotated out before.
	running []string
	notes   []string
}

// newImagined copies what receives the Secret. The verdicts of the operator are left out: they are about what happened.
func newImagined(e Evidence, s Scenario) (*imagined, error) {
	w := &imagined{scenario: s, states: map[string]*trackmap.State{}}
	i := slices.IndexFunc(e.Namespaces, func(n Namespace) bool { return n.Name == s.Namespace })
	if i < 0 {
		return nil, fmt.Errorf("nothing was read of namespace %s", s.Namespace)
	}
	namespace := e.Namespaces[i]
	namespace.NodeSets, namespace.Secrets = slices.Clone(namespace.NodeSets), maps.Clone(namespace.Secrets)
	namespace.Holds = slices.Clone(namespace.Holds)
	for k := range namespace.Holds {
		hold := *namespace.Holds[k].DeepCopy()
		hold.Status = rotationv1.CredentialHoldStatus{Identity: hold.Status.Identity, Identities: hold.Status.Identities}
		namespace.Holds[k] = hold
	}
	w.evidence = e
	w.evidence.Namespaces = []Namespace{namespace}
	for _, nodeSet := range w.judge().NodeSets {
		tracked := w.tracked(nodeSet.Name)
		state, _, err := trackmap.Decode(tracked.Record, string(tracked.NodeSet.UID))
		if err != nil {
			w.note("%s; what NodeSet %s would hold cannot be told", recordProblem(&namespace, nodeSet.Name, err), nodeSet.Name)
			continue
		}
		_, wanted := nodeSet.facts.wanted.Secrets[s.Secret]
		if _, known := state.Book.Secrets[s.Secret]; known && wanted {
			w.names = append(w.names, nodeSet.Name)
			w.states[nodeSet.Name] = &state
		}
	}
	if len(w.names) == 0 {
		return nil, fmt.Errorf("no NodeSet of namespace %s receives Secret %s, as far as the records tell", s.Namespace, s.Secret)
	}
	return w, nil
}

func (w *imagined) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.notes, text) {
		w.notes = append(w.notes, text)
	}
}

func (w *imagined) namespace() *Namespace { return &w.evidence.Namespaces[0] }

func (w *imagined) tracked(nodeSet string) *Tracked {
	nodeSets := w.namespace().NodeSets
	return &nodeSets[slices.IndexFunc(nodeSets, func(t Tracked) bool { return t.NodeSet.Name == nodeSet })]
}

func (w *imagined) judge() Report { return Build(w.evidence) }

// store writes the books down again.
func (w *imagined) store() error {
	for _, nodeSet := range w.judge().NodeSets {
		state := w.states[nodeSet.Name]
		if state == nil {
			continue
		}
		objects, err := trackmap.Encode(*state, verdict.Judge(state.Book, nodeSet.facts.wanted, nil))
		if err != nil {
			return fmt.Errorf("the imagined record of NodeSet %s: %w", nodeSet.Name, err)
		}
		w.tracked(nodeSet.Name).Record = objects
	}
	return nil
}

// rotate writes new content into the Secret, read at once.
func (w *imagined) rotate() error {
	questions, _ := questionsOf(w.namespace())
	last := w.states[w.names[0]].Book.Secrets[w.scenario.Secret]
	if last.UID == "" {
		return fmt.Errorf("Secret %s is not in the cluster", w.scenario.Secret)
	}
	for _, name := range w.names {
		if h := w.states[name].Book.Secrets[w.scenario.Secret]; h.Revision > last.Revision {
			last = h
		}
	}
	before := last.Held[len(last.Held)-1]
	reading := ledger.Reading{UID: last.UID, Revision: last.Revision + 1, Version: "imagined", Keys: before.Keys,
		Changed: fleet.Instant{Time: w.evidence.CollectedAt}, Identities: map[string][]string{}}
	for _, q := range questions {
		if q.extractor.Covers(w.scenario.Secret) {
			w.old = append(w.old, before.Identities[q.extractor.ID()]...)
		}
	}
	slices.Sort(w.old)
	w.old = slices.Compact(w.old)
	rename, err := w.rename()
	if err != nil {
		return err
	}
	for _, q := range questions {
		if !q.extractor.Covers(w.scenario.Secret) {
			continue
		}
		found := []string{}
		for _, identity := range before.Identities[q.extractor.ID()] {
			found = append(found, rename(identity))
		}
		slices.Sort(found)
		reading.Identities[q.extractor.ID()] = slices.Compact(found)
		w.new = append(w.new, found...)
	}
	slices.Sort(w.new)
	w.new = slices.Compact(w.new)
	for _, name := range w.names {
		book := w.states[name].Book
		book.Secrets[w.scenario.Secret] = book.Secrets[w.scenario.Secret].Add(reading)
	}
	if w.namespace().Secrets != nil {
		w.namespace().Secrets[w.scenario.Secret] = Sight{UID: reading.UID, ResourceVersion: fmt.Sprint(reading.Revision)}
	}
	return w.store()
}

// rename tells what a credential of the Secret is called after the rotation.
func (w *imagined) rename() (func(string) string, error) {
	from, to, both := strings.Cut(w.scenario.Identity, "=")
	switch {
	case w.scenario.Identity == "":
		w.note("Without an identity the credential keeps its name, and its verdict with it")
		return func(s string) string { return s }, nil
	case both && to == "":
		return nil, fmt.Errorf("%s: what is it called afterwards?", w.scenario.Identity)
	case both && !slices.Contains(w.old, from):
		return nil, fmt.Errorf("Secret %s carries no credential %s, it carries %s", w.scenario.Secret, from, listOf(w.old))
	case both:
	case len(w.old) != 1:
		return nil, fmt.Errorf("Secret %s carries %s: say which one is replaced, as OLD=NEW", w.scenario.Secret, listOf(w.old))
	default:
		from, to = w.old[0], w.scenario.Identity
	}
	return func(s string) string {
		if s == from {
			return to
		}
		return s
	}, nil
}

func listOf(names []string) string {
	if len(names) == 0 {
		return "no credential that a guard knows"
	}
	return strings.Join(names, ", ")
}

func (w *imagined) identities() string {
	if slices.Equal(w.old, w.new) {
		return ""
	}
	return fmt.Sprintf(" from %s to %s", listOf(w.old), listOf(w.new))
}

// How long after the rotation the imagined Deployment begins and how long it takes, and when the result is looked at.
const (
	deployAfter = time.Hour
	deployFor   = 10 * time.Minute
)

// deploy runs the services that bring the Secret, as far as the limit lets them.
func (w *imagined) deploy() (string, error) {
	failed := map[string]bool{}
	reachedAny := false
	for _, nodeSet := range w.judge().NodeSets {
		state := w.states[nodeSet.Name]
		if state == nil {
			continue
		}
		chosen := hostpattern.ResolveRun(nodeSet.inventory(), nodeSet.Name, hostpattern.Compose("", w.scenario.Limit, ""))
		switch {
		case chosen.Err != "":
			w.note("In NodeSet %s Ansible would stop and the Deployment fail: %s", nodeSet.Name, chosen.Err)
		case !chosen.Decided:
			w.note("In NodeSet %s the limit proves nothing: %s", nodeSet.Name, chosen.Why)
		}
		reachedAny = reachedAny || len(chosen.Perhaps) > 0
		reach := map[string]ledger.Strength{}
		for _, node := range chosen.Perhaps {
			reach[node] = ledger.Attempted
			fails := false
			for _, name := range w.scenario.Failed {
				if name == node || name == nodeSet.Name+"/"+node {
					fails, failed[name] = true, true
				}
			}
			if slices.Contains(chosen.Surely, node) && !fails && !nodeSet.isTwice(node) {
				reach[node] = ledger.Delivered
			}
		}
		w.run(&nodeSet, reach)
	}
	if !reachedAny {
		return "", fmt.Errorf("the limit %q reaches no node that receives Secret %s", w.scenario.Limit, w.scenario.Secret)
	}
	var strangers error
	for _, name := range w.scenario.Failed {
		if !failed[name] {
			strangers = errors.Join(strangers, fmt.Errorf("the Deployment does not go to a node %s, so that it cannot fail there", name))
		}
	}
	if strangers != nil {
		return "", strangers
	}
	w.evidence.CollectedAt = w.evidence.CollectedAt.Add(deployAfter + 2*deployFor)
	what := "All nodes are deployed"
	if w.scenario.Limit != "" {
		what = "The nodes of " + w.scenario.Limit + " are deployed"
	}
	if len(w.scenario.Failed) > 0 {
		what += ", which fails on " + strings.Join(w.scenario.Failed, ", ")
	}
	return what, w.store()
}

// run puts one run of each service into the book.
func (w *imagined) run(n *NodeSet, reach map[string]ledger.Strength) {
	book := w.states[n.Name].Book
	services, _ := n.facts.world.Carriers([]string{w.scenario.Secret})
	began := w.evidence.CollectedAt.Add(deployAfter)
	for _, name := range services {
		place := placeOf(n.facts.world.Services[name])
		run := ledger.Run{
			ID: "imagined-" + name, Deployment: "the imagined Deployment", DeploymentUID: "imagined", Service: name, Place: place, Attempt: 1,
			Span:    fleet.Span{Began: fleet.Instant{Time: began}, Ended: fleet.Instant{Time: began.Add(deployFor)}, Over: true},
			Mounted: fleet.Instant{Time: began.Add(time.Minute)}, Carried: map[string]fleet.Versions{}, Reach: reach, Fixed: true,
		}
		for secret, want := range n.facts.wanted.Secrets {
			if slices.Contains(want.Places, place) {
				run.Carried[secret] = fleet.SetOf(want.Expected)
			}
		}
		book.Record([]ledger.Run{run})
	}
}

// running are the credentials of the Secret that nodes may run.
func (s *Stage) running(w *imagined) []string {
	var all []string
	for _, nodeSet := range s.Report.NodeSets {
		for _, secret := range slices.Concat(nodeSet.Secrets, nodeSet.HostSecrets) {
			if secret.Name == w.scenario.Secret && slices.Contains(w.names, nodeSet.Name) {
				for _, version := range secret.Versions {
					all = append(all, version.Identities...)
				}
			}
		}
	}
	return all
}

// look sums a stage up.
func (s *Stage) look(w *imagined) {
	s.Credentials = []Outlook{}
	for _, nodeSet := range s.Report.NodeSets {
		if slices.Contains(w.names, nodeSet.Name) {
			s.Nodes += nodeSet.Nodes
			s.Updated += nodeSet.Updated
		}
	}
	concerned := slices.Concat(w.old, w.new, w.running)
	for _, c := range s.Report.Credentials {
		names := append(slices.Clone(c.Identities), c.Identity)
		if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(concerned, name) }) {
			continue
		}
		outlook := Outlook{Kind: c.Kind, Name: c.Name, Identity: c.Identity, Verdict: c.Books}
		for _, check := range c.Checks {
			outlook.Reasons = append(outlook.Reasons, check.Reason)
			outlook.Until = append(outlook.Until, check.Message)
			for _, node := range check.Nodes {
				if !slices.Contains(outlook.Nodes, node) {
					outlook.Nodes = append(outlook.Nodes, node)
				}
			}
		}
		sortRefs(outlook.Nodes)
		s.Credentials = append(s.Credentials, outlook)
	}
	slices.SortStableFunc(s.Credentials, func(a, b Outlook) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), compareNatural(a.Identity, b.Identity), compareNatural(a.Name, b.Name))
	})
}
