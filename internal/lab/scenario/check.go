package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

// checker follows what exists at each step, so that a step that refers to something else is found before any runs.
type checker struct {
	r    *reader
	file *File
	// key is the way to the step that is checked.
	key      string
	services map[string]*thing
	secrets  map[string]*thing
	nodeSets map[string]*thing
	// runs are the Deployments.
	runs map[string]*thing
	// users are the credentials.
	users map[string]*thing
	// versions gives, for each Secret, the alias of each of its contents so far.
	versions map[string]map[string]version
}

// thing is an object of the scenario.
type thing struct {
	at Position
	// gone is the line of the step that deleted it, 0 while it is there.
	gone int
	// nodes are those of a NodeSet now, or those that a Deployment was given.
	nodes map[string]bool
	// over is the line of the step that ended a Deployment, 0 while it runs.
	over int
}

type version struct {
	at   Position
	data map[string]string
}

func newChecker(r *reader, file *File) *checker {
	return &checker{
		r: r, file: file, services: map[string]*thing{}, secrets: map[string]*thing{}, nodeSets: map[string]*thing{},
		runs: map[string]*thing{}, users: map[string]*thing{}, versions: map[string]map[string]version{},
	}
}

func (c *checker) problem(word Word, key, format string, args ...any) {
	if c.key != "" && key != "" {
		key = "." + key
	}
	c.r.problem(word.At, c.key+key, format, args...)
}

func (c *checker) check() {
	for _, secret := range c.file.Secrets {
		c.name(secret.Secret, "secrets", validation.IsDNS1123Subdomain)
		c.secrets[secret.Secret.Text] = &thing{at: secret.Secret.At}
		c.version(secret, "secrets."+secret.Secret.Text+".as")
	}
	for _, service := range c.file.Services {
		c.name(service.Name, "services", validation.IsDNS1123Label)
		c.services[service.Name.Text] = &thing{at: service.Name.At}
		for _, secret := range service.Secrets {
			c.find("secret", c.secrets, secret, "services."+service.Name.Text+".secrets")
		}
	}
	for _, nodeSet := range c.file.NodeSets {
		c.name(nodeSet.Name, "nodeSets", validation.IsDNS1123Label)
		declared := &thing{at: nodeSet.Name.At, nodes: map[string]bool{}}
		c.nodeSets[nodeSet.Name.Text] = declared
		for _, node := range nodeSet.Nodes {
			c.name(node, "nodeSets."+nodeSet.Name.Text+".nodes", validation.IsDNS1123Label)
			declared.nodes[node.Text] = true
		}
		for _, service := range nodeSet.Services {
			c.find("service", c.services, service, "nodeSets."+nodeSet.Name.Text+".services")
		}
	}
	c.credentials()
	for _, step := range c.file.Steps {
		c.key = fmt.Sprintf("steps[%d]", step.Number)
		c.step(step)
	}
}

func (c *checker) step(step Step) {
	line := step.At.Line
	switch action := step.Action.(type) {
	case Deploy:
		c.key += ".deploy"
		if run := c.deployment(action.Deployment); run != nil {
			c.hosts(action.Hosts, run)
			run.over = line
		}
	case Start:
		c.key += ".start"
		c.deployment(action.Deployment)
	case Finish:
		c.key += ".finish"
		c.finish(action, line)
	case Rotate:
		c.key += ".rotate"
		if secret := c.declared("secret", c.secrets, action.Secret, "secret"); secret != nil {
			secret.gone = 0
		}
		c.version(action.Version, "as")
	case Node:
		c.key += ".node"
		c.node(action)
	case Delete:
		c.key += ".delete"
		c.delete(action, line)
	case Expect:
		c.key += ".expect"
		c.expect(action)
	case ExpectCredential:
		c.key += ".expect"
		c.find("credential", c.users, action.Credential, "credential")
	case Override:
		c.find("credential", c.users, action.Identity, "override.identity")
	case Attest:
		c.declared("nodeSet", c.nodeSets, action.NodeSet, "attest.nodeSet")
	case AttemptDelete:
		c.key += ".attempt-delete"
		c.attemptDelete(action, line)
	}
}

