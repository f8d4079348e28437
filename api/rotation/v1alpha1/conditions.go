package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of conditions of a SecretRollout.
const (
	// ConditionReady is True when Updated and Settled are True and Degraded is False. Otherwise it repeats the first
	// of them that stands in the way.
	ConditionReady = "Ready"
	// ConditionUpdated is True when every node surely runs the expected version of each of its Secrets.
	ConditionUpdated = "Updated"
	// ConditionDegraded is True when it is not known what some node runs, although nothing is under way. It is Unknown
	// while a Deployment is, which may end the doubt.
	ConditionDegraded = "Degraded"
	// ConditionSettled is True when every Deployment of the NodeSet is over, its pods are gone and its outcome is
	// recorded.
	ConditionSettled = "Settled"
)

// Reason is a reason of a condition of a SecretRollout.
type Reason string

// Reasons of conditions.
const (
	// ReasonReady goes with Ready=True.
	ReasonReady Reason = "Ready"
	// ReasonAllNodesUpdated goes with Updated=True.
	ReasonAllNodesUpdated Reason = "AllNodesUpdated"
	// ReasonNodesBehind means that some nodes do not surely run the expected versions.
	ReasonNodesBehind Reason = "NodesBehind"
	// ReasonNothingTracked means that the NodeSet has no nodes or that no Secret goes to them, which proves nothing.
	ReasonNothingTracked Reason = "NothingTracked"
	// ReasonSecretUnknown means that a Secret is missing or cannot be read, so that no node can be up to date with it.
	ReasonSecretUnknown Reason = "SecretUnknown"
	// ReasonEvidenceIncomplete means that something else that the judgement needs is missing or cannot be read.
	ReasonEvidenceIncomplete Reason = "EvidenceIncomplete"
	// ReasonNodesKnown goes with Degraded=False.
	ReasonNodesKnown Reason = "NodesKnown"
	// ReasonNodesInDoubt means that some nodes may run one of several versions, or any.
	ReasonNodesInDoubt Reason = "NodesInDoubt"
	// ReasonDeploymentsSettled goes with Settled=True.
	ReasonDeploymentsSettled Reason = "DeploymentsSettled"
	// ReasonDeploymentsUnsettled means that Deployments of the NodeSet are under way.
	ReasonDeploymentsUnsettled Reason = "DeploymentsUnsettled"
)

// Findings are what the conditions say beyond the numbers of the status.
type Findings struct {
	// Behind and InDoubt are inventory host names: of the nodes that are not updated, and of those that may run one of
	// several versions. Only the first few are shown.
	Behind, InDoubt []string
	// Missing says, a sentence each without a full stop, what the judgement needs and does not have.
	Missing []string
}

// Judge completes a status: it sets the four conditions from the other fields, sorts the lists and cuts them to what
// the schema allows. A condition that keeps its status keeps its time of transition; the others get now.
func (s *SecretRolloutStatus) Judge(findings Findings, now metav1.Time) {
	s.UnsettledDeployments = sortedSet(s.UnsettledDeployments)
	updated, degraded, settled := s.updated(findings), s.degraded(findings), s.settled()
	before := s.Conditions
	s.Conditions = []metav1.Condition{ready(updated, degraded, settled), updated, degraded, settled}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.ObservedGeneration, c.LastTransitionTime = s.ObservedGeneration, now
		for _, old := range before {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	s.bound()
}

func (s *SecretRolloutStatus) updated(findings Findings) metav1.Condition {
	unknown := slices.DeleteFunc(slices.Clone(s.Secrets), func(secret SecretState) bool {
		return secret.ExpectedHash != VersionUnknown
	})
	switch {
	case len(findings.Missing) > 0:
		return condition(ConditionUpdated, metav1.ConditionUnknown, ReasonEvidenceIncomplete, some(findings.Missing, "; "))
	case s.TotalNodes == 0:
		return condition(ConditionUpdated, metav1.ConditionUnknown, ReasonNothingTracked, "The NodeSet has no nodes")
	case len(s.Secrets) == 0 && s.HostSecrets == nil:
		return condition(ConditionUpdated, metav1.ConditionUnknown, ReasonNothingTracked, "No Secret goes to the nodes")
	case len(unknown) > 0:
		names := make([]string, len(unknown))
		for i, secret := range unknown {
			names[i] = secret.Name
		}
		slices.Sort(names)
		return condition(ConditionUpdated, metav1.ConditionUnknown, ReasonSecretUnknown,
			"Missing or not readable in the cluster: "+some(names, ", "))
	case s.AllNodesUpdated:
		return condition(ConditionUpdated, metav1.ConditionTrue, ReasonAllNodesUpdated,
			fmt.Sprintf("All %d nodes run the expected version of every Secret", s.TotalNodes))
	}
	return condition(ConditionUpdated, metav1.ConditionFalse, ReasonNodesBehind, fmt.Sprintf(
		"%d of %d nodes do not surely run the expected version of every Secret: %s; deploy them",
		s.TotalNodes-s.UpdatedNodes, s.TotalNodes, some(findings.Behind, ", ")))
}

func (s *SecretRolloutStatus) degraded(findings Findings) metav1.Condition {
	if s.DegradedNodes == 0 {
		return condition(ConditionDegraded, metav1.ConditionFalse, ReasonNodesKnown, "It is known what every node runs")
	}
	message := fmt.Sprintf("%d of %d nodes may run one of several versions of a Secret: %s",
		s.DegradedNodes, s.TotalNodes, some(findings.InDoubt, ", "))
	if len(s.UnsettledDeployments) > 0 {
		return condition(ConditionDegraded, metav1.ConditionUnknown, ReasonDeploymentsUnsettled, message+"; a Deployment is under way")
	}
	return condition(ConditionDegraded, metav1.ConditionTrue, ReasonNodesInDoubt, message+"; deploy them again")
}

func (s *SecretRolloutStatus) settled() metav1.Condition {
	if len(s.UnsettledDeployments) == 0 {
		return condition(ConditionSettled, metav1.ConditionTrue, ReasonDeploymentsSettled, "No Deployment is under way")
	}
	return condition(ConditionSettled, metav1.ConditionFalse, ReasonDeploymentsUnsettled,
		"Under way: "+some(s.UnsettledDeployments, ", "))
}

// ready repeats what stands in the way, and rather what is sure than what is unknown.
func ready(updated, degraded, settled metav1.Condition) metav1.Condition {
	for _, c := range []metav1.Condition{updated, degraded, settled} {
		if c.Type == ConditionDegraded && c.Status == metav1.ConditionTrue || c.Type != ConditionDegraded && c.Status == metav1.ConditionFalse {
			return condition(ConditionReady, metav1.ConditionFalse, Reason(c.Reason), c.Message)
		}
	}
	for _, c := range []metav1.Condition{updated, degraded, settled} {
		if c.Status == metav1.ConditionUnknown {
			return condition(ConditionReady, metav1.ConditionUnknown, Reason(c.Reason), c.Message)
		}
	}
	return condition(ConditionReady, metav1.ConditionTrue, ReasonReady, updated.Message)
}

func condition(conditionType string, status metav1.ConditionStatus, reason Reason, message string) metav1.Condition {
	const most = 1024
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "…"
	}
	return metav1.Condition{Type: conditionType, Status: status, Reason: string(reason), Message: message}
}

// some lists the first three and counts the rest.
func some(all []string, separator string) string {
	const shown = 3
	text := strings.Join(cut(all, shown), separator)
	if len(all) > shown {
		text += fmt.Sprintf(" and %d more", len(all)-shown)
	}
	return text
}
