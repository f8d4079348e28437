package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/identity"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// ReasonNotJudged is the reason of a credential of which the operator has not said anything yet.
const ReasonNotJudged = "NotJudged"

// question is a guard made ready.
type question struct {
	guard     *rotationv1.CredentialGuard
	extractor *identity.Extractor
}

func questionsOf(namespace *Namespace) ([]question, []Note) {
	var questions []question
	var notes []Note
	for i := range namespace.Guards {
		guard := &namespace.Guards[i]
		extractor, err := identity.Compile(guard.Spec)
		if err != nil {
			notes = append(notes, Note{Namespace: namespace.Name, Serious: true,
				Text: fmt.Sprintf("CredentialGuard %s cannot be used: %v", guard.Name, err),
				Fix:  fmt.Sprintf("kubectl -n %s edit credentialguard %s", namespace.Name, guard.Name)})
			continue
		}
		questions = append(questions, question{guard, extractor})
	}
	slices.SortFunc(questions, func(a, b question) int { return cmp.Compare(a.guard.Name, b.guard.Name) })
	return questions, notes
}

// inside are the credentials in one version of a Secret.
type inside struct {
	names   []string
	unknown bool
}

// identities tells what the guards of now have found in a version.
func (f facts) identities(secret string, version fleet.Version) inside {
	var found inside
	for _, q := range f.questions {
		if !q.extractor.Covers(secret) || version == fleet.None {
			continue
		}
		answered := false
		for _, held := range f.book.Secrets[secret].Held {
			if names, asked := held.Identities[q.extractor.ID()]; asked && held.Version == version && version != fleet.Unknown {
				found.names, answered = append(found.names, names...), true
			}
		}
		found.unknown = found.unknown || !answered
	}
	slices.Sort(found.names)
	found.names = slices.Compact(found.names)
	return found
}

// credentialsOf gives a credential for each hold, and for each identity in the books that belongs to none.
func credentialsOf(namespace *Namespace, questions []question, nodeSets []NodeSet, now time.Time) []Credential {
	var all []Credential
	for _, q := range questions {
		owned := map[string]bool{}
		for i := range namespace.Holds {
			hold := &namespace.Holds[i]
			if hold.Spec.Guard != q.guard.Name {
				continue
			}
			for _, name := range append(slices.Clone(hold.Status.Identities), hold.Status.Identity) {
				owned[name] = true
			}
			all = append(all, heldCredential(namespace, q, hold, nodeSets, now))
		}
		for _, name := range found(q, nodeSets) {
			if !owned[name] {
				c := Credential{Namespace: namespace.Name, Kind: q.guard.Spec.Credential.Kind, Guard: q.guard.Name, Identity: name}
				c.Verdict, c.Reason = string(rotationv1.VerdictUnknown), ReasonNotJudged
				c.Message = "No CredentialHold is about it: the operator knows of no object that it belongs to"
				c.examine(requestOf(namespace, q, nodeSets, now), nil)
				if c.Books != string(verdict.Safe) { // else it is of the past
					all = append(all, c)
				}
			}
		}
	}
	for i := range namespace.Holds {
		hold := &namespace.Holds[i]
		if !slices.ContainsFunc(questions, func(q question) bool { return q.guard.Name == hold.Spec.Guard }) {
			c := ofHold(namespace, hold)
			c.Books = string(verdict.Unknown)
			c.addHoldsCheck()
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Credential) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), compareNatural(a.Name, b.Name), compareNatural(a.Identity, b.Identity))
	})
	return all
}

func heldCredential(namespace *Namespace, q question, hold *rotationv1.CredentialHold, nodeSets []NodeSet, now time.Time) Credential {
	c := ofHold(namespace, hold)
	request := requestOf(namespace, q, nodeSets, now)
	for i := range namespace.Overrides {
		o := &namespace.Overrides[i]
		if o.Spec.Kind == c.Kind && o.Spec.Name == c.Name && o.Spec.Until.After(now) {
			word := wordOf(o.Spec.Word, o.CreationTimestamp.Time)
			request.Override = &word
		}
	}
	c.examine(request, hold.Status.Identities)
	return c
}

// ofHold says what the hold says.
func ofHold(namespace *Namespace, hold *rotationv1.CredentialHold) Credential {
	s := hold.Status
	c := Credential{
		Namespace: namespace.Name, Kind: hold.Spec.Credential.Kind, Name: hold.Spec.Credential.Name, Guard: hold.Spec.Guard,
		Identity: s.Identity, Identities: s.Identities, Verdict: string(s.Verdict), Reason: s.Reason, Message: s.Message,
		Judged: s.Verdict != "", Since: timeOf(s.Since.Time), Override: s.Override, Deleting: s.Granted != nil,
		Affected: int(s.AffectedNodes), Unknown: int(s.UnknownNodes), Gone: int(s.AttestedNodes),
	}
	if !c.Judged {
		c.Verdict, c.Reason, c.Message = string(rotationv1.VerdictUnknown), ReasonNotJudged, "The operator has not judged it yet"
	}
	return c
}

