package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// Request asks whether a credential may go. All in it was gathered before; nothing is looked up.
type Request struct {
	// Identity is the credential's name. Also are further names that go with it: each is held like it.
	Identity string
	Also     []string
	// Question is the ID under which the guard's identities stand in the books, Covers the Secrets that it is about.
	Question string
	Covers   func(secret string) bool
	// Proof says that the guard asks for Proved runs.
	Proof bool
	// NodeSets are all that could receive the guard's Secrets.
	NodeSets []NodeSet
	// Cluster has every Secret in the cluster that the guard covers, as it was read for this request.
	Cluster []ClusterSecret
	// Override is an administrator's word, nil where there is none. Gone are their words on single nodes.
	Override *Override
	Gone     []Gone
	// Margin is how long after a Secret's change a kubelet may still serve the older content.
	Margin time.Duration
	// Now is when the answer is given.
	Now time.Time
}

// Adopt adds to Also the identities in the books and in the cluster that belong to nobody: not to Others, which are
// those of all other objects of the kind. It is for objects with which all that they ever named goes.
func (r *Request) Adopt(others []string) {
	for _, nodeSet := range r.NodeSets {
		for _, history := range nodeSet.Book.Secrets {
			r.Also = append(r.Also, history.Found(r.Question)...)
		}
	}
	for _, secret := range r.Cluster {
		r.Also = append(r.Also, secret.Identities...)
	}
	slices.Sort(r.Also)
	r.Also = slices.DeleteFunc(slices.Compact(r.Also), func(identity string) bool {
		return identity == r.Identity || slices.Contains(others, identity)
	})
}

// is tells whether an identity is one of those that are asked for.
func (r Request) is(identity string) bool {
	return identity == r.Identity || slices.Contains(r.Also, identity)
}

// NodeSet is what is known of one NodeSet.
type NodeSet struct {
	Name   string
	Book   ledger.Book
	Wanted Wanted
	// Unsettled names the Deployments of the NodeSet that are not settled.
	Unsettled []string
	// Told are Secrets that openstack-operator says were delivered, also before anything was seen.
	Told []string
	// Deleted says that there is no such NodeSet any more. Its nodes may still run what they were given.
	Deleted bool
}

// ClusterSecret is one Secret in the cluster: its identities, or else a sentence that says why they are not known.
type ClusterSecret struct {
	Name       string
	Identities []string
	// NotFound says that it was read, and what keeps the identity from being found in it.
	NotFound string
	// Unread says that it could not be read, and why.
	Unread string
}

// Override is an administrator's word that the credential may go.
type Override struct {
	// By and Reason say who and why; without both it counts for nothing.
	By, Reason string
	// Given and Until are when it begins and ends. What may have reached a node after Given makes it void; times within
	// the skew of the API servers' clocks order nothing.
	Given, Until time.Time
}

func (o Override) counts(now time.Time) bool {
	return o.By != "" && o.Reason != "" && !now.Before(o.Given) && now.Before(o.Until)
}

// Gone is an administrator's word that a node runs nothing any more. A run that may have reached the node after the
// word was given makes it void.
type Gone struct {
	NodeSet, Node string
	Override
}

// Outcome is the answer in one word.
type Outcome string

const (
	// Safe means that the credential may go: no node can be using it.
	Safe Outcome = "Safe"
	// Held means that something known speaks against it.
	Held Outcome = "Held"
	// Unknown means that something is not known which could speak against it. It is as good as Held.
	Unknown Outcome = "Unknown"
)

// Reason says why, in one word for programs. It is the name of the check that stopped the chain.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	// ReasonIdentityNotFound: a Secret in the cluster that the guard covers does not show its identity.
	ReasonIdentityNotFound Reason = "IdentityNotFound"
	// ReasonStillInCluster: a Secret in the cluster carries it, so that the next run would bring it to nodes.
	ReasonStillInCluster Reason = "StillInCluster"
	// ReasonNodesBehind: nodes may run it until they are deployed.
	ReasonNodesBehind Reason = "NodesBehind"
	// ReasonRestartUnproved: nodes have a newer file, but their process may be older.
	ReasonRestartUnproved Reason = "RestartUnproved"
	// ReasonNodesUnknown: nodes may run anything, or a version into which nobody looked.
	ReasonNodesUnknown Reason = "NodesUnknown"
	// ReasonDeploymentUnsettled: a Deployment is not settled and may still bring it to nodes.
	ReasonDeploymentUnsettled Reason = "DeploymentUnsettled"
	// ReasonEvidenceIncomplete: something that had to be read could not be.
	ReasonEvidenceIncomplete Reason = "EvidenceIncomplete"
	// ReasonNothingTracked: there is no node and no Secret to conclude anything from.
	ReasonNothingTracked Reason = "NothingTracked"
	// ReasonOverrideInForce: an administrator says that it may go.
	ReasonOverrideInForce Reason = "OverrideInForce"
	// ReasonSafe: nothing speaks against it.
	ReasonSafe Reason = "Safe"
)

