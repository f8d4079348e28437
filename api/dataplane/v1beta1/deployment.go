package v1beta1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OpenStackDataPlaneDeployment runs services once on the nodes of NodeSets.
//
// This definition is for clusters without openstack-operator. It has the part of upstream's fields that rotation
// tracking reads and keeps all others. Where openstack-operator is installed its own definition stays in charge.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=osdpd;osdpdeployment;osdpdeployments
// +kubebuilder:printcolumn:name="NodeSets",type=string,JSONPath=`.spec.nodeSets`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type OpenStackDataPlaneDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to run. It cannot be changed.
	Spec OpenStackDataPlaneDeploymentSpec `json:"spec"`
	// status is how far it is.
	// +optional
	Status OpenStackDataPlaneDeploymentStatus `json:"status,omitempty"`
}

// OpenStackDataPlaneDeploymentList is a list of Deployments.
//
// +kubebuilder:object:root=true
type OpenStackDataPlaneDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []OpenStackDataPlaneDeployment `json:"items"`
}

// OpenStackDataPlaneDeploymentSpec says what runs where.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a Deployment cannot be changed, create another one"
type OpenStackDataPlaneDeploymentSpec struct {
	// nodeSets to run on, in parallel.
	// +kubebuilder:validation:MinItems=1
	NodeSets []string `json:"nodeSets"`
	// backoffLimit is how often a failed Job is tried again.
	// +optional
	// +kubebuilder:default=6
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
	// preserveJobs keeps Jobs after they ended; otherwise they go ten minutes later.
	// +optional
	// +kubebuilder:default=true
	PreserveJobs *bool `json:"preserveJobs,omitempty"`
	// ansibleTags restricts the run to tasks with these tags (--tags).
	// +optional
	AnsibleTags string `json:"ansibleTags,omitempty"`
	// ansibleLimit restricts the run to the hosts that match this pattern (--limit).
	// +optional
	AnsibleLimit string `json:"ansibleLimit,omitempty"`
	// ansibleSkipTags leaves out tasks with these tags (--skip-tags).
	// +optional
	AnsibleSkipTags string `json:"ansibleSkipTags,omitempty"`
	// ansibleExtraVars are variables that overrule all others, each any JSON value.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	AnsibleExtraVars map[string]json.RawMessage `json:"ansibleExtraVars,omitempty"`
	// servicesOverride are the services to run instead of those of the NodeSets.
	// +optional
	ServicesOverride []string `json:"servicesOverride,omitempty"`
	// deploymentRequeueTime is the time in seconds between two looks at a NodeSet that is not set up yet.
	// +optional
	// +kubebuilder:default=15
	// +kubebuilder:validation:Minimum=1
	DeploymentRequeueTime int `json:"deploymentRequeueTime,omitempty"`
	// ansibleJobNodeSelector says where the pods of Jobs may run.
	// +optional
	AnsibleJobNodeSelector map[string]string `json:"ansibleJobNodeSelector,omitempty"`
	// ansibleEEEnvConfigMapName names a ConfigMap, which need not exist, with environment variables of the runs.
	// +optional
	// +kubebuilder:default=openstack-aee-default-env
	// +kubebuilder:validation:MaxLength=253
	AnsibleEEEnvConfigMapName string `json:"ansibleEEEnvConfigMapName,omitempty"`
}

// OpenStackDataPlaneDeploymentStatus is how far a Deployment is.
//
// +kubebuilder:pruning:PreserveUnknownFields
type OpenStackDataPlaneDeploymentStatus struct {
	// nodeSetConditions are conditions by NodeSet.
	// +optional
	NodeSetConditions map[string]Conditions `json:"nodeSetConditions,omitempty"`
	// ansibleEEHashes are hashes of pod templates by Job.
	// +optional
	AnsibleEEHashes map[string]string `json:"ansibleEEHashes,omitempty"`
	// ansibleExecutionSummaries are recaps of Ansible by Job, each of the newest pod that left one.
	// +optional
	AnsibleExecutionSummaries map[string]AnsibleExecutionSummary `json:"ansibleExecutionSummaries,omitempty"`
	// configMapHashes are the versions of ConfigMaps when the Deployment ended.
	// +optional
	ConfigMapHashes map[string]string `json:"configMapHashes,omitempty"`
	// secretHashes are the versions of Secrets when the Deployment ended, which need not be what its pods mounted.
	// +optional
	SecretHashes map[string]string `json:"secretHashes,omitempty"`
	// nodeSetHashes are the hashes of NodeSets' specs when the Deployment ended.
	// +optional
	NodeSetHashes map[string]string `json:"nodeSetHashes,omitempty"`
	// bmhRefHashes are the hashes of NodeSets' bare metal hosts when the Deployment ended.
	// +optional
	BMHRefHashes map[string]string `json:"bmhRefHashes,omitempty"`
	// conditions of the Deployment.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
	// observedGeneration is the generation that openstack-operator saw last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// deployed says that all services ran on all NodeSets, for good.
	// +optional
	Deployed bool `json:"deployed,omitempty"`
}

// AnsibleExecutionSummary is the recap of one Ansible run. It never lists the hosts that went well, and a recap
// without totalHosts says nothing.
//
// +kubebuilder:pruning:PreserveUnknownFields
type AnsibleExecutionSummary struct {
	// totalHosts is the number of hosts that Ansible did anything with.
	// +optional
	TotalHosts *int `json:"totalHosts,omitempty"`
	// failedHosts is the number of hosts with a failed task.
	// +optional
	FailedHosts *int `json:"failedHosts,omitempty"`
	// unreachableHosts is the number of hosts that could not be reached.
	// +optional
	UnreachableHosts *int `json:"unreachableHosts,omitempty"`
	// failurePercent is the share of hosts that failed or could not be reached, rounded.
	// +optional
	FailurePercent *int `json:"failurePercent,omitempty"`
	// failedHostList names the failed hosts.
	// +optional
	FailedHostList *[]string `json:"failedHostList,omitempty"`
	// unreachableHostList names the unreachable hosts.
	// +optional
	UnreachableHostList *[]string `json:"unreachableHostList,omitempty"`
}
