package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// Manifest is one Deployment that is to be created.
type Manifest struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	NodeSets  []string `json:"nodeSets"`
	// Services are those that bring the Secrets, in order.
	Services []string `json:"servicesOverride"`
	// Limit is the ansibleLimit, empty for all nodes.
	Limit string `json:"ansibleLimit,omitempty"`
	// Nodes are those that it goes to, Of is how many the NodeSets have.
	Nodes []NodeRef `json:"nodes"`
	Of    int       `json:"of"`
	// Secrets are those that nodes lack.
	Secrets []string `json:"secrets"`
	// Batch counts from 1 to Batches. The Deployments of one batch may run side by side, those of the next wait for them.
	Batch   int `json:"batch"`
	Batches int `json:"batches"`
}

// addManifests puts nodes with the same need together, in batches.
func (p *Plan) addManifests(lacks []lack, batch Batch) {
	groups, order := map[string][]lack{}, []string{}
	for _, one := range lacks {
		key := one.nodeSet.Namespace + "\n" + strings.Join(one.services, "\n")
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], one)
	}
	number := 1
	for _, key := range order {
		group, size := groups[key], batch.size(len(groups[key]))
		for len(group) > 0 {
			n := min(size, len(group))
			p.deploy(group[:n], number)
			group = group[n:]
			if batch != (Batch{}) {
				number++
			}
		}
	}
	p.renumber()
}

// renumber counts the batches that have a manifest.
func (p *Plan) renumber() {
	count, before := 0, 0
	for i := range p.Manifests {
		if p.Manifests[i].Batch != before {
			before = p.Manifests[i].Batch
			count++
		}
		p.Manifests[i].Batch = count
	}
	for i := range p.Manifests {
		p.Manifests[i].Batches = count
	}
}

// deploy adds what brings the nodes up to date, all of which have the same need: one Deployment if a limit can name them
// over all their NodeSets, else one for each NodeSet.
func (p *Plan) deploy(lacks []lack, batch int) {
	var targets []target
	for _, one := range lacks {
		if last := len(targets) - 1; last >= 0 && targets[last].nodeSet == one.nodeSet {
			targets[last].nodes = append(targets[last].nodes, one.node)
			continue
		}
		targets = append(targets, target{one.nodeSet, []string{one.node}})
	}
	limit, err := limitFor(targets)
	switch {
	case err == nil && len(limit) <= maxLimit:
		m := manifestOf(lacks, targets, limit, batch)
		m.Name = p.nameFor(m, targets)
		p.Manifests = append(p.Manifests, m)
	case len(targets) > 1:
		for _, t := range targets {
			p.deploy(slices.DeleteFunc(slices.Clone(lacks), func(l lack) bool { return l.nodeSet != t.nodeSet }), batch)
		}
	case err == nil:
		p.deploy(lacks[:len(lacks)/2], batch)
		p.deploy(lacks[len(lacks)/2:], batch)
	default:
		p.deployNameable(lacks, batch)
	}
}

// deployNameable deploys those nodes of one NodeSet that a limit can name, and says why it leaves the others.
func (p *Plan) deployNameable(lacks []lack, batch int) {
	var nameable, others []lack
	for _, one := range lacks {
		if _, err := limitFor([]target{{one.nodeSet, []string{one.node}}}); err == nil {
			nameable = append(nameable, one)
		} else {
			others = append(others, one)
		}
	}
	if len(others) == 0 { // each by itself can be named: their names together mean something else
		nameable, others = lacks[:len(lacks)/2], nil
		p.deploy(lacks[len(lacks)/2:], batch)
	}
	if len(nameable) > 0 {
		p.deploy(nameable, batch)
	}
	for _, one := range others {
		why := "no ansibleLimit can name it and nothing else: deploy the whole NodeSet with the services " + strings.Join(one.services, ", ") + ", or rename the node"
		if one.nodeSet.isShadowed() && one.node != one.nodeSet.Name {
			why = "a node has the name of its NodeSet, and Ansible reaches only that one: rename it"
		}
		p.Left = append(p.Left, LeftNode{Namespace: one.nodeSet.Namespace, NodeRef: NodeRef{NodeSet: one.nodeSet.Name, Name: one.node}, Why: why})
	}
}

// isShadowed tells whether a node is named like the NodeSet, which its plays are for.
func (n *NodeSet) isShadowed() bool { return slices.Contains(n.facts.world.Hosts(), n.Name) }

func manifestOf(lacks []lack, targets []target, limit string, batch int) Manifest {
	m := Manifest{Namespace: targets[0].nodeSet.Namespace, Services: lacks[0].services, Limit: limit, Batch: batch}
	for _, t := range targets {
		m.NodeSets = append(m.NodeSets, t.nodeSet.Name)
		m.Of += t.nodeSet.Nodes
		for _, node := range t.nodes {
			m.Nodes = append(m.Nodes, NodeRef{NodeSet: t.nodeSet.Name, Name: node})
		}
	}
	for _, one := range lacks {
		m.Secrets = append(m.Secrets, one.secrets...)
	}
	slices.Sort(m.Secrets)
	m.Secrets = slices.Compact(m.Secrets)
	return m
}

// maxName is how long the name of a Deployment may be: openstack-operator makes it the value of a label.
const maxName = 63

