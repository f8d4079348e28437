package reporttest

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

const hour = time.Hour

// deployed is two NodeSets with everything delivered; the credential is user7.
func deployed() (s *Story, edpm, edge *Fleet) {
	s = New()
	edpm = s.NodeSet("edpm", "compute-0", "compute-1", "compute-2", "compute-10")
	edge = s.NodeSet("edge", "edge-0", "edge-1")
	s.Write(NovaConfig, "user7").Write("ceilometer-compute-config-data", "ceilometer").At(hour)
	edpm.Deploy("edpm-initial", Outcome{})
	edge.Deploy("edge-initial", Outcome{})
	return s, edpm, edge
}

// Healthy is a fleet with all nodes updated. user6 went long ago and may go, user7 is in use.
func Healthy() *Story {
	s, _, _ := deployed()
	return s.At(48*hour).Hold("user7", held("user7", "StillInCluster", "Secret nova-cell1-compute-config in the cluster still carries user7; rotate it first", 6, 0)).
		Hold("user6", safe("user6"))
}

// Drifted is a fleet right after the rotation to user8.
func Drifted() *Story {
	s, _, _ := deployed()
	return s.At(73*hour).Write(NovaConfig, "user8").
		Hold("user7", held("user7", "NodesBehind", "6 nodes may still run user7: compute-0, compute-1, compute-10 and 3 more: deploy them", 6, 0)).
		Hold("user8", held("user8", "StillInCluster", "Secret nova-cell1-compute-config in the cluster still carries user8; rotate it first", 0, 0)).
		At(75 * hour)
}

// Partial is that fleet with one node done, one failed, and a run on a third.
func Partial() *Story {
	s, edpm, _ := deployed()
	s.At(73*hour).Write(NovaConfig, "user8").At(74 * hour)
	edpm.Deploy("edpm-c0", Outcome{Limit: []string{"compute-0"}})
	s.At(75 * hour)
	edpm.Deploy("edpm-c12", Outcome{Limit: []string{"compute-1", "compute-2"}, Failed: []string{"compute-2"}})
	s.At(76 * hour)
	edpm.Deploy("edpm-c10", Outcome{Limit: []string{"compute-10"}, Open: true})
	hold := held("user7", "NodesBehind", "4 nodes may still run user7: compute-10, compute-2, edge-0 and 1 more: deploy them; Deployment edpm-c10 is under way", 4, 0)
	hold.Nodes, hold.NodeSets = []string{"compute-10", "compute-2", "edge-0", "edge-1"}, []string{"edge", "edpm"}
	return s.Hold("user7", hold).At(76*hour + 10*time.Minute)
}

// Unknown is a fleet whose one record cannot be read, and whose other NodeSet was deployed before anybody watched.
func Unknown() *Story {
	s := New()
	edpm := s.NodeSet("edpm", "compute-0", "compute-1", "compute-2").Origin(fleet.Unknown)
	edge := s.NodeSet("edge", "edge-0", "edge-1")
	s.Write(NovaConfig, "user7").Write("ceilometer-compute-config-data", "ceilometer").At(hour)
	edpm.Deploy("edpm-c0", Outcome{Limit: []string{"compute-0"}})
	edge.Deploy("edge-initial", Outcome{})
	edge.Lost = true
	s.At(73*hour).Write(NovaConfig, "user8").At(74 * hour)
	unknown := held("user7", "NodesBehind", "1 node may still run user7: compute-0: deploy them", 1, 4)
	return s.Hold("user7", unknown).At(75 * hour)
}

// Retried is a fleet where a node's first attempt failed and the retry was green: the file is new, the process may not
// be.
func Retried() *Story {
	s, edpm, _ := deployed()
	s.At(73*hour).Write(NovaConfig, "user8").At(74 * hour)
	edpm.Deploy("edpm-all", Outcome{Failed: []string{"compute-1"}})
	edpm.Deploy("edpm-all", Outcome{Attempt: 2})
	return s.Hold("user7", held("user7", "RestartUnproved", "1 node may still run user7", 1, 0)).At(75 * hour)
}

// Departed is a fleet that a node left before it was deployed.
func Departed() *Story {
	s, edpm, edge := deployed()
	s.At(73*hour).Write(NovaConfig, "user8").At(74 * hour)
	edpm.Leave("compute-2")
	edpm.Deploy("edpm-all", Outcome{})
	edge.Deploy("edge-all", Outcome{})
	return s.Hold("user7", held("user7", "NodesBehind",
		"1 node may still run user7: compute-2; no longer in their NodeSet: compute-2; say of them that they are gone, or bring them back", 1, 0)).At(75 * hour)
}

