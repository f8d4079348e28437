package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

func claim(run string, strength ledger.Strength, began, ended uint64, versions ...fleet.Version) ledger.Claim {
	c := ledger.Claim{Run: run, Place: "nova", Versions: fleet.SetOf(versions...), Strength: strength}
	c.Span.Began.Revision = began
	if ended != 0 {
		c.Span.Over, c.Span.Ended.Revision = true, ended
	}
	return c
}

func whole(c ledger.Claim) ledger.Claim {
	c.Whole = true
	return c
}

func TestTheLaw(t *testing.T) {
	const attempted, delivered, proved = ledger.Attempted, ledger.Delivered, ledger.Proved
	none, unknown := ledger.Origin("nova", fleet.None), ledger.Origin("nova", fleet.Unknown)
	elsewhere := ledger.Origin("neutron-metadata", fleet.None)
	for name, tc := range map[string]struct {
		cell ledger.Cell
		want fleet.Versions
	}{
		"nothing known proves nothing":                  {nil, fleet.SetOf("?")},
		"nothing delivered yet":                         {ledger.Cell{none}, fleet.SetOf("none")},
		"evidence of the past is gone":                  {ledger.Cell{unknown}, fleet.SetOf("?")},
		"first delivery":                                {ledger.Cell{none, claim("1", delivered, 1, 2, "a")}, fleet.SetOf("a")},
		"a first attempt that failed":                   {ledger.Cell{none, claim("1", attempted, 1, 2, "a")}, fleet.SetOf("none", "a")},
		"a run in flight":                               {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 0, "b")}, fleet.SetOf("a", "b")},
		"a run in flight with the version the node has": {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 0, "a")}, fleet.SetOf("a")},
		"overlapping runs both stay":                    {ledger.Cell{none, claim("1", delivered, 1, 5, "a"), claim("2", delivered, 4, 8, "b")}, fleet.SetOf("a", "b")},
		"a failed rerun takes nothing away":             {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 4, "a")}, fleet.SetOf("a")},
		"lost restart: the green retry proves nothing":  {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 4, "b"), claim("3", delivered, 5, 6, "b")}, fleet.SetOf("a", "b")},
		"lost restart, read back":                       {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 4, "b"), claim("3", proved, 5, 6, "b")}, fleet.SetOf("b")},
		"a clean delivery of another version heals":     {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 4, "b"), claim("3", delivered, 5, 6, "c")}, fleet.SetOf("c")},
		"and the first version is clean after that":     {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 4, "b"), claim("3", delivered, 5, 6, "c"), claim("4", delivered, 7, 8, "b")}, fleet.SetOf("b")},
		"another file in between makes the run restart": {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 4, "b"), claim("3", attempted, 5, 6, "c"), claim("4", delivered, 7, 8, "c"), claim("5", delivered, 9, 10, "b")}, fleet.SetOf("b")},
		"an attempt with the other version harms not":   {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 4, "a"), claim("3", delivered, 5, 6, "b")}, fleet.SetOf("b")},
		"an attempt of unknown version may be the same": {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 4, "?"), claim("3", delivered, 5, 6, "b")}, fleet.SetOf("?", "a", "b")},
		"a whole attempt of unknown version restarted":  {ledger.Cell{claim("1", delivered, 1, 2, "a"), whole(claim("2", attempted, 3, 4, "?")), claim("3", delivered, 5, 6, "b")}, fleet.SetOf("b")},
		"a whole attempt does not narrow":               {ledger.Cell{claim("1", delivered, 1, 2, "a"), whole(claim("2", attempted, 3, 4, "b"))}, fleet.SetOf("a", "b")},
		"a whole attempt heals no lost restart":         {ledger.Cell{claim("1", delivered, 1, 2, "a"), claim("2", attempted, 3, 4, "b"), whole(claim("3", attempted, 5, 6, "b")), claim("4", delivered, 7, 8, "b")}, fleet.SetOf("a", "b")},
		"gone back":                                     {ledger.Cell{claim("1", delivered, 1, 2, "b"), claim("2", delivered, 3, 4, "a")}, fleet.SetOf("a")},
		"a copy elsewhere answers for itself":           {ledger.Cell{none, elsewhere, claim("1", delivered, 1, 2, "a")}, fleet.SetOf("a", "none")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ledger.Join(tc.cell, nil).Candidates(); !slices.Equal(got, tc.want) {
				t.Errorf("candidates %s, want %s", got, tc.want)
			}
		})
	}
}

func TestOrderByTimes(t *testing.T) {
	at := func(s int) fleet.Instant { return fleet.Instant{Time: time.Unix(int64(s), 0)} }
	first := claim("1", ledger.Delivered, 0, 0, "a")
	first.Span = fleet.Span{Began: at(10), Ended: at(20), Over: true}
	second := claim("2", ledger.Delivered, 0, 0, "b")
	for began, want := range map[int]fleet.Versions{
		21: fleet.SetOf("a", "b"), // clocks may be apart, stamps are whole seconds
		24: fleet.SetOf("a", "b"),
		25: fleet.SetOf("b"),
	} {
		second.Span = fleet.Span{Began: at(began), Ended: at(began + 1), Over: true}
		if got := (ledger.Cell{first, second}).Candidates(); !slices.Equal(got, want) {
			t.Errorf("began at %d after an end at 20: candidates %s, want %s", began, got, want)
		}
	}
}