// name checks a name that is going to be an object's or a host's. Hosts have no dots: Ansible's name of a node then is
// the node's own.
func (c *checker) name(name Word, key string, valid func(string) []string) {
	if name.Text != "" && len(valid(name.Text)) > 0 {
		c.problem(name, key, "%q cannot be a name: use lower-case letters, digits and dashes, with a letter or digit at both ends", name.Text)
	}
}

// declared finds something that the file declares, even if it has been deleted; nil where there is none.
func (c *checker) declared(what string, things map[string]*thing, name Word, key string) *thing {
	found := things[name.Text]
	if found == nil && name.Text != "" {
		c.problem(name, key, "no %s %q is declared%s", what, name.Text, suggestion(name.Text, slices.Sorted(maps.Keys(things))))
	}
	return found
}

// find finds something that is there at the step.
func (c *checker) find(what string, things map[string]*thing, name Word, key string) *thing {
	found := c.declared(what, things, name, key)
	if found != nil && found.gone > 0 {
		c.problem(name, key, "%s %q was deleted on line %d", what, name.Text, found.gone)
		return nil
	}
	return found
}

// version takes down the alias of a content.
func (c *checker) version(v Version, key string) {
	if c.versions[v.Secret.Text] == nil {
		c.versions[v.Secret.Text] = map[string]version{}
	}
	if v.As.Text == "" {
		return
	}
	if v.As.Text == string(fleet.None) || v.As.Text == string(fleet.Unknown) {
		c.problem(v.As, key, "%q has a meaning of its own; take another alias", v.As.Text)
		return
	}
	known, ok := c.versions[v.Secret.Text][v.As.Text]
	if ok && !maps.Equal(known.data, v.Data) {
		c.problem(v.As, key, "alias %q stands for other data since line %d", v.As.Text, known.at.Line)
		return
	}
	c.versions[v.Secret.Text][v.As.Text] = version{v.As.At, v.Data}
}

func (c *checker) deployment(d Deployment) *thing {
	run := &thing{at: d.Name.At, nodes: map[string]bool{}}
	for _, name := range d.NodeSets {
		if nodeSet := c.find("nodeSet", c.nodeSets, name, "nodeSets"); nodeSet != nil {
			maps.Copy(run.nodes, nodeSet.nodes)
			c.servicesOf(name, d)
		}
	}
	for _, service := range d.Services {
		c.find("service", c.services, service, "services")
	}
	if d.Name.Text == "" {
		return nil
	}
	c.name(d.Name, "name", validation.IsDNS1123Label)
	if other := c.runs[d.Name.Text]; other != nil && other.gone == 0 {
		c.problem(d.Name, "name", "there is a deployment %q already, since line %d", d.Name.Text, other.at.Line)
		return nil
	}
	c.runs[d.Name.Text] = run
	return run
}

// servicesOf checks that the services which a Deployment takes from the NodeSet are there.
func (c *checker) servicesOf(nodeSet Word, d Deployment) {
	if len(d.Services) > 0 {
		return
	}
	for _, declared := range c.file.NodeSets {
		if declared.Name.Text != nodeSet.Text {
			continue
		}
		for _, service := range declared.Services {
			if found := c.services[service.Text]; found != nil && found.gone > 0 {
				c.problem(nodeSet, "nodeSets", "nodeSet %q runs service %q, which was deleted on line %d", nodeSet.Text, service.Text, found.gone)
			}
		}
	}
}

func (c *checker) hosts(hosts []HostOutcome, run *thing) {
	for _, host := range hosts {
		if !run.nodes[host.Host.Text] {
			c.problem(host.Host, "hosts", "%q is no node of the deployment's nodeSets%s",
				host.Host.Text, suggestion(host.Host.Text, slices.Sorted(maps.Keys(run.nodes))))
		}
	}
}

