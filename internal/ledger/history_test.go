package ledger_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// TestBetweenHoldsWhatWasMounted: a Secret is written now and then, somebody reads it now and then, a pod mounts it at
// some moment between its creation and the first sight of its containers. What it mounted is always an answer.
func TestBetweenHoldsWhatWasMounted(t *testing.T) {
	exact := 0
	rapid.Check(t, func(t *rapid.T) {
		const horizon = 30
		contents := make([]fleet.Version, horizon+1) // what the Secret holds just after each revision
		written := make([]bool, horizon+1)
		contents[0] = "start"
		for r := 1; r <= horizon; r++ {
			contents[r] = contents[r-1]
			switch rapid.IntRange(0, 5).Draw(t, "write") {
			case 0:
				contents[r], written[r] = fleet.Version(fmt.Sprint("v", rapid.IntRange(0, 2).Draw(t, "v"))), true
			case 1:
				written[r] = true // only metadata
			}
		}
		var history ledger.History
		last, unread := 0, false
		for r := 1; r <= horizon; r++ {
			if !written[r] {
				continue
			}
			if rapid.IntRange(0, 4).Draw(t, "read in time") == 0 && r < horizon {
				unread = true
				continue
			}
			history = history.Add(ledger.Reading{UID: "u", Revision: uint64(r), Version: contents[r], Missed: unread,
				Changed: fleet.Instant{Revision: uint64(r)}})
			last, unread = r, false
		}
		if last == 0 {
			return
		}
		created := rapid.IntRange(1, last).Draw(t, "created")
		mounts := rapid.IntRange(created, last).Draw(t, "mounts")
		seen := rapid.IntRange(mounts, horizon).Draw(t, "seen running")
		if unread && seen > last {
			return // the caller reads before it asks
		}
		got := history.Between(fleet.Instant{Revision: uint64(created)}, fleet.Instant{Revision: uint64(seen)}, 0)
		if truth := contents[mounts]; !got.Has(truth) && !got.Has(fleet.Unknown) {
			t.Fatalf("the pod mounted %s at %d, answers are %s", truth, mounts, got)
		}
		if len(got) == 1 && !got.Has(fleet.Unknown) {
			exact++
		}
	})
	if exact == 0 {
		t.Error("no answer was ever exact: the property held vacuously")
	}
}

// TestCarriesKnowsWhatWasAsked: a version answers the questions that were asked of it, also those that came later, and
// no others.
func TestCarriesKnowsWhatWasAsked(t *testing.T) {
	reading := func(revision uint64, version fleet.Version, asked string, identities ...string) ledger.Reading {
		return ledger.Reading{UID: "u", Revision: revision, Version: version, Identities: map[string][]string{asked: identities}}
	}
	var history ledger.History
	history = history.Add(ledger.Reading{UID: "u", Revision: 1, Version: "old"})
	history = history.Add(reading(2, "a", "q1", "user7"))
	same := history.Add(reading(2, "b", "q2", "user8")) // one revision has one content: this is not to be believed
	history = history.Add(reading(2, "a", "q2", "id7", "id6"))
	history = history.Add(reading(3, "a", "q3"))
	history = history.Add(reading(4, fleet.Unknown, "q1", "user7"))
	history = history.Add(reading(5, "a", "q4", "x"))
	for _, tt := range []struct {
		history        ledger.History
		version        fleet.Version
		identity       string
		question       string
		carries, known bool
	}{
		{history, "a", "user7", "q1", true, true},
		{history, "a", "user8", "q1", false, true},
		{history, "a", "id6", "q2", true, true},
		{history, "a", "user7", "q3", false, true},
		{history, "a", "user7", "q2", false, true},
		{history, "a", "x", "q4", true, true},
		{history, "a", "user7", "q5", false, false},
		{history, "old", "user7", "q1", false, false},
		{history, "never", "user7", "q1", false, false},
		{history, fleet.Unknown, "user7", "q1", false, false},
		{history, fleet.None, "user7", "q1", false, true},
		{same, "a", "user8", "q2", false, false},
		{ledger.History{}, "a", "user7", "q1", false, false},
	} {
		carries, known := tt.history.Carries(tt.version, tt.identity, tt.question)
		if carries != tt.carries || known != tt.known {
			t.Errorf("%s in %s by %s: carries %t, known %t", tt.identity, tt.version, tt.question, carries, known)
		}
	}
}
