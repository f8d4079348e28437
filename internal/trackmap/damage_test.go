package trackmap_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// rotated is the text of a NodeSet half-way through a rotation.
func rotated(t *testing.T) trackmap.Objects {
	t.Helper()
	s := newNodeSet("uid", "compute-0", "compute-1")
	s.read(user7, "2026-02-19T12:00:00Z", "user7")
	s.deploy("edpm-initial", "2026-02-20T10:00:00Z", map[string]ledger.Strength{"compute-0": ledger.Delivered, "compute-1": ledger.Delivered})
	s.read(user8, "2026-02-23T09:00:00Z", "user8")
	s.deploy("edpm-c0", "2026-02-23T12:00:00Z", map[string]ledger.Strength{"compute-0": ledger.Delivered})
	_, objects := s.store(t)
	return objects
}

func clone(objects trackmap.Objects) trackmap.Objects {
	cloned := trackmap.Objects{}
	for suffix, data := range objects {
		cloned[suffix] = maps.Clone(data)
	}
	return cloned
}

// isRefusal tells whether the error is one that Decode may give for text that is there but not what was written.
func isRefusal(err error) bool {
	return errors.Is(err, trackmap.ErrCorrupt) || errors.Is(err, trackmap.ErrNewer)
}

func TestErrorsTellWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(trackmap.Objects)
		reseal bool
		want   error
	}{
		"as it was":                   {func(trackmap.Objects) {}, false, nil},
		"all gone":                    {func(o trackmap.Objects) { clear(o) }, false, trackmap.ErrAbsent},
		"emptied":                     {func(o trackmap.Objects) { clear(o[""]) }, false, trackmap.ErrCorrupt},
		"only a shard":                {func(o trackmap.Objects) { o["-1"] = o[""]; delete(o, "") }, false, trackmap.ErrCorrupt},
		"a shard left over":           {func(o trackmap.Objects) { o["-1"] = map[string]string{"x": "y"} }, false, nil},
		"a newer format":              {replaced("_meta", `"format":1`, `"format":3,"hmac":"x"`), false, trackmap.ErrNewer},
		"a format that never was":     {replaced("_meta", `"format":1`, `"format":0`), true, trackmap.ErrCorrupt},
		"no JSON":                     {replaced("_meta", `}`, ``), false, trackmap.ErrCorrupt},
		"an unknown field":            {replaced("_meta", `"format":1`, `"format":1,"new":1`), true, nil}, // Reseal leaves it out
		"another NodeSet":             {replaced("_meta", `"uid"`, `"other"`), true, trackmap.ErrForeign},
		"another sequence":            {replaced("_meta", `"sequence":1`, `"sequence":2`), false, trackmap.ErrCorrupt},
		"a version edited":            {replaced(secret, string(user7), string(user8)), false, trackmap.ErrCorrupt},
		"an unknown key":              {func(o trackmap.Objects) { o[""]["_new"] = "{}" }, true, trackmap.ErrCorrupt},
		"no runs":                     {func(o trackmap.Objects) { delete(o[""], "_runs") }, true, trackmap.ErrCorrupt},
		"no versions":                 {func(o trackmap.Objects) { delete(o[""], "_versions") }, true, trackmap.ErrCorrupt},
		"no nodes":                    {func(o trackmap.Objects) { delete(o[""], "_nodes") }, true, trackmap.ErrCorrupt},
		"fewer nodes":                 {replaced("_nodes", `compute-[0-1]`, `compute-0`), true, trackmap.ErrCorrupt},
		"a node twice":                {replaced("_nodes", `[{`, `[{"origin":"?","nodes":"compute-0"},{`), true, trackmap.ErrCorrupt},
		"a node without origin":       {replaced("_nodes", `"origin":"none",`, ``), true, trackmap.ErrCorrupt},
		"a node's unknown field":      {replaced("_nodes", `"origin"`, `"since":1,"origin"`), true, trackmap.ErrCorrupt},
		"something behind the nodes":  {func(o trackmap.Objects) { o[""]["_nodes"] += " []" }, true, trackmap.ErrCorrupt},
		"nodes that do not unfold":    {replaced("_nodes", `[0-1]`, `[1-0]`), true, trackmap.ErrCorrupt},
		"reach that does not unfold":  {replaced("_runs", `[0-1]`, `[1-0]`), true, trackmap.ErrCorrupt},
		"an unknown strength":         {replaced("_runs", `"Delivered"`, `"Certain"`), true, trackmap.ErrCorrupt},
		"a node reached twice":        {replaced("_runs", `"Delivered":"compute-0"`, `"Attempted":"compute-0","Delivered":"compute-0"`), true, trackmap.ErrCorrupt},
		"an unknown version":          {replaced("_runs", `"versions":[1]`, `"versions":[2]`), true, trackmap.ErrCorrupt},
		"a negative version":          {replaced("_runs", `"versions":[1]`, `"versions":[-1]`), true, trackmap.ErrCorrupt},
		"a Secret without versions":   {replaced("_runs", secret, "x"), true, trackmap.ErrCorrupt},
		"a Secret carried twice":      {replaced("_runs", `"carried":[`, `"carried":[{"versions":[0],"secrets":"`+secret+`"},`), true, trackmap.ErrCorrupt},
		"Secrets that do not unfold":  {replaced("_runs", secret, "x[1-0]"), true, trackmap.ErrCorrupt},
		"partly that does not unfold": {replaced("_runs", `"reach"`, `"partly":"x[","reach"`), true, trackmap.ErrCorrupt},
		"a run's unknown field":       {replaced("_runs", `"reach"`, `"new":1,"reach"`), true, trackmap.ErrCorrupt},
		"a history's unknown field":   {replaced("_versions", `"held"`, `"new":1,"held"`), true, trackmap.ErrCorrupt},
		"a view's unknown field":      {replaced(secret, `"currentHash"`, `"new":1,"currentHash"`), true, trackmap.ErrCorrupt},
		"runs that are none":          {func(o trackmap.Objects) { o[""]["_runs"] = "[]" }, true, trackmap.ErrCorrupt},
		"versions that are none":      {func(o trackmap.Objects) { o[""]["_versions"] = "[]" }, true, trackmap.ErrCorrupt},
	} {
		objects := rotated(t)
		tc.damage(objects)
		if tc.reseal {
			trackmap.Reseal(objects)
		}
		if state, current, err := trackmap.Decode(objects, "uid"); !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v, want %v", name, err, tc.want)
		} else if err != nil && (state.NodeSetUID != "" || current != nil) {
			t.Errorf("%s: an error and a state", name)
		}
	}
}

