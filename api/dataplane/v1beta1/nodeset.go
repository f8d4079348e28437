package v1beta1

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OpenStackDataPlaneNodeSet is a set of data plane nodes that are configured alike.
//
// This definition is for clusters without openstack-operator. It has the part of upstream's fields that rotation
// tracking reads, keeps all others, and adds status.secretDeployment. Where openstack-operator is installed its own
// definition stays in charge; it lacks that field, and the same numbers stand in the SecretRollout of the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=osdpns;osdpnodeset;osdpnodesets
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type OpenStackDataPlaneNodeSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what an administrator wants.
	Spec OpenStackDataPlaneNodeSetSpec `json:"spec"`
	// status is what openstack-operator, and in secretDeployment rotation-operator, found.
	// +optional
	Status OpenStackDataPlaneNodeSetStatus `json:"status,omitempty"`
}

// OpenStackDataPlaneNodeSetList is a list of NodeSets.
//
// +kubebuilder:object:root=true
type OpenStackDataPlaneNodeSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []OpenStackDataPlaneNodeSet `json:"items"`
}

// OpenStackDataPlaneNodeSetSpec lists the nodes and what runs on them.
//
// +kubebuilder:pruning:PreserveUnknownFields
type OpenStackDataPlaneNodeSetSpec struct {
	// nodeTemplate holds for every node that does not say otherwise.
	NodeTemplate NodeTemplate `json:"nodeTemplate"`
	// nodes by a label of their own; what Ansible calls them follows from hostName.
	Nodes map[string]NodeSection `json:"nodes"`
	// env goes into the container of every Job.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`
	// networkAttachments are the networks that the pods of Jobs are attached to.
	// +optional
	NetworkAttachments []string `json:"networkAttachments,omitempty"`
	// services run one after the other, in this order.
	// +optional
	// +kubebuilder:default={redhat,download-cache,bootstrap,configure-network,validate-network,install-os,configure-os,ssh-known-hosts,run-os,reboot-os,install-certs,ovn,neutron-metadata,libvirt,nova,telemetry}
	Services []string `json:"services,omitempty"`
	// tags become the inventory variable nodeset_tags.
	// +optional
	Tags []string `json:"tags,omitempty"`
	// secretMaxSize is the size in bytes from which a bundle of certificates is split.
	// +optional
	// +kubebuilder:default=1048576
	SecretMaxSize int `json:"secretMaxSize,omitempty"`
	// preProvisioned says that the nodes have an operating system already.
	// +optional
	PreProvisioned bool `json:"preProvisioned,omitempty"`
	// tlsEnabled says that services get certificates.
	// +optional
	// +kubebuilder:default=true
	TLSEnabled *bool `json:"tlsEnabled,omitempty"`
}

// NodeTemplate is what nodes of a NodeSet have in common.
//
// +kubebuilder:pruning:PreserveUnknownFields
type NodeTemplate struct {
	// ansibleSSHPrivateKeySecret names the Secret with the key that Ansible logs in with.
	// +kubebuilder:validation:MaxLength=253
	AnsibleSSHPrivateKeySecret string `json:"ansibleSSHPrivateKeySecret"`
	// managementNetwork is the network that Ansible uses.
	// +optional
	// +kubebuilder:default=ctlplane
	ManagementNetwork string `json:"managementNetwork,omitempty"`
	// ansible holds Ansible's variables.
	// +optional
	Ansible AnsibleOpts `json:"ansible,omitzero"`
}

// NodeSection is one node.
//
// +kubebuilder:pruning:PreserveUnknownFields
type NodeSection struct {
	// hostName of the node, with or without a domain; the node's key where it is empty.
	// +optional
	HostName string `json:"hostName,omitempty"`
	// managementNetwork is the network that Ansible uses, instead of the template's.
	// +optional
	ManagementNetwork string `json:"managementNetwork,omitempty"`
	// ansible holds Ansible's variables of this node alone.
	// +optional
	Ansible AnsibleOpts `json:"ansible,omitzero"`
}

// AnsibleOpts tells Ansible how to reach nodes and which variables they have.
//
// +kubebuilder:pruning:PreserveUnknownFields
type AnsibleOpts struct {
	// ansibleUser is the user that Ansible logs in as.
	// +optional
	AnsibleUser string `json:"ansibleUser,omitempty"`
	// ansibleHost is the address that Ansible connects to; hostName where it is empty.
	// +optional
	AnsibleHost string `json:"ansibleHost,omitempty"`
	// ansiblePort is the port that Ansible connects to.
	// +optional
	AnsiblePort int `json:"ansiblePort,omitempty"`
	// ansibleVars are variables, each any JSON value.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	AnsibleVars map[string]json.RawMessage `json:"ansibleVars,omitempty"`
	// ansibleVarsFrom are ConfigMaps and Secrets whose keys become variables.
	// +optional
	AnsibleVarsFrom []DataSource `json:"ansibleVarsFrom,omitempty"`
}

