// Package verdict judges what a book of the ledger means: which nodes drift from the cluster, and whether a
// credential may go.
package verdict

import (
	"maps"
	"slices"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// Wanted is what the cluster wants of one NodeSet now.
type Wanted struct {
	// Nodes lists the inventory host names of all nodes; a name that stands for two nodes stands twice.
	Nodes []string
	// Secrets are the Secrets that the nodes are meant to receive.
	Secrets map[string]WantedSecret
	// Missing says, a sentence each, what is not known of what is wanted. Then nobody is surely updated.
	Missing []string
}

// WantedSecret is what the cluster wants of one Secret.
type WantedSecret struct {
	// Expected is the version in the cluster, Unknown where it is missing or unreadable.
	Expected fleet.Version
	// Places are the services' places that carry it.
	Places []string
}

// NodeRecord is what is known of one node and one Secret.
type NodeRecord struct {
	// Candidates are the versions the node may be running.
	Candidates fleet.Versions
	// Run is the ID of the run that brought the node there last, empty where nothing did.
	Run string
	// At is about when: the end of that run, or its beginning while it goes on.
	At time.Time
	// Claims are the undominated claims behind Candidates.
	Claims ledger.Cell
}

// SecretDrift is the state of one Secret over its nodes.
type SecretDrift struct {
	// Expected is the version in the cluster.
	Expected fleet.Version
	// Current is the version that every node had when all last had the same one; empty where that never was.
	Current fleet.Version
	// Nodes has a record for every node in the Secret's scope.
	Nodes map[string]NodeRecord
	// Updated counts the nodes that run exactly Expected.
	Updated int
}

// Drift is the state of one NodeSet.
type Drift struct {
	// TotalNodes, UpdatedNodes and DoubtfulNodes count nodes: all of them, those whose every Secret is exactly as
	// expected, and those of which some Secret may be in one of several versions.
	TotalNodes, UpdatedNodes, DoubtfulNodes int
	Secrets                                 map[string]SecretDrift
	// Missing is what is not known of what is wanted.
	Missing []string
}

// AllNodesUpdated tells whether every node is updated. No nodes or no Secrets prove nothing.
func (d Drift) AllNodesUpdated() bool {
	return d.TotalNodes > 0 && len(d.Secrets) > 0 && len(d.Missing) == 0 && d.UpdatedNodes == d.TotalNodes
}

// Judge compares the book with what is wanted. Previously is the Current of each Secret before now. It goes by what was
// delivered as far as the book knows; what went wrong before that may count against a deletion all the same.
func Judge(book ledger.Book, wanted Wanted, previously map[string]fleet.Version) Drift {
	book = book.WithoutPast()
	drift := Drift{TotalNodes: len(wanted.Nodes), Secrets: map[string]SecretDrift{}, Missing: wanted.Missing}
	names := slices.Compact(slices.Sorted(slices.Values(wanted.Nodes)))
	behind, doubtful := map[string]bool{}, map[string]bool{}
	for secret, want := range wanted.Secrets {
		records := newRecorder(book, secret, want.Places)
		state := SecretDrift{Expected: want.Expected, Current: previously[secret], Nodes: map[string]NodeRecord{}}
		for _, node := range names {
			if !book.InScope(node, secret) {
				continue
			}
			record := records.of(node)
			state.Nodes[node] = record
			if want.Expected != fleet.Unknown && record.Candidates.IsOnly(want.Expected) {
				state.Updated++
			} else {
				behind[node] = true
			}
			if len(record.Candidates) > 1 || record.Candidates.Has(fleet.Unknown) {
				doubtful[node] = true
			}
		}
		if same, ok := sameOnAll(state.Nodes); ok {
			state.Current = same
		}
		drift.Secrets[secret] = state
	}
	for _, node := range wanted.Nodes {
		if !behind[node] && len(wanted.Secrets) > 0 && !isTwice(wanted.Nodes, node) {
			drift.UpdatedNodes++
		}
		if doubtful[node] {
			drift.DoubtfulNodes++
		}
	}
	return drift
}

// recorder works out the records of one Secret. Most nodes of a fleet have the same history: each is judged once.
type recorder struct {
	book     ledger.Book
	secret   string
	places   []string
	carriers []ledger.Run
	known    map[string]NodeRecord
}

func newRecorder(book ledger.Book, secret string, places []string) *recorder {
	return &recorder{book: book, secret: secret, places: places, carriers: book.Carriers(secret), known: map[string]NodeRecord{}}
}

func (r *recorder) of(node string) NodeRecord {
	history := []byte(r.book.OriginOf(node))
	for _, run := range r.carriers {
		reach := byte('-')
		if strength, reached := run.Reach[node]; reached {
			reach = '0' + byte(strength)
		}
		history = append(history, reach)
	}
	record, known := r.known[string(history)]
	if !known {
		record = recordOf(r.book.CellOf(node, r.secret, r.places, r.carriers))
		r.known[string(history)] = record
	}
	return record
}

// recordOf names, of the undominated claims, the delivery that counts or else the latest attempt.
func recordOf(cell ledger.Cell) NodeRecord {
	record := NodeRecord{Candidates: cell.Candidates(), Claims: cell.Undominated()}
	best := ledger.Claim{Origin: true}
	for _, claim := range record.Claims {
		if best.Origin || claim.Strength > best.Strength ||
			claim.Strength == best.Strength && ended(claim).After(ended(best)) {
			best = claim
		}
	}
	if !best.Origin {
		record.Run, record.At = best.Run, ended(best)
	}
	return record
}

func ended(c ledger.Claim) time.Time {
	if c.Span.Over {
		return c.Span.Ended.Time
	}
	return c.Span.Began.Time
}

func sameOnAll(nodes map[string]NodeRecord) (fleet.Version, bool) {
	var same fleet.Versions
	for record := range maps.Values(nodes) {
		same = same.Union(record.Candidates)
	}
	if len(same) != 1 || same[0] == fleet.Unknown || same[0] == fleet.None {
		return "", false
	}
	return same[0], true
}

// isTwice tells whether two nodes share the inventory host name: Ansible reaches only one of them, nobody knows which.
func isTwice(nodes []string, name string) bool {
	first := slices.Index(nodes, name)
	return slices.Contains(nodes[first+1:], name)
}
