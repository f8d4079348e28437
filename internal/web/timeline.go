package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

// run is one service of one Deployment on one NodeSet.
type run struct {
	NodeSet, Began, Span, Deployment, Service, Delivered, Doubt string
	Attempt                                                     int
	Carried                                                     []string
	// Drawn says that From and Width, in percent of the time that is shown, are known.
	Drawn       bool
	From, Width float64
}

// runs are those of all NodeSets, latest first, each drawn within the time that all of them took.
func runs(nodeSets []report.NodeSet) (shown []run, more int) {
	type placed struct {
		nodeSet string
		report.Run
	}
	var all []placed
	for _, n := range nodeSets {
		for _, one := range n.Runs {
			all = append(all, placed{n.Name, one})
		}
	}
	began := func(p placed) int64 {
		if p.Began == nil {
			return 0
		}
		return p.Began.UnixNano()
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(began(b), began(a)) })
	more = max(0, len(all)-mostRuns)
	all = all[:len(all)-more]
	var first, last time.Time
	for _, p := range all {
		if p.Began != nil && p.Ended != nil {
			if first.IsZero() || p.Began.Before(first) {
				first = *p.Began
			}
			if p.Ended.After(last) {
				last = *p.Ended
			}
		}
	}
	for _, p := range all {
		shown = append(shown, runView(p.nodeSet, p.Run, first, last))
	}
	return shown, more
}

func runView(nodeSet string, r report.Run, first, last time.Time) run {
	one := run{NodeSet: nodeSet, Began: "?", Deployment: r.Deployment, Service: r.Service, Attempt: r.Attempt, Doubt: r.Doubt}
	if r.Began != nil {
		one.Began = r.Began.UTC().Format("2006-01-02 15:04:05")
	}
	switch {
	case !r.Over:
		one.Span = "goes on"
	case r.Began == nil || r.Ended == nil:
		one.Span = "not known"
	default:
		one.Span = since(*r.Ended, r.Began)
		const percent, least = 100, 1
		if total := last.Sub(first); total > 0 {
			one.Drawn = true
			one.From = min(percent-least, percent*float64(r.Began.Sub(first))/float64(total))
			one.Width = max(least, percent*float64(r.Ended.Sub(*r.Began))/float64(total))
		}
	}
	one.Delivered = fmt.Sprintf("%d of %d", len(r.Delivered), len(r.Delivered)+len(r.Attempted))
	for _, c := range r.Carried {
		var versions []string
		for _, v := range c.Versions {
			versions = append(versions, v.Short())
		}
		text := c.Secret + " " + strings.Join(versions, " or ")
		if len(c.Identities) > 0 {
			text += " (" + strings.Join(c.Identities, ", ") + ")"
		}
		one.Carried = append(one.Carried, text)
	}
	return one
}

// since is a span in the one unit that says most.
func since(now time.Time, then *time.Time) string {
	if then == nil {
		return "–"
	}
	const minutes, hours = 120, 48
	d := max(0, now.Sub(*then))
	switch {
	case d < minutes*time.Second:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < minutes*time.Minute:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < hours*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
