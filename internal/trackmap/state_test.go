package trackmap_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// sameState compares what is stored: neither the order of a set nor nil against empty counts, nor does the layout.
var sameState = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(trackmap.State{}, "Shards"),
	cmp.FilterPath(func(p cmp.Path) bool {
		last := p.Last().String()
		return last == ".Settled" || last == ".Partly"
	}, cmp.FilterValues(func(a, b []string) bool { return len(a)+len(b) > 0 }, cmp.Comparer(func(a, b []string) bool {
		return slices.Equal(set(a), set(b))
	}))),
}

// The counts that TestMain prints.
var roundTrips, refusals int

// TestMain has every property hold over thousands of cases unless the command line asks for another number.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("2000"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if roundTrips+refusals > 0 {
		fmt.Fprintf(os.Stdout, "» trackmap: %d random states round-tripped, %d random corruptions refused\n", roundTrips, refusals)
	}
	os.Exit(code)
}

var (
	someNodes   = []string{"compute-0", "compute-1", "compute-2", "compute-10", "edpm-007.ctlplane.example.com", "7", "a[0],b", `"`}
	someSecrets = []string{"nova-cell1-compute-config", "libvirt-secret", "cert-nova-default-compute-0", "cert-nova-default-compute-1", "x.1"}
	someWords   = []string{"", "nova", "edpm-c0", "a \"quoted\" <word> & \u2028 \ufffd \\ufffd", "9d3a5a5e-0c5e-4a5c-8d60-5d6d5f6c0a01"}
	versions    = []fleet.Version{user7, user8, "a", "b", fleet.None, fleet.Unknown}
)

func drawInstant(t *rapid.T) fleet.Instant {
	var i fleet.Instant
	if rapid.Bool().Draw(t, "revision known") {
		i.Revision = rapid.Uint64().Draw(t, "revision")
	}
	if rapid.Bool().Draw(t, "time known") {
		seconds := rapid.Int64Range(0, 1<<37).Draw(t, "seconds")
		nanos := rapid.SampledFrom([]int64{0, 0, 123456789}).Draw(t, "nanos")
		i.Time = time.Unix(seconds, nanos).In(rapid.SampledFrom([]*time.Location{time.UTC, time.FixedZone("x", 3600)}).Draw(t, "zone"))
	}
	return i
}

func drawVersions(t *rapid.T) fleet.Versions {
	return fleet.SetOf(rapid.SliceOfN(rapid.SampledFrom(versions), 0, 3).Draw(t, "versions")...)
}

func drawRun(t *rapid.T, id string) ledger.Run {
	word := rapid.SampledFrom(someWords)
	run := ledger.Run{
		ID: id, Deployment: word.Draw(t, "deployment"), DeploymentUID: word.Draw(t, "uid"), Service: word.Draw(t, "service"),
		Place: word.Draw(t, "place"), Attempt: rapid.IntRange(0, 9).Draw(t, "attempt"), Doubt: word.Draw(t, "doubt"), Fixed: rapid.Bool().Draw(t, "fixed"),
		Whole:   rapid.Bool().Draw(t, "whole"),
		Mounted: drawInstant(t),
		Span:    fleet.Span{Began: drawInstant(t), Ended: drawInstant(t), Over: rapid.Bool().Draw(t, "over")},
		Carried: map[string]fleet.Versions{}, Reach: map[string]ledger.Strength{},
	}
	for _, secret := range rapid.SliceOfDistinct(rapid.SampledFrom(someSecrets), rapid.ID).Draw(t, "carried") {
		run.Carried[secret] = drawVersions(t)
	}
	run.Partly = rapid.SliceOfDistinct(rapid.SampledFrom(someSecrets), rapid.ID).Draw(t, "partly")
	for _, node := range rapid.SliceOfDistinct(rapid.SampledFrom(someNodes), rapid.ID).Draw(t, "reach") {
		run.Reach[node] = ledger.Strength(rapid.IntRange(0, 2).Draw(t, "strength"))
	}
	return run
}

func drawHistory(t *rapid.T) ledger.History {
	h := ledger.History{UID: rapid.SampledFrom(someWords).Draw(t, "uid"), Revision: rapid.Uint64().Draw(t, "revision")}
	for range rapid.IntRange(0, 3).Draw(t, "held") {
		h.Held = append(h.Held, ledger.Held{
			Version: rapid.SampledFrom(versions).Draw(t, "version"), Since: drawInstant(t),
			Keys:       rapid.SliceOfN(rapid.String(), 0, 2).Draw(t, "keys"),
			Identities: rapid.MapOfN(rapid.String(), rapid.SliceOfN(rapid.String(), 0, 2), 0, 2).Draw(t, "identities"),
		})
	}
	return h
}

// drawState draws any state at all; nothing in it need make sense together.
func drawState(t *rapid.T) trackmap.State {
	s := trackmap.State{
		NodeSetUID: rapid.SampledFrom(someWords).Draw(t, "uid"), Sequence: rapid.Int64().Draw(t, "sequence"),
		AsOf: rapid.Uint64().Draw(t, "as of"), Settled: rapid.SliceOfN(rapid.SampledFrom(someWords), 0, 3).Draw(t, "settled"),
		Book: ledger.NewBook(),
	}
	for _, node := range rapid.SliceOfDistinct(rapid.SampledFrom(someNodes), rapid.ID).Draw(t, "nodes") {
		origin := rapid.SampledFrom([]fleet.Version{fleet.None, fleet.Unknown}).Draw(t, "origin")
		s.Book.Nodes[node] = ledger.Node{Origin: origin, Departed: rapid.Bool().Draw(t, "departed")}
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "runs") {
		id := fmt.Sprintf("run-%d", i)
		s.Book.Runs[id] = drawRun(t, id)
	}
	for _, secret := range rapid.SliceOfDistinct(rapid.SampledFrom(someSecrets), rapid.ID).Draw(t, "histories") {
		s.Book.Secrets[secret] = drawHistory(t)
	}
	for _, secret := range rapid.SliceOfNDistinct(rapid.SampledFrom(someSecrets), 0, 2, rapid.ID).Draw(t, "scope") {
		s.Book.Scope[secret] = rapid.SampledFrom(someNodes).Draw(t, "host")
	}
	return s
}

