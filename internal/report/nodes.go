package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// addNodes makes the grid of nodes and Secrets.
func (n *NodeSet) addNodes() {
	f := n.facts
	cells := map[string][]Cell{}
	for _, secret := range slices.Sorted(maps.Keys(f.drift.Secrets)) {
		drift := f.drift.Secrets[secret]
		for node, record := range drift.Nodes {
			cells[node] = append(cells[node], f.cellOf(secret, drift.Expected, record))
		}
	}
	names := slices.Compact(SortNatural(slices.Clone(f.wanted.Nodes)))
	twice := map[string]bool{}
	for i, name := range f.wanted.Nodes {
		twice[name] = twice[name] || slices.Contains(f.wanted.Nodes[:i], name)
	}
	for _, name := range names {
		node := Node{Name: name, Cells: cells[name], State: stateOf(cells[name])}
		if twice[name] || len(f.wanted.Missing) > 0 && node.State == Updated {
			node.State = Doubtful
		}
		n.NodeList = append(n.NodeList, node)
	}
	for _, name := range f.wanted.Nodes {
		i, _ := slices.BinarySearchFunc(n.NodeList, name, func(node Node, name string) int { return compareNatural(node.Name, name) })
		n.count(n.NodeList[i].State)
	}
	n.addDeparted()
}

// addDeparted appends the nodes that the NodeSet no longer lists: they may run what they were given.
func (n *NodeSet) addDeparted() {
	f := n.facts
	departed := SortNatural(slices.DeleteFunc(slices.Collect(maps.Keys(f.book.Nodes)), func(name string) bool {
		return slices.Contains(f.wanted.Nodes, name)
	}))
	if len(departed) == 0 {
		return
	}
	wanted := f.wanted
	wanted.Nodes, wanted.Secrets = departed, maps.Clone(f.wanted.Secrets)
	drift := verdict.Judge(f.book, wanted, nil)
	for _, name := range departed {
		node := Node{Name: name, Departed: true}
		for _, secret := range slices.Sorted(maps.Keys(drift.Secrets)) {
			if record, there := drift.Secrets[secret].Nodes[name]; there {
				node.Cells = append(node.Cells, f.cellOf(secret, drift.Secrets[secret].Expected, record))
			}
		}
		node.State = stateOf(node.Cells)
		n.NodeList = append(n.NodeList, node)
	}
}

// stateOf is the state of a node with these cells: without any, nothing is known of it.
func stateOf(cells []Cell) State {
	state := Updated
	for _, cell := range cells {
		switch cell.State {
		case Doubtful:
			return Doubtful
		case Behind:
			state = Behind
		case Updated:
		}
	}
	if len(cells) == 0 {
		return Doubtful
	}
	return state
}

func (c *Counts) count(state State) {
	c.Nodes++
	switch state {
	case Updated:
		c.Updated++
	case Behind:
		c.Behind++
	case Doubtful:
		c.Unknown++
	}
}

func (f facts) cellOf(secret string, expected fleet.Version, record verdict.NodeRecord) Cell {
	cell := Cell{Secret: secret, State: Behind, At: timeOf(record.At)}
	switch {
	case len(record.Candidates) != 1 || record.Candidates.Has(fleet.Unknown) || expected == fleet.Unknown:
		cell.State = Doubtful
	case record.Candidates.IsOnly(expected):
		cell.State = Updated
	}
	for _, version := range record.Candidates {
		if cell.Version == "" || cell.Version == expected {
			cell.Version = version
		}
		for _, identity := range f.identities(secret, version).names {
			if !slices.Contains(cell.Identities, identity) {
				cell.Identities = append(cell.Identities, identity)
			}
		}
	}
	if len(record.Candidates) > 1 {
		cell.Candidates = record.Candidates
	}
	if run, ok := f.book.Runs[record.Run]; ok {
		cell.Deployment, cell.Service, cell.Attempt = run.Deployment, run.Service, run.Attempt
	}
	if cell.State != Updated {
		cell.Why = f.why(secret, expected, record)
	}
	return cell
}

