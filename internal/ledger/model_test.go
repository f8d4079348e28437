package ledger_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// TestMain asks for thousands of histories by default, and for many more in a deep run.
func TestMain(m *testing.M) {
	checks := "20000"
	if os.Getenv("ROTATION_DEEP") != "" {
		checks = "1000000"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// The model is one node with a file and a process. A run writes the file at one moment and restarts the process at
// a later one, if it changed the file; a bad run may leave out either. That is all that is assumed of Ansible.

type run struct {
	id         int
	version    fleet.Version
	begin, end uint64
	write      uint64 // 0: never
	restart    uint64 // 0: never
	good       bool
	whole      bool // it is good or never came here, and the claim cannot tell which
	proved     bool
	blurred    bool          // the claim's bounds are wider than the truth
	also       fleet.Version // a second version the claim cannot exclude
}

type node struct{ file, process fleet.Version }

// play gives the node's state just after the moment now.
func play(start fleet.Version, runs []run, now uint64) node {
	n := node{file: start, process: start}
	changed := map[int]bool{}
	for at := uint64(1); at <= now; at++ {
		for _, r := range runs {
			switch at {
			case r.write:
				changed[r.id] = n.file != r.version
				n.file = r.version
			case r.restart:
				if changed[r.id] {
					n.process = n.file
				}
			}
		}
	}
	return n
}

// claims is what is known at the moment now.
func claims(start fleet.Version, runs []run, now uint64) ledger.Cell {
	cell := ledger.Cell{ledger.Origin("nova", start)}
	for _, r := range runs {
		if r.begin > now {
			continue
		}
		c := ledger.Claim{Run: fmt.Sprint(r.id), Place: "nova", Versions: fleet.SetOf(r.version)}
		if r.also != "" {
			c.Versions = c.Versions.Union(fleet.SetOf(r.also))
		}
		began, ended := r.begin, r.end
		if r.blurred {
			began, ended = began/2, ended+began
		}
		c.Span.Began = fleet.Instant{Revision: began}
		if r.end <= now {
			c.Span.Over, c.Span.Ended = true, fleet.Instant{Revision: ended}
			c.Whole = r.good || r.whole
			if r.good && !r.whole {
				c.Strength = ledger.Delivered
			}
			if r.proved {
				c.Strength = ledger.Proved
			}
		}
		cell = append(cell, c)
	}
	return ledger.Join(cell, nil)
}

const horizon = 40

func drawRuns(t *rapid.T) []run {
	versions := []fleet.Version{"a", "b", "c"}
	runs := make([]run, rapid.IntRange(1, 7).Draw(t, "runs"))
	for i := range runs {
		begin := rapid.Uint64Range(1, horizon-4).Draw(t, "begin")
		end := rapid.Uint64Range(begin+3, min(begin+12, horizon)).Draw(t, "end")
		r := run{id: i + 1, version: rapid.SampledFrom(versions).Draw(t, "version"), begin: begin, end: end}
		r.write = rapid.Uint64Range(begin, end-1).Draw(t, "write")
		r.restart = rapid.Uint64Range(r.write+1, end).Draw(t, "restart")
		r.good = rapid.Bool().Draw(t, "good")
		switch r.whole = rapid.IntRange(0, 4).Draw(t, "whole") == 0; {
		case r.whole && !r.good:
			r.write, r.restart = 0, 0
		case !r.good:
			if rapid.Bool().Draw(t, "never restarts") {
				r.restart = 0
			}
			if rapid.Bool().Draw(t, "never writes") {
				r.write = 0
			}
		}
		r.blurred = rapid.IntRange(0, 3).Draw(t, "blurred") == 0
		if rapid.IntRange(0, 4).Draw(t, "torn") == 0 {
			r.also = rapid.SampledFrom(append(versions, fleet.Unknown)).Draw(t, "also")
		}
		runs[i] = r
	}
	return runs
}

// prove marks runs that nothing overlaps and after which file and process agree: a proof play would pass there.
func prove(start fleet.Version, runs []run) {
	for i, r := range runs {
		alone := !slices.ContainsFunc(runs, func(o run) bool { return o.id != r.id && o.begin <= r.end && r.begin <= o.end })
		state := play(start, runs, r.end)
		runs[i].proved = r.good && alone && state.process == r.version && state.file == r.version
	}
}

// TestTruthIsAlwaysACandidate is the promise: at every moment what the process runs is among the candidates.
func TestTruthIsAlwaysACandidate(t *testing.T) {
	histories, narrowed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]fleet.Version{"a", "b", "z"}).Draw(t, "start")
		runs := drawRuns(t)
		if rapid.Bool().Draw(t, "with proofs") {
			prove(start, runs)
		}
		histories++
		for now := uint64(0); now <= horizon; now++ {
			truth := play(start, runs, now).process
			got := claims(start, runs, now).Candidates()
			if !got.Has(truth) && !got.Has(fleet.Unknown) {
				t.Fatalf("at %d the process runs %s, candidates are %s", now, truth, got)
			}
			if len(got) == 1 && now == horizon {
				narrowed++
			}
		}
	})
	if narrowed == 0 {
		t.Error("no history ended with one candidate: the property held vacuously")
	}
	fmt.Fprintf(os.Stdout, "» ledger: %d random histories kept the truth among the candidates (%d ended with exactly one)\n", histories, narrowed)
}

// TestJoinIsASet: order, repetition and grouping change nothing.
func TestJoinIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		early, late := rapid.Uint64Range(0, horizon).Draw(t, "early"), uint64(horizon)
		a, b, c := claims("a", runs, early), claims("a", runs, late), claims("a", runs[:1], late)
		equal(t, ledger.Join(a, b), ledger.Join(b, a))
		equal(t, ledger.Join(a, a), a)
		equal(t, ledger.Join(ledger.Join(a, b), c), ledger.Join(a, ledger.Join(b, c)))
		equal(t, ledger.Join(a, b), b) // what was known early adds nothing to what is known late
	})
}

// TestCompactForgetsNothingThatMatters: whatever begins later leads to the same candidates.
func TestCompactForgetsNothingThatMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := claims("z", drawRuns(t), horizon)
		later := drawRuns(t)
		for i := range later {
			later[i].id += 100
			later[i].begin += 2 * horizon
			later[i].end += 2 * horizon
			later[i].blurred = false
		}
		after := claims("z", later, 4*horizon)[1:]
		if got, want := before.Compact().Candidates(), before.Candidates(); !slices.Equal(got, want) {
			t.Fatalf("candidates %s became %s", want, got)
		}
		got := ledger.Join(before.Compact(), after).Candidates()
		want := ledger.Join(before, after).Candidates()
		if !slices.Equal(got, want) {
			t.Fatalf("with what came later: candidates %s became %s", want, got)
		}
	})
}

func equal(t *rapid.T, got, want ledger.Cell) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}
