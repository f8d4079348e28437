package fleet_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

func drawVersions(t *rapid.T, label string) fleet.Versions {
	return fleet.SetOf(rapid.SliceOfN(rapid.SampledFrom([]fleet.Version{"a", "b", "c", fleet.None, fleet.Unknown}), 1, 4).Draw(t, label)...)
}

// holds tells what a set says of a truth: a member, or Unknown among them.
func holds(set fleet.Versions, truth fleet.Version) bool {
	return set.Has(truth) || set.Has(fleet.Unknown)
}

func TestNarrowKeepsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawVersions(t, "a"), drawVersions(t, "b"), drawVersions(t, "c")
		truth := rapid.SampledFrom([]fleet.Version{"a", "b", "c", fleet.None}).Draw(t, "truth")
		narrowed := a.Narrow(b)
		if holds(a, truth) && holds(b, truth) && !holds(narrowed, truth) {
			t.Fatalf("%s and %s hold %s, narrowed %s does not", a, b, truth, narrowed)
		}
		if !slices.Equal(narrowed, b.Narrow(a)) || !slices.Equal(a, a.Narrow(a)) {
			t.Fatalf("narrowing %s and %s depends on order or repetition", a, b)
		}
		if holds(a, truth) && holds(b, truth) && holds(c, truth) && !slices.Equal(a.Narrow(b).Narrow(c), a.Narrow(b.Narrow(c))) {
			t.Fatalf("narrowing %s, %s and %s depends on grouping", a, b, c)
		}
	})
}

func TestContradictionIsUnknown(t *testing.T) {
	got := fleet.SetOf("a").Narrow(fleet.SetOf("b"))
	if !got.Has(fleet.Unknown) {
		t.Errorf("two sure findings that contradict each other left %s", got)
	}
}

func TestMeets(t *testing.T) {
	for _, tc := range []struct {
		a, b fleet.Versions
		want bool
	}{
		{fleet.SetOf("a"), fleet.SetOf("a", "b"), true},
		{fleet.SetOf("a"), fleet.SetOf("b"), false},
		{fleet.SetOf("?"), fleet.SetOf("b"), true},
		{fleet.SetOf("?"), nil, false},
	} {
		if tc.a.Meets(tc.b) != tc.want || tc.b.Meets(tc.a) != tc.want {
			t.Errorf("%s meets %s: want %t", tc.a, tc.b, tc.want)
		}
	}
}

// TestBoundsOrderOnlyWhatIsSure: whatever two real moments lie within the bounds, Before is never wrong.
func TestBoundsOrderOnlyWhatIsSure(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.Int64Range(0, 60_000).Draw(t, "real end, ms")
		begin := rapid.Int64Range(0, 60_000).Draw(t, "real begin, ms")
		skewed := func(ms int64, label string) time.Time { // a stamp of some API server: its clock, cut to seconds
			skew := rapid.Int64Range(0, 1500).Draw(t, label)
			return start.Add(time.Duration(ms+skew) * time.Millisecond).Truncate(time.Second)
		}
		upper := fleet.Instant{Time: skewed(end, "skew of end")}
		lower := fleet.Instant{Time: skewed(begin, "skew of begin")}
		if rapid.Bool().Draw(t, "with revisions") {
			upper.Revision = uint64(end) + 1 + rapid.Uint64Range(0, 500).Draw(t, "looser end")
			lower.Revision = uint64(begin) + 1 - rapid.Uint64Range(0, uint64(begin)).Draw(t, "looser begin")
		}
		if upper.Before(lower) && begin <= end {
			t.Fatalf("end %d ms is called before begin %d ms (%+v, %+v)", end, begin, upper, lower)
		}
	})
}

func TestSpanNarrow(t *testing.T) {
	at := func(r uint64) fleet.Instant { return fleet.Instant{Revision: r} }
	open := fleet.Span{Began: at(3)}
	over := fleet.Span{Began: at(5), Ended: at(20), Over: true}
	tighter := fleet.Span{Began: at(4), Ended: at(12), Over: true}
	if got, want := open.Narrow(over).Narrow(tighter), (fleet.Span{Began: at(5), Ended: at(12), Over: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := over.Narrow(open); got != over {
		t.Errorf("what was seen to end is open again: %+v", got)
	}
}
