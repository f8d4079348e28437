// Package trackmap writes what is known of one NodeSet as the text of ConfigMaps, and reads it back.
//
// ConfigMap `<nodeset>-secret-tracking` has one key per Secret, the view that people and other programs read, and
// keys of ours that begin with "_", as no Secret's name can. What is too large for one ConfigMap goes to shards
// `<nodeset>-secret-tracking-N`, which the first one then names with their digests.
package trackmap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// State is all that is stored of one NodeSet.
type State struct {
	// NodeSetUID is the UID of the NodeSet that the book is about; a NodeSet made anew with the same name is another.
	NodeSetUID string
	// Sequence grows by one with each write, so that an older text put back can be told.
	Sequence int64
	// AsOf is the resourceVersion up to which everything was seen.
	AsOf uint64
	// Settled lists the Deployments that are over and whose runs are all stored, UID/name, and the Jobs done of those that go
	// on, UID/job/…. Order does not count.
	Settled []string
	// Book is what is known.
	Book ledger.Book
	// Shards are the shards, suffix to digest, that the text last read or written is made of; see Shards.
	Shards map[string]string
}

// Objects is the stored text: the data of ConfigMaps by what follows `<nodeset>-secret-tracking` in their names. ""
// is always there and says which others belong to it: "-1", "-2" and so on.
type Objects map[string]map[string]string

// What Decode and Shards find wrong, to be asked for with errors.Is.
var (
	// ErrAbsent: nothing was ever stored, or all of it was deleted.
	ErrAbsent = errors.New("nothing is stored")
	// ErrNewer: the text is of a format that a later version of the operator writes. It must not be overwritten.
	ErrNewer = errors.New("stored in a newer format")
	// ErrCorrupt: the text is not what Encode wrote: cut, edited, incomplete, or put together from several writes.
	ErrCorrupt = errors.New("stored text is damaged")
	// ErrForeign: the text is whole, but about another NodeSet, such as a deleted one of the same name.
	ErrForeign = errors.New("stored for another NodeSet")
)

// ErrTooLarge is what Encode says when a single item, such as one Secret's view, does not fit into a ConfigMap.
var ErrTooLarge = errors.New("does not fit into a ConfigMap")

const (
	metaKey     = "_meta"
	nodesKey    = "_nodes"
	versionsKey = "_versions"
	runsKey     = "_runs"
)

// limits are sizes in bytes, keys and values together.
type limits struct {
	plain  int // up to this size of the whole, views list every node
	object int // up to this size everything stands in one ConfigMap; shards are made to be no larger
	hard   int // no ConfigMap may be larger; the API server's own limit is 1 MiB of values
}

var standard = limits{plain: 256 << 10, object: 700 << 10, hard: 1_000_000}

// Encode writes the state, and the drift judged from its book as the view. Equal input gives equal bytes.
//
// A shard that changed gets a name that is not among s.Shards, and one that did not change keeps its name. So whoever
// writes the shards first, then "", and deletes what is in use no more last, may be killed between any two writes:
// what is stored is the old text or the new one, whole. Strings that are not UTF-8, and a book that contradicts
// itself, are errors; nothing is ever left out silently.
func Encode(s State, drift verdict.Drift) (Objects, error) { return encode(s, drift, standard) }

func encode(s State, drift verdict.Drift, lim limits) (Objects, error) {
	all, err := entriesOf(s.Book)
	if err != nil {
		return nil, err
	}
	nodes, err := nodesText(s.Book.Nodes)
	if err != nil {
		return nil, err
	}
	manifest := all.data()
	manifest[nodesKey] = nodes
	m := metaOf(s)
	if err := m.seal(manifest); err != nil {
		return nil, err
	}
	if all.views, m.Format, err = views(s.Book, drift, lim.plain-size(manifest)); err != nil {
		return nil, err
	}
	maps.Copy(manifest, all.views)
	objects := Objects{"": manifest}
	if size(manifest) > lim.object && !all.isEmpty() {
		shards := all.split(lim.object, lim.hard)
		objects, m.Shards = name(shards, s.Shards)
		manifest = map[string]string{nodesKey: nodes}
		objects[""] = manifest
	}
	if err := m.seal(manifest); err != nil {
		return nil, err
	}
	for suffix, data := range objects {
		if size(data) > lim.hard {
			return nil, fmt.Errorf("%w: %d bytes in %q, the largest being %s", ErrTooLarge, size(data), suffix, largest(data))
		}
	}
	return objects, nil
}

