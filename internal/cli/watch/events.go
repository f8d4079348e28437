package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/report"
)

// Event is one thing that changed between two looks.
type Event struct {
	// At is when it was seen.
	At time.Time
	// Tone says how to show it.
	Tone Tone
	// Text is a sentence without a full stop.
	Text string
}

// Tone says what something means for the reader.
type Tone int

const (
	// Plain is neither.
	Plain Tone = iota
	// Good brings the fleet nearer to its end.
	Good
	// Waiting is what deploying or waiting helps against.
	Waiting
	// Bad is what somebody must look at.
	Bad
)

// Changes tells what changed from one report to the next, what concerns most first.
func Changes(before, after report.Report) []Event {
	c := changes{at: after.CollectedAt}
	c.notes(before, after)
	for i := range after.NodeSets {
		n := &after.NodeSets[i]
		old := findNodeSet(before, n)
		if old == nil {
			c.add(Plain, "NodeSet %s is new: %s", n.Name, countsOf(n.Counts))
			continue
		}
		c.secrets(old, n)
		c.nodes(old, n)
		c.running(old, n)
		if n.AllUpdated && !old.AllUpdated {
			c.add(Good, "NodeSet %s: all %d nodes are updated", n.Name, n.Nodes)
		}
	}
	for i := range before.NodeSets {
		if n := &before.NodeSets[i]; findNodeSet(after, n) == nil {
			c.add(Bad, "NodeSet %s is gone", n.Name)
		}
	}
	c.credentials(before, after)
	return c.events
}

type changes struct {
	at     time.Time
	events []Event
}

func (c *changes) add(tone Tone, format string, args ...any) {
	c.events = append(c.events, Event{At: c.at, Tone: tone, Text: clean(fmt.Sprintf(format, args...))})
}

func findNodeSet(r report.Report, n *report.NodeSet) *report.NodeSet {
	for i := range r.NodeSets {
		if r.NodeSets[i].Namespace == n.Namespace && r.NodeSets[i].Name == n.Name {
			return &r.NodeSets[i]
		}
	}
	return nil
}

func (c *changes) notes(before, after report.Report) {
	had := func(r report.Report, note report.Note) bool {
		return slices.ContainsFunc(r.Notes, func(n report.Note) bool { return n.Namespace == note.Namespace && n.Text == note.Text })
	}
	for _, note := range after.Notes {
		if !had(before, note) {
			c.add(Bad, "%s", note.Text)
		}
	}
	for _, note := range before.Notes {
		if !had(after, note) {
			c.add(Plain, "no longer: %s", note.Text)
		}
	}
}

// secrets tells which Secrets have other content in the cluster.
func (c *changes) secrets(old, n *report.NodeSet) {
	for _, secret := range slices.Concat(n.Secrets, n.HostSecrets) {
		for _, before := range slices.Concat(old.Secrets, old.HostSecrets) {
			if before.Name == secret.Name && before.Expected != secret.Expected {
				c.add(Waiting, "Secret %s in the cluster is %s now, for NodeSet %s it was %s", secret.Name,
					named(secret.Expected, secret.ExpectedIdentities), n.Name, named(before.Expected, before.ExpectedIdentities))
			}
		}
	}
}

// move is what happened to several nodes alike.
type move struct {
	tone       Tone
	what, tail string
	nodes      []string
}

// nodes tells what nodes run now that they did not run before.
func (c *changes) nodes(old, n *report.NodeSet) {
	cells := map[string]report.Cell{}
	for _, node := range old.NodeList {
		for _, cell := range node.Cells {
			cells[node.Name+"\n"+cell.Secret] = cell
		}
	}
	var moves []*move
	for _, node := range n.NodeList {
		for _, cell := range node.Cells {
			before, known := cells[node.Name+"\n"+cell.Secret]
			if !known || before.Version == cell.Version && slices.Equal(before.Candidates, cell.Candidates) {
				continue
			}
			one := moveOf(cell)
			i := slices.IndexFunc(moves, func(m *move) bool { return m.what == one.what && m.tail == one.tail })
			if i < 0 {
				moves, i = append(moves, &one), len(moves)
			}
			moves[i].nodes = append(moves[i].nodes, node.Name)
		}
	}
	slices.SortStableFunc(moves, func(a, b *move) int { return cmp.Compare(b.tone, a.tone) })
	for _, m := range moves {
		c.add(m.tone, "%s of %s: %s%s", few(m.nodes), n.Name, m.what, m.tail)
	}
}