func drawDrift(t *rapid.T, book ledger.Book) verdict.Drift {
	wanted := verdict.Wanted{
		Nodes:   rapid.SliceOfN(rapid.SampledFrom(someNodes), 0, 6).Draw(t, "wanted nodes"),
		Secrets: map[string]verdict.WantedSecret{},
	}
	current := map[string]fleet.Version{}
	for _, secret := range rapid.SliceOfDistinct(rapid.SampledFrom(someSecrets), rapid.ID).Draw(t, "wanted secrets") {
		expected := rapid.SampledFrom(versions).Draw(t, "expected")
		wanted.Secrets[secret] = verdict.WantedSecret{Expected: expected, Places: []string{"nova"}}
		current[secret] = rapid.SampledFrom(append(versions, "")).Draw(t, "current")
	}
	return verdict.Judge(book, wanted, current)
}

// drawLimits draws limits at which small states take every layout.
func drawLimits(t *rapid.T) (plain, object int) {
	return rapid.SampledFrom([]int{0, 2000, 1 << 20}).Draw(t, "plain"), rapid.SampledFrom([]int{300, 1500, 1 << 20}).Draw(t, "object")
}

func mustEncode(t *rapid.T, s trackmap.State, drift verdict.Drift, plain, object int) trackmap.Objects {
	objects, err := trackmap.EncodeWithin(s, drift, plain, object, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func mustDecode(t *rapid.T, objects trackmap.Objects, uid string) (trackmap.State, map[string]fleet.Version) {
	state, current, err := trackmap.Decode(objects, uid)
	if err != nil {
		t.Fatal(err)
	}
	return state, current
}

func TestStateComesBack(t *testing.T) {
	layouts := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		drift := drawDrift(t, s.Book)
		plain, object := drawLimits(t)
		before := fmt.Sprint(s)
		objects := mustEncode(t, s, drift, plain, object)
		if text := fmt.Sprint(objects); strings.Contains(text, "+01:00") {
			t.Fatalf("equal times do not give equal text: %s", text)
		}
		if after := fmt.Sprint(s); after != before {
			t.Fatalf("encoding changed the state from %s to %s", before, after)
		}
		got, current := mustDecode(t, objects, s.NodeSetUID)
		if diff := cmp.Diff(s, got, sameState); diff != "" {
			t.Fatal(diff)
		}
		want := map[string]fleet.Version{}
		for secret, state := range drift.Secrets {
			if state.Current != "" {
				want[secret] = state.Current
			}
		}
		if !maps.Equal(current, want) {
			t.Fatalf("current versions %v, want %v", current, want)
		}
		if again := mustEncode(t, got, drift, plain, object); !reflect.DeepEqual(objects, again) {
			t.Fatalf("the state that came back is written otherwise: %s", cmp.Diff(objects, again))
		}
		roundTrips++
		layouts[fmt.Sprintf("shards %t, grouped %t", len(objects) > 1, plain == 0)]++
	})
	if len(layouts) != 4 {
		t.Errorf("only these layouts came up: %v", layouts)
	}
}

// TestCutWrite: shards go first, the rest after them. Whatever of the shards is written, the old text stays whole.
func TestCutWrite(t *testing.T) {
	cut := 0
	rapid.Check(t, func(t *rapid.T) {
		const uid = "uid"
		before, after := drawState(t), drawState(t)
		before.NodeSetUID, after.NodeSetUID = uid, uid
		if rapid.Bool().Draw(t, "little changes") {
			after.Book = before.Book
			after.Book.Secrets = maps.Clone(before.Book.Secrets)
			after.Book.Secrets["x.1"] = drawHistory(t)
		}
		stored := mustEncode(t, before, verdict.Drift{}, 0, 1200)
		old, _ := mustDecode(t, stored, uid)
		after.Shards = old.Shards
		written := mustEncode(t, after, verdict.Drift{}, 0, 1200)
		for suffix, data := range written {
			if suffix == "" {
				continue
			}
			stored[suffix] = data
			cut++
			if got, _ := mustDecode(t, stored, uid); !reflect.DeepEqual(old, got) {
				t.Fatalf("with shard %s written the text is another: %s", suffix, cmp.Diff(old, got, sameState))
			}
		}
		stored[""] = written[""]
		got, _ := mustDecode(t, stored, uid)
		if diff := cmp.Diff(after, got, sameState); diff != "" {
			t.Fatalf("the new text is another: %s", diff)
		}
	})
	if cut == 0 {
		t.Error("no write was cut")
	}
}

// TestNothingIsForgotten: a field that the ledger gains must be stored, drawn above, and counted here.
func TestNothingIsForgotten(t *testing.T) {
	for typ, want := range map[reflect.Type]int{
		reflect.TypeFor[ledger.Book](): 4, reflect.TypeFor[ledger.Node](): 2, reflect.TypeFor[ledger.Run](): 14,
		reflect.TypeFor[ledger.History](): 3, reflect.TypeFor[ledger.Held](): 4,
		reflect.TypeFor[fleet.Span](): 3, reflect.TypeFor[fleet.Instant](): 2,
	} {
		if got := typ.NumField(); got != want {
			t.Errorf("%s has %d fields, %d are stored", typ, got, want)
		}
	}
}
