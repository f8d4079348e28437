package report

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
)

// maxLimit is how long a limit may be: it becomes a variable of the pod's environment and an argument of a program, of
// which Linux takes 128 KiB.
const maxLimit = 100_000

var errLimit = errors.New("no ansibleLimit can name exactly these nodes")

// target is one NodeSet of a Deployment with the nodes that it is to go to.
type target struct {
	nodeSet *NodeSet
	nodes   []string
}

// inventory is what openstack-operator writes of the NodeSet for Ansible, as far as limits look at it.
func (n *NodeSet) inventory() hostpattern.Inventory {
	hosts := slices.Compact(slices.Sorted(slices.Values(n.facts.world.Hosts())))
	return hostpattern.Inventory{Groups: []hostpattern.Group{{Name: n.Name, Hosts: hosts}}}
}

// perhaps lists the nodes that a Deployment which is under way may go to.
func (n *NodeSet) perhaps(running Running) []string {
	return hostpattern.ResolveRun(n.inventory(), "all", hostpattern.Compose("", running.Limit, "")).Perhaps
}

// view is one inventory with the play that a service may have for it, and the nodes that it should reach.
type view struct {
	inventory hostpattern.Inventory
	play      string
	want      []string
}

// views are the inventories of a Deployment: each NodeSet has its own, and a service for all NodeSets sees them together.
func views(targets []target) []view {
	var all []view
	together := view{play: "all"}
	for _, t := range targets {
		want := slices.Compact(slices.Sorted(slices.Values(t.nodes)))
		inventory := t.nodeSet.inventory()
		all = append(all, view{inventory, "all", want}, view{inventory, t.nodeSet.Name, want})
		together.inventory.Groups = append(together.inventory.Groups, inventory.Groups...)
		together.want = append(together.want, want...)
	}
	if len(targets) > 1 {
		slices.Sort(together.want)
		together.want = slices.Compact(together.want)
		all = append(all, together)
	}
	return all
}

// isMixedUp tells whether a host of one NodeSet has the name of a group in an inventory of them all. Then that name reaches
// the host in one inventory and a group in the other.
func isMixedUp(targets []target) bool {
	groups := []string{"all", "ungrouped"}
	for _, t := range targets {
		groups = append(groups, t.nodeSet.Name)
	}
	return slices.ContainsFunc(targets, func(t target) bool {
		return slices.ContainsFunc(t.nodeSet.facts.world.Hosts(), func(host string) bool { return slices.Contains(groups, host) })
	})
}

// isExact tells whether the limit reaches just the nodes that it should, in every inventory.
func isExact(views []view, limit string) bool {
	for _, v := range views {
		got := hostpattern.ResolveRun(v.inventory, v.play, hostpattern.Compose("", limit, ""))
		if !got.Decided || got.Err != "" || !slices.Equal(got.Surely, v.want) {
			return false
		}
	}
	return true
}

// limitFor writes an ansibleLimit with which a Deployment of these NodeSets reaches just the nodes. It is empty where all
// nodes are meant.
func limitFor(targets []target) (string, error) {
	if len(targets) > 1 && isMixedUp(targets) {
		return "", errLimit
	}
	all := views(targets)
	if isExact(all, "") {
		return "", nil
	}
	var nodes []string
	for _, t := range targets {
		nodes = append(nodes, t.nodes...)
	}
	nodes = slices.Compact(SortNatural(nodes))
	plain, pieces := strings.Join(nodes, ","), make([]string, len(nodes))
	for i, node := range nodes {
		pieces[i] = pieceFor(node)
	}
	careful := strings.Join(pieces, ",")
	for _, limit := range []string{plain, plain + ",", quote(plain + ","), careful, careful + ",", excluding(all, careful)} {
		if limit != "" && isPlainText(limit) && isExact(all, limit) {
			return limit, nil
		}
	}
	return "", errLimit
}

// quote keeps ansible-runner from taking the limit apart at blanks.
func quote(limit string) string {
	if strings.Contains(limit, "'") {
		return ""
	}
	return "'" + limit + "'"
}

// pieceFor is a name as part of a limit. What would mean something there is left to match any character.
func pieceFor(name string) string {
	var piece strings.Builder
	for i, r := range name {
		if strings.ContainsRune(", '\"\\$:\t\n\r", r) || i == 0 && strings.ContainsRune("!&@-~", r) {
			r = '?'
		}
		piece.WriteRune(r)
	}
	return piece.String()
}

// excluding takes from the limit the nodes that it names and should not, empty where it cannot be told which.
func excluding(views []view, limit string) string {
	extra := map[string]bool{}
	for _, v := range views {
		got := hostpattern.ResolveRun(v.inventory, v.play, hostpattern.Compose("", limit, ""))
		if !got.Decided {
			return ""
		}
		for _, node := range got.Surely {
			if !slices.Contains(v.want, node) {
				extra[node] = true
			}
		}
	}
	pieces := []string{limit}
	for _, node := range SortNatural(slices.Collect(maps.Keys(extra))) {
		pieces = append(pieces, "!"+pieceFor(node))
	}
	return strings.Join(pieces, ",")
}

// isPlainText tells whether the limit is printable ASCII: Ansible and we count other characters differently.
func isPlainText(limit string) bool {
	return !strings.ContainsFunc(limit, func(r rune) bool { return r < ' ' || r > '~' })
}