// why tells in a sentence why the node does not surely run the expected version.
func (f facts) why(secret string, expected fleet.Version, record verdict.NodeRecord) string {
	var parts []string
	for _, claim := range slices.Backward(sortedByTime(record.Claims)) {
		part := f.tell(secret, claim, record.Claims)
		if len(record.Claims) == 1 && claim.Strength >= ledger.Delivered && !claim.Origin && len(claim.Versions) == 1 {
			part = "" // what it runs is known, and stands beside this
		}
		if part != "" && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if expected == fleet.Unknown {
		parts = append(parts, "it is not known which version the cluster has")
	}
	return strings.Join(parts, "; ")
}

// tell says what one claim means.
func (f facts) tell(secret string, claim ledger.Claim, all ledger.Cell) string {
	run := f.book.Runs[claim.Run]
	name := fmt.Sprintf("%s (%s)", run.Deployment, run.Service)
	if run.Attempt > 1 {
		name = fmt.Sprintf("%s (%s, attempt %d)", run.Deployment, run.Service, run.Attempt)
	}
	switch {
	case claim.Origin && claim.Versions.IsOnly(fleet.None):
		return "nothing was delivered before"
	case claim.Origin:
		return "what it got before the operator watched is not known"
	case !claim.Span.Over:
		return name + " is under way"
	case claim.Strength == ledger.Attempted && run.Doubt != "":
		return name + " proves nothing: " + run.Doubt
	case claim.Strength == ledger.Attempted && slices.Contains(run.Partly, secret):
		return name + " took only some keys of the Secret along"
	case claim.Strength == ledger.Attempted:
		return name + " did not end well on this node"
	case claim.Versions.Has(fleet.Unknown) || len(claim.Versions) > 1:
		return name + " ended well, but the Secret changed around its start"
	case mayLackRestart(claim, all):
		return name + " ended well, but after an attempt that may have left the new file beside the old process"
	}
	return fmt.Sprintf("%s brought %s", name, claim.Versions[0].Short())
}

// mayLackRestart tells whether an attempt with the same version may have been before a delivery to the same place.
func mayLackRestart(delivered ledger.Claim, all ledger.Cell) bool {
	return slices.ContainsFunc(all, func(other ledger.Claim) bool {
		return other.Strength == ledger.Attempted && !other.Origin && other.Place == delivered.Place &&
			other.Versions.Meets(delivered.Versions) && !other.Span.After(delivered.Span)
	})
}

func sortedByTime(claims ledger.Cell) ledger.Cell {
	sorted := slices.Clone(claims)
	slices.SortStableFunc(sorted, func(a, b ledger.Claim) int {
		return cmp.Or(a.Span.Began.Time.Compare(b.Span.Began.Time), cmp.Compare(a.Run, b.Run))
	})
	return sorted
}

// addRuns lists the runs of the book, and the Deployments that are under way.
func (n *NodeSet) addRuns() {
	f := n.facts
	for _, id := range slices.Sorted(maps.Keys(f.book.Runs)) {
		run := f.book.Runs[id]
		told := Run{
			Deployment: run.Deployment, Service: run.Service, Attempt: run.Attempt, Over: run.Span.Over, Doubt: run.Doubt,
			Began: timeOf(run.Span.Began.Time), Carried: []Carried{},
		}
		if run.Span.Over {
			told.Ended = timeOf(run.Span.Ended.Time)
		}
		for node, strength := range run.Reach {
			if strength >= ledger.Delivered {
				told.Delivered = append(told.Delivered, node)
			} else {
				told.Attempted = append(told.Attempted, node)
			}
		}
		SortNatural(told.Delivered)
		SortNatural(told.Attempted)
		for _, secret := range slices.Sorted(maps.Keys(run.Carried)) {
			carried := Carried{Secret: secret, Versions: run.Carried[secret]}
			for _, version := range run.Carried[secret] {
				carried.Identities = append(carried.Identities, f.identities(secret, version).names...)
			}
			told.Carried = append(told.Carried, carried)
		}
		n.Runs = append(n.Runs, told)
	}
	slices.SortStableFunc(n.Runs, func(a, b Run) int { return began(b).Compare(began(a)) })
	for _, uid := range f.world.Touching() {
		deployment := f.world.Deployments[uid]
		if f.world.Settled[uid] == "" {
			n.Running = append(n.Running, Running{
				Name: deployment.Name, Limit: deployment.Spec.AnsibleLimit, Since: deployment.CreationTimestamp.UTC(),
				Tags: deployment.Spec.AnsibleTags != "" || deployment.Spec.AnsibleSkipTags != "",
			})
		}
	}
	slices.SortFunc(n.Running, func(a, b Running) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name)) })
}

func began(r Run) time.Time {
	if r.Began == nil {
		return time.Time{}
	}
	return *r.Began
}
