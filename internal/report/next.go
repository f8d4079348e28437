package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// Plan is what is left to deploy: the smallest Deployments that bring every node that can be brought up to date.
type Plan struct {
	metav1.TypeMeta `json:",inline"`
	CollectedAt     time.Time `json:"collectedAt"`
	// Remaining counts the nodes that are behind or unknown, those that left their NodeSet not among them.
	Remaining int `json:"remaining"`
	// Manifests are to be applied in this order. Nothing was created.
	Manifests []Manifest `json:"manifests"`
	// Left are nodes that are not surely updated and that no Deployment helps, with what helps.
	Left []LeftNode `json:"left,omitempty"`
	// Notes are further sentences without a full stop that one should know before applying anything.
	Notes []string `json:"notes,omitempty"`

	names map[string]bool // those that Deployments have or are to have
}

// LeftNode is a node to which no manifest goes.
type LeftNode struct {
	Namespace string `json:"namespace"`
	NodeRef   `json:",inline"`
	// Why is a sentence without a full stop.
	Why string `json:"why"`
}

// NextOptions say what to plan.
type NextOptions struct {
	// NodeSets restricts the plan to these, by name; none for all of the report.
	NodeSets []string
	// Batch is how many nodes may be under way at once, its zero value for all.
	Batch Batch
}

// Batch is a number of nodes, or a share of those that remain.
type Batch struct{ Nodes, Percent int }

// ParseBatch reads 5 or 25%.
func ParseBatch(text string) (Batch, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || percent && n > 100 {
		return Batch{}, fmt.Errorf("%q is neither a number of nodes from 1 on nor a share from 1%% to 100%%", text)
	}
	if percent {
		return Batch{Percent: n}, nil
	}
	return Batch{Nodes: n}, nil
}

// size is the number of nodes in one batch of so many.
func (b Batch) size(nodes int) int {
	switch {
	case b.Nodes > 0:
		return b.Nodes
	case b.Percent > 0:
		return max((nodes*b.Percent+99)/100, 1)
	}
	return max(nodes, 1)
}

// lack is a node with what it is to get.
type lack struct {
	nodeSet *NodeSet
	node    string
	// services are to run, in order, and bring the Secrets.
	services, secrets []string
}

// Next plans what brings exactly the nodes up to date that are not.
func (r Report) Next(options NextOptions) (Plan, error) {
	plan := Plan{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: "Plan"}, CollectedAt: r.CollectedAt, Manifests: []Manifest{}, names: map[string]bool{}}
	var lacks []lack
	for _, name := range options.NodeSets {
		if !slices.ContainsFunc(r.NodeSets, func(n NodeSet) bool { return n.Name == name }) {
			return plan, fmt.Errorf("there is no NodeSet %s", name)
		}
	}
	for i := range r.NodeSets {
		nodeSet := &r.NodeSets[i]
		for k := range nodeSet.facts.namespace.Deployments {
			plan.names[nodeSet.Namespace+"/"+nodeSet.facts.namespace.Deployments[k].Name] = true
		}
		if len(options.NodeSets) == 0 || slices.Contains(options.NodeSets, nodeSet.Name) {
			lacks = append(lacks, nodeSet.lacks(&plan)...)
		}
	}
	plan.addManifests(lacks, options.Batch)
	plan.addRunning(r)
	return plan, nil
}

// lacks tells what every node of the NodeSet is to get that a Deployment can bring.
func (n *NodeSet) lacks(plan *Plan) []lack {
	var lacks []lack
	for _, missing := range n.Missing {
		plan.note("NodeSet %s: %s", n.Name, missing)
	}
	if why := n.facts.namespace.unread("OpenStackDataPlaneDeployments"); why != "" {
		plan.note("OpenStackDataPlaneDeployments cannot be read (%s): one of these names may be taken, and something may be under way", why)
	}
	carriers := newCarriers(n)
	for _, node := range n.NodeList {
		if node.State == Updated {
			continue
		}
		if !node.Departed {
			plan.Remaining++
		}
		one, why := n.lackOf(node, carriers)
		for _, note := range carriers.takeNotes() {
			plan.note("%s", note)
		}
		if len(one.services) > 0 {
			lacks = append(lacks, one)
			continue
		}
		plan.Left = append(plan.Left, LeftNode{Namespace: n.Namespace, NodeRef: NodeRef{n.Name, node.Name, node.Departed}, Why: why})
	}
	return lacks
}

