package trackmap

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// The formats that are known. Every other is newer.
const (
	formatPlain   = 1 // views list every node
	formatGrouped = 2 // views have groups of nodes
)

// meta is what stands under _meta.
type meta struct {
	Format     int      `json:"format"`
	Sequence   int64    `json:"sequence"`
	NodeSetUID string   `json:"nodeSetUID"`
	AsOf       uint64   `json:"asOf"`
	Settled    []string `json:"settled,omitempty"`
	// Nodes is how many nodes the book has.
	Nodes int `json:"nodes"`
	// Shards gives the digest of every shard by its suffix.
	Shards map[string]string `json:"shards,omitempty"`
	// Checksum is the digest of the ConfigMap with this field empty.
	Checksum string `json:"checksum"`
}

func metaOf(s State) meta {
	settled := slices.Compact(slices.Sorted(slices.Values(s.Settled)))
	return meta{
		Format: formatPlain, Sequence: s.Sequence, NodeSetUID: s.NodeSetUID, AsOf: s.AsOf, Settled: settled,
		Nodes: len(s.Book.Nodes),
	}
}

// seal writes _meta into the data that it is about, with the checksum over all of it.
func (m meta) seal(data map[string]string) error {
	m.Checksum = ""
	for _, sealed := range []bool{false, true} {
		if sealed {
			m.Checksum = digest(data)
		}
		text, err := marshal(m)
		if err != nil {
			return fmt.Errorf("%s: %w", metaKey, err)
		}
		data[metaKey] = text
	}
	return nil
}

// open reads _meta and checks the data against it.
func open(data map[string]string) (meta, error) {
	text, ok := data[metaKey]
	if !ok {
		return meta{}, damaged(metaKey, errors.New("it is missing"))
	}
	var format struct{ Format int }
	if err := json.Unmarshal([]byte(text), &format); err != nil {
		return meta{}, damaged(metaKey, err)
	}
	if format.Format > formatGrouped {
		return meta{}, fmt.Errorf("%w: format %d, known are formats up to %d", ErrNewer, format.Format, formatGrouped)
	}
	var m meta
	if err := unmarshal(text, &m); err != nil {
		return meta{}, damaged(metaKey, err)
	}
	if m.Format < formatPlain {
		return meta{}, damaged(metaKey, fmt.Errorf("there is no format %d", m.Format))
	}
	sealed := maps.Clone(data)
	if err := m.seal(sealed); err != nil {
		return meta{}, damaged(metaKey, err)
	}
	if sealed[metaKey] != text {
		return meta{}, damaged(metaKey, errors.New("the checksum does not fit the keys"))
	}
	return m, nil
}

// Shards gives the suffixes of the shards that belong to the ConfigMap "" with that data, each with the digest its
// data must have. Errors are those of Decode.
func Shards(data map[string]string) (map[string]string, error) {
	m, err := open(data)
	return m.Shards, err
}

// shardsOf picks the shards that belong together.
func (m meta) shardsOf(objects Objects) ([]map[string]string, error) {
	var shards []map[string]string
	for _, suffix := range slices.Sorted(maps.Keys(m.Shards)) {
		data, ok := objects[suffix]
		if !ok {
			return nil, fmt.Errorf("%w: shard %q is missing", ErrCorrupt, suffix)
		}
		if digest(data) != m.Shards[suffix] {
			return nil, fmt.Errorf("%w: shard %q is not the one that was stored with the rest", ErrCorrupt, suffix)
		}
		shards = append(shards, data)
	}
	return shards, nil
}

// digest is the SHA-256 of all keys and values, each with its length before it.
func digest(data map[string]string) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(sum, "%d:%s%d:%s", len(key), key, len(data[key]), data[key])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