func moveOf(cell report.Cell) move {
	one := move{tone: Good, what: fmt.Sprintf("%s of %s", named(cell.Version, cell.Identities), cell.Secret)}
	switch cell.State {
	case report.Doubtful:
		one.tone, one.what = Bad, fmt.Sprintf("%s, and nobody knows which version", cell.Secret)
		if len(cell.Candidates) > 1 && !slices.Contains(cell.Candidates, fleet.Unknown) {
			one.what = fmt.Sprintf("any of %d versions of %s", len(cell.Candidates), cell.Secret)
		}
	case report.Behind:
		one.tone = Waiting
	case report.Updated:
	}
	if cell.Deployment != "" {
		one.tail = fmt.Sprintf(", by %s (%s)", cell.Deployment, cell.Service)
	}
	return one
}

func (c *changes) running(old, n *report.NodeSet) {
	has := func(n *report.NodeSet, name string) bool {
		return slices.ContainsFunc(n.Running, func(r report.Running) bool { return r.Name == name })
	}
	for _, r := range n.Running {
		if !has(old, r.Name) {
			where := "all nodes"
			if r.Limit != "" {
				where = r.Limit
			}
			c.add(Plain, "Deployment %s goes to %s of NodeSet %s", r.Name, where, n.Name)
		}
	}
	for _, r := range old.Running {
		if !has(n, r.Name) {
			c.add(Plain, "Deployment %s is over and recorded for NodeSet %s", r.Name, n.Name)
		}
	}
}

func (c *changes) credentials(before, after report.Report) {
	for _, now := range after.Credentials {
		for _, then := range before.Credentials {
			if then.Namespace == now.Namespace && then.Kind == now.Kind && then.Name == now.Name && then.Identity == now.Identity &&
				(then.Verdict != now.Verdict || then.Reason != now.Reason) {
				c.add(toneOf(now), "%s is %s, %s: %s", titleOf(now), now.Verdict, now.Reason, now.Message)
			}
		}
	}
	gone := func(c report.Credential) bool {
		return c.Name != "" && !slices.ContainsFunc(after.Credentials, func(o report.Credential) bool {
			return o.Namespace == c.Namespace && o.Kind == c.Kind && o.Name == c.Name
		})
	}
	for _, then := range before.Credentials {
		if gone(then) {
			c.add(Good, "%s is deleted", titleOf(then))
		}
	}
}

// toneOf is how a verdict reads.
func toneOf(c report.Credential) Tone {
	switch {
	case c.Contradicted() != "":
		return Bad
	case c.Verdict == "Safe":
		return Good
	case c.Verdict == "Held":
		return Waiting
	}
	return Bad
}

func titleOf(c report.Credential) string {
	if c.Name == "" {
		return fmt.Sprintf("%s %s", c.Kind, c.Identity)
	}
	return fmt.Sprintf("%s %s", c.Kind, c.Name)
}

// named is a version with the credentials inside.
func named(version fleet.Version, identities []string) string {
	if len(identities) == 0 {
		return version.Short()
	}
	return fmt.Sprintf("%s (%s)", version.Short(), strings.Join(identities, ", "))
}

// few names the first nodes and counts the others.
func few(nodes []string) string {
	const shown = 3
	if len(nodes) <= shown {
		return strings.Join(nodes, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(nodes[:shown], ", "), len(nodes)-shown)
}

func countsOf(c report.Counts) string {
	return fmt.Sprintf("%d nodes, %d updated, %d behind, %d unknown", c.Nodes, c.Updated, c.Behind, c.Unknown)
}