func (c *checker) finish(f Finish, line int) {
	run := c.find("deployment", c.runs, f.Name, "name")
	if run == nil {
		return
	}
	if run.over > 0 {
		c.problem(f.Name, "name", "deployment %q is over since line %d", f.Name.Text, run.over)
		return
	}
	c.hosts(f.Hosts, run)
	run.over = line
}

func (c *checker) node(n Node) {
	nodeSet := c.find("nodeSet", c.nodeSets, n.NodeSet, "nodeSet")
	if nodeSet == nil {
		return
	}
	if n.Add.Text != "" {
		c.name(n.Add, "add", validation.IsDNS1123Label)
		if nodeSet.nodes[n.Add.Text] {
			c.problem(n.Add, "add", "nodeSet %q has node %q already", n.NodeSet.Text, n.Add.Text)
		}
		nodeSet.nodes[n.Add.Text] = true
	}
	if n.Remove.Text != "" {
		c.isNode(n.Remove, nodeSet, "remove")
		delete(nodeSet.nodes, n.Remove.Text)
	}
}

func (c *checker) isNode(node Word, nodeSet *thing, key string) {
	if !nodeSet.nodes[node.Text] {
		c.problem(node, key, "the nodeSet has no node %q at this step%s", node.Text, suggestion(node.Text, slices.Sorted(maps.Keys(nodeSet.nodes))))
	}
}

// configMapSuffix is what follows a NodeSet's name in the name of the only ConfigMaps that there are.
const configMapSuffix = "-secret-tracking"

func (c *checker) delete(d Delete, line int) {
	var things map[string]*thing
	var what string
	switch d.Kind.Text {
	case "OpenStackDataPlaneDeployment":
		things, what = c.runs, "deployment"
	case "OpenStackDataPlaneNodeSet":
		things, what = c.nodeSets, "nodeSet"
	case "OpenStackDataPlaneService":
		things, what = c.services, "service"
	case "Secret":
		things, what = c.secrets, "secret"
	case "ConfigMap":
		name, isOurs := strings.CutSuffix(d.Name.Text, configMapSuffix)
		if !isOurs {
			c.problem(d.Name, "name", "the only ConfigMaps are those of NodeSets, <nodeSet>%s", configMapSuffix)
			return
		}
		c.find("nodeSet", c.nodeSets, Word{name, d.Name.At}, "name")
		return
	case "Job": // <service>-<deployment>-<nodeSet>: which there are shows when it is played
		return
	default:
		return
	}
	if found := c.find(what, things, d.Name, "name"); found != nil {
		found.gone = line
	}
}

func (c *checker) expect(e Expect) {
	nodeSet := c.find("nodeSet", c.nodeSets, e.NodeSet, "nodeSet")
	for key, aliases := range map[string][]SecretAlias{"currentHash": e.CurrentHash, "expectedHash": e.ExpectedHash} {
		for _, alias := range aliases {
			c.alias(alias.Secret, alias.Alias, key)
		}
	}
	for _, candidates := range e.Nodes {
		if nodeSet != nil {
			c.isNode(candidates.Node, nodeSet, "nodes")
		}
		for _, alias := range candidates.Aliases {
			c.alias(candidates.Secret, alias, "nodes."+candidates.Node.Text)
		}
	}
}

// alias checks that an alias stands for something by now.
func (c *checker) alias(secret, alias Word, key string) {
	if c.declared("secret", c.secrets, secret, key) == nil || alias.Text == "" ||
		alias.Text == string(fleet.None) || alias.Text == string(fleet.Unknown) {
		return
	}
	known := c.versions[secret.Text]
	if _, ok := known[alias.Text]; ok {
		return
	}
	key += "." + secret.Text
	for _, step := range c.file.Steps {
		if later, ok := step.Action.(Rotate); ok && later.Secret.Text == secret.Text && later.As.Text == alias.Text {
			c.problem(alias, key, "secret %q becomes %q only later, on line %d", secret.Text, alias.Text, step.At.Line)
			return
		}
	}
	names := append(slices.Sorted(maps.Keys(known)), string(fleet.None))
	c.problem(alias, key, "no version %q of secret %q is declared%s", alias.Text, secret.Text, suggestion(alias.Text, names))
}
