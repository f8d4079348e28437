package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CredentialOverride is an administrator's word that a credential may go although the operator cannot call it safe.
// It counts from its creation until it expires, and not against what reaches a node after that, nor against a Secret
// in the cluster that carries the credential. To create one, the right to override credentialholds is needed.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=coverride,categories=rotation
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.by`
// +kubebuilder:printcolumn:name="Until",type=date,JSONPath=`.spec.until`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="what was said cannot be changed; delete it and say it anew"
type CredentialOverride struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is said.
	Spec CredentialOverrideSpec `json:"spec"`
}

// CredentialOverrideList is a list of CredentialOverrides.
//
// +kubebuilder:object:root=true
type CredentialOverrideList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CredentialOverride `json:"items"`
}

// CredentialOverrideSpec says which credential may go, who says so, why and for how long.
type CredentialOverrideSpec struct {
	// kind of the guarded object, such as RabbitMQUser.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name of the guarded object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	Word `json:",inline"`
}

// Word is what makes somebody's word count.
type Word struct {
	// by is the user who says it. The admission policy refuses any other than the one who writes it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by"`
	// reason says why, for those who read it later.
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason"`
	// until is when it stops to count.
	Until metav1.Time `json:"until"`
}

// NodeAttestation is an administrator's word that nodes are gone for good: powered off, re-installed or scrapped, so
// that they run nothing of what they were given. It counts from its creation until it expires, and not for a node that
// a run may have reached after that. To create one, the right to attest secretrollouts is needed.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=nattest,categories=rotation
// +kubebuilder:printcolumn:name="NodeSet",type=string,JSONPath=`.spec.nodeSet`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.spec.nodes`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.by`
// +kubebuilder:printcolumn:name="Until",type=date,JSONPath=`.spec.until`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="what was said cannot be changed; delete it and say it anew"
type NodeAttestation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is said.
	Spec NodeAttestationSpec `json:"spec"`
}

// NodeAttestationList is a list of NodeAttestations.
//
// +kubebuilder:object:root=true
type NodeAttestationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeAttestation `json:"items"`
}

// NodeAttestationSpec says which nodes are gone, who says so, why and for how long.
type NodeAttestationSpec struct {
	// nodeSet is the name of the OpenStackDataPlaneNodeSet that has or had the nodes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeSet string `json:"nodeSet"`
	// nodes are inventory host names.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Nodes []string `json:"nodes"`
	Word  `json:",inline"`
}
