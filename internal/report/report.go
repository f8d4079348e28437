package report

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

// State is how a node, or one Secret on it, stands to the cluster.
type State string

const (
	// Updated means that it surely runs exactly the version in the cluster.
	Updated State = "Updated"
	// Behind means that it surely runs another version, or none.
	Behind State = "Behind"
	// Doubtful means that it may run one of several versions, or any, or that the version in the cluster is not known.
	Doubtful State = "Unknown"
)

// Report is all there is to say, of all NodeSets and credentials that were looked at.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	// CollectedAt is when everything in it was read.
	CollectedAt time.Time `json:"collectedAt"`
	// NodeSets are sorted by namespace and name, Credentials as well.
	NodeSets    []NodeSet    `json:"nodeSets"`
	Credentials []Credential `json:"credentials"`
	// Notes say what could not be read and what that means.
	Notes []Note `json:"notes,omitempty"`
}

// Note is something that the reader must know to trust the rest.
type Note struct {
	// Namespace that it is about, empty where it is about all.
	Namespace string `json:"namespace,omitempty"`
	// Text is a sentence without a full stop, Fix what to do about it.
	Text string `json:"text"`
	Fix  string `json:"fix,omitempty"`
	// Serious says that answers are not sure because of it.
	Serious bool `json:"serious"`
}

// Counts are numbers of nodes: Updated, Behind and Unknown make up Nodes.
type Counts struct {
	Nodes   int `json:"nodes"`
	Updated int `json:"updated"`
	Behind  int `json:"behind"`
	Unknown int `json:"unknown"`
}

// NodeSet is one NodeSet: its Secrets, its nodes, and what ran.
type NodeSet struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Labels are those of the NodeSet, for selectors.
	Labels map[string]string `json:"labels,omitempty"`
	// Counts of its nodes: one is updated where all its Secrets are, unknown where one of them is.
	Counts `json:",inline"`
	// AllUpdated says that there are nodes and Secrets, that all are updated, and that nothing is missing.
	AllUpdated bool `json:"allUpdated"`
	// DriftSince is when the first Secret began to drift, nil while none does or where it is not known.
	DriftSince *time.Time `json:"driftSince,omitempty"`
	// Secrets that go to several nodes, by name; HostSecrets are those made for one node each.
	Secrets     []Secret `json:"secrets"`
	HostSecrets []Secret `json:"hostSecrets,omitempty"`
	// NodeList has every node, in natural order.
	NodeList []Node `json:"nodeList"`
	// Running are Deployments that are not over or not recorded, with what they go to.
	Running []Running `json:"running,omitempty"`
	// Runs are the Ansible runs that are remembered, latest first.
	Runs []Run `json:"runs,omitempty"`
	// Missing says, a sentence each without a full stop, why not everything can be known. Then nobody is surely updated.
	Missing []string `json:"missing,omitempty"`
	// Note is what the operator's own SecretRollout says, where it is not simply ready; empty otherwise.
	Note string `json:"note,omitempty"`

	facts facts
}

// Running is a Deployment that is under way.
type Running struct {
	Name string `json:"name"`
	// Limit is its ansibleLimit, empty for all nodes. Tags says that it runs only some tasks.
	Limit string    `json:"limit,omitempty"`
	Tags  bool      `json:"tags,omitempty"`
	Since time.Time `json:"since"`
}

// Secret is one Secret over the nodes that receive it.
type Secret struct {
	Name string `json:"name"`
	// Host is the node that it is made for, where it is for one alone.
	Host   string `json:"host,omitempty"`
	Counts `json:",inline"`
	// Expected is the version in the cluster, "?" where it is not known. Current is the one that all nodes had last.
	Expected fleet.Version `json:"expected"`
	Current  fleet.Version `json:"current,omitempty"`
	// ExpectedIdentities are the credentials in the version in the cluster.
	ExpectedIdentities []string `json:"expectedIdentities,omitempty"`
	// Versions are those that nodes may run: the expected one first, then by the number of nodes. A node in doubt counts
	// for each.
	Versions []Version `json:"versions"`
	// DriftSince is when nodes and cluster parted, nil while they have not or where it is not known.
	DriftSince *time.Time `json:"driftSince,omitempty"`
}

// Version is one version of a Secret on nodes.
type Version struct {
	Version fleet.Version `json:"version"`
	Nodes   int           `json:"nodes"`
	// Identities are the names of the credentials inside; IdentitiesUnknown says that nobody looked.
	Identities        []string `json:"identities,omitempty"`
	IdentitiesUnknown bool     `json:"identitiesUnknown,omitempty"`
	// Since is when the cluster had this version first, as far as it is known.
	Since *time.Time `json:"since,omitempty"`
}

