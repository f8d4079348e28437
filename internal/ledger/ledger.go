// Package ledger keeps, for one node and one Secret, what runs say the node may be running, and the law by which
// a later run puts an earlier one out of question.
package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

// Strength says how much a claim proves.
type Strength int

const (
	// Attempted means that the run may have touched the node. It proves nothing and puts nothing out of question.
	Attempted Strength = iota
	// Delivered means that the run ended well on the node, so the file on the node is of its version.
	Delivered
	// Proved means that file and process were read back on the node, so the node runs that version.
	Proved
)

// String is the word in texts and in the stored form.
func (s Strength) String() string {
	switch s {
	case Attempted:
		return "Attempted"
	case Delivered:
		return "Delivered"
	case Proved:
		return "Proved"
	}
	return fmt.Sprintf("Strength(%d)", int(s))
}

// Claim is what one run says of one node and one Secret.
type Claim struct {
	// Run identifies the run: the UID of its pod. Two claims of one cell with one Run and one Place speak of the same thing.
	Run string
	// Place is where on the node the run puts the Secret: the type of the service (edpmServiceType). A node that
	// gets one Secret through two services has two copies, and each answers only for itself.
	Place string
	// Versions is what the run may have carried; never empty. Delivered and Proved claims with one member narrow.
	Versions fleet.Versions
	// Strength is what the run proves of this node.
	Strength Strength
	// Whole says that the run ended well and did all that it does: where it changed the file it restarted the service.
	// So even where it proves nothing, it left no new file beside an old process.
	Whole bool
	// Span bounds the time the run went on.
	Span fleet.Span
	// Origin marks the claim older than everything with which a cell begins: {none} or {?}.
	Origin bool
}

// Origin is the claim a cell's place begins with: None where nothing was delivered before, Unknown where that
// cannot be told.
func Origin(place string, v fleet.Version) Claim {
	return Claim{Run: "origin", Place: place, Versions: fleet.SetOf(v), Span: fleet.Span{Over: true}, Origin: true}
}

// Cell is the set of claims of one node and one Secret, sorted, one per Run and Place.
type Cell []Claim

// Join puts two cells together. It is idempotent, commutative and associative, so replays, restarts and re-reads
// cannot corrupt a cell. What two claims of the same run say is narrowed: both contain the truth.
func Join(a, b Cell) Cell {
	all := slices.Concat(a, b)
	slices.SortFunc(all, compare)
	joined := make(Cell, 0, len(all))
	for _, c := range all {
		if last := len(joined) - 1; last >= 0 && same(joined[last], c) {
			joined[last] = narrow(joined[last], c)
			continue
		}
		joined = append(joined, c)
	}
	return joined
}

// Candidates is what the node may be running: the union of the versions of all undominated claims. An empty cell
// is {?}: nothing known proves nothing.
func (c Cell) Candidates() fleet.Versions {
	var versions fleet.Versions
	for _, claim := range c.Undominated() {
		versions = versions.Union(claim.Versions)
	}
	if len(versions) == 0 {
		return fleet.SetOf(fleet.Unknown)
	}
	return versions
}

// Undominated lists the claims that no other claim of the cell dominates.
func (c Cell) Undominated() Cell {
	law := newLaw(c)
	kept := make(Cell, 0, len(c))
	for i := range c {
		if !law.isDominated(i) {
			kept = append(kept, c[i])
		}
	}
	return kept
}

// Compact drops, place by place, what lies behind a cut: an untainted delivery that dominates all that began before
// it and that nothing overlaps. The candidates stay the same, and stay the same with whatever is joined later that
// began after the cut. So it must not be used while an older run may still turn up: only on what is settled.
func (c Cell) Compact() Cell {
	law := newLaw(c)
	kept := make(Cell, 0, len(c))
	for i := range c {
		if !law.isBehindCut(i) {
			kept = append(kept, c[i])
		}
	}
	return kept
}

func same(a, b Claim) bool { return a.Run == b.Run && a.Place == b.Place }

func compare(a, b Claim) int {
	return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Run, b.Run))
}

func narrow(a, b Claim) Claim {
	a.Versions = a.Versions.Narrow(b.Versions)
	a.Strength = max(a.Strength, b.Strength)
	a.Whole = a.Whole || b.Whole
	a.Span = a.Span.Narrow(b.Span)
	a.Origin = a.Origin || b.Origin
	if a.Origin { // two memories of the beginning: the more doubtful one holds
		a.Versions = fleet.Versions.Union(a.Versions, b.Versions)
	}
	return a
}