// OpenStackDataPlaneNodeSetStatus is what was found of a NodeSet.
//
// +kubebuilder:pruning:PreserveUnknownFields
type OpenStackDataPlaneNodeSetStatus struct {
	// conditions of the NodeSet; Ready says nothing about the Secrets that Services deliver.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
	// deploymentStatuses are conditions of this NodeSet by Deployment.
	// +optional
	DeploymentStatuses map[string]Conditions `json:"deploymentStatuses,omitempty"`
	// deploymentExecutionSummaries are recaps of Ansible by Deployment and Job.
	// +optional
	DeploymentExecutionSummaries map[string]map[string]AnsibleExecutionSummary `json:"deploymentExecutionSummaries,omitempty"`
	// allHostnames are names by hostName and network.
	// +optional
	AllHostnames map[string]map[string]string `json:"allHostnames,omitempty"`
	// allIPs are addresses by hostName and network.
	// +optional
	AllIPs map[string]map[string]string `json:"allIPs,omitempty"`
	// configMapHashes are the versions of ConfigMaps when Deployments ended.
	// +optional
	ConfigMapHashes map[string]string `json:"configMapHashes,omitempty"`
	// secretHashes are the versions that Secrets had when Deployments ended, which need not be what nodes received.
	// +optional
	SecretHashes map[string]string `json:"secretHashes,omitempty"`
	// configHash is the hash of the spec.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
	// deployedConfigHash is the hash of the spec that was deployed last.
	// +optional
	DeployedConfigHash string `json:"deployedConfigHash,omitempty"`
	// inventorySecretName names the Secret with Ansible's inventory.
	// +optional
	InventorySecretName string `json:"inventorySecretName,omitempty"`
	// observedGeneration is the generation that openstack-operator saw last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// bmhRefHash is the hash of the bare metal hosts that the nodes stand for.
	// +optional
	BMHRefHash string `json:"bmhRefHash,omitempty"`
	// deployedBmhHash is the bmhRefHash that was deployed last.
	// +optional
	DeployedBMHHash string `json:"deployedBmhHash,omitempty"`
	// secretDeployment counts the nodes that run the Secrets as they are in the cluster. rotation-operator writes it.
	// +optional
	SecretDeployment *SecretDeploymentStatus `json:"secretDeployment,omitempty"`
}

// SecretDeploymentStatus counts the nodes that run the Secrets as they are in the cluster.
//
// +kubebuilder:validation:XValidation:rule="self.updatedNodes <= self.totalNodes",message="updatedNodes cannot be more than totalNodes"
// +kubebuilder:validation:XValidation:rule="!self.allNodesUpdated || (self.totalNodes > 0 && self.updatedNodes == self.totalNodes)",message="allNodesUpdated needs nodes, and all of them updated"
type SecretDeploymentStatus struct {
	// configMapName names the ConfigMap with the record per node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConfigMapName string `json:"configMapName"`
	// totalNodes is the number of nodes in the spec.
	// +kubebuilder:validation:Minimum=0
	TotalNodes int32 `json:"totalNodes"`
	// updatedNodes is the number of nodes that surely run exactly the expected version of each of their Secrets.
	// +kubebuilder:validation:Minimum=0
	UpdatedNodes int32 `json:"updatedNodes"`
	// allNodesUpdated says that there are nodes and that all are updated. It holds for the generation and the versions
	// of Secrets that were judged: who deletes something because of it compares observedGeneration with
	// metadata.generation, and the Secret with expectedHash in the SecretRollout of the same name.
	AllNodesUpdated bool `json:"allNodesUpdated"`
	// observedGeneration is the generation of the NodeSet that was judged.
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration"`
	// lastUpdateTime is when any of the fields above changed last.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
}

// InventoryHost gives the name by which Ansible knows the node of this key: the first label of its hostName. Two
// nodes may share one; for Ansible they are one host. Empty where there is no such node.
func (n *OpenStackDataPlaneNodeSet) InventoryHost(key string) string {
	node, ok := n.Spec.Nodes[key]
	if !ok {
		return ""
	}
	name := node.HostName
	if name == "" {
		name = key
	}
	host, _, _ := strings.Cut(name, ".")
	return host
}
