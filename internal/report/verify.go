package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/identity"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// Verification compares every stored verdict with what the evidence says without the cluster.
type Verification struct {
	metav1.TypeMeta `json:",inline"`
	CollectedAt     time.Time `json:"collectedAt"`
	// Equal says that there are verdicts and that each of them follows from the evidence.
	Equal bool `json:"equal"`
	// Credentials are those of all holds, by namespace and name.
	Credentials []Verified `json:"credentials"`
	// Notes say what the evidence lacks, in sentences without a full stop.
	Notes []string `json:"notes,omitempty"`
}

// Verified is one verdict, stored and found again.
type Verified struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Identity  string `json:"identity"`
	// Stored is what the hold says, nil where the operator had not judged yet; Found is what the evidence says.
	Stored *Judgement `json:"stored,omitempty"`
	Found  Judgement  `json:"found"`
	Equal  bool       `json:"equal"`
	// Differences name each field that differs, with both values. Because says what may explain them.
	Differences []string `json:"differences,omitempty"`
	Because     []string `json:"because,omitempty"`
}

// Judgement is a verdict with all that can be compared of it.
type Judgement struct {
	Verdict  string   `json:"verdict"`
	Reason   string   `json:"reason"`
	Message  string   `json:"message,omitempty"`
	Affected int      `json:"affectedNodes"`
	Unknown  int      `json:"unknownNodes"`
	Gone     int      `json:"attestedNodes,omitempty"`
	Nodes    []string `json:"nodes,omitempty"`
	NodeSets []string `json:"nodeSets,omitempty"`
}

// Reasons of the operator that no check gives.
const (
	reasonGuardInvalid = "GuardInvalid"
	reasonNoIdentity   = "NoIdentity"
)

// usualMargin is how long a kubelet may serve older content unless the operator was told otherwise. It is in no evidence.
const usualMargin = 10 * time.Second

// Verify recomputes every verdict. It asks nobody: books, Secrets' versions, words of administrators and time are those
// of the evidence.
func Verify(e Evidence) Verification {
	v := Verification{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: "Verification"}, CollectedAt: e.CollectedAt, Credentials: []Verified{}}
	report := Build(e)
	for _, note := range report.Notes {
		v.Notes = append(v.Notes, note.Text)
	}
	differ := 0
	for i := range e.Namespaces {
		namespace := &e.Namespaces[i]
		for k := range namespace.Holds {
			one := verified(namespace, &namespace.Holds[k], report.in(namespace.Name), e.CollectedAt)
			if one.Stored != nil && !one.Equal {
				differ++
			}
			v.Credentials = append(v.Credentials, one)
		}
	}
	slices.SortStableFunc(v.Credentials, func(a, b Verified) int {
		return strings.Compare(a.Namespace+"/"+a.Kind+"/"+a.Name, b.Namespace+"/"+b.Kind+"/"+b.Name)
	})
	if v.Judged() == 0 {
		v.Notes = append(v.Notes, "the evidence has no verdict to compare with")
	}
	v.Equal = v.Judged() > 0 && differ == 0
	return v
}

// Judged counts the stored verdicts.
func (v Verification) Judged() int {
	judged := 0
	for _, c := range v.Credentials {
		if c.Stored != nil {
			judged++
		}
	}
	return judged
}

func verified(namespace *Namespace, hold *rotationv1.CredentialHold, nodeSets []NodeSet, now time.Time) Verified {
	s := hold.Status
	one := Verified{Namespace: namespace.Name, Kind: hold.Spec.Credential.Kind, Name: hold.Spec.Credential.Name, Identity: s.Identity}
	if s.Verdict != "" && s.Reason != rotationv1.ReasonOperatorStopped { // that is no judgement of the evidence
		one.Stored = &Judgement{Verdict: string(s.Verdict), Reason: s.Reason, Message: s.Message, Affected: int(s.AffectedNodes), Unknown: int(s.UnknownNodes),
			Gone: int(s.AttestedNodes), Nodes: s.Nodes, NodeSets: s.NodeSets}
	}
	one.Found = judge(namespace, hold, nodeSets, now, 0)
	if one.Stored == nil {
		return one
	}
	one.Differences = one.Stored.differences(one.Found)
	if len(one.Differences) > 0 { // a margin that is not in the evidence may be all that is in between
		if patient := judge(namespace, hold, nodeSets, now, usualMargin); len(one.Stored.differences(patient)) == 0 {
			one.Found, one.Differences = patient, nil
		}
	}
	one.Equal = len(one.Differences) == 0
	if !one.Equal {
		one.Because = explanations(namespace, hold)
	}
	return one
}

