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
