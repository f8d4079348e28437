// Package fleet holds the words every other room uses: versions of a Secret, sets of them, and bounds in time.
package fleet

import (
	"slices"
	"strings"
)

// Version is the content hash of a Secret, byte for byte the one openstack-operator writes into
// status.secretHashes, or one of the two words below.
type Version string

const (
	// Unknown stands for any version at all: empty, unreadable or unobserved content.
	Unknown Version = "?"
	// None says that nothing was ever delivered.
	None Version = "none"
)

// Short is the form people read: the first characters of a hash, the words as they are.
func (v Version) Short() string {
	const shown = 8
	if len(v) > shown {
		return string(v[:shown])
	}
	return string(v)
}

// Versions is a set: sorted, without duplicates. The zero value is the empty set.
type Versions []Version

// SetOf makes a set of the given versions.
func SetOf(versions ...Version) Versions {
	if len(versions) == 0 {
		return nil
	}
	set := slices.Clone(versions)
	slices.Sort(set)
	return Versions(slices.Compact(set))
}

// Has tells whether v is a member. Unknown is a member only where it was put in.
func (s Versions) Has(v Version) bool {
	_, found := slices.BinarySearch(s, v)
	return found
}

// IsOnly tells whether the set is exactly {v}.
func (s Versions) IsOnly(v Version) bool { return len(s) == 1 && s[0] == v }

// Union is the set of the members of both.
func (s Versions) Union(other Versions) Versions {
	return SetOf(append(slices.Clone(s), other...)...)
}

// Meets tells whether both sets may stand for one same version: they share a member, or one holds Unknown
// and the other is not empty.
func (s Versions) Meets(other Versions) bool {
	if len(s) == 0 || len(other) == 0 {
		return false
	}
	if s.Has(Unknown) || other.Has(Unknown) {
		return true
	}
	return slices.ContainsFunc(s, other.Has)
}

// Narrow is what remains when both sets are known to contain the truth. Unknown stands for everything, so it
// restricts nothing. Where the sets contradict each other the truth is not known: the union with Unknown.
func (s Versions) Narrow(other Versions) Versions {
	var both Versions
	for _, v := range s.Union(other) {
		if (s.Has(v) || s.Has(Unknown)) && (other.Has(v) || other.Has(Unknown)) {
			both = append(both, v)
		}
	}
	if len(both) == 0 {
		return s.Union(other).Union(Versions{Unknown})
	}
	return both
}

// String lists the short forms, for messages.
func (s Versions) String() string {
	short := make([]string, len(s))
	for i, v := range s {
		short[i] = v.Short()
	}
	return "{" + strings.Join(short, ",") + "}"
}