// nameFor makes a name from what is to be run with which content, so that the same need has the same name; with a number
// where there is a Deployment of that name.
func (p *Plan) nameFor(m Manifest, targets []target) string {
	text := fmt.Sprintf("%q %q %q", m.NodeSets, m.Services, m.Limit)
	for _, t := range targets {
		for _, secret := range m.Secrets {
			text += fmt.Sprintf(" %q", t.nodeSet.facts.wanted.Secrets[secret].Expected)
		}
	}
	sum := sha256.Sum256([]byte(text))
	const room = maxName - len("rotate--123456-999")
	stem := strings.Join(m.NodeSets, "-")
	if len(stem) > room {
		stem = strings.TrimRight(stem[:room], "-.")
	}
	base := fmt.Sprintf("rotate-%s-%s", stem, hex.EncodeToString(sum[:3]))
	name := base
	for i := 2; p.names[m.Namespace+"/"+name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	p.names[m.Namespace+"/"+name] = true
	return name
}

// YAML is the plan as text for kubectl apply. Whatever is to be said stands in comments; with nothing to do there is
// nothing else.
func (p Plan) YAML() (string, error) {
	var text strings.Builder
	comment := func(format string, args ...any) {
		text.WriteString("# " + oneLine(fmt.Sprintf(format, args...)) + "\n")
	}
	for _, remark := range p.Remarks() {
		comment("%s", remark)
	}
	for i, m := range p.Manifests {
		if i > 0 || text.Len() > 0 {
			text.WriteString("---\n")
		}
		if m.Batches > 1 {
			comment("Batch %d of %d.", m.Batch, m.Batches)
			if wait := p.waitFor(m); wait != "" {
				comment("Apply it only after:")
				comment("  %s", wait)
			}
		}
		comment("Brings %s to %s", strings.Join(m.Secrets, ", "), m.describe())
		content, err := yaml.Marshal(m.object())
		if err != nil {
			return "", fmt.Errorf("Deployment %s: %w", m.Name, err)
		}
		text.Write(content)
	}
	return text.String(), nil
}

// waitFor is the command that waits for what has to be over before a batch begins; the first waits for nothing.
func (p Plan) waitFor(m Manifest) string {
	var before []string
	for _, other := range p.Manifests {
		if other.Batch == m.Batch-1 {
			before = append(before, "openstackdataplanedeployment/"+other.Name)
		}
	}
	if len(before) == 0 {
		return ""
	}
	return fmt.Sprintf("kubectl -n %s wait %s --for=condition=Ready --timeout=60m", m.Namespace, strings.Join(before, " "))
}

func (m Manifest) describe() string {
	var names []string
	for _, node := range m.Nodes {
		names = append(names, node.Name)
	}
	nodeSets := "NodeSet " + m.NodeSets[0]
	if len(m.NodeSets) > 1 {
		nodeSets = "NodeSets " + strings.Join(m.NodeSets, ", ")
	}
	if m.Limit == "" {
		return fmt.Sprintf("all %d nodes of %s", len(m.Nodes), nodeSets)
	}
	return fmt.Sprintf("%d of %d nodes of %s: %s", len(m.Nodes), m.Of, nodeSets, someOf(names))
}

// leftByReason tells of nodes with the same reason at once.
func (p Plan) leftByReason() []string {
	var texts []string
	for i, left := range p.Left {
		same := func(other LeftNode) bool {
			return other.Why == left.Why && other.NodeSet == left.NodeSet && other.Namespace == left.Namespace
		}
		if slices.IndexFunc(p.Left, same) < i {
			continue
		}
		var names []string
		for _, other := range p.Left {
			if same(other) {
				names = append(names, other.Name)
			}
		}
		texts = append(texts, fmt.Sprintf("%s of NodeSet %s: %s", someOf(names), left.NodeSet, left.Why))
	}
	return texts
}

// deployment is what stands in a manifest.
type deployment struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   deploymentMeta `json:"metadata"`
	Spec       deploymentSpec `json:"spec"`
}

type deploymentMeta struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

type deploymentSpec struct {
	NodeSets         []string `json:"nodeSets"`
	ServicesOverride []string `json:"servicesOverride"`
	AnsibleLimit     string   `json:"ansibleLimit,omitempty"`
}

func (m Manifest) object() deployment {
	return deployment{
		APIVersion: "dataplane.openstack.org/v1beta1", Kind: "OpenStackDataPlaneDeployment",
		Metadata: deploymentMeta{Name: m.Name, Namespace: m.Namespace},
		Spec:     deploymentSpec{NodeSets: m.NodeSets, ServicesOverride: m.Services, AnsibleLimit: m.Limit},
	}
}

func areNodes(n int) string {
	if n == 1 {
		return "1 node is"
	}
	return fmt.Sprintf("%d nodes are", n)
}

// oneLine keeps what a name may hold from ending a comment.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == ' ' {
			return r
		}
		return '?'
	}, text)
}

// First is the plan with its first batch alone.
func (p Plan) First() Plan {
	p.Manifests = slices.DeleteFunc(slices.Clone(p.Manifests), func(m Manifest) bool { return m.Batch > 1 })
	return p
}

// Remarks are what the comments of the plan say apart from the manifests, a sentence each.
func (p Plan) Remarks() []string {
	var all []string
	switch {
	case p.Remaining == 0:
		all = append(all, "Nothing is left to deploy: every node that the NodeSets list surely runs what is in the cluster.")
	case len(p.Manifests) == 0:
		all = append(all, fmt.Sprintf("Nothing can be deployed, although %s not surely updated.", areNodes(p.Remaining)))
	}
	for _, note := range p.Notes {
		all = append(all, "Note: "+note+".")
	}
	for _, left := range p.leftByReason() {
		all = append(all, "Left out: "+left+".")
	}
	return all
}

// List is what kubectl apply takes as JSON.
func (p Plan) List() any {
	list := struct {
		APIVersion string       `json:"apiVersion"`
		Kind       string       `json:"kind"`
		Items      []deployment `json:"items"`
	}{"v1", "List", []deployment{}}
	for _, m := range p.Manifests {
		list.Items = append(list.Items, m.object())
	}
	return list
}
