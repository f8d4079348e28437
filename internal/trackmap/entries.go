package trackmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// entries are the texts that may stand in shards: views and versions by Secret, runs by ID.
type entries struct{ views, versions, runs map[string]string }

func newEntries() entries {
	return entries{views: map[string]string{}, versions: map[string]string{}, runs: map[string]string{}}
}

func (e entries) kinds() []map[string]string { return []map[string]string{e.views, e.versions, e.runs} }

// data lays the entries out as a ConfigMap.
func (e entries) data() map[string]string {
	data := map[string]string{versionsKey: objectText(e.versions), runsKey: objectText(e.runs)}
	maps.Copy(data, e.views)
	return data
}

// maxShards bounds the number of shards that are tried.
const maxShards = 1 << 10

// split spreads the entries over as few shards as keep to the first limit that can be kept to; their number is a power
// of two, so that more of them part some and move nothing else. An entry's shard follows from its Secret's name or its
// run's ID alone. Where no limit can be kept to, the result is too large.
func (e entries) split(limits ...int) []map[string]string {
	var shards []map[string]string
	for _, limit := range limits {
		for count := 2; count <= maxShards; count *= 2 {
			shards = e.spread(count)
			if !slices.ContainsFunc(shards, func(data map[string]string) bool { return size(data) > limit }) {
				return shards
			}
		}
	}
	return shards
}

// spread lays the entries out in that many shards, without those that would be empty.
func (e entries) spread(count int) []map[string]string {
	shards := map[int]entries{}
	for kind, texts := range e.kinds() {
		for name, text := range texts {
			i := bucket(name, count)
			if _, ok := shards[i]; !ok {
				shards[i] = newEntries()
			}
			shards[i].kinds()[kind][name] = text
		}
	}
	var all []map[string]string
	for _, i := range slices.Sorted(maps.Keys(shards)) {
		all = append(all, shards[i].data())
	}
	return all
}

func (e entries) isEmpty() bool { return len(e.views)+len(e.versions)+len(e.runs) == 0 }

func bucket(name string, count int) int {
	sum := fnv.New64a()
	sum.Write([]byte(name))
	return int(sum.Sum64() % uint64(count))
}

// name gives every shard a suffix. One that is in use keeps its own; the others get numbers that are not in use, for
// what is in use must stay whole until the new text is complete.
func name(shards []map[string]string, inUse map[string]string) (Objects, map[string]string) {
	suffixes := map[string]string{}
	for suffix, sum := range inUse {
		suffixes[sum] = suffix
	}
	objects, digests := Objects{}, map[string]string{}
	next := 0
	for _, data := range shards {
		sum := digest(data)
		suffix, kept := suffixes[sum]
		for taken := !kept; taken; _, taken = inUse[suffix] {
			next++
			suffix = "-" + strconv.Itoa(next)
		}
		objects[suffix], digests[suffix] = data, sum
	}
	return objects, digests
}

// gather undoes split and data.
func gather(parts []map[string]string) (entries, error) {
	all := newEntries()
	for _, part := range parts {
		for key, text := range part {
			var err error
			switch {
			case key == versionsKey:
				err = addTexts(all.versions, text)
			case key == runsKey:
				err = addTexts(all.runs, text)
			case isOurs(key):
				err = errors.New("no such key is known")
			default:
				err = add(all.views, key, text)
			}
			if err != nil {
				return entries{}, damaged(key, err)
			}
		}
		for _, key := range []string{versionsKey, runsKey} {
			if _, ok := part[key]; !ok {
				return entries{}, damaged(key, errors.New("it is missing"))
			}
		}
	}
	return all, nil
}

func addTexts(all map[string]string, text string) error {
	var texts map[string]json.RawMessage
	if err := unmarshal(text, &texts); err != nil {
		return err
	}
	for name, text := range texts {
		if err := add(all, name, string(text)); err != nil {
			return err
		}
	}
	return nil
}

func add(all map[string]string, name, text string) error {
	if _, twice := all[name]; twice {
		return fmt.Errorf("%q occurs twice", name)
	}
	all[name] = text
	return nil
}

// member writes what stands under a name; the name must come back as well.
func member(name string, v any) (string, error) {
	if !utf8.ValidString(name) {
		return "", errors.New("its name is not UTF-8")
	}
	return marshal(v)
}

// objectText writes a JSON object of members.
func objectText(texts map[string]string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		if i > 0 {
			b.WriteByte(',')
		}
		quoted, _ := json.Marshal(name) // a string can always be marshalled
		b.Write(quoted)
		b.WriteByte(':')
		b.WriteString(texts[name])
	}
	b.WriteByte('}')
	return b.String()
}

// marshal writes compact JSON. It refuses strings that are not UTF-8, which would come back as others.
func marshal(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	// Only for bytes that are not UTF-8 does encoding/json write this escape; the character itself it writes as it is.
	if strings.Contains(strings.ReplaceAll(string(text), `\\`, ""), `\ufffd`) {
		return "", errors.New("it has a string that is not UTF-8")
	}
	return string(text), nil
}

// unmarshal reads JSON with nothing unknown and nothing behind it.
func unmarshal(text string, v any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return err
	}
	if decoder.InputOffset() != int64(len(text)) {
		return errors.New("something follows the JSON")
	}
	return nil
}
