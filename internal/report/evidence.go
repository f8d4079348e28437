// Package report says what people read of a fleet: one value that all commands, the page and every -o json render. It is
// made from what was read before; nothing is looked up, and nothing is judged that ledger and verdict do not judge.
package report

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
)

// GroupVersion is the apiVersion of everything that is printed as JSON or YAML.
const GroupVersion = "report.rotation.openstack.org/v1alpha1"

// Evidence is what a report is made from, and what a support bundle has: nothing in it is content of a Secret, as long
// as the objects went through the Keep functions.
type Evidence struct {
	metav1.TypeMeta `json:",inline"`
	// CollectedAt is when it was read.
	CollectedAt time.Time `json:"collectedAt"`
	// Program and Server are the versions of the program that read it and of the API server, empty where not known.
	Program string `json:"program,omitempty"`
	Server  string `json:"server,omitempty"`
	// Namespaces are those that were looked at, sorted by name.
	Namespaces []Namespace `json:"namespaces,omitempty"`
}

// Namespace is what was read of one namespace. Credentials and the Secrets that carry them share a namespace.
type Namespace struct {
	Name     string    `json:"name"`
	NodeSets []Tracked `json:"nodeSets,omitempty"`
	// Deployments and Services are openstack-operator's.
	Deployments []dataplanev1.OpenStackDataPlaneDeployment `json:"deployments,omitempty"`
	Services    []dataplanev1.OpenStackDataPlaneService    `json:"services,omitempty"`
	// Guards, Holds, Overrides and Attestations are about credentials.
	Guards       []rotationv1.CredentialGuard    `json:"guards,omitempty"`
	Holds        []rotationv1.CredentialHold     `json:"holds,omitempty"`
	Overrides    []rotationv1.CredentialOverride `json:"overrides,omitempty"`
	Attestations []rotationv1.NodeAttestation    `json:"attestations,omitempty"`
	// Secrets are sights of the Secrets in the cluster by name, nil where nobody looked: never their content.
	Secrets map[string]Sight `json:"secrets,omitempty"`
	// Unread is what could not be read.
	Unread []Unread `json:"unread,omitempty"`
}

// Tracked is what was read of one NodeSet.
type Tracked struct {
	NodeSet dataplanev1.OpenStackDataPlaneNodeSet `json:"nodeSet"`
	// Record is the text of the ConfigMap <nodeset>-secret-tracking and its shards, nil where it could not be read.
	Record trackmap.Objects `json:"record,omitempty"`
	// Rollout is the NodeSet's SecretRollout, nil where there is none.
	Rollout *rotationv1.SecretRollout `json:"rollout,omitempty"`
}

// Sight is a Secret as its metadata shows it.
type Sight struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

// Unread is something that could not be read.
type Unread struct {
	// What was to be read, such as ConfigMaps or ConfigMap edpm-secret-tracking.
	What string `json:"what"`
	// Why it could not, in a sentence without a full stop.
	Why string `json:"why"`
	// Fix is what to do about it.
	Fix string `json:"fix,omitempty"`
	// Needed says that answers rest on it, so that without it nothing is sure.
	Needed bool `json:"needed"`
}

// KeepNodeSet copies what the report needs of a NodeSet: neither variables nor anything else that may hold a secret.
func KeepNodeSet(n dataplanev1.OpenStackDataPlaneNodeSet) dataplanev1.OpenStackDataPlaneNodeSet {
	kept := dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: keepMeta(n.ObjectMeta)}
	kept.Generation = n.Generation
	kept.Spec.Services = n.Spec.Services
	kept.Spec.Nodes = map[string]dataplanev1.NodeSection{}
	for key, node := range n.Spec.Nodes {
		kept.Spec.Nodes[key] = dataplanev1.NodeSection{HostName: node.HostName}
	}
	kept.Status.SecretHashes = n.Status.SecretHashes
	kept.Status.SecretDeployment = n.Status.SecretDeployment
	return kept
}

// KeepDeployment copies what the report needs of a Deployment. Variables and the messages of conditions stay behind.
func KeepDeployment(d dataplanev1.OpenStackDataPlaneDeployment) dataplanev1.OpenStackDataPlaneDeployment {
	kept := dataplanev1.OpenStackDataPlaneDeployment{ObjectMeta: keepMeta(d.ObjectMeta)}
	kept.Spec = dataplanev1.OpenStackDataPlaneDeploymentSpec{
		NodeSets: d.Spec.NodeSets, ServicesOverride: d.Spec.ServicesOverride,
		AnsibleLimit: d.Spec.AnsibleLimit, AnsibleTags: d.Spec.AnsibleTags, AnsibleSkipTags: d.Spec.AnsibleSkipTags,
	}
	kept.Status.Deployed = d.Status.Deployed
	for _, c := range d.Status.Conditions {
		c.Message = ""
		kept.Status.Conditions = append(kept.Status.Conditions, c)
	}
	return kept
}

// KeepService copies what the report needs of a Service. A playbook of its own stays behind.
func KeepService(s dataplanev1.OpenStackDataPlaneService) dataplanev1.OpenStackDataPlaneService {
	return dataplanev1.OpenStackDataPlaneService{ObjectMeta: keepMeta(s.ObjectMeta), Spec: dataplanev1.OpenStackDataPlaneServiceSpec{
		DataSources: s.Spec.DataSources, AddCertMounts: s.Spec.AddCertMounts, EDPMServiceType: s.Spec.EDPMServiceType,
	}}
}

// KeepMeta strips from an object of ours what anybody may have put into its annotations.
func KeepMeta(meta *metav1.ObjectMeta) {
	generation := meta.Generation
	*meta = keepMeta(*meta)
	meta.Generation = generation
}

func keepMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
}
