package guard

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// ReasonGuardInvalid goes with a guard that cannot be used, ReasonNoIdentity with an object that shows no identity.
const (
	ReasonGuardInvalid verdict.Reason = "GuardInvalid"
	ReasonNoIdentity   verdict.Reason = "NoIdentity"
)

// What a status can hold, as the schema says.
const (
	maxNodeSets = 64
	maxReads    = 64
	maxMessage  = 4096
)

// unknown is the answer where something keeps the question from being asked.
func unknown(reason verdict.Reason, message string) verdict.Deletion {
	return verdict.Deletion{Outcome: verdict.Unknown, Reason: reason, Message: message}
}

// statusOf makes the status of a hold from the answer and from what the hold is to be otherwise.
func statusOf(before, hold *rotationv1.CredentialHold, answer verdict.Deletion, override string, now metav1.Time) rotationv1.CredentialHoldStatus {
	status := *hold.Status.DeepCopy()
	status.ObservedGeneration = before.Generation
	status.Verdict, status.Reason, status.Message = rotationv1.HoldVerdict(answer.Outcome), string(answer.Reason), cutText(answer.Message)
	status.AffectedNodes, status.UnknownNodes = int32(len(answer.Nodes)), int32(len(answer.UnknownNodes))
	status.AttestedNodes = int32(len(answer.Attested))
	status.Nodes = firstNames(slices.Concat(answer.Nodes, answer.UnknownNodes))
	status.NodeSets = answer.NodeSets[:min(len(answer.NodeSets), maxNodeSets)]
	status.Override = ""
	if answer.Reason == verdict.ReasonOverrideInForce {
		status.Override = override
	}
	if status.Verdict != before.Status.Verdict || status.Reason != before.Status.Reason {
		status.Since = now
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: rotationv1.ConditionSafe, Status: conditionStatus(answer.Outcome), Reason: status.Reason, Message: status.Message,
		ObservedGeneration: before.Generation, LastTransitionTime: now,
	})
	return status
}

func holdReads(versions map[string]string) []rotationv1.HoldRead {
	var reads []rotationv1.HoldRead
	for of, version := range versions {
		reads = append(reads, rotationv1.HoldRead{Of: of, ResourceVersion: version})
	}
	slices.SortFunc(reads, func(a, b rotationv1.HoldRead) int { return strings.Compare(a.Of, b.Of) })
	return reads[:min(len(reads), maxReads)]
}

func conditionStatus(outcome verdict.Outcome) metav1.ConditionStatus {
	switch outcome {
	case verdict.Safe:
		return metav1.ConditionTrue
	case verdict.Held:
		return metav1.ConditionFalse
	case verdict.Unknown:
	}
	return metav1.ConditionUnknown
}

// firstNames lists the first few and counts the others.
func firstNames(all []string) []string {
	if len(all) <= rotationv1.MaxHoldNodes {
		return all
	}
	return append(slices.Clone(all[:rotationv1.MaxHoldNodes]), fmt.Sprintf("+%d more", len(all)-rotationv1.MaxHoldNodes))
}

func cutText(text string) string {
	if len(text) > maxMessage {
		return strings.ToValidUTF8(text[:maxMessage-len("…")], "") + "…"
	}
	return text
}
