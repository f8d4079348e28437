// Package scenario reads scenario files, plays them against the embedded control plane with the real operator in it,
// and says of every expectation whether it holds.
package scenario

import (
	"cmp"
	"fmt"
)

// Position is where something stands in a file, both counted from 1.
type Position struct{ Line, Column int }

// Word is a text with its position.
type Word struct {
	Text string
	At   Position
}

// String is the text.
func (w Word) String() string { return w.Text }

// File is one scenario.
type File struct {
	// Path is the file that it was read from.
	Path string
	// Name is what the scenario calls itself.
	Name     string
	Services []Service
	Secrets  []Version
	NodeSets []NodeSet
	// Guard names the shipped CredentialGuard that is in force, empty without one; Credentials are objects of its kind,
	// each with its identity for a name.
	Guard       Word
	Credentials []Word
	Steps       []Step
}

// Service is an OpenStackDataPlaneService.
type Service struct {
	Name Word
	// Secrets are its data sources.
	Secrets []Word
	// Type is its edpmServiceType, empty for its name.
	Type string
	// Global is its deployOnAllNodeSets.
	Global bool
}

// Version is what a Secret holds from some moment on.
type Version struct {
	Secret Word
	// As is the alias by which expectations name the version; without text there is none.
	As   Word
	Data map[string]string
}

// NodeSet is an OpenStackDataPlaneNodeSet.
type NodeSet struct {
	Name     Word
	Nodes    []Word
	Services []Word
}

// Step is one entry of a scenario's steps.
type Step struct {
	// Number counts the steps from 1.
	Number int
	At     Position
	// Action is one of Deploy, Rotate, Start, Finish, Operator, Node, Delete, AttemptDelete, Attest, Override,
	// Expect and
	// ExpectCredential.
	Action Action
}

// Action is what a step does.
type Action interface {
	// String says it in one line.
	String() string
}

// Deployment is an OpenStackDataPlaneDeployment.
type Deployment struct {
	Name     Word
	NodeSets []Word
	// Limit, Tags and SkipTags are its ansibleLimit, ansibleTags and ansibleSkipTags.
	Limit, Tags, SkipTags string
	// Services are its servicesOverride.
	Services []Word
}

// Deploy creates a Deployment and runs it to its end.
type Deploy struct {
	Deployment
	// Attempts are the outcomes of its pods, one after the other: succeeded or failed.
	Attempts []Word
	// Hosts are outcomes of single hosts in the last attempt.
	Hosts []HostOutcome
}

// Start creates a Deployment and brings its pods up to where they have mounted their Secrets.
type Start struct{ Deployment }

// Finish lets a started Deployment end.
type Finish struct {
	Name Word
	// Outcome is succeeded or failed.
	Outcome Word
	Hosts   []HostOutcome
}

// HostOutcome is how a run ended on one host: ok, failed, unreachable, or unlisted where the recap does not name it.
type HostOutcome struct{ Host, Outcome Word }

// Rotate changes what a Secret holds.
type Rotate struct{ Version }

// Operator does something to the operator's process: stop, start, restart or kill.
type Operator struct{ Verb Word }

// Node adds a node to a NodeSet or removes one.
type Node struct {
	NodeSet Word
	// Add and Remove are nodes; one of them has no text.
	Add, Remove Word
}

// Delete deletes an object.
type Delete struct{ Kind, Name Word }

// Expect says what the cluster must show of one NodeSet. Fields that are nil are not looked at.
type Expect struct {
	NodeSet                  Word
	TotalNodes, UpdatedNodes *int
	AllNodesUpdated          *bool
	// CurrentHash and ExpectedHash are aliases by Secret.
	CurrentHash, ExpectedHash []SecretAlias
	// Nodes are candidates: what nodes may run.
	Nodes []Candidates
}

// AttemptDelete deletes a credential and says what is to come of it.
type AttemptDelete struct {
	Identity Word
	// Expect is refused or allowed. A refusal has to name Names.
	Expect Word
	Names  []Word
}

// Attest says that nodes are gone for good.
type Attest struct {
	NodeSet Word
	Nodes   []Word
}

// Override says that a credential may go.
type Override struct{ Identity Word }

// ExpectCredential says what the cluster must show of a credential. What has no text is not looked at.
type ExpectCredential struct {
	Credential, Verdict, Reason Word
	// Nodes are exactly those in the way, nil where they are not looked at.
	Nodes []Word
}

// SecretAlias names a version of a Secret.
type SecretAlias struct{ Secret, Alias Word }

// Candidates are the versions of one Secret that one node may run.
type Candidates struct {
	Node, Secret Word
	// Aliases are those of the versions; "?" and "none" are aliases too.
	Aliases []Word
}

// Problem is one thing that is wrong with a scenario file.
type Problem struct {
	File string
	At   Position
	// Key is the way to it from the top of the file, such as steps[2].deploy.limit.
	Key     string
	Message string
}

// Error gives file, line, column, key and message.
func (p Problem) Error() string {
	if p.Key == "" {
		return fmt.Sprintf("%s:%d:%d: %s", p.File, p.At.Line, p.At.Column, p.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.At.Line, p.At.Column, p.Key, p.Message)
}

func compareProblems(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column), cmp.Compare(a.Key, b.Key))
}