// Unsettled is a fleet where user7 is on no node, and a Deployment is not over that brings user8 once more.
func Unsettled() *Story {
	s, edpm, edge := deployed()
	s.At(73*hour).Write(NovaConfig, "user8").At(74 * hour)
	edpm.Deploy("edpm-all", Outcome{})
	edge.Deploy("edge-all", Outcome{})
	s.At(75 * hour)
	edge.Deploy("edge-again", Outcome{Open: true})
	return s.Hold("user7", held("user7", "DeploymentUnsettled", "Deployment edge-again is not settled; wait until it is over", 0, 0))
}

// Done is a fleet after the rotation: user7 may go.
func Done() *Story {
	s, edpm, edge := deployed()
	s.At(73*hour).Write(NovaConfig, "user8").At(74 * hour)
	edpm.Deploy("edpm-all", Outcome{})
	edge.Deploy("edge-all", Outcome{})
	return s.Hold("user7", safe("user7")).At(75 * hour)
}

// Unseen is a healthy fleet whose Secret was written just now.
func Unseen() *Story {
	return Healthy().At(49 * hour).WriteUnseen(NovaConfig)
}

// Unjudged is the rotated fleet without holds: nobody has judged yet.
func Unjudged() *Story {
	s, _, _ := deployed()
	return s.At(73*hour).Write(NovaConfig, "user8").At(75*hour).Hold("user7", rotationv1.CredentialHoldStatus{})
}

// Large is a NodeSet with that many nodes and Secrets; half the nodes have the new credential.
func Large(nodes, secrets int) *Story {
	s := New()
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("compute-%d", i)
	}
	var more []string
	for i := range max(secrets-2, 0) {
		more = append(more, fmt.Sprintf("config-%02d", i))
	}
	s.evidence.Services[1].Spec.DataSources = nil
	s.Service("more", more...)
	s.evidence.Services[1] = s.evidence.Services[2]
	s.evidence.Services[1].Name = "telemetry"
	s.evidence.Services = s.evidence.Services[:2]
	edpm := s.NodeSet("edpm", names...)
	s.Write(NovaConfig, "user7")
	for _, name := range more {
		s.Write(name, "x")
	}
	s.At(hour)
	edpm.Deploy("edpm-initial", Outcome{})
	s.At(73*hour).Write(NovaConfig, "user8").At(74 * hour)
	edpm.Deploy("edpm-half", Outcome{Limit: names[:nodes/2]})
	return s.Hold("user7", held("user7", "NodesBehind", fmt.Sprintf("%d nodes may still run user7: compute-%d and more: deploy them", nodes-nodes/2, nodes/2), int32(nodes-nodes/2), 0)).
		At(75 * hour)
}

func held(identity, reason, message string, affected, unknown int32) rotationv1.CredentialHoldStatus {
	verdict := rotationv1.VerdictHeld
	switch reason {
	case "NodesUnknown", "EvidenceIncomplete", "IdentityNotFound", "NothingTracked":
		verdict = rotationv1.VerdictUnknown
	}
	return rotationv1.CredentialHoldStatus{Identity: identity, Identities: []string{identity}, Verdict: verdict, Reason: reason, Message: message,
		AffectedNodes: affected, UnknownNodes: unknown}
}

func safe(identity string) rotationv1.CredentialHoldStatus {
	return rotationv1.CredentialHoldStatus{Identity: identity, Identities: []string{identity}, Verdict: rotationv1.VerdictSafe, Reason: "Safe",
		Message: fmt.Sprintf("No node can be running %s, and no Secret in the cluster carries it", identity)}
}

// Overridden is the drifted fleet with somebody's word that user7 may go.
func Overridden() *Story {
	s := Drifted()
	until := metav1.NewTime(Start.Add(99 * hour))
	s.evidence.Overrides = []rotationv1.CredentialOverride{{ObjectMeta: meta("let-user7-go"), Spec: rotationv1.CredentialOverrideSpec{
		Kind: "RabbitMQUser", Name: "user7", Word: rotationv1.Word{By: "alice", Reason: "The broker is being rebuilt", Until: until}}}}
	s.evidence.Overrides[0].CreationTimestamp = metav1.NewTime(Start.Add(74 * hour))
	status := &s.evidence.Holds[0].Status
	status.Verdict, status.Reason, status.Override = rotationv1.VerdictSafe, "OverrideInForce", "let-user7-go"
	status.Message = "alice lets user7 go until 2026-02-24T13:00:00Z: The broker is being rebuilt. Without that: 6 nodes may still run user7"
	return s
}
