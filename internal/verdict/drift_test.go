package verdict_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// TestDriftAgainstCounting compares the judgement with plain counting, on fleets where every node was delivered one
// version of each Secret at most.
func TestDriftAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"n0", "n1", "n2", "n3"}), 0, 4, rapid.ID).Draw(t, "hosts")
		secrets := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"s0", "s1", "s2"}), 0, 3, rapid.ID).Draw(t, "secrets")
		versions := []fleet.Version{"a", "b", fleet.None}
		book, runs := ledger.NewBook(), []ledger.Run(nil)
		book.Enrol(hosts, fleet.None)
		wanted := verdict.Wanted{Nodes: hosts, Secrets: map[string]verdict.WantedSecret{}}
		has := map[string]map[string]fleet.Version{}
		for _, secret := range secrets {
			expected := rapid.SampledFrom([]fleet.Version{"a", "b", fleet.Unknown}).Draw(t, "expected")
			wanted.Secrets[secret] = verdict.WantedSecret{Expected: expected, Places: []string{"nova"}}
			has[secret] = map[string]fleet.Version{}
			for _, host := range hosts {
				has[secret][host] = rapid.SampledFrom(versions).Draw(t, "has")
				if has[secret][host] == fleet.None {
					continue
				}
				run := ledger.Run{ID: secret + host, Place: "nova", Carried: map[string]fleet.Versions{secret: fleet.SetOf(has[secret][host])},
					Reach: map[string]ledger.Strength{host: ledger.Delivered}}
				run.Span = fleet.Span{Began: fleet.Instant{Revision: 1}, Ended: fleet.Instant{Revision: 2}, Over: true}
				runs = append(runs, run)
			}
		}
		book.Record(runs)
		updated := 0
		for _, host := range hosts {
			good := len(secrets) > 0
			for _, secret := range secrets {
				good = good && has[secret][host] == wanted.Secrets[secret].Expected
			}
			if good {
				updated++
			}
		}
		got := verdict.Judge(book, wanted, map[string]fleet.Version{})
		if got.TotalNodes != len(hosts) || got.UpdatedNodes != updated || got.DoubtfulNodes != 0 {
			t.Fatalf("judged %d of %d updated, counted %d of %d", got.UpdatedNodes, got.TotalNodes, updated, len(hosts))
		}
		if all := updated == len(hosts) && len(hosts) > 0 && len(secrets) > 0; got.AllNodesUpdated() != all {
			t.Fatalf("all updated: judged %t, counted %t", got.AllNodesUpdated(), all)
		}
	})
}

// TestNothingProvesNothing: whatever is missing, nobody is told that all is updated.
func TestNothingProvesNothing(t *testing.T) {
	one := map[string]verdict.WantedSecret{"s": {Expected: "a", Places: []string{"nova"}}}
	delivered := func() ledger.Book {
		book := ledger.NewBook()
		book.Enrol([]string{"n0"}, fleet.None)
		book.Record([]ledger.Run{{ID: "r", Place: "nova", Carried: map[string]fleet.Versions{"s": fleet.SetOf("a")},
			Reach: map[string]ledger.Strength{"n0": ledger.Delivered},
			Span:  fleet.Span{Began: fleet.Instant{Revision: 1}, Ended: fleet.Instant{Revision: 2}, Over: true}}})
		return book
	}
	for name, tc := range map[string]struct {
		book    ledger.Book
		wanted  verdict.Wanted
		updated bool
	}{
		"all is there":                {delivered(), verdict.Wanted{Nodes: []string{"n0"}, Secrets: one}, true},
		"no nodes":                    {delivered(), verdict.Wanted{Secrets: one}, false},
		"no Secrets":                  {delivered(), verdict.Wanted{Nodes: []string{"n0"}}, false},
		"empty book":                  {ledger.NewBook(), verdict.Wanted{Nodes: []string{"n0"}, Secrets: one}, false},
		"something wanted is unknown": {delivered(), verdict.Wanted{Nodes: []string{"n0"}, Secrets: one, Missing: []string{"a Service"}}, false},
		"the Secret cannot be read": {delivered(), verdict.Wanted{Nodes: []string{"n0"},
			Secrets: map[string]verdict.WantedSecret{"s": {Expected: fleet.Unknown, Places: []string{"nova"}}}}, false},
		"another place has no copy": {delivered(), verdict.Wanted{Nodes: []string{"n0"},
			Secrets: map[string]verdict.WantedSecret{"s": {Expected: "a", Places: []string{"nova", "other"}}}}, false},
		"two nodes share a name": {delivered(), verdict.Wanted{Nodes: []string{"n0", "n0"}, Secrets: one}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := verdict.Judge(tc.book, tc.wanted, nil).AllNodesUpdated(); got != tc.updated {
				t.Errorf("all nodes updated: %t", got)
			}
		})
	}
}

// TestCurrentMovesOnlyWhenAllAgree follows a rotation of two nodes.
func TestCurrentMovesOnlyWhenAllAgree(t *testing.T) {
	book := ledger.NewBook()
	book.Enrol([]string{"n0", "n1"}, fleet.None)
	current, revision := map[string]fleet.Version{}, uint64(0)
	deliver := func(version fleet.Version, hosts ...string) {
		revision += 2
		run := ledger.Run{ID: fmt.Sprint(revision), Place: "nova", Carried: map[string]fleet.Versions{"s": fleet.SetOf(version)}, Reach: map[string]ledger.Strength{}}
		run.Span = fleet.Span{Began: fleet.Instant{Revision: revision}, Ended: fleet.Instant{Revision: revision + 1}, Over: true}
		for _, host := range hosts {
			run.Reach[host] = ledger.Delivered
		}
		book.Record([]ledger.Run{run})
	}
	var seen []string
	look := func(expected fleet.Version) {
		drift := verdict.Judge(book, verdict.Wanted{Nodes: []string{"n0", "n1"},
			Secrets: map[string]verdict.WantedSecret{"s": {Expected: expected, Places: []string{"nova"}}}}, current)
		current["s"] = drift.Secrets["s"].Current
		seen = append(seen, fmt.Sprintf("%s→%s %d/%d", current["s"], expected, drift.UpdatedNodes, drift.TotalNodes))
	}
	look("a")
	deliver("a", "n0", "n1")
	look("a")
	look("b")
	deliver("b", "n0")
	look("b")
	deliver("b", "n1")
	look("b")
	want := []string{"→a 0/2", "a→a 2/2", "a→b 0/2", "a→b 1/2", "b→b 2/2"}
	if !slices.Equal(seen, want) {
		t.Errorf("got  %v\nwant %v", seen, want)
	}
}
