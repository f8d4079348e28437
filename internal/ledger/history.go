package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

// Held is one entry of a History: a Secret's content from some moment on.
type Held struct {
	Version fleet.Version `json:"version"`
	// Since is when the Secret surely held it: the content was written at Since or before. Unknown content begins
	// right after the last moment something else was known.
	Since fleet.Instant `json:"since,omitzero"`
	// Keys are the names of the Secret's keys, sorted.
	Keys []string `json:"keys,omitempty"`
	// Identities are the names of the credentials inside: for each question that was asked, all that it finds, sorted.
	// Of any other question it is not known what is inside.
	Identities map[string][]string `json:"identities,omitempty"`
}

// History is what a Secret held over time, as far as it was seen. Before its first entry it held anything.
type History struct {
	// UID and Revision are those of the last read, which Held ends with.
	UID      string `json:"uid,omitempty"`
	Revision uint64 `json:"rv,omitempty"`
	Held     []Held `json:"held,omitempty"`
}

// Reading is one live read of a Secret, or the finding that it is not there.
type Reading struct {
	UID      string
	Revision uint64
	// Changed is not earlier than the last write of the content: the revision of the object, and the time its
	// managedFields give (zero where they cannot tell).
	Changed fleet.Instant
	Version fleet.Version
	// Missed says that something was written between the last reading and this one that nobody read, or that
	// nobody can tell.
	Missed bool
	// Keys and Identities are what Held keeps of the content.
	Keys       []string
	Identities map[string][]string
}

// Current is the version of the last reading, Unknown where there was none.
func (h History) Current() fleet.Version {
	if len(h.Held) == 0 {
		return fleet.Unknown
	}
	return h.Held[len(h.Held)-1].Version
}

// KeysOf gives the names of the keys that a version has; known is false where the version is not in the history.
func (h History) KeysOf(version fleet.Version) (keys []string, known bool) {
	for _, held := range h.Held {
		if held.Version == version {
			return held.Keys, version != fleet.Unknown
		}
	}
	return nil, false
}

// Carries tells whether the identity is inside a version, as the question finds it. Known is false where the question
// was never asked of that version.
func (h History) Carries(version fleet.Version, identity, question string) (carries, known bool) {
	for _, held := range h.Held {
		if found, asked := held.Identities[question]; asked && held.Version == version && version != fleet.Unknown {
			return slices.Contains(found, identity), true
		}
	}
	return false, version == fleet.None
}

// Found gives all identities that the question found in any version, sorted.
func (h History) Found(question string) []string {
	var all []string
	for _, held := range h.Held {
		all = append(all, held.Identities[question]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Add appends a reading. A reading that is not newer than the last one says nothing new, unless more was asked.
func (h History) Add(r Reading) History {
	if r.UID == h.UID && r.Revision <= h.Revision {
		if r.Revision == h.Revision {
			h.Held = learn(slices.Clone(h.Held), r)
		}
		return h
	}
	held := slices.Clone(h.Held)
	if r.Missed && len(held) > 0 {
		held = append(held, Held{Version: fleet.Unknown, Since: fleet.Instant{Revision: h.Revision + 1}})
	}
	if last := len(held) - 1; last < 0 || held[last].Version != r.Version {
		held = append(held, Held{Version: r.Version, Since: r.Changed, Keys: r.Keys})
	}
	return History{UID: r.UID, Revision: r.Revision, Held: learn(held, r)}
}

// learn adds what was asked in a reading to the last entry, where it is of the same content.
func learn(held []Held, r Reading) []Held {
	if last := len(held) - 1; last >= 0 && held[last].Version == r.Version && r.Version != fleet.Unknown {
		held[last].Identities = joined(held[last].Identities, r.Identities)
	}
	return held
}

func joined(a, b map[string][]string) map[string][]string {
	if len(b) == 0 {
		return a
	}
	all := map[string][]string{}
	maps.Copy(all, a)
	for question, found := range b {
		all[question] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(all[question], found))))
		if all[question] == nil {
			all[question] = []string{} // an answer as well, and none is stored as null
		}
	}
	return all
}

// Between gives the versions a pod may have mounted that was created at began and had its containers running by
// mounted (zero: not known to run yet). The kubelet may have served content up to margin older than the pod.
func (h History) Between(began, mounted fleet.Instant, margin time.Duration) fleet.Versions {
	versions := fleet.SetOf(fleet.Unknown)
	for _, entry := range h.Held {
		switch {
		case !mounted.IsZero() && mounted.Before(entry.Since):
			return versions
		case replacedInTime(entry.Since, began, margin): // and with it all that was before
			versions = fleet.SetOf(entry.Version)
		default:
			versions = versions.Union(fleet.SetOf(entry.Version))
		}
	}
	return versions
}

// replacedInTime tells whether content replaced at that moment was out of any kubelet's reach when the pod began.
func replacedInTime(replaced, began fleet.Instant, margin time.Duration) bool {
	if margin == 0 {
		return replaced.Before(began)
	}
	return fleet.Instant{Time: replaced.Time}.Before(fleet.Instant{Time: began.Time.Add(-margin)})
}

// Trim forgets the entries that none of the given versions and no reading still to come needs: all but the last
// that are not of use.
func (h History) Trim(ofUse func(fleet.Version) bool) History {
	last := len(h.Held) - 1
	var held []Held
	for i, entry := range h.Held {
		if i == last || entry.Version != fleet.Unknown && ofUse(entry.Version) {
			held = append(held, entry)
		}
	}
	h.Held = held
	return h
}