// Node is one node.
type Node struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Departed says that the NodeSet no longer lists it. It may still run what it was given; it is in no count.
	Departed bool `json:"departed,omitempty"`
	// Gone is who said until when that the node is gone for good.
	Gone string `json:"gone,omitempty"`
	// Cells has one entry per Secret that the node receives, by the Secret's name.
	Cells []Cell `json:"cells"`
}

// Cell is one Secret on one node.
type Cell struct {
	Secret string `json:"secret"`
	State  State  `json:"state"`
	// Version is what the node runs; of several candidates one that is not the expected one.
	Version fleet.Version `json:"version"`
	// Candidates are all that the node may run, where they are several.
	Candidates []fleet.Version `json:"candidates,omitempty"`
	// Identities are the credentials that the node may run through this Secret.
	Identities []string `json:"identities,omitempty"`
	// Deployment, Service, Attempt and At tell what brought the node there last, and when; empty where nothing did.
	Deployment string     `json:"deployment,omitempty"`
	Service    string     `json:"service,omitempty"`
	Attempt    int        `json:"attempt,omitempty"`
	At         *time.Time `json:"at,omitempty"`
	// Why explains a cell that is not updated, in a sentence without a full stop.
	Why string `json:"why,omitempty"`
}

// Run is one Ansible run: one service of a Deployment, one attempt.
type Run struct {
	Deployment string     `json:"deployment"`
	Service    string     `json:"service"`
	Attempt    int        `json:"attempt"`
	Began      *time.Time `json:"began,omitempty"`
	// Ended is nil while it goes on, or where the end is not known.
	Ended *time.Time `json:"ended,omitempty"`
	Over  bool       `json:"over"`
	// Delivered are the nodes on which it ended well, Attempted the others that it may have touched; in natural order.
	Delivered []string `json:"delivered,omitempty"`
	Attempted []string `json:"attempted,omitempty"`
	// Carried are the Secrets that it brought, each with the versions that it may have had.
	Carried []Carried `json:"carried"`
	// Doubt says why it proves less than a delivery.
	Doubt string `json:"doubt,omitempty"`
}

// Carried is a Secret in a run.
type Carried struct {
	Secret     string          `json:"secret"`
	Versions   []fleet.Version `json:"versions"`
	Identities []string        `json:"identities,omitempty"`
}

// Credential is an object that a guard guards, or an identity that was found in Secrets and belongs to no object that
// is known.
type Credential struct {
	Namespace string `json:"namespace"`
	// Kind and Name are the object's; Name is empty for an identity without one.
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	// Guard is the CredentialGuard.
	Guard string `json:"guard"`
	// Identity is its name in Secrets, Identities all names that it has shown.
	Identity   string   `json:"identity"`
	Identities []string `json:"identities,omitempty"`
	// Verdict, Reason and Message are the operator's. Where it has not judged yet they are Unknown, NotJudged.
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Judged says that the verdict is the operator's, made from live reads.
	Judged bool `json:"judged"`
	// Since is how long verdict and reason have been these.
	Since *time.Time `json:"since,omitempty"`
	// Affected and Unknown count nodes as the operator does: those that may still run it, and those of which it is not
	// known. Without its verdict they are from the books.
	Affected int `json:"affected"`
	Unknown  int `json:"unknown"`
	// Gone counts nodes that do not count because somebody said that they are gone.
	Gone int `json:"gone,omitempty"`
	// Override is the CredentialOverride that the verdict rests on.
	Override string `json:"override,omitempty"`
	// Deleting says that somebody has asked for the object's deletion and the operator let it go.
	Deleting bool `json:"deleting,omitempty"`
	// Checks are those that it does not pass by the books, in the order in which they stop a deletion. The operator's
	// verdict may be newer.
	Checks []Check `json:"checks,omitempty"`
	// Books is the verdict that the books alone give, from the Secrets as the operator last read them.
	Books string `json:"books"`
}

// Check is one check that a credential does not pass.
type Check struct {
	Reason  string `json:"reason"`
	Verdict string `json:"verdict"`
	Message string `json:"message"`
	// Nodes are those in the way, in natural order.
	Nodes []NodeRef `json:"nodes,omitempty"`
	// Fixes are commands, or sentences where no command helps, in the order in which to try them.
	Fixes []string `json:"fixes,omitempty"`
}

// NodeRef names a node.
type NodeRef struct {
	NodeSet string `json:"nodeSet"`
	Name    string `json:"node"`
	// Departed says that the NodeSet no longer lists it.
	Departed bool `json:"departed,omitempty"`
}
