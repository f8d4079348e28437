package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CredentialGuard declares which objects of its namespace are credentials that must not go while a node may still use
// them, and how to tell from a Secret which credentials are inside. There is no code for any one service: what the
// operator knows of nova or neutron, it knows from guards.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=cguard,categories=rotation
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.credential.kind`,description="Kind of the guarded objects"
// +kubebuilder:printcolumn:name="Strength",type=string,JSONPath=`.spec.strength`,description="What a node has to show before it counts as updated"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CredentialGuard struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the administrator declares.
	Spec CredentialGuardSpec `json:"spec"`
}

// CredentialGuardList is a list of CredentialGuards.
//
// +kubebuilder:object:root=true
type CredentialGuardList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CredentialGuard `json:"items"`
}

// CredentialGuardSpec says which objects are credentials and which Secrets carry them.
type CredentialGuardSpec struct {
	// credential is the kind of object that is a credential.
	Credential CredentialKind `json:"credential"`
	// sources say where in which Secrets the credential stands. A Secret may have several; it carries the identities
	// of all of them.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Sources []CredentialSource `json:"sources"`
	// strength is what a node has to show before it no longer counts as using an older credential: Delivered, that
	// Ansible brought it a newer one, or Proved, that this was read back from the node and its process.
	// +optional
	// +kubebuilder:default=Delivered
	Strength GuardStrength `json:"strength,omitempty"`
	// waitingUsers are users, such as system:serviceaccount:openstack-operators:infra-operator-controller-manager, whose
	// deletes of a held object are not refused: the object is then being deleted, which cannot be taken back, and waits
	// for the finalizer. Everybody else's are refused.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	WaitingUsers []string `json:"waitingUsers,omitempty"`
}

// GuardStrength is Delivered or Proved.
//
// +kubebuilder:validation:Enum=Delivered;Proved
type GuardStrength string

const (
	// StrengthDelivered is content with a run of Ansible that went well on the node.
	StrengthDelivered GuardStrength = "Delivered"
	// StrengthProved asks for a run that read file and process back from the node.
	StrengthProved GuardStrength = "Proved"
)

// CredentialKind is a kind of object that is a credential.
type CredentialKind struct {
	// apiVersion of the objects, such as rabbitmq.openstack.org/v1beta1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind of the objects, such as RabbitMQUser.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// resource is the plural name of the kind, such as rabbitmqusers.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource"`
	// identityPaths are fields of the object in which its identity may stand, such as .spec.username. The first that
	// is there and not empty counts.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^(\.[A-Za-z_][A-Za-z0-9_-]*)+$`
	IdentityPaths []string `json:"identityPaths"`
	// generations says what goes with an object. One: the identities that the object was seen to have. All: also those
	// of its kind that it had before it was first seen, so that an identity on a node which belongs to no other object
	// is taken for one of its.
	// +optional
	// +kubebuilder:default=One
	Generations Generations `json:"generations,omitempty"`
}

// Generations is One or All.
//
// +kubebuilder:validation:Enum=One;All
type Generations string

const (
	// GenerationsOne is for objects that stand for one credential.
	GenerationsOne Generations = "One"
	// GenerationsAll is for objects that stand for a row of credentials of which they name the latest.
	GenerationsAll Generations = "All"
)

// CredentialSource says where in which Secrets a credential stands.
//
// +kubebuilder:validation:XValidation:rule="[has(self.regexp), has(self.urlUser), has(self.ini), has(self.jsonPath)].exists_one(x, x)",message="exactly one of regexp, urlUser, ini and jsonPath is needed"
// +kubebuilder:validation:XValidation:rule="!has(self.regexp) || self.regexp.contains('(?P<identity>')",message="regexp needs the group (?P<identity>…)"
// +kubebuilder:validation:XValidation:rule="!has(self.regexp) || !self.regexp.matches('(?i)[(][?]P?<[a-z_]*(pass|secret|token)')",message="regexp must not capture a password, secret or token"
type CredentialSource struct {
	// secretNames are the Secrets, names or patterns in which * stands for any characters and ? for one.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	SecretNames []string `json:"secretNames"`
	// keys are the keys of the Secret, names or patterns like those of secretNames.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Keys []string `json:"keys"`
	// presence says whether a Secret of that name must have a credential here. Optional excuses that the keys, the
	// option of the INI file or the JSON field are not there or empty; never one that is there and cannot be read.
	// +optional
	// +kubebuilder:default=Required
	Presence Presence `json:"presence,omitempty"`
	// regexp is an RE2 expression whose group (?P<identity>…) captures the identity; each match counts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Regexp string `json:"regexp,omitempty"`
	// urlUser takes the user of every URL in the value.
	// +optional
	URLUser *URLUser `json:"urlUser,omitempty"`
	// ini reads the value as an INI file as oslo.config does.
	// +optional
	INI *INIOption `json:"ini,omitempty"`
	// jsonPath reads the value as JSON; what the path finds, such as {.user}, is the identity.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	JSONPath string `json:"jsonPath,omitempty"`
}

// Presence is Required or Optional.
//
// +kubebuilder:validation:Enum=Required;Optional
type Presence string

const (
	// PresenceRequired makes a Secret without a credential in that place one that cannot be read.
	PresenceRequired Presence = "Required"
	// PresenceOptional lets a Secret have no credential in that place.
	PresenceOptional Presence = "Optional"
)

// URLUser finds URLs, with one host or several separated by commas, as in rabbit://user:password@a:5671,user:password@b:5671/.
// The user is unescaped as url.QueryUnescape does it.
type URLUser struct {
	// schemes of the URLs, such as rabbit. Others are no credentials of this kind.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9+.-]*$`
	Schemes []string `json:"schemes"`
}

// INIOption is an option of an INI file. Without regexp and urlUser its whole value is the identity. Where the option
// stands several times, each time counts.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.regexp) && has(self.urlUser))",message="at most one of regexp and urlUser is possible"
// +kubebuilder:validation:XValidation:rule="!has(self.regexp) || self.regexp.contains('(?P<identity>')",message="regexp needs the group (?P<identity>…)"
// +kubebuilder:validation:XValidation:rule="!has(self.regexp) || !self.regexp.matches('(?i)[(][?]P?<[a-z_]*(pass|secret|token)')",message="regexp must not capture a password, secret or token"
// +kubebuilder:validation:XValidation:rule="has(self.regexp) || has(self.urlUser) || !self.key.matches('(?i)pass|secret|token')",message="key is by its name a secret, not an identity"
type INIOption struct {
	// section without its brackets; * stands for every section.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Section string `json:"section"`
	// key is the name of the option.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Key string `json:"key"`
	// regexp is like that of a source, for the option's value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Regexp string `json:"regexp,omitempty"`
	// urlUser is like that of a source, for the option's value.
	// +optional
	URLUser *URLUser `json:"urlUser,omitempty"`
}
