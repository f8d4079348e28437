package v1beta1

// DataSource names a ConfigMap or a Secret whose keys go into an Ansible run: as files where a Service names it, as
// variables where ansibleVarsFrom does.
//
// +kubebuilder:pruning:PreserveUnknownFields
type DataSource struct {
	// prefix comes before the name of each variable. Services ignore it.
	// +optional
	Prefix string `json:"prefix,omitempty"`
	// configMapRef names a ConfigMap.
	// +optional
	ConfigMapRef *SourceReference `json:"configMapRef,omitempty"`
	// secretRef names a Secret. It is ignored where configMapRef is set too.
	// +optional
	SecretRef *SourceReference `json:"secretRef,omitempty"`
}

// SourceReference names an object of the same namespace.
//
// +kubebuilder:pruning:PreserveUnknownFields
type SourceReference struct {
	// name of the object.
	// +optional
	Name string `json:"name,omitempty"`
	// optional excuses that the object does not exist, no other trouble.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}