// judge asks what the operator asked of the hold's object.
func judge(namespace *Namespace, hold *rotationv1.CredentialHold, nodeSets []NodeSet, now time.Time, margin time.Duration) Judgement {
	i := slices.IndexFunc(namespace.Guards, func(g rotationv1.CredentialGuard) bool { return g.Name == hold.Spec.Guard })
	if i < 0 {
		return Judgement{Verdict: string(verdict.Unknown), Reason: ReasonNotJudged, Message: fmt.Sprintf("CredentialGuard %s is not in the evidence", hold.Spec.Guard)}
	}
	guard := &namespace.Guards[i]
	extractor, err := identity.Compile(guard.Spec)
	switch {
	case err != nil:
		return Judgement{Verdict: string(verdict.Unknown), Reason: reasonGuardInvalid, Message: fmt.Sprintf("CredentialGuard %s cannot be used: %v", guard.Name, err)}
	case hold.Status.Identity == "":
		return Judgement{Verdict: string(verdict.Unknown), Reason: reasonNoIdentity, Message: "The object shows no identity"}
	}
	request := requestOf(namespace, question{guard, extractor}, nodeSets, now)
	request.Identity, request.Margin = hold.Status.Identity, margin
	request.Also = slices.DeleteFunc(slices.Clone(hold.Status.Identities), func(name string) bool { return name == request.Identity })
	request.Override = overrideOf(namespace, hold)
	if guard.Spec.Credential.Generations == rotationv1.GenerationsAll {
		var others []string
		for k := range namespace.Holds {
			if other := &namespace.Holds[k]; other.Spec.Guard == guard.Name && other.Spec.Credential.UID != hold.Spec.Credential.UID {
				others = append(append(others, other.Status.Identities...), other.Status.Identity)
			}
		}
		request.Adopt(others)
	}
	answer := verdict.MayGo(request)
	return Judgement{Verdict: string(answer.Outcome), Reason: string(answer.Reason), Message: answer.Message, Affected: len(answer.Nodes),
		Unknown: len(answer.UnknownNodes), Gone: len(answer.Attested), NodeSets: answer.NodeSets,
		Nodes: slices.Concat(answer.Nodes, answer.UnknownNodes)}
}

// overrideOf is the word on the object that ends last.
func overrideOf(namespace *Namespace, hold *rotationv1.CredentialHold) *verdict.Override {
	var best *verdict.Override
	for i := range namespace.Overrides {
		o := &namespace.Overrides[i]
		if o.Spec.Kind != hold.Spec.Credential.Kind || o.Spec.Name != hold.Spec.Credential.Name || o.DeletionTimestamp != nil {
			continue
		}
		if word := wordOf(o.Spec.Word, o.CreationTimestamp.Time); best == nil || word.Until.After(best.Until) {
			best = &word
		}
	}
	return best
}

// differences compares what the hold says with what was found. Messages are for people and may tell of other moments.
func (stored *Judgement) differences(found Judgement) []string {
	var all []string
	differ := func(what string, stored, found any) {
		if fmt.Sprint(stored) != fmt.Sprint(found) {
			all = append(all, fmt.Sprintf("%s is %v in the hold, %v by the evidence", what, stored, found))
		}
	}
	differ("verdict", stored.Verdict, found.Verdict)
	differ("reason", stored.Reason, found.Reason)
	differ("affectedNodes", stored.Affected, found.Affected)
	differ("unknownNodes", stored.Unknown, found.Unknown)
	differ("attestedNodes", stored.Gone, found.Gone)
	for _, name := range stored.Nodes {
		if !strings.HasPrefix(name, "+") && !slices.Contains(found.Nodes, name) {
			all = append(all, fmt.Sprintf("node %s holds it in the hold, not by the evidence", name))
		}
	}
	for _, name := range stored.NodeSets {
		if !slices.Contains(found.NodeSets, name) {
			all = append(all, fmt.Sprintf("NodeSet %s holds it in the hold, not by the evidence", name))
		}
	}
	return all
}

// explanations say what happened between the verdict and the collection of the evidence, as far as that shows.
func explanations(namespace *Namespace, hold *rotationv1.CredentialHold) []string {
	var all []string
	for _, read := range hold.Status.Reads {
		name, isSecret := strings.CutPrefix(read.Of, "secrets/")
		if !isSecret || namespace.Secrets == nil {
			continue
		}
		if sight := namespace.Secrets[name]; sight.ResourceVersion != read.ResourceVersion {
			all = append(all, fmt.Sprintf("Secret %s was written after the verdict was given", name))
		}
	}
	for _, unread := range namespace.Unread {
		all = append(all, fmt.Sprintf("%s cannot be read: %s", unread.What, unread.Why))
	}
	return all
}