// Decode reads what Encode wrote for the NodeSet with that UID, or for any where it is empty, and each Secret's current
// version as the view has it.
// ConfigMaps that "" does not name are left alone: they are older than it, or were written just before a write of ""
// that never came. Any doubt is an error, one of those above, with the key at fault.
func Decode(objects Objects, nodeSetUID string) (State, map[string]fleet.Version, error) {
	state, current, err := decode(objects, nodeSetUID)
	if err != nil {
		return State{}, nil, err
	}
	return state, current, nil
}

func decode(objects Objects, nodeSetUID string) (State, map[string]fleet.Version, error) {
	if len(objects) == 0 {
		return State{}, nil, ErrAbsent
	}
	manifest := objects[""]
	m, err := open(manifest)
	if err != nil {
		return State{}, nil, err
	}
	if m.NodeSetUID != nodeSetUID && nodeSetUID != "" {
		return State{}, nil, fmt.Errorf("%w: it says UID %s, the NodeSet's is %s", ErrForeign, m.NodeSetUID, nodeSetUID)
	}
	state := State{NodeSetUID: m.NodeSetUID, Sequence: m.Sequence, AsOf: m.AsOf, Settled: m.Settled, Shards: m.Shards, Book: ledger.NewBook()}
	if err := readNodes(manifest[nodesKey], state.Book.Nodes); err != nil {
		return State{}, nil, damaged(nodesKey, err)
	}
	if len(state.Book.Nodes) != m.Nodes {
		return State{}, nil, damaged(nodesKey, fmt.Errorf("%d nodes instead of %d", len(state.Book.Nodes), m.Nodes))
	}
	parts := []map[string]string{maps.Clone(manifest)}
	delete(parts[0], metaKey)
	delete(parts[0], nodesKey)
	if len(m.Shards) > 0 {
		if len(parts[0]) > 0 {
			return State{}, nil, fmt.Errorf("%w: there are shards, and yet keys that belong into them", ErrCorrupt)
		}
		if parts, err = m.shardsOf(objects); err != nil {
			return State{}, nil, err
		}
	}
	current, err := readParts(parts, state.Book)
	return state, current, err
}

// readParts reads everything that stands in shards where there are any.
func readParts(parts []map[string]string, book ledger.Book) (map[string]fleet.Version, error) {
	texts, err := gather(parts)
	if err != nil {
		return nil, err
	}
	tables, err := readVersions(texts.versions, book)
	if err != nil {
		return nil, damaged(versionsKey, err)
	}
	if err := readRuns(texts.runs, tables, book.Runs); err != nil {
		return nil, damaged(runsKey, err)
	}
	current := map[string]fleet.Version{}
	for secret, text := range texts.views {
		var v view
		if err := unmarshal(text, &v); err != nil {
			return nil, damaged(secret, err)
		}
		if v.CurrentHash != "" {
			current[secret] = v.CurrentHash
		}
	}
	return current, nil
}

func damaged(key string, err error) error { return fmt.Errorf("%w: key %q: %w", ErrCorrupt, key, err) }

func size(data map[string]string) int {
	total := 0
	for key, value := range data {
		total += len(key) + len(value)
	}
	return total
}

func largest(data map[string]string) string {
	return slices.MaxFunc(slices.Sorted(maps.Keys(data)), func(a, b string) int { return len(data[a]) - len(data[b]) })
}

// isOurs tells the keys of ours from Secrets' names.
func isOurs(key string) bool { return strings.HasPrefix(key, "_") }
