package trackmap

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// versionsEntry is one Secret under _versions. Its versions are numbered from 0, those of History.Held first, then
// those of Also; runs refer to them by these numbers.
type versionsEntry struct {
	// History is there if the book has one.
	History *ledger.History `json:"history,omitempty"`
	// Host is the host that the Secret is for, where it is for one alone.
	Host *string `json:"host,omitempty"`
	// Also lists versions that runs carried and the history does not have.
	Also fleet.Versions `json:"also,omitempty"`
}

// numbered lists the versions in the order of their numbers.
func (e versionsEntry) numbered() []fleet.Version {
	var versions []fleet.Version
	if e.History != nil {
		for _, held := range e.History.Held {
			versions = append(versions, held.Version)
		}
	}
	return append(versions, e.Also...)
}

// runEntry is one run under _runs, under its ID.
type runEntry struct {
	Deployment    string         `json:"deployment"`
	DeploymentUID string         `json:"deploymentUID"`
	Service       string         `json:"service"`
	Place         string         `json:"place"`
	Attempt       int            `json:"attempt"`
	Span          fleet.Span     `json:"span,omitzero"`
	Mounted       fleet.Instant  `json:"mounted,omitzero"`
	Carried       []carriedEntry `json:"carried"`
	Fixed         bool           `json:"fixed,omitempty"`
	// Partly are Secrets, folded.
	Partly string `json:"partly,omitempty"`
	// Reach has the nodes, folded, by the word for their strength.
	Reach map[string]string `json:"reach"`
	Whole bool              `json:"whole,omitempty"`
	Doubt string            `json:"doubt,omitempty"`
}

// carriedEntry are Secrets, folded, of which the run carried versions with the same numbers.
type carriedEntry struct {
	Versions []int  `json:"versions"`
	Secrets  string `json:"secrets"`
}

// nodesEntry are nodes, folded, of which the book says the same.
type nodesEntry struct {
	ledger.Node
	Nodes string `json:"nodes"`
}

// entriesOf writes the book, except for its nodes.
func entriesOf(book ledger.Book) (entries, error) {
	texts, numbers := newEntries(), map[string]map[fleet.Version]int{}
	for secret, entry := range historiesOf(book) {
		text, err := member(secret, entry)
		if err != nil {
			return entries{}, fmt.Errorf("the history of Secret %q: %w", secret, err)
		}
		texts.versions[secret] = text
		numbers[secret] = map[fleet.Version]int{}
		for i, version := range entry.numbered() {
			numbers[secret][version] = i
		}
	}
	for id, run := range book.Runs {
		entry, err := runEntryOf(id, run, numbers)
		if err != nil {
			return entries{}, fmt.Errorf("run %q: %w", id, err)
		}
		if texts.runs[id], err = member(id, entry); err != nil {
			return entries{}, fmt.Errorf("run %q: %w", id, err)
		}
	}
	return texts, nil
}

func historiesOf(book ledger.Book) map[string]versionsEntry {
	carried := map[string]fleet.Versions{}
	for _, run := range book.Runs {
		for secret, versions := range run.Carried {
			for _, version := range versions {
				if !carried[secret].Has(version) {
					carried[secret] = carried[secret].Union(fleet.Versions{version})
				}
			}
		}
	}
	all := map[string]versionsEntry{}
	for secret, history := range book.Secrets {
		history.Held = slices.Clone(history.Held)
		for i, held := range history.Held {
			history.Held[i].Since = utc(held.Since)
		}
		all[secret] = versionsEntry{History: &history}
	}
	for secret, host := range book.Scope {
		entry := all[secret]
		entry.Host = &host
		all[secret] = entry
	}
	for secret, versions := range carried {
		entry := all[secret]
		held := entry.numbered()
		for _, version := range versions {
			if !slices.Contains(held, version) {
				entry.Also = append(entry.Also, version)
			}
		}
		all[secret] = entry
	}
	return all
}

func readVersions(texts map[string]string, book ledger.Book) (map[string][]fleet.Version, error) {
	tables := map[string][]fleet.Version{}
	for secret, text := range texts {
		var entry versionsEntry
		if err := unmarshal(text, &entry); err != nil {
			return nil, fmt.Errorf("Secret %q: %w", secret, err)
		}
		if entry.History != nil {
			book.Secrets[secret] = *entry.History
		}
		if entry.Host != nil {
			book.Scope[secret] = *entry.Host
		}
		tables[secret] = entry.numbered()
	}
	return tables, nil
}

