package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OpenStackDataPlaneService is something that Ansible sets up on nodes, with the files it needs.
//
// This definition is for clusters without openstack-operator. It has the part of upstream's fields that rotation
// tracking reads and keeps all others. Where openstack-operator is installed its own definition stays in charge.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=osdps;osdpservice;osdpservices
type OpenStackDataPlaneService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what runs.
	Spec OpenStackDataPlaneServiceSpec `json:"spec"`
	// status is unused upstream.
	// +optional
	Status OpenStackDataPlaneServiceStatus `json:"status,omitempty"`
}

// OpenStackDataPlaneServiceList is a list of Services.
//
// +kubebuilder:object:root=true
type OpenStackDataPlaneServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []OpenStackDataPlaneService `json:"items"`
}

// OpenStackDataPlaneServiceSpec says what runs and which files it takes along.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule=`self.?playbook.orValue("") != "" || self.?playbookContents.orValue("") != "" || self.?role.orValue("") != ""`,message="a Service needs a playbook, playbookContents or a role"
type OpenStackDataPlaneServiceSpec struct {
	// dataSources are ConfigMaps and Secrets whose keys become files in the run.
	// +optional
	DataSources []DataSource `json:"dataSources,omitempty"`
	// tlsCerts are the certificates to make for each node, by a key of their own.
	// +optional
	TLSCerts map[string]ServiceCert `json:"tlsCerts,omitempty"`
	// playbook is the name of the playbook to run.
	// +optional
	Playbook string `json:"playbook,omitempty"`
	// playbookContents is the playbook itself.
	// +optional
	PlaybookContents string `json:"playbookContents,omitempty"`
	// role is the name of the role to run.
	// +optional
	Role string `json:"role,omitempty"`
	// caCerts names the Secret with the certificates of authorities.
	// +optional
	// +kubebuilder:default=combined-ca-bundle
	// +kubebuilder:validation:MaxLength=253
	CACerts string `json:"caCerts,omitempty"`
	// certsFrom names another Service whose certificates are used. Deprecated upstream.
	// +optional
	CertsFrom string `json:"certsFrom,omitempty"`
	// addCertMounts mounts the certificates of all services in the run.
	// +optional
	AddCertMounts bool `json:"addCertMounts,omitempty"`
	// deployOnAllNodeSets runs the service once for all NodeSets of a Deployment.
	// +optional
	DeployOnAllNodeSets bool `json:"deployOnAllNodeSets,omitempty"`
	// edpmServiceType is where on the nodes the files go; the Service's name where it is empty.
	// +optional
	EDPMServiceType string `json:"edpmServiceType,omitempty"`
}

// ServiceCert says what a certificate of a Service is for.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ServiceCert struct {
	// contents are what the certificate names: dnsnames, ips.
	// +kubebuilder:validation:MinItems=1
	Contents []string `json:"contents"`
	// networks whose names and addresses the certificate is for.
	// +optional
	Networks []string `json:"networks,omitempty"`
	// issuer names the cert-manager issuer.
	// +optional
	Issuer string `json:"issuer,omitempty"`
}

// OpenStackDataPlaneServiceStatus is unused upstream.
//
// +kubebuilder:pruning:PreserveUnknownFields
type OpenStackDataPlaneServiceStatus struct {
	// conditions of the Service.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
}