// TestShardsThatDoNotBelongTogether: text in shards has its own ways to be wrong.
func TestShardsThatDoNotBelongTogether(t *testing.T) {
	state, _, err := trackmap.Decode(rotated(t), "uid")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := trackmap.EncodeWithin(state, verdict.Drift{}, 0, 1100, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for want, damage := range map[string]func(trackmap.Objects){
		`shard "-1" is missing`:          func(o trackmap.Objects) { delete(o, "-1") },
		`shard "-1" is not the one`:      func(o trackmap.Objects) { o["-1"] = o["-2"] },
		`there are shards, and yet keys`: func(o trackmap.Objects) { o[""]["x"] = "{}"; trackmap.Reseal(o) },
		`occurs twice`:                   func(o trackmap.Objects) { o["-2"]["_runs"] = o["-1"]["_runs"]; trackmap.Reseal(o) },
	} {
		damaged := clone(objects)
		damage(damaged)
		if _, _, err := trackmap.Decode(damaged, "uid"); !errors.Is(err, trackmap.ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// replaced gives the damage that replaces one piece of a key's text, which must be there.
func replaced(key, from, to string) func(trackmap.Objects) {
	return func(o trackmap.Objects) {
		if !strings.Contains(o[""][key], from) {
			panic(from + " is not in " + o[""][key])
		}
		o[""][key] = strings.ReplaceAll(o[""][key], from, to)
	}
}

// TestEveryFlipAndCutIsRefused goes through every bit and every length of a whole text.
func TestEveryFlipAndCutIsRefused(t *testing.T) {
	objects := rotated(t)
	for key, text := range objects[""] {
		try := func(damaged, what string, at int) {
			objects[""][key] = damaged
			if _, _, err := trackmap.Decode(objects, "uid"); !isRefusal(err) {
				t.Errorf("%s: %s at byte %d: error %v", key, what, at, err)
			}
		}
		for at := range text {
			try(text[:at], "cut", at)
			for bit := range 8 {
				flipped := []byte(text)
				flipped[at] ^= 1 << bit
				try(string(flipped), fmt.Sprintf("bit %d flipped", bit), at)
			}
		}
		objects[""][key] = text
	}
	if _, _, err := trackmap.Decode(objects, "uid"); err != nil {
		t.Error("what is not damaged is refused:", err)
	}
}

// damages are what happens to stored text. Each may leave it as it was.
var damages = map[string]func(t *rapid.T, o, other trackmap.Objects){
	"another byte": func(t *rapid.T, o, _ trackmap.Objects) {
		suffix, key := drawKey(t, o)
		text := []byte(o[suffix][key])
		text[rapid.IntRange(0, len(text)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		o[suffix][key] = string(text)
	},
	"a piece cut out or put in twice": func(t *rapid.T, o, _ trackmap.Objects) {
		suffix, key := drawKey(t, o)
		text := o[suffix][key]
		from, to := rapid.IntRange(0, len(text)).Draw(t, "from"), rapid.IntRange(0, len(text)).Draw(t, "to")
		o[suffix][key] = text[:from] + text[to:]
	},
	"a key gone": func(t *rapid.T, o, _ trackmap.Objects) {
		suffix, key := drawKey(t, o)
		delete(o[suffix], key)
	},
	"a key under another name": func(t *rapid.T, o, _ trackmap.Objects) {
		suffix, key := drawKey(t, o)
		text := o[suffix][key]
		delete(o[suffix], key)
		o[suffix][rapid.SampledFrom([]string{"_new", "x", "_meta", "_runs", key + "."}).Draw(t, "name")] = text
	},
	"two values swapped": func(t *rapid.T, o, _ trackmap.Objects) {
		a, x := drawKey(t, o)
		b, y := drawKey(t, o)
		o[a][x], o[b][y] = o[b][y], o[a][x]
	},
	"a ConfigMap gone": func(t *rapid.T, o, _ trackmap.Objects) {
		delete(o, drawSuffix(t, o))
	},
	"two ConfigMaps swapped": func(t *rapid.T, o, _ trackmap.Objects) {
		a, b := drawSuffix(t, o), drawSuffix(t, o)
		o[a], o[b] = o[b], o[a]
	},
	"a key of another write": func(t *rapid.T, o, other trackmap.Objects) {
		suffix, key := drawKey(t, other)
		if o[suffix] != nil {
			o[suffix][key] = other[suffix][key]
		}
	},
	"a ConfigMap of another write": func(t *rapid.T, o, other trackmap.Objects) {
		suffix := drawSuffix(t, other)
		o[suffix] = other[suffix]
	},
}

func drawSuffix(t *rapid.T, o trackmap.Objects) string {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(o))).Draw(t, "suffix")
}

func drawKey(t *rapid.T, o trackmap.Objects) (suffix, key string) {
	suffix = drawSuffix(t, o)
	return suffix, rapid.SampledFrom(slices.Sorted(maps.Keys(o[suffix]))).Draw(t, "key")
}

// named picks the ConfigMaps that count.
func named(o trackmap.Objects) trackmap.Objects {
	shards, _ := trackmap.Shards(o[""])
	picked := trackmap.Objects{}
	for suffix, data := range o {
		if _, ok := shards[suffix]; ok || suffix == "" {
			picked[suffix] = data
		}
	}
	return picked
}

func equalObjects(a, b trackmap.Objects) bool {
	return maps.EqualFunc(a, b, maps.Equal[map[string]string, map[string]string])
}

// TestDamageIsRefused: damaged text is never taken for a state, be it the right one or another.
func TestDamageIsRefused(t *testing.T) {
	refused := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		s, o := drawState(t), drawState(t)
		o.NodeSetUID = s.NodeSetUID
		_, object := drawLimits(t)
		objects := mustEncode(t, s, drawDrift(t, s.Book), 1<<20, object)
		other := mustEncode(t, o, verdict.Drift{}, 1<<20, object)
		for range 4 {
			damaged := clone(objects)
			damage := rapid.SampledFrom(slices.Sorted(maps.Keys(damages))).Draw(t, "damage")
			damages[damage](t, damaged, other)
			if counts := named(damaged); equalObjects(counts, objects) || equalObjects(counts, other) {
				continue // all of it is what was written once
			}
			if _, _, err := trackmap.Decode(damaged, s.NodeSetUID); !isRefusal(err) && (len(damaged) > 0 || !errors.Is(err, trackmap.ErrAbsent)) {
				t.Fatalf("%s: error %v for %q", damage, err, damaged)
			}
			refusals++
			refused[damage]++
		}
	})
	if len(refused) != len(damages) {
		t.Errorf("not every kind of damage came up: %v", refused)
	}
}

// TestNothingPanics: text that was damaged and then sealed anew leads to an error or to a state that can be stored.
func TestNothingPanics(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		_, object := drawLimits(t)
		objects := mustEncode(t, s, drawDrift(t, s.Book), 1<<20, object)
		suffix, key := drawKey(t, objects)
		words := rapid.SampledFrom([]string{"null", "-1", "0", "99", `""`, "[]", "{}", "[", ",", `"x":null`, "compute-[0-1]"})
		text := []byte(objects[suffix][key])
		from := rapid.IntRange(0, len(text)-1).Draw(t, "from")
		to := min(len(text), from+rapid.IntRange(0, 20).Draw(t, "length"))
		objects[suffix][key] = string(bytes.Join([][]byte{text[:from], []byte(words.Draw(t, "word")), text[to:]}, nil))
		trackmap.Reseal(objects)
		if state, _, err := trackmap.Decode(objects, s.NodeSetUID); err == nil {
			accepted++
			mustEncode(t, state, verdict.Drift{}, 0, object)
		} else if !isRefusal(err) && !errors.Is(err, trackmap.ErrForeign) {
			t.Fatalf("error %v", err)
		}
	})
	if accepted == 0 {
		t.Error("nothing was ever accepted: the property held vacuously")
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, change := range map[string]func(*trackmap.State, *verdict.Drift){
		"a run under another ID": func(s *trackmap.State, _ *verdict.Drift) { s.Book.Runs["x"] = ledger.Run{ID: "y"} },
		"an unknown strength": func(s *trackmap.State, _ *verdict.Drift) {
			s.Book.Runs["x"] = ledger.Run{ID: "x", Reach: map[string]ledger.Strength{"a": 9}}
		},
		"an identity that is not UTF-8": func(s *trackmap.State, _ *verdict.Drift) {
			s.Book.Secrets["x"] = ledger.History{Held: []ledger.Held{{Version: "a", Identities: map[string][]string{"q": {"user\xff"}}}}}
		},
		"a run's ID that is not UTF-8":         func(s *trackmap.State, _ *verdict.Drift) { s.Book.Runs["\xff"] = ledger.Run{ID: "\xff"} },
		"a Secret's name that is not UTF-8":    func(s *trackmap.State, _ *verdict.Drift) { s.Book.Scope["\xff"] = "a" },
		"a version that is not UTF-8":          func(s *trackmap.State, _ *verdict.Drift) { s.Book.Nodes["a"] = ledger.Node{Origin: "\xff"} },
		"a Deployment's UID that is not UTF-8": func(s *trackmap.State, _ *verdict.Drift) { s.Settled = []string{"\xff"} },
		"a Secret with a key of ours":          func(_ *trackmap.State, d *verdict.Drift) { d.Secrets = map[string]verdict.SecretDrift{"_meta": {}} },
		"a Secret without a name":              func(_ *trackmap.State, d *verdict.Drift) { d.Secrets = map[string]verdict.SecretDrift{"": {}} },
		"a node's name that is not UTF-8": func(_ *trackmap.State, d *verdict.Drift) {
			d.Secrets = map[string]verdict.SecretDrift{"x": {Nodes: map[string]verdict.NodeRecord{"\xff": {Candidates: fleet.SetOf("a")}}}}
		},
	} {
		state, drift := trackmap.State{Book: ledger.NewBook()}, verdict.Drift{}
		change(&state, &drift)
		if _, err := trackmap.Encode(state, drift); err == nil {
			t.Errorf("%s is stored", name)
		}
	}
	state := trackmap.State{Book: ledger.NewBook()}
	state.Book.Scope["x"] = strings.Repeat("a", 1000)
	if _, err := trackmap.EncodeWithin(state, verdict.Drift{}, 100, 500, 900); !errors.Is(err, trackmap.ErrTooLarge) {
		t.Errorf("too large: error %v", err)
	}
}