// lackOf tells what one node is to get. Why says why it gets nothing, where it does not.
func (n *NodeSet) lackOf(node Node, carriers *carriers) (one lack, why string) {
	one = lack{nodeSet: n, node: node.Name}
	switch {
	case node.Departed:
		return one, "it is no longer in the NodeSet: bring it back, or attest that it is gone"
	case n.isTwice(node.Name):
		return one, "two nodes of the NodeSet have this host name, and Ansible reaches only one of them: give them different ones"
	case carriers.misread != "":
		return one, fmt.Sprintf("Ansible reads the host name %s in an inventory as something else: rename that node", carriers.misread)
	case len(node.Cells) == 0:
		return one, "it is not known which Secrets it is meant to receive"
	}
	var reasons []string
	services := map[string]bool{}
	for _, cell := range node.Cells {
		if cell.State == Updated {
			continue
		}
		brought, reason := carriers.of(node.Name, cell.Secret)
		for _, service := range brought {
			services[service] = true
		}
		if len(brought) > 0 {
			one.secrets = append(one.secrets, cell.Secret)
		} else if reason != "" {
			reasons = append(reasons, reason)
		}
	}
	one.services = carriers.inOrder(services)
	slices.Sort(reasons)
	why = strings.Join(slices.Compact(reasons), "; ")
	if why == "" {
		why = "what it receives is up to date, but not everything is known: " + strings.Join(n.Missing, "; ")
	}
	return one, why
}

// misread gives a host name that Ansible does not take as it stands in an inventory, but as a range or a name with a port;
// a range that it cannot read makes it drop other hosts as well.
func (n *NodeSet) misread() string {
	for _, host := range n.facts.world.Hosts() {
		_, port, colon := strings.Cut(host, ":")
		if strings.Contains(host, "[") || colon && strings.Trim(port, "0123456789") == "" || host == "" {
			return strconv.Quote(host)
		}
	}
	return ""
}

func (n *NodeSet) isTwice(node string) bool {
	hosts := n.facts.wanted.Nodes
	first := slices.Index(hosts, node)
	return first >= 0 && slices.Contains(hosts[first+1:], node)
}

// addRunning mentions Deployments that are under way to the nodes of the plan.
func (p *Plan) addRunning(r Report) {
	going := map[string][]string{}
	for _, manifest := range p.Manifests {
		for _, node := range manifest.Nodes {
			key := manifest.Namespace + "/" + node.NodeSet
			going[key] = append(going[key], node.Name)
		}
	}
	for i := range r.NodeSets {
		n := &r.NodeSets[i]
		nodes := going[n.Namespace+"/"+n.Name]
		for _, running := range n.Running {
			reached := n.perhaps(running)
			var both []string
			for _, node := range nodes {
				if slices.Contains(reached, node) {
					both = append(both, node)
				}
			}
			if len(both) > 0 {
				p.note("Deployment %s is not over, or not recorded yet, and goes to %s of NodeSet %s: wait for it and plan again, less may be left then",
					running.Name, someOf(both), n.Name)
			}
		}
	}
}

// note adds a note once.
func (p *Plan) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(p.Notes, text) {
		p.Notes = append(p.Notes, text)
	}
}

// someOf names the first few and counts the others.
func someOf(names []string) string {
	const shown = 5
	names = SortNatural(slices.Clone(names))
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// hypothetical stands for the cluster's version where that is not known: a Deployment would bring it all the same.
const hypothetical fleet.Version = "next"

// afterAll is later than whatever a book has.
var afterAll = fleet.Instant{Revision: math.MaxUint64, Time: time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)}

// lacksAt gives the places on the node where the Secret is not surely as expected and a run can change that. Unproved are
// places that have it, but whose process may be older than the file; for them a run of the same version does nothing.
// InDoubt says that a run brings the Secret, but may not prove that the process takes it up.
func (f facts) lacksAt(node, secret string) (places, unproved []string, inDoubt bool) {
	want := f.wanted.Secrets[secret]
	version := want.Expected
	if version == fleet.Unknown {
		version = hypothetical
	}
	byPlace, isOpen := map[string]ledger.Cell{}, map[string]bool{}
	for _, claim := range f.book.Cell(node, secret, want.Places) {
		if claim.Span.Over {
			byPlace[claim.Place] = append(byPlace[claim.Place], claim)
		} else if !claim.Versions.IsOnly(version) {
			isOpen[claim.Place] = true // a run that is under way may bring something else
		}
	}
	for _, place := range slices.Sorted(maps.Keys(byPlace)) {
		here := byPlace[place]
		switch {
		case isOpen[place]:
		case here.Candidates().IsOnly(version):
			continue
		case hasLatest(here, version):
			unproved = append(unproved, place)
			continue
		}
		places = append(places, place)
		run := ledger.Claim{Run: string(hypothetical), Place: place, Versions: fleet.SetOf(version), Strength: ledger.Delivered,
			Span: fleet.Span{Began: afterAll, Ended: afterAll, Over: true}}
		inDoubt = inDoubt || !ledger.Join(here, ledger.Cell{run}).Candidates().IsOnly(version)
	}
	return places, unproved, inDoubt
}

// hasLatest tells whether exactly this version was delivered after everything in the place that may have brought another.
func hasLatest(here ledger.Cell, version fleet.Version) bool {
	return slices.ContainsFunc(here, func(last ledger.Claim) bool {
		return last.Strength >= ledger.Delivered && last.Versions.IsOnly(version) && !slices.ContainsFunc(here, func(other ledger.Claim) bool {
			return !other.Origin && !other.Versions.IsOnly(version) && !last.Span.After(other.Span)
		})
	})
}
