package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names that the operator, its admission policies and its users share.
const (
	// CredentialFinalizer keeps a guarded object until the operator has found that its credential may go.
	CredentialFinalizer = "rotation.openstack.org/credential"
	// EvidenceFinalizer keeps a Deployment, and with it its Jobs and pods, until what they tell is stored.
	EvidenceFinalizer = "rotation.openstack.org/evidence"
	// GuardFinalizer keeps a CredentialGuard until the objects that only it guards are let go.
	GuardFinalizer = "rotation.openstack.org/guard"
	// HeldAnnotation is on every guarded object that has a CredentialHold. Its value is the object's UID; what does not
	// have it, such as a copy of another object, was not looked at yet and cannot be deleted.
	HeldAnnotation = "rotation.openstack.org/held"
	// GuardLabel is on every CredentialHold and has the name of its guard.
	GuardLabel = "rotation.openstack.org/guard"
	// ReleaseVerb is what an account must be allowed to do with credentialholds to take our finalizers off.
	ReleaseVerb = "release"
	// OverrideVerb is what a person must be allowed to do with credentialholds to let a credential go by their word.
	OverrideVerb = "override"
	// AttestVerb is what a person must be allowed to do with secretrollouts to say that a node is gone.
	AttestVerb = "attest"
)

// CredentialHold says of one guarded object whether its credential may go, and if not, why. The operator makes one for
// each object that a CredentialGuard guards. The admission policies take it as their parameter.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=chold,categories=rotation
// +kubebuilder:printcolumn:name="Identity",type=string,JSONPath=`.status.identity`,description="Name of the credential"
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.credential.kind`,description="Kind of the guarded object"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.affectedNodes`,description="Nodes that may still run it"
// +kubebuilder:printcolumn:name="Unknown",type=integer,JSONPath=`.status.unknownNodes`,description="Nodes of which it is not known"
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict`,description="Safe, Held or Unknown"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.since`,description="How long verdict and reason have been these"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type CredentialHold struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is held.
	Spec CredentialHoldSpec `json:"spec"`
	// status is what the operator found.
	// +optional
	Status CredentialHoldStatus `json:"status,omitzero"`
}

// CredentialHoldList is a list of CredentialHolds.
//
// +kubebuilder:object:root=true
type CredentialHoldList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CredentialHold `json:"items"`
}

// CredentialHoldSpec says which object is held and by which guard.
type CredentialHoldSpec struct {
	// guard names the CredentialGuard of the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Guard string `json:"guard"`
	// credential is the guarded object, in the same namespace.
	Credential CredentialReference `json:"credential"`
	// waitingUsers are the guard's: what they delete is not refused but waits.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	WaitingUsers []string `json:"waitingUsers,omitempty"`
}

// CredentialReference is an object that is a credential.
type CredentialReference struct {
	// group of the object's kind.
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// kind of the object.
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// resource is the plural name of the kind.
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource"`
	// name of the object.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the object. Another object of that name is another credential.
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// HoldVerdict is the answer in one word.
//
// +kubebuilder:validation:Enum=Safe;Held;Unknown
type HoldVerdict string

const (
	// VerdictSafe means that the credential may go: no node can be using it.
	VerdictSafe HoldVerdict = "Safe"
	// VerdictHeld means that something known speaks against it.
	VerdictHeld HoldVerdict = "Held"
	// VerdictUnknown means that something is not known which could speak against it. It is as good as Held.
	VerdictUnknown HoldVerdict = "Unknown"
)

// ConditionSafe is the type of a hold's condition: True when the credential may go, False when it is held, Unknown
// when that is not known.
const ConditionSafe = "Safe"

// ReasonOperatorStopped goes with a verdict that was taken back when the operator stopped.
const ReasonOperatorStopped = "OperatorStopped"

// MaxHoldNodes is how many node names a hold shows.
const MaxHoldNodes = 5

// CredentialHoldStatus is the verdict and what it rests on.
type CredentialHoldStatus struct {
	// observedGeneration is the generation of this object that the status was made for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// identity is the name of the credential, as the object shows it now.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Identity string `json:"identity,omitempty"`
	// identities are all names that the object has shown, sorted. Each of them is held.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Identities []string `json:"identities,omitempty"`
	// verdict is Safe, Held or Unknown.
	Verdict HoldVerdict `json:"verdict"`
	// reason says why in one word, such as NodesBehind.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// message says for people what is in the way and what to do.
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message"`
	// affectedNodes is the number of nodes that may still run the credential.
	// +kubebuilder:validation:Minimum=0
	AffectedNodes int32 `json:"affectedNodes"`
	// unknownNodes is the number of further nodes of which it is not known.
	// +kubebuilder:validation:Minimum=0
	UnknownNodes int32 `json:"unknownNodes"`
	// attestedNodes is the number of nodes that do not count because somebody said that they are gone.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AttestedNodes int32 `json:"attestedNodes,omitempty"`
	// nodes are the first names of those that may run the credential, and after them of the unknown ones; the last
	// entry may be "+95 more".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:MaxLength=520
	Nodes []string `json:"nodes,omitempty"`
	// nodeSets are those of the nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	NodeSets []string `json:"nodeSets,omitempty"`
	// since is when verdict and reason became what they are.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
	// override names the CredentialOverride that the verdict rests on.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Override string `json:"override,omitempty"`
	// reads are the resource versions of what was read for the verdict: lists by the plural name of their kind, and
	// each Secret as secrets/<name>.
	// +optional
	// +listType=map
	// +listMapKey=of
	// +kubebuilder:validation:MaxItems=64
	Reads []HoldRead `json:"reads,omitempty"`
	// granted is when the operator decided that the object may go, after somebody had deleted it. The finalizer comes
	// off only after that was written.
	// +optional
	Granted *metav1.Time `json:"granted,omitempty"`
	// conditions has Safe.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HoldRead is one thing that was read.
type HoldRead struct {
	// of is a plural kind for a list, or secrets/<name>.
	// +kubebuilder:validation:MaxLength=320
	Of string `json:"of"`
	// resourceVersion that was read, empty where it was not there.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion,omitempty"`
}
