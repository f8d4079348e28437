package fleet

import "time"

// clockSkew is how far the clocks that stamp API objects (one per API server) may be apart, their grain of one
// second included. Times that are nearer to each other than this order nothing.
const clockSkew = 5 * time.Second

// Instant is a bound for a moment in the cluster's history, on the two scales the API server offers. Either may be
// missing (zero). Revision is a resourceVersion read as a number, comparable between objects that one etcd holds;
// who fills it in vouches for that. Time is a stamp of an API server, with a grain of one second.
type Instant struct {
	Revision uint64    `json:"rv,omitempty"`
	Time     time.Time `json:"t,omitzero"`
}

// IsZero tells whether nothing is known of the moment.
func (i Instant) IsZero() bool { return i.Revision == 0 && i.Time.IsZero() }

// Before tells whether the moment that i bounds from above surely lies before the one that other bounds from below.
func (i Instant) Before(other Instant) bool {
	if i.Revision != 0 && other.Revision != 0 {
		if i.Revision < other.Revision {
			return true
		}
	}
	return !i.Time.IsZero() && !other.Time.IsZero() && !other.Time.Before(i.Time.Add(clockSkew))
}

// Earlier narrows an upper bound: on each scale the smaller of the two known values.
func (i Instant) Earlier(other Instant) Instant {
	if i.Revision == 0 || other.Revision != 0 && other.Revision < i.Revision {
		i.Revision = other.Revision
	}
	if i.Time.IsZero() || !other.Time.IsZero() && other.Time.Before(i.Time) {
		i.Time = other.Time
	}
	return i
}

// Later narrows a lower bound: on each scale the greater of the two known values.
func (i Instant) Later(other Instant) Instant {
	if other.Revision > i.Revision {
		i.Revision = other.Revision
	}
	if other.Time.After(i.Time) {
		i.Time = other.Time
	}
	return i
}

// Span bounds the time in which something went on.
type Span struct {
	// Began is not later than the real beginning.
	Began Instant `json:"began,omitzero"`
	// Ended is not earlier than the real end; it means nothing while Over is false.
	Ended Instant `json:"ended,omitzero"`
	// Over says that it has ended.
	Over bool `json:"over,omitempty"`
}

// After tells whether s surely began after other ended.
func (s Span) After(other Span) bool { return other.Over && other.Ended.Before(s.Began) }

// Narrow joins two bounds of one and the same span.
func (s Span) Narrow(other Span) Span {
	s.Began = s.Began.Later(other.Began)
	switch {
	case s.Over && other.Over:
		s.Ended = s.Ended.Earlier(other.Ended)
	case other.Over:
		s.Ended, s.Over = other.Ended, true
	}
	return s
}
