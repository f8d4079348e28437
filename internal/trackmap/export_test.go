package trackmap

import (
	"encoding/json"

	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// EncodeWithin is Encode with other limits.
func EncodeWithin(s State, drift verdict.Drift, plain, object, hard int) (Objects, error) {
	return encode(s, drift, limits{plain: plain, object: object, hard: hard})
}

// Reseal makes checksum and digests fit again, so that what lies behind them can be tested.
func Reseal(objects Objects) {
	var m meta
	if json.Unmarshal([]byte(objects[""][metaKey]), &m) != nil {
		return
	}
	for suffix := range m.Shards {
		m.Shards[suffix] = digest(objects[suffix])
	}
	if err := m.seal(objects[""]); err != nil {
		panic(err)
	}
}