// Deletion is the answer to a Request.
type Deletion struct {
	Outcome Outcome
	Reason  Reason
	// Message is a sentence for people: what is in the way and what to do.
	Message string
	// Nodes may run the credential; of UnknownNodes it is not known. No node is in both. A name that several NodeSets
	// have is written nodeset/node.
	Nodes, UnknownNodes []string
	// Attested would be in one of them, if nobody had said that they are gone.
	Attested []string
	// NodeSets are those of Nodes and UnknownNodes.
	NodeSets []string
	// LookAgain is when time alone may change the answer, zero where it cannot.
	LookAgain time.Time
}

// check answers with a reason why the credential must not go, or not at all.
type check func(Request, survey) (Outcome, Reason, string)

// deletionChecks are asked in this order and the first that answers is told: what makes all other answers doubtful,
// what is sure, and then what is unknown.
var deletionChecks = []check{
	identityNotFound,    // the guard does not understand a Secret: nothing it says counts
	stillInCluster,      // deploying would not help before it is rotated
	nodesBehind,         // deploying helps
	restartUnproved,     // deploying the same again would not help
	nodesUnknown,        // deploying helps
	deploymentUnsettled, // waiting helps
	evidenceIncomplete,
	nothingTracked,
}

// MayGo tells whether the credential may go.
func MayGo(r Request) Deletion {
	s := examine(r)
	deletion := Deletion{Outcome: Safe, Reason: ReasonSafe, Nodes: names(slices.Concat(s.behind, s.unproved)),
		UnknownNodes: names(s.unknown), Attested: names(s.attested), NodeSets: s.nodeSets(), LookAgain: s.attestedUntil,
		Message: fmt.Sprintf("No node can be running %s, and no Secret in the cluster carries it", r.Identity)}
	if len(s.attested) > 0 {
		deletion.Message += fmt.Sprintf("; %s said to be gone: %s", are(s.attested), some(names(s.attested), ", "))
	}
	for _, check := range deletionChecks {
		if outcome, reason, message := check(r, s); reason != "" {
			deletion.Outcome, deletion.Reason, deletion.Message = outcome, reason, message
			if reason == ReasonStillInCluster {
				deletion.LookAgain = earlier(deletion.LookAgain, servedUntil(r))
			}
			return overridden(r, s, deletion)
		}
	}
	return deletion
}

// overridden lets an administrator's word prevail, but not over what came after it: a credential that the cluster
// carries, or a run that may have brought it to a node.
func overridden(r Request, s survey, deletion Deletion) Deletion {
	o := r.Override
	if o == nil || !o.counts(r.Now) || deletion.Reason == ReasonStillInCluster {
		return deletion
	}
	for _, node := range slices.Concat(s.behind, s.unproved, s.unknown) {
		isBefore := node.latest.IsZero() || fleet.Instant{Time: node.latest}.Before(fleet.Instant{Time: o.Given})
		if !isBefore || node.open {
			deletion.Message += fmt.Sprintf("; what %s said does not count, it was before a run on %s had surely ended: say it again", o.By, node.name)
			return deletion
		}
	}
	deletion.Outcome, deletion.Reason, deletion.LookAgain = Safe, ReasonOverrideInForce, earlier(deletion.LookAgain, o.Until)
	deletion.Message = fmt.Sprintf("%s lets %s go until %s: %s. Without that: %s", o.By, r.Identity, o.Until.UTC().Format(time.RFC3339), o.Reason, deletion.Message)
	return deletion
}

func identityNotFound(r Request, _ survey) (Outcome, Reason, string) {
	var problems []string
	for _, secret := range r.Cluster {
		if secret.NotFound != "" {
			problems = append(problems, secret.NotFound)
		}
	}
	if len(problems) == 0 {
		return "", "", ""
	}
	slices.Sort(problems)
	return Unknown, ReasonIdentityNotFound, "The guard cannot read its Secrets: " + some(problems, "; ") + "; correct the Secret or the guard"
}

// Carriers are the Secrets in the cluster that carry the credential, in order.
func Carriers(r Request) []string {
	var carriers []string
	for _, secret := range r.Cluster {
		if slices.ContainsFunc(secret.Identities, r.is) {
			carriers = append(carriers, secret.Name)
		}
	}
	slices.Sort(carriers)
	return carriers
}

func stillInCluster(r Request, _ survey) (Outcome, Reason, string) {
	if carriers := Carriers(r); len(carriers) > 0 {
		return Held, ReasonStillInCluster, fmt.Sprintf("Secret %s in the cluster still carries %s; rotate it first", some(carriers, ", "), r.Identity)
	}
	if until := servedUntil(r); r.Now.Before(until) {
		return Held, ReasonStillInCluster, fmt.Sprintf("A Secret in the cluster carried %s until a moment ago, which a kubelet may still serve to a pod that starts now; wait until %s",
			r.Identity, until.UTC().Format(time.RFC3339))
	}
	return "", "", ""
}

