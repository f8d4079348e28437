package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// Usage says who may use a credential.
type Usage struct {
	metav1.TypeMeta `json:",inline"`
	CollectedAt     time.Time `json:"collectedAt"`
	Identity        string    `json:"identity"`
	// InCluster are the Secrets, as namespace/name, that carry it in the cluster now.
	InCluster []string `json:"inCluster"`
	// Users are the nodes that may run it, Unknown those that may run anything; sorted by NodeSet and name.
	Users   []User `json:"users"`
	Unknown []User `json:"unknown"`
	// Known are all identities that the guards have found anywhere, sorted.
	Known []string `json:"known"`
	// Guards counts the guards that were asked. Without any nobody looked for credentials.
	Guards int `json:"guards"`
	// Credentials are the guarded objects, as kind/name, that show this identity.
	Credentials []string `json:"credentials,omitempty"`
}

// User is a node in a Usage.
type User struct {
	Namespace string `json:"namespace"`
	NodeRef   `json:",inline"`
	// Surely says that every version it may run of some Secret carries the credential.
	Surely bool `json:"surely"`
	// Because says why we think so, a sentence each, by Secret.
	Because []string `json:"because,omitempty"`
}

// WhoUses looks an identity up in all books, whether or not there is a hold of it.
func (r Report) WhoUses(identity string) Usage {
	usage := Usage{
		TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: "Usage"}, CollectedAt: r.CollectedAt, Identity: identity,
		InCluster: []string{}, Users: []User{}, Unknown: []User{}, Known: []string{},
	}
	seen := map[string]bool{}
	for _, namespace := range r.namespaces() {
		nodeSets := r.in(namespace)
		f := nodeSets[0].facts
		for _, q := range f.questions {
			usage.Guards++
			usage.Known = append(usage.Known, found(q, nodeSets)...)
			request := requestOf(f.namespace, q, nodeSets, r.CollectedAt)
			request.Identity = identity
			usage.add(q, request, nodeSets, seen)
		}
	}
	for _, c := range r.Credentials {
		if c.Name != "" && (c.Identity == identity || slices.Contains(c.Identities, identity)) {
			usage.Credentials = append(usage.Credentials, c.Kind+"/"+c.Name)
		}
	}
	slices.Sort(usage.Known)
	usage.Known = slices.Compact(usage.Known)
	slices.Sort(usage.InCluster)
	usage.InCluster = slices.Compact(usage.InCluster)
	return usage
}

func (u *Usage) add(q question, request verdict.Request, nodeSets []NodeSet, seen map[string]bool) {
	namespace := nodeSets[0].Namespace
	for _, secret := range request.Cluster {
		if slices.Contains(secret.Identities, u.Identity) {
			u.InCluster = append(u.InCluster, namespace+"/"+secret.Name)
		}
	}
	for _, failure := range verdict.Failures(request) {
		into := &u.Users
		if failure.Reason == verdict.ReasonNodesUnknown {
			into = &u.Unknown
		}
		refs := make([]NodeRef, len(failure.Nodes))
		for i, node := range failure.Nodes {
			refs[i] = NodeRef(node)
		}
		sortRefs(refs)
		for _, ref := range refs {
			key := strings.Join([]string{namespace, ref.NodeSet, ref.Name, fmt.Sprint(into == &u.Unknown)}, "/")
			if seen[key] {
				continue
			}
			seen[key] = true
			user := User{Namespace: namespace, NodeRef: ref}
			i := slices.IndexFunc(nodeSets, func(n NodeSet) bool { return n.Name == ref.NodeSet })
			nodeSets[i].facts.explain(&user, q, u.Identity)
			*into = append(*into, user)
		}
	}
}

// explain says of every Secret that the guard covers which versions the node may run that carry the identity.
func (f facts) explain(user *User, q question, identity string) {
	secrets := map[string]bool{}
	for name := range f.wanted.Secrets {
		secrets[name] = q.extractor.Covers(name)
	}
	for name := range f.book.Secrets {
		secrets[name] = q.extractor.Covers(name)
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if !secrets[name] || !f.book.InScope(user.Name, name) {
			continue
		}
		cell := f.book.Cell(user.Name, name, f.wanted.Secrets[name].Places)
		candidates := cell.Candidates()
		carrying := 0
		for _, claim := range sortedByTime(cell.Undominated()) {
			for _, version := range claim.Versions {
				carries, known := f.book.Secrets[name].Carries(version, identity, q.extractor.ID())
				switch {
				case carries:
					carrying++
					user.Because = append(user.Because, because(f, name, version, claim.Run, "carries it"))
				case !known && version == fleet.Unknown:
					user.Because = append(user.Because, because(f, name, version, claim.Run, "could be any version"))
				case !known:
					user.Because = append(user.Because, because(f, name, version, claim.Run, "was never looked into"))
				}
			}
		}
		user.Surely = user.Surely || len(candidates) == 1 && carrying > 0
	}
	user.Because = slices.Compact(user.Because)
}

func because(f facts, secret string, version fleet.Version, run, what string) string {
	text := fmt.Sprintf("%s %s %s", secret, version.Short(), what)
	if version == fleet.Unknown {
		text = fmt.Sprintf("%s %s", secret, what)
	}
	by, ok := f.book.Runs[run]
	if !ok {
		return text + ", from before the operator watched"
	}
	text += fmt.Sprintf(", by %s (%s)", by.Deployment, by.Service)
	if at := by.Span.Ended.Time; by.Span.Over && !at.IsZero() {
		return text + " " + at.UTC().Format("2006-01-02 15:04")
	}
	return text + ", which is not over"
}

// namespaces lists those that have NodeSets.
func (r Report) namespaces() []string {
	var names []string
	for _, nodeSet := range r.NodeSets {
		names = append(names, nodeSet.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (r Report) in(namespace string) []NodeSet {
	var in []NodeSet
	for _, nodeSet := range r.NodeSets {
		if nodeSet.Namespace == namespace {
			in = append(in, nodeSet)
		}
	}
	return in
}