// found are the identities in the books.
func found(q question, nodeSets []NodeSet) []string {
	var all []string
	for _, nodeSet := range nodeSets {
		for secret, history := range nodeSet.facts.book.Secrets {
			if q.extractor.Covers(secret) {
				all = append(all, history.Found(q.extractor.ID())...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// requestOf asks of a credential what the operator asks, with the cluster's Secrets as the operator last read them.
func requestOf(namespace *Namespace, q question, nodeSets []NodeSet, now time.Time) verdict.Request {
	request := verdict.Request{
		Question: q.extractor.ID(), Covers: q.extractor.Covers, Proof: q.guard.Spec.Strength == rotationv1.StrengthProved, Now: now,
	}
	cluster := map[string]verdict.ClusterSecret{}
	for _, nodeSet := range nodeSets {
		f := nodeSet.facts
		one := verdict.NodeSet{Name: nodeSet.Name, Book: f.book, Wanted: f.wanted, Unsettled: f.unsettled}
		for secret := range f.world.NodeSet.Status.SecretHashes {
			one.Told = append(one.Told, secret)
		}
		request.NodeSets = append(request.NodeSets, one)
		for name, history := range f.book.Secrets {
			if q.extractor.Covers(name) && history.UID != "" {
				cluster[name] = f.inCluster(name, q)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cluster)) {
		request.Cluster = append(request.Cluster, cluster[name])
	}
	for _, a := range namespace.Attestations {
		for _, node := range a.Spec.Nodes {
			request.Gone = append(request.Gone, verdict.Gone{NodeSet: a.Spec.NodeSet, Node: node, Override: wordOf(a.Spec.Word, a.CreationTimestamp.Time)})
		}
	}
	return request
}

// inCluster is a Secret in the cluster as the operator last read it.
func (f facts) inCluster(name string, q question) verdict.ClusterSecret {
	secret, history := verdict.ClusterSecret{Name: name}, f.book.Secrets[name]
	version := history.Current()
	if want, wanted := f.wanted.Secrets[name]; wanted && want.Expected == fleet.Unknown || version == fleet.Unknown {
		secret.Unread = "the operator has not read it as it is now"
		return secret
	}
	names, answered := history.Held[len(history.Held)-1].Identities[q.extractor.ID()]
	if !answered {
		secret.NotFound = fmt.Sprintf("Secret %s: the operator found no credential in it where CredentialGuard %s looks, or has not looked yet", name, q.guard.Name)
	}
	secret.Identities = names
	return secret
}

func wordOf(word rotationv1.Word, given time.Time) verdict.Override {
	return verdict.Override{By: word.By, Reason: word.Reason, Given: given, Until: word.Until.Time}
}

// examine adds what the books say.
func (c *Credential) examine(request verdict.Request, also []string) {
	if c.Identity == "" { // nobody has looked into the object yet, and no name at all is nowhere
		c.Books = string(verdict.Unknown)
		c.addHoldsCheck()
		return
	}
	request.Identity, request.Also = c.Identity, also
	answer := verdict.MayGo(request)
	c.Books = string(answer.Outcome)
	if !c.Judged {
		c.Affected, c.Unknown, c.Gone = len(answer.Nodes), len(answer.UnknownNodes), len(answer.Attested)
	}
	for _, failure := range verdict.Failures(request) {
		check := Check{Reason: string(failure.Reason), Verdict: string(failure.Outcome), Message: failure.Message}
		for _, node := range failure.Nodes {
			check.Nodes = append(check.Nodes, NodeRef(node))
		}
		sortRefs(check.Nodes)
		check.Fixes = fixes(c, check, request)
		c.Checks = append(c.Checks, check)
	}
	if c.Judged {
		c.addHoldsCheck()
	}
}

// addHoldsCheck puts first what the operator says, where the books do not say it.
func (c *Credential) addHoldsCheck() {
	if c.Verdict == string(rotationv1.VerdictSafe) || slices.ContainsFunc(c.Checks, func(check Check) bool { return check.Reason == c.Reason }) {
		return
	}
	check := Check{Reason: c.Reason, Verdict: c.Verdict, Message: c.Message}
	check.Fixes = fixes(c, check, verdict.Request{})
	c.Checks = slices.Insert(c.Checks, 0, check)
}

func sortRefs(refs []NodeRef) {
	slices.SortFunc(refs, func(a, b NodeRef) int {
		return cmp.Or(compareNatural(a.NodeSet, b.NodeSet), compareNatural(a.Name, b.Name))
	})
}

// Contradicted says what speaks against a verdict of Safe that no override made: something the books show and the
// operator cannot have seen when it judged. Empty where nothing does.
func (c Credential) Contradicted() string {
	if c.Verdict != string(rotationv1.VerdictSafe) || c.Override != "" {
		return ""
	}
	sure := []verdict.Reason{verdict.ReasonStillInCluster, verdict.ReasonNodesBehind, verdict.ReasonRestartUnproved,
		verdict.ReasonNodesUnknown, verdict.ReasonDeploymentUnsettled}
	for _, check := range c.Checks {
		if slices.Contains(sure, verdict.Reason(check.Reason)) {
			return check.Message
		}
	}
	return ""
}
