package ledger

import (
	"maps"
	"slices"
	"strings"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

// Run is one service's Ansible execution: one pod of one Job, with all that it says of every node and Secret.
type Run struct {
	// ID is the UID of the pod.
	ID string `json:"id"`
	// Deployment and DeploymentUID name the OpenStackDataPlaneDeployment that the run belongs to.
	Deployment    string `json:"deployment"`
	DeploymentUID string `json:"deploymentUID"`
	// Service is the OpenStackDataPlaneService that ran, Place its edpmServiceType: where on the node the files go.
	Service string `json:"service"`
	Place   string `json:"place"`
	// Attempt counts the pods of the Job from 1.
	Attempt int `json:"attempt"`
	// Span bounds the life of the pod.
	Span fleet.Span `json:"span,omitzero"`
	// Mounted is not earlier than the start of the pod's containers, zero while they have not been seen started.
	Mounted fleet.Instant `json:"mounted,omitzero"`
	// Carried gives, for every tracked Secret that the pod mounted, the versions it may have held there.
	Carried map[string]fleet.Versions `json:"carried"`
	// Reach gives, for every node that the run may have touched, what it proves of that node.
	Reach map[string]Strength `json:"reach"`
	// Fixed says that the pod has mounted its Secrets and that everything written to them until then was known: what
	// it carries and where it goes can only be known better from now on. Before, it may turn out to be more.
	Fixed bool `json:"fixed,omitempty"`
	// Partly lists the carried Secrets of which the pod mounted only some keys: of them it delivers no version.
	Partly []string `json:"partly,omitempty"`
	// Whole says that the run ended well and did all that it does, wherever that was; see Claim.
	Whole bool `json:"whole,omitempty"`
	// Doubt says in one sentence why the run proves less than a delivery, where that holds for all its nodes.
	Doubt string `json:"doubt,omitempty"`
}

// join puts together what was found out twice about one run. Once it is fixed, the truth lay within the bounds each
// time, so that both together bound it; before that, neither need.
func (r Run) join(other Run) Run {
	r.Span = r.Span.Narrow(other.Span)
	r.Mounted = r.Mounted.Earlier(other.Mounted)
	carried, reach := maps.Clone(r.Carried), maps.Clone(r.Reach)
	switch {
	case r.Fixed && other.Fixed:
		for secret, versions := range other.Carried {
			if have, ok := carried[secret]; ok {
				versions = have.Narrow(versions)
			}
			carried[secret] = versions
		}
		maps.DeleteFunc(reach, func(node string, _ Strength) bool { _, also := other.Reach[node]; return !also })
		for node := range reach {
			reach[node] = max(reach[node], other.Reach[node])
		}
		r.Partly = slices.DeleteFunc(slices.Clone(r.Partly), func(s string) bool { return !slices.Contains(other.Partly, s) })
		r.Whole, r.Doubt = r.Whole || other.Whole, other.Doubt
	case other.Fixed:
		other.Span, other.Mounted = r.Span, r.Mounted
		return other
	case !r.Fixed:
		for secret, versions := range other.Carried {
			carried[secret] = carried[secret].Union(versions)
		}
		for node, strength := range other.Reach {
			reach[node] = max(reach[node], strength)
		}
		r.Partly = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(r.Partly), other.Partly...))))
		r.Whole, r.Doubt = other.Whole, other.Doubt
	}
	r.Carried, r.Reach = carried, reach
	return r
}

// Node is what the book knows of one node apart from runs.
type Node struct {
	// Origin is what the node held before anything in the book: None or Unknown.
	Origin fleet.Version `json:"origin"`
	// Departed says that the NodeSet no longer lists the node. It may still run what it was given.
	Departed bool `json:"departed,omitempty"`
}

// Book is all that is known of one NodeSet: its nodes, the runs that may have touched them, and what its Secrets
// held over time.
type Book struct {
	Nodes   map[string]Node    `json:"nodes"`
	Runs    map[string]Run     `json:"runs"`
	Secrets map[string]History `json:"secrets"`
	// Scope names, for a Secret made for one host alone, that host.
	Scope map[string]string `json:"scope,omitempty"`
}

// NewBook is an empty book.
func NewBook() Book {
	return Book{Nodes: map[string]Node{}, Runs: map[string]Run{}, Secrets: map[string]History{}, Scope: map[string]string{}}
}

// Record joins what evidence now says of runs with what the book has.
func (b Book) Record(runs []Run) {
	for _, run := range runs {
		if have, ok := b.Runs[run.ID]; ok {
			run = have.join(run)
		}
		b.Runs[run.ID] = run
	}
}

// Enrol brings the nodes in line with the NodeSet's list: new ones begin with the given origin, missing ones depart.
func (b Book) Enrol(listed []string, origin fleet.Version) {
	for name, node := range b.Nodes {
		node.Departed = !slices.Contains(listed, name)
		b.Nodes[name] = node
	}
	for _, name := range listed {
		if _, known := b.Nodes[name]; !known {
			b.Nodes[name] = Node{Origin: origin}
		}
	}
}

// How the IDs of runs begin that stand for what nobody saw: all that one Deployment may have done, and all that was
// deployed before anything in the book.
const (
	givenUp = "unseen-"
	past    = "past-"
)

// GiveUp notes that a Deployment may have brought anything to any node in that time, and in a sentence why that is not
// known any better. Places are where the Secrets go as far as the book's own runs do not say it.
func (b Book) GiveUp(deployment, uid, why string, span fleet.Span, places map[string][]string) {
	b.unseen(givenUp+uid+"/", Run{Deployment: deployment, DeploymentUID: uid, Doubt: why, Span: span}, places)
}

