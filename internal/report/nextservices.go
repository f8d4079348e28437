package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

// carriers finds the services that bring Secrets to the nodes of one NodeSet.
type carriers struct {
	nodeSet *NodeSet
	// order are the services: the NodeSet's, then others by name.
	order []string
	// known are the carriers of a Secret among the NodeSet's own services, answers what was found out for nodes with the
	// same history.
	known   map[string][]string
	answers map[string]answer
	notes   []string
	// misread is a host name that keeps limits from meaning what they say, empty where there is none.
	misread string
}

type answer struct {
	services []string
	reason   string
	// notes name the node in one place, which stands for it here.
	notes []string
}

func newCarriers(n *NodeSet) *carriers {
	c := &carriers{nodeSet: n, order: slices.Clone(n.facts.world.NodeSet.Spec.Services), known: map[string][]string{}, answers: map[string]answer{}, misread: n.misread()}
	for _, name := range slices.Sorted(maps.Keys(n.facts.world.Services)) {
		if !slices.Contains(c.order, name) {
			c.order = append(c.order, name)
		}
	}
	return c
}

// inOrder lists the services in the order in which the NodeSet runs them.
func (c *carriers) inOrder(services map[string]bool) []string {
	var all []string
	for _, name := range c.order {
		if services[name] && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func (c *carriers) takeNotes() []string {
	notes := c.notes
	c.notes = nil
	return notes
}

// of names the services that bring what the node lacks of the Secret. Reason says why there is none.
func (c *carriers) of(node, secret string) ([]string, string) {
	key := c.history(node, secret)
	found, known := c.answers[key]
	if !known {
		found = c.find(node, secret)
		c.answers[key] = found
	}
	c.notes = append(c.notes, found.notes...)
	return found.services, found.reason
}

// history is the same for nodes of which the book says the same about the Secret.
func (c *carriers) history(node, secret string) string {
	f := c.nodeSet.facts
	var key strings.Builder
	fmt.Fprintf(&key, "%s %s", secret, f.book.OriginOf(node))
	if _, scoped := f.book.Scope[secret]; scoped {
		fmt.Fprintf(&key, " %s", node)
	}
	for _, run := range f.book.Carriers(secret) {
		if strength, reached := run.Reach[node]; reached {
			fmt.Fprintf(&key, " %s=%d", run.ID, strength)
		}
	}
	return key.String()
}

func (c *carriers) find(node, secret string) answer {
	var found answer
	f := c.nodeSet.facts
	if held := f.book.Secrets[secret]; len(held.Held) > 0 && held.UID == "" {
		found.reason = fmt.Sprintf("Secret %s is not in the cluster", secret)
		return found
	}
	places, unproved, inDoubt := f.lacksAt(node, secret)
	if len(unproved) > 0 {
		found.reason = fmt.Sprintf("it has the newest %s, but its process may be older than the file, and the same once more would not restart it: rotate %s once more",
			secret, secret)
	}
	if inDoubt {
		found.notes = append(found.notes, fmt.Sprintf("NodeSet %s: a run with this version of %s may have ended badly on some nodes: the same once more brings them the file, but cannot prove that the process restarted; another rotation before it can",
			c.nodeSet.Name, secret))
	}
	if len(places) == 0 && len(unproved) == 0 {
		found.reason = fmt.Sprintf("no service of the NodeSet brings Secret %s, which it received before", secret)
	}
	for _, place := range places {
		service := c.at(secret, place)
		if service == "" {
			found.reason = fmt.Sprintf("no service brings Secret %s to %s on the nodes", secret, place)
			found.notes = append(found.notes, fmt.Sprintf("NodeSet %s: %s, where nodes received it before", c.nodeSet.Name, found.reason))
			continue
		}
		if !slices.Contains(f.world.NodeSet.Spec.Services, service) {
			found.notes = append(found.notes, fmt.Sprintf("NodeSet %s: service %s is none of its services, but nodes have Secret %s from it", c.nodeSet.Name, service, secret))
		}
		found.services = append(found.services, service)
	}
	return found
}

// at names the service that brings the Secret to a place: one of the NodeSet's, or else any other. Empty where none does.
func (c *carriers) at(secret, place string) string {
	own, known := c.known[secret]
	if !known {
		own, _ = c.nodeSet.facts.world.Carriers([]string{secret})
		c.known[secret] = own
	}
	services := c.nodeSet.facts.world.Services
	for _, name := range own {
		if services[name] != nil && placeOf(services[name]) == place {
			return name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if placeOf(services[name]) == place && takes(services[name], secret) {
			return name
		}
	}
	return ""
}

func placeOf(service *dataplanev1.OpenStackDataPlaneService) string {
	if service.Spec.EDPMServiceType != "" {
		return service.Spec.EDPMServiceType
	}
	return service.Name
}

func takes(service *dataplanev1.OpenStackDataPlaneService, secret string) bool {
	return slices.ContainsFunc(service.Spec.DataSources, func(source dataplanev1.DataSource) bool {
		return source.ConfigMapRef == nil && source.SecretRef != nil && source.SecretRef.Name == secret
	})
}
