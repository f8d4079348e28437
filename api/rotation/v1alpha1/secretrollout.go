package v1alpha1

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretRollout shows how far the Secrets of one OpenStackDataPlaneNodeSet have come to its nodes. The operator makes
// one for each NodeSet, with the NodeSet's name, and owned by it. It never has an entry per node: those are in the
// ConfigMap that the status names.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sro,categories=rotation
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.totalNodes`,description="Nodes of the NodeSet"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="All nodes updated, none in doubt, no Deployment under way"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedNodes`,description="Nodes that surely run the expected version of every Secret"
// +kubebuilder:printcolumn:name="Degraded",type=integer,JSONPath=`.status.degradedNodes`,description="Nodes that may run one of several versions, or any"
// +kubebuilder:printcolumn:name="Settled",type=string,JSONPath=`.status.conditions[?(@.type=="Settled")].status`,description="No Deployment of the NodeSet under way"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type SecretRollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is what the operator found. There is nothing to wish for, so there is no spec.
	// +optional
	Status SecretRolloutStatus `json:"status,omitzero"`
}

// SecretRolloutList is a list of SecretRollouts.
//
// +kubebuilder:object:root=true
type SecretRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SecretRollout `json:"items"`
}

// SecretRolloutStatus is how far the Secrets have come.
//
// +kubebuilder:validation:XValidation:rule="self.updatedNodes + self.degradedNodes <= self.totalNodes",message="a node cannot be both updated and degraded, and there are no more than totalNodes"
// +kubebuilder:validation:XValidation:rule="!self.allNodesUpdated || (self.totalNodes > 0 && self.updatedNodes == self.totalNodes)",message="allNodesUpdated needs nodes, and all of them updated"
type SecretRolloutStatus struct {
	// observedGeneration is the generation of this object that the status was made for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// nodeSetGeneration is the generation of the NodeSet that the counts are about. Where it is not the NodeSet's
	// metadata.generation, nodes or Services may have come since.
	// +kubebuilder:validation:Minimum=0
	NodeSetGeneration int64 `json:"nodeSetGeneration"`
	// configMapName names the ConfigMap with the record per node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConfigMapName string `json:"configMapName"`
	// totalNodes is the number of nodes in the NodeSet.
	// +kubebuilder:validation:Minimum=0
	TotalNodes int32 `json:"totalNodes"`
	// updatedNodes is the number of nodes that surely run exactly the expected version of each of their Secrets.
	// +kubebuilder:validation:Minimum=0
	UpdatedNodes int32 `json:"updatedNodes"`
	// degradedNodes is the number of nodes that, of some Secret, may run one of several versions, or any.
	// +kubebuilder:validation:Minimum=0
	DegradedNodes int32 `json:"degradedNodes"`
	// departedNodes is the number of further nodes that the NodeSet had before. They may still run what they were given.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DepartedNodes int32 `json:"departedNodes,omitempty"`
	// allNodesUpdated says that there are nodes and that all are updated, for the versions in secrets.
	AllNodesUpdated bool `json:"allNodesUpdated"`
	// secrets are the Secrets that go to more than one node. Where there are more than the list can hold, those that
	// are not on all nodes come first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Secrets []SecretState `json:"secrets,omitempty"`
	// hostSecrets counts the Secrets that are made for one node each, such as certificates.
	// +optional
	HostSecrets *HostSecrets `json:"hostSecrets,omitempty"`
	// unsettledDeployments are the Deployments of the NodeSet that are not over yet, or whose pods are not gone, or
	// whose outcome is not recorded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	UnsettledDeployments []string `json:"unsettledDeployments,omitempty"`
	// conditions are Ready, Updated, Degraded and Settled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Version is the content hash of a Secret as openstack-operator writes it into secretHashes; "?" where it is not
// known; "none" where nothing was delivered. Nothing else fits in, so no content of a Secret does.
//
// +kubebuilder:validation:MaxLength=129
// +kubebuilder:validation:Pattern=`^(\?|none|n[4-9b-df]{1,3}(h[4-9b-df]{1,3}){31}q)$`
type Version string

const (
	// VersionUnknown stands for any version at all.
	VersionUnknown Version = "?"
	// VersionNone says that nothing was ever delivered.
	VersionNone Version = "none"
)

// SecretState is how far one Secret has come.
//
// +kubebuilder:validation:XValidation:rule="self.updatedNodes <= self.totalNodes",message="updatedNodes cannot be more than totalNodes"
// +kubebuilder:validation:XValidation:rule="!has(self.versions) || self.versions.all(v, v.nodes <= self.totalNodes)",message="no version can be on more than totalNodes"
type SecretState struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// expectedHash is the version in the cluster, "?" where it is missing or cannot be read.
	ExpectedHash Version `json:"expectedHash"`
	// currentHash is the version that every node had when all last had the same one.
	// +optional
	CurrentHash Version `json:"currentHash,omitempty"`
	// totalNodes is the number of nodes that receive the Secret.
	// +kubebuilder:validation:Minimum=0
	TotalNodes int32 `json:"totalNodes"`
	// updatedNodes is the number of those that surely run exactly expectedHash.
	// +kubebuilder:validation:Minimum=0
	UpdatedNodes int32 `json:"updatedNodes"`
	// versions are those that nodes may run. A node in doubt counts for each that it may run. Where there are more
	// than the list can hold, those on most nodes come first.
	// +optional
	// +listType=map
	// +listMapKey=hash
	// +kubebuilder:validation:MaxItems=8
	Versions []VersionState `json:"versions,omitempty"`
	// driftSince is when the nodes and the cluster parted; absent while every node is updated.
	// +optional
	DriftSince *metav1.Time `json:"driftSince,omitempty"`
}

