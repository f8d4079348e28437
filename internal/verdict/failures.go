package verdict

import "strings"

// Failure is one check that a credential does not pass.
type Failure struct {
	Outcome Outcome
	Reason  Reason
	// Message is a sentence for people, as in a Deletion.
	Message string
	// Nodes are those that the check is about, where it is about nodes.
	Nodes []NodeName
}

// NodeName names a node of a NodeSet.
type NodeName struct {
	NodeSet, Name string
	// Departed says that the NodeSet no longer lists it.
	Departed bool
}

// Failures lists every check that the credential does not pass, in the order in which MayGo asks them, as if nobody had
// given an override. None means Safe.
func Failures(r Request) []Failure {
	s := examine(r)
	nodes := map[Reason][]examined{ReasonNodesBehind: s.behind, ReasonRestartUnproved: s.unproved, ReasonNodesUnknown: s.unknown}
	var failures []Failure
	for _, check := range deletionChecks {
		outcome, reason, message := check(r, s)
		if reason == "" {
			continue
		}
		failure := Failure{Outcome: outcome, Reason: reason, Message: message}
		for _, node := range nodes[reason] {
			failure.Nodes = append(failure.Nodes, NodeName{node.nodeSet, strings.TrimPrefix(node.name, node.nodeSet+"/"), node.departed})
		}
		failures = append(failures, failure)
	}
	return failures
}