// DoubtPast notes that before then anything may have been brought to the nodes of which it is not known what they held
// before. Not only to be overcome like an origin: what went wrong then may have left files beside older processes.
func (b Book) DoubtPast(until fleet.Instant, places map[string][]string) {
	const why = "what was deployed before the operator looked left no trace"
	for _, run := range b.Runs { // clocks may differ: what the book has already does not come later
		until = until.Later(run.Span.Began)
	}
	until.Revision = 0
	b.unseen(past, Run{Deployment: "earlier ones", Doubt: why, Span: fleet.Span{Ended: until, Over: true}}, places)
	for id, run := range b.Runs {
		if strings.HasPrefix(id, past) {
			maps.DeleteFunc(run.Reach, func(node string, _ Strength) bool { return b.OriginOf(node) != fleet.Unknown })
		}
	}
}

// IsPast tells whether DoubtPast covers all of that time.
func (b Book) IsPast(span fleet.Span) bool {
	for id, run := range b.Runs {
		if strings.HasPrefix(id, past) && span.Over && !span.Ended.Time.After(run.Span.Ended.Time) {
			return true
		}
	}
	return false
}

// WithoutPast is the book without DoubtPast, for who asks what was delivered since and not what processes run.
func (b Book) WithoutPast() Book {
	b.Runs = maps.Clone(b.Runs)
	maps.DeleteFunc(b.Runs, func(id string, _ Run) bool { return strings.HasPrefix(id, past) })
	return b
}

// unseen adds, for each place, a run that may have brought anything to any node.
func (b Book) unseen(id string, run Run, places map[string][]string) {
	carried := map[string]map[string]fleet.Versions{}
	anything := func(place, secret string) {
		if carried[place] == nil {
			carried[place] = map[string]fleet.Versions{}
		}
		carried[place][secret] = fleet.SetOf(fleet.Unknown)
	}
	known := b.carriedSecrets()
	for _, run := range b.Runs {
		for secret := range run.Carried {
			anything(run.Place, secret)
		}
	}
	for secret, places := range places {
		for _, place := range places {
			known[secret] = true
			anything(place, secret)
		}
	}
	for secret := range b.Secrets {
		if !known[secret] {
			anything("", secret)
		}
	}
	run.Reach = map[string]Strength{}
	for node := range b.Nodes {
		run.Reach[node] = Attempted
	}
	for place, secrets := range carried {
		run.ID, run.Service, run.Place = id+place, place+"?", place // no Service has such a name
		run.Carried, run.Reach = secrets, maps.Clone(run.Reach)
		b.Runs[run.ID] = run
	}
}

// IsGivenUp tells whether GiveUp was said of the Deployment with that UID.
func (b Book) IsGivenUp(uid string) bool {
	for id := range b.Runs {
		if strings.HasPrefix(id, givenUp+uid+"/") {
			return true
		}
	}
	return false
}

// InScope tells whether the Secret is for that node.
func (b Book) InScope(node, secret string) bool {
	host, scoped := b.Scope[secret]
	return !scoped || host == node
}

// Carriers gives the runs that carried the Secret, in the order of their IDs.
func (b Book) Carriers(secret string) []Run {
	var carriers []Run
	for _, id := range slices.Sorted(maps.Keys(b.Runs)) {
		if _, carried := b.Runs[id].Carried[secret]; carried {
			carriers = append(carriers, b.Runs[id])
		}
	}
	return carriers
}

// Cell gathers the claims on one node and one Secret. Places are the services' places through which the node is
// meant to receive the Secret; each begins with the node's origin.
func (b Book) Cell(node, secret string, places []string) Cell {
	return b.CellOf(node, secret, places, b.Carriers(secret))
}

// CellOf is Cell for a caller who asks for many nodes and has the Secret's Carriers.
func (b Book) CellOf(node, secret string, places []string, carriers []Run) Cell {
	places = slices.Clone(places)
	var cell Cell
	for _, run := range carriers {
		strength, reached := run.Reach[node]
		if !reached || !b.InScope(node, secret) {
			continue
		}
		if slices.Contains(run.Partly, secret) {
			strength = Attempted
		}
		cell = append(cell, Claim{Run: run.ID, Place: run.Place, Versions: run.Carried[secret], Strength: strength, Whole: run.Whole, Span: run.Span})
		places = append(places, run.Place)
	}
	slices.Sort(places)
	for _, place := range slices.Compact(places) {
		cell = append(cell, Origin(place, b.OriginOf(node)))
	}
	return Join(cell, nil)
}

// OriginOf is what the node held before anything in the book; a node that the book does not know held anything.
func (b Book) OriginOf(node string) fleet.Version {
	if known, ok := b.Nodes[node]; ok {
		return known.Origin
	}
	return fleet.Unknown
}

// Compact forgets the runs that no cell needs. It must be used only while every run of the NodeSet is settled.
func (b Book) Compact() {
	needed := map[string]bool{}
	for secret := range b.carriedSecrets() {
		carriers := b.Carriers(secret)
		for node := range b.Nodes {
			for _, claim := range b.CellOf(node, secret, nil, carriers).Compact() {
				needed[claim.Run] = true
			}
		}
	}
	for id := range b.Runs {
		if !needed[id] {
			delete(b.Runs, id)
		}
	}
}

func (b Book) carriedSecrets() map[string]bool {
	secrets := map[string]bool{}
	for _, run := range b.Runs {
		for secret := range run.Carried {
			secrets[secret] = true
		}
	}
	return secrets
}