func runEntryOf(id string, run ledger.Run, numbers map[string]map[fleet.Version]int) (runEntry, error) {
	if run.ID != id {
		return runEntry{}, fmt.Errorf("the book has it under another ID than its own, %q", run.ID)
	}
	entry := runEntry{
		Deployment: run.Deployment, DeploymentUID: run.DeploymentUID, Service: run.Service, Place: run.Place,
		Attempt: run.Attempt, Fixed: run.Fixed, Partly: Fold(run.Partly), Reach: map[string]string{}, Whole: run.Whole, Doubt: run.Doubt,
		Span:    fleet.Span{Began: utc(run.Span.Began), Ended: utc(run.Span.Ended), Over: run.Span.Over},
		Mounted: utc(run.Mounted),
	}
	reach := map[ledger.Strength][]string{}
	for node, strength := range run.Reach {
		reach[strength] = append(reach[strength], node)
	}
	for strength, nodes := range reach {
		if _, err := strengthOf(strength.String()); err != nil {
			return runEntry{}, err
		}
		entry.Reach[strength.String()] = Fold(nodes)
	}
	secrets, versions := map[string][]string{}, map[string][]int{}
	for secret, carried := range run.Carried {
		own := make([]int, len(carried))
		for i, version := range carried {
			own[i] = numbers[secret][version]
		}
		slices.Sort(own)
		key := fmt.Sprint(own)
		secrets[key], versions[key] = append(secrets[key], secret), own
	}
	for key := range secrets {
		entry.Carried = append(entry.Carried, carriedEntry{Versions: versions[key], Secrets: Fold(secrets[key])})
	}
	slices.SortFunc(entry.Carried, func(a, b carriedEntry) int { return slices.Compare(a.Versions, b.Versions) })
	return entry, nil
}

func readRuns(texts map[string]string, tables map[string][]fleet.Version, runs map[string]ledger.Run) error {
	for id, text := range texts {
		var entry runEntry
		err := unmarshal(text, &entry)
		if err == nil {
			runs[id], err = entry.run(id, tables)
		}
		if err != nil {
			return fmt.Errorf("run %q: %w", id, err)
		}
	}
	return nil
}

func (e runEntry) run(id string, tables map[string][]fleet.Version) (ledger.Run, error) {
	partly, err := Unfold(e.Partly)
	if err != nil {
		return ledger.Run{}, err
	}
	run := ledger.Run{
		ID: id, Deployment: e.Deployment, DeploymentUID: e.DeploymentUID, Service: e.Service, Place: e.Place,
		Attempt: e.Attempt, Span: e.Span, Mounted: e.Mounted, Carried: map[string]fleet.Versions{}, Reach: map[string]ledger.Strength{},
		Fixed: e.Fixed, Partly: partly, Whole: e.Whole, Doubt: e.Doubt,
	}
	for word, folded := range e.Reach {
		strength, err := strengthOf(word)
		if err != nil {
			return ledger.Run{}, err
		}
		if err := spread(run.Reach, folded, strength); err != nil {
			return ledger.Run{}, err
		}
	}
	for _, carried := range e.Carried {
		secrets, err := Unfold(carried.Secrets)
		if err != nil {
			return ledger.Run{}, err
		}
		for _, secret := range secrets {
			if _, twice := run.Carried[secret]; twice {
				return ledger.Run{}, fmt.Errorf("Secret %q occurs twice", secret)
			}
			versions := make([]fleet.Version, len(carried.Versions))
			for i, number := range carried.Versions {
				if number < 0 || number >= len(tables[secret]) {
					return ledger.Run{}, fmt.Errorf("Secret %q has no version number %d", secret, number)
				}
				versions[i] = tables[secret][number]
			}
			run.Carried[secret] = fleet.SetOf(versions...)
		}
	}
	return run, nil
}

func nodesText(nodes map[string]ledger.Node) (string, error) {
	groups := map[ledger.Node][]string{}
	for name, node := range nodes {
		groups[node] = append(groups[node], name)
	}
	all := make([]nodesEntry, 0, len(groups))
	for node, names := range groups {
		all = append(all, nodesEntry{Node: node, Nodes: Fold(names)})
	}
	slices.SortFunc(all, func(a, b nodesEntry) int { return cmp.Compare(a.Nodes, b.Nodes) })
	text, err := marshal(all)
	if err != nil {
		return "", fmt.Errorf("the nodes: %w", err)
	}
	return text, nil
}

func readNodes(text string, nodes map[string]ledger.Node) error {
	var all []nodesEntry
	if err := unmarshal(text, &all); err != nil {
		return err
	}
	for _, group := range all {
		if group.Origin == "" {
			return errors.New("nodes without an origin")
		}
		if err := spread(nodes, group.Nodes, group.Node); err != nil {
			return err
		}
	}
	return nil
}

// spread gives every one of the folded names the value; none may have one already.
func spread[V any](all map[string]V, folded string, value V) error {
	names, err := Unfold(folded)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, twice := all[name]; twice {
			return fmt.Errorf("%q occurs twice", name)
		}
		all[name] = value
	}
	return nil
}

func strengthOf(word string) (ledger.Strength, error) {
	for _, strength := range []ledger.Strength{ledger.Attempted, ledger.Delivered, ledger.Proved} {
		if strength.String() == word {
			return strength, nil
		}
	}
	return 0, fmt.Errorf("there is no strength %s", word)
}

// utc makes equal instants equal texts.
func utc(i fleet.Instant) fleet.Instant {
	i.Time = i.Time.UTC()
	return i
}