// servedUntil is until when a pod that starts may still get content with the identity, or of which that is not known,
// from a kubelet's cache.
func servedUntil(r Request) time.Time {
	var until time.Time
	for _, nodeSet := range r.NodeSets {
		for name, history := range nodeSet.Book.Secrets {
			if !r.Covers(name) {
				continue
			}
			for i := 0; i+1 < len(history.Held); i++ {
				inside, unknown := holds(fleet.SetOf(history.Held[i].Version), r, history)
				if replaced := history.Held[i+1].Since.Time; (inside || unknown) && !replaced.IsZero() {
					until = later(until, replaced.Add(r.Margin))
				}
			}
		}
	}
	return until
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earlier is the earlier of two times of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func nodesBehind(r Request, s survey) (Outcome, Reason, string) {
	if len(s.behind) == 0 {
		return "", "", ""
	}
	return Held, ReasonNodesBehind, fmt.Sprintf("%s may still run %s: %s", count(s.behind), r.Identity, advice(r, s.behind, "deploy them"))
}

func restartUnproved(r Request, s survey) (Outcome, Reason, string) {
	if len(s.unproved) == 0 {
		return "", "", ""
	}
	why := "received a newer version after an attempt that may have left the file without restarting the process"
	if r.Proof {
		why = "did not prove that they run a newer version"
	}
	return Held, ReasonRestartUnproved, fmt.Sprintf("%s may still run %s, they %s: %s", count(s.unproved), r.Identity, why,
		advice(r, s.unproved, "prove the restart"))
}

func nodesUnknown(r Request, s survey) (Outcome, Reason, string) {
	if len(s.unknown) == 0 {
		return "", "", ""
	}
	return Unknown, ReasonNodesUnknown, fmt.Sprintf("%s may run %s, it is not known: %s", count(s.unknown), r.Identity, advice(r, s.unknown, "deploy them again"))
}

func deploymentUnsettled(r Request, _ survey) (Outcome, Reason, string) {
	if names := unsettled(r); len(names) > 0 {
		return Held, ReasonDeploymentUnsettled, fmt.Sprintf("Deployment %s is not settled; wait until it is over", some(names, ", "))
	}
	return "", "", ""
}

func evidenceIncomplete(r Request, _ survey) (Outcome, Reason, string) {
	read := map[string]bool{}
	var missing []string
	for _, secret := range r.Cluster {
		read[secret.Name] = true
		if secret.Unread != "" {
			missing = append(missing, fmt.Sprintf("Secret %s cannot be read: %s", secret.Name, secret.Unread))
		}
	}
	for _, nodeSet := range r.NodeSets {
		missing = append(missing, nodeSet.Wanted.Missing...)
		for name := range nodeSet.Wanted.Secrets {
			if r.Covers(name) && !read[name] {
				missing = append(missing, fmt.Sprintf("Secret %s is missing in the cluster", name))
			}
		}
	}
	if len(missing) == 0 {
		return "", "", ""
	}
	slices.Sort(missing)
	return Unknown, ReasonEvidenceIncomplete, some(slices.Compact(missing), "; ")
}

func nothingTracked(r Request, s survey) (Outcome, Reason, string) {
	if s.cells > 0 {
		return "", "", ""
	}
	return Unknown, ReasonNothingTracked, fmt.Sprintf("No node receives a Secret of the guard, which proves nothing of %s; look whether the guard names the right Secrets", r.Identity)
}

func unsettled(r Request) []string {
	var all []string
	for _, nodeSet := range r.NodeSets {
		all = append(all, nodeSet.Unsettled...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// advice names nodes and says what to do about them; those that left their NodeSet cannot be deployed.
func advice(r Request, nodes []examined, what string) string {
	text := some(names(nodes), ", ")
	departed := slices.DeleteFunc(slices.Clone(nodes), func(n examined) bool { return !n.departed })
	if len(departed) < len(nodes) {
		text += "; " + what
	}
	if len(departed) > 0 {
		text += fmt.Sprintf("; no longer in their NodeSet: %s; say of them that they are gone, or bring them back", some(names(departed), ", "))
	}
	if under := unsettled(r); len(under) > 0 {
		text += fmt.Sprintf("; Deployment %s is under way", some(under, ", "))
	}
	return text
}

func count(nodes []examined) string {
	if len(nodes) == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", len(nodes))
}

func are(nodes []examined) string {
	if len(nodes) == 1 {
		return "1 node is"
	}
	return fmt.Sprintf("%d nodes are", len(nodes))
}

// some lists the first three and counts the rest.
func some(all []string, separator string) string {
	const shown = 3
	text := strings.Join(all[:min(len(all), shown)], separator)
	if len(all) > shown {
		text += fmt.Sprintf(" and %d more", len(all)-shown)
	}
	return text
}