// VersionState is one version of a Secret on nodes.
type VersionState struct {
	// hash of the version.
	Hash Version `json:"hash"`
	// nodes is the number of nodes that may run it.
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`
	// identities are the names of the credentials inside.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=128
	Identities []string `json:"identities,omitempty"`
}

// HostSecrets counts Secrets that are made for one node each.
//
// +kubebuilder:validation:XValidation:rule="self.updated <= self.total",message="updated cannot be more than total"
type HostSecrets struct {
	// total is the number of such Secrets.
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`
	// updated is the number of those of which the node surely runs exactly the version in the cluster.
	// +kubebuilder:validation:Minimum=0
	Updated int32 `json:"updated"`
}

// What a status can hold, as the schema says. All of it at once stays below the 1.5 MiB that etcd takes.
const (
	maxSecrets     = 128
	maxVersions    = 8
	maxIdentities  = 8
	maxIdentity    = 128
	maxDeployments = 64
)

// bound sorts the Secrets and cuts every list to what the schema allows, so that one overlong list cannot keep the
// true counts from being written.
func (s *SecretRolloutStatus) bound() {
	slices.SortFunc(s.Secrets, func(a, b SecretState) int {
		return cmp.Or(isUpdated(a)-isUpdated(b), strings.Compare(a.Name, b.Name))
	})
	s.Secrets = cut(s.Secrets, maxSecrets)
	slices.SortFunc(s.Secrets, func(a, b SecretState) int { return strings.Compare(a.Name, b.Name) })
	for i := range s.Secrets {
		versions := s.Secrets[i].Versions
		slices.SortFunc(versions, func(a, b VersionState) int {
			return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Hash, b.Hash))
		})
		s.Secrets[i].Versions = cut(versions, maxVersions)
		for j := range s.Secrets[i].Versions {
			version := &s.Secrets[i].Versions[j]
			version.Identities = slices.DeleteFunc(version.Identities, func(identity string) bool {
				return utf8.RuneCountInString(identity) > maxIdentity
			})
			version.Identities = cut(sortedSet(version.Identities), maxIdentities)
		}
	}
	s.UnsettledDeployments = cut(s.UnsettledDeployments, maxDeployments)
}

func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

func isUpdated(s SecretState) int {
	if s.UpdatedNodes == s.TotalNodes {
		return 1
	}
	return 0
}

func cut[T any](list []T, most int) []T { return list[:min(len(list), most)] }
