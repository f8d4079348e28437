package verdict

import (
	"maps"
	"slices"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// survey is what the books say of one credential on all nodes: each node is in one list at most.
type survey struct {
	behind, unproved, unknown []examined
	// attested would be in one of them, if nobody had said that they are gone; attestedUntil is when the first of
	// these words ends.
	attested      []examined
	attestedUntil time.Time
	// cells counts nodes times Secrets that were looked at.
	cells int
}

// examined is one node of which it is not sure that it does not run the credential.
type examined struct {
	nodeSet, name string
	departed      bool
	// latest is the end of the last run that may have brought it there; open says that the end of one is not known.
	latest time.Time
	open   bool
}

func (s survey) nodeSets() []string {
	var all []string
	for _, node := range slices.Concat(s.behind, s.unproved, s.unknown) {
		all = append(all, node.nodeSet)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func names(nodes []examined) []string {
	var all []string
	for _, node := range nodes {
		all = append(all, node.name)
	}
	slices.Sort(all)
	return all
}

func examine(r Request) survey {
	var s survey
	homes := map[string]int{}
	for _, nodeSet := range r.NodeSets {
		for _, node := range nodeSet.nodes() {
			homes[node]++
		}
	}
	for _, nodeSet := range r.NodeSets {
		findings := map[string]finding{}
		for _, secret := range nodeSet.covered(r.Covers) {
			s.cells += nodeSet.look(r, secret, findings)
		}
		for _, node := range slices.Sorted(maps.Keys(findings)) {
			found := findings[node]
			subject := examined{nodeSet: nodeSet.Name, name: node, latest: found.latest, open: found.open,
				departed: nodeSet.Deleted || nodeSet.Book.Nodes[node].Departed}
			if homes[node] > 1 {
				subject.name = nodeSet.Name + "/" + node
			}
			if until := nodeSet.goneUntil(r, node); !until.IsZero() && (found.behind || found.unproved || found.unknown) {
				s.attested = append(s.attested, subject)
				s.attestedUntil = earlier(s.attestedUntil, until)
				continue
			}
			switch {
			case found.behind:
				s.behind = append(s.behind, subject)
			case found.unproved:
				s.unproved = append(s.unproved, subject)
			case found.unknown:
				s.unknown = append(s.unknown, subject)
			}
		}
	}
	return s
}

// goneUntil is until when somebody's word counts that the node is gone, zero where no such word does.
func (n NodeSet) goneUntil(r Request, node string) time.Time {
	var until time.Time
	for _, word := range r.Gone {
		if word.NodeSet == n.Name && word.Node == node && word.counts(r.Now) && !n.reachedAfter(node, word.Given) {
			until = later(until, word.Until)
		}
	}
	return until
}

// reachedAfter tells whether a run may have been on the node after that time: unless it surely ended before, which
// nearly equal times do not prove.
func (n NodeSet) reachedAfter(node string, given time.Time) bool {
	for _, run := range n.Book.Runs {
		if _, reached := run.Reach[node]; reached && (!run.Span.Over || !run.Span.Ended.Before(fleet.Instant{Time: given})) {
			return true
		}
	}
	return false
}

// wasUnderWay tells whether a run was going on when the NodeSet was last looked at. Of a deleted one nobody saw what
// came after that.
func (n NodeSet) wasUnderWay() bool {
	for _, run := range n.Book.Runs {
		if !run.Span.Over {
			return true
		}
	}
	return false
}

// nodes are all that the NodeSet has or had.
func (n NodeSet) nodes() []string {
	all := slices.AppendSeq(slices.Clone(n.Wanted.Nodes), maps.Keys(n.Book.Nodes))
	slices.Sort(all)
	return slices.Compact(all)
}

// covered are the Secrets of interest that the NodeSet's nodes receive or have received.
func (n NodeSet) covered(covers func(string) bool) []string {
	all := slices.Collect(maps.Keys(n.Wanted.Secrets))
	all = slices.AppendSeq(append(all, n.Told...), maps.Keys(n.Book.Secrets))
	for _, run := range n.Book.Runs {
		all = slices.AppendSeq(all, maps.Keys(run.Carried))
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(secret string) bool { return !covers(secret) })
}

// finding is what was found out about one node, over all its Secrets.
type finding struct {
	behind, unproved, unknown, open bool
	latest                          time.Time
}

// look adds to the findings what one Secret says of each node, and counts the nodes.
func (n NodeSet) look(r Request, secret string, findings map[string]finding) int {
	records := newRecorder(n.Book, secret, n.Wanted.Secrets[secret].Places)
	cells := 0
	for _, node := range n.nodes() {
		if !n.Book.InScope(node, secret) {
			continue
		}
		cells++
		found := findings[node]
		record := records.of(node)
		if len(record.Claims) == 0 { // no run reached the node and no service brings the Secret: it is as it was
			record.Claims = ledger.Cell{ledger.Origin("", n.Book.OriginOf(node))}
		}
		found.add(r, n.Book.Secrets[secret], record.Claims)
		found.unknown = found.unknown || isTwice(n.Wanted.Nodes, node) || n.Deleted && n.wasUnderWay()
		findings[node] = found
	}
	return cells
}

// add weighs the claims on one node that nothing dominates.
func (f *finding) add(r Request, history ledger.History, claims ledger.Cell) {
	for _, claim := range claims {
		inside, unknown := holds(claim.Versions, r, history)
		overtaken := isOvertaken(claim, claims)
		f.behind = f.behind || inside && !overtaken
		f.unproved = f.unproved || inside || unknown && overtaken
		f.unknown = f.unknown || unknown && !overtaken
		if r.Proof && claim.Strength < ledger.Proved && !claim.Versions.IsOnly(fleet.None) {
			f.unproved = true
		}
		if inside || unknown {
			ended := claim.Span.Ended.Time
			f.open = f.open || !claim.Span.Over || ended.IsZero() && !claim.Origin
			if ended.After(f.latest) {
				f.latest = ended
			}
		}
	}
}

// holds tells whether one of the versions has the identity inside, and whether one might that nobody looked into.
func holds(versions fleet.Versions, r Request, history ledger.History) (inside, unknown bool) {
	for _, version := range versions {
		for _, identity := range append([]string{r.Identity}, r.Also...) {
			carries, known := history.Carries(version, identity, r.Question)
			inside, unknown = inside || carries, unknown || !known
		}
	}
	return inside, unknown
}

// isOvertaken tells whether a delivery came surely later to the same place. If it did and dominates nothing, then the
// process may not have been restarted with it.
func isOvertaken(claim ledger.Claim, all ledger.Cell) bool {
	return slices.ContainsFunc(all, func(other ledger.Claim) bool {
		return other.Strength >= ledger.Delivered && other.Place == claim.Place && other.Span.After(claim.Span)
	})
}
