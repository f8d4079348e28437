package report

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
)

// evidenceKind is the kind of a bundle.
const evidenceKind = "Evidence"

// Bundle is the evidence as it may leave the cluster. Every object goes through the Keep functions, whatever it went
// through before, and records are taken along only where they are whole, so that nothing in them is anybody else's.
func Bundle(e Evidence) Evidence {
	kept := Evidence{CollectedAt: e.CollectedAt, Program: e.Program, Server: e.Server}
	kept.APIVersion, kept.Kind = GroupVersion, evidenceKind
	for i := range e.Namespaces {
		kept.Namespaces = append(kept.Namespaces, bundled(&e.Namespaces[i]))
	}
	return kept
}

func bundled(n *Namespace) Namespace {
	kept := Namespace{Name: n.Name, Secrets: maps.Clone(n.Secrets), Unread: slices.Clone(n.Unread)}
	for i := range n.NodeSets {
		tracked, unread := bundledNodeSet(&n.NodeSets[i])
		kept.NodeSets = append(kept.NodeSets, tracked)
		if unread != nil && kept.unread(unread.What) == "" {
			kept.Unread = append(kept.Unread, *unread)
		}
	}
	for _, d := range n.Deployments {
		d = KeepDeployment(d)
		line := hostpattern.Compose(d.Spec.AnsibleTags, d.Spec.AnsibleLimit, d.Spec.AnsibleSkipTags)
		if _, err := hostpattern.ParseCommandLine(line); err != nil { // more than a limit: anything may stand there
			d.Spec.AnsibleLimit, d.Spec.AnsibleTags, d.Spec.AnsibleSkipTags = "$(left out)", "", ""
		}
		kept.Deployments = append(kept.Deployments, d)
	}
	for _, s := range n.Services {
		kept.Services = append(kept.Services, KeepService(s))
	}
	for i := range n.Guards {
		guard := n.Guards[i].DeepCopy()
		guard.TypeMeta = metav1.TypeMeta{}
		KeepMeta(&guard.ObjectMeta)
		kept.Guards = append(kept.Guards, *guard)
	}
	for i := range n.Holds {
		hold := n.Holds[i].DeepCopy()
		hold.TypeMeta = metav1.TypeMeta{}
		KeepMeta(&hold.ObjectMeta)
		kept.Holds = append(kept.Holds, *hold)
	}
	for i := range n.Overrides {
		override := n.Overrides[i].DeepCopy()
		override.TypeMeta = metav1.TypeMeta{}
		KeepMeta(&override.ObjectMeta)
		kept.Overrides = append(kept.Overrides, *override)
	}
	for i := range n.Attestations {
		attestation := n.Attestations[i].DeepCopy()
		attestation.TypeMeta = metav1.TypeMeta{}
		KeepMeta(&attestation.ObjectMeta)
		kept.Attestations = append(kept.Attestations, *attestation)
	}
	return kept
}

// bundledNodeSet leaves a record behind that is not whole, and then says so.
func bundledNodeSet(t *Tracked) (Tracked, *Unread) {
	kept := Tracked{NodeSet: KeepNodeSet(t.NodeSet)}
	if t.Rollout != nil {
		kept.Rollout = t.Rollout.DeepCopy()
		kept.Rollout.TypeMeta = metav1.TypeMeta{}
		KeepMeta(&kept.Rollout.ObjectMeta)
	}
	state, _, err := trackmap.Decode(t.Record, string(t.NodeSet.UID))
	switch {
	case err == nil:
		kept.Record = trackmap.Objects{"": maps.Clone(t.Record[""])}
		for suffix := range state.Shards {
			kept.Record[suffix] = maps.Clone(t.Record[suffix])
		}
		return kept, nil
	case errors.Is(err, trackmap.ErrAbsent):
		return kept, nil
	}
	why := "it is damaged"
	switch {
	case errors.Is(err, trackmap.ErrNewer):
		why = "it is of a newer format than the program that collected this knows"
	case errors.Is(err, trackmap.ErrForeign):
		why = "it is about another NodeSet of the same name"
	}
	return kept, &Unread{What: "ConfigMap " + t.NodeSet.Name + "-secret-tracking", Why: why + ", and was left out", Needed: true,
		Fix: "read the ConfigMap itself and compare it with an older copy"}
}

// MarshalBundle writes a bundle as YAML.
func MarshalBundle(e Evidence) ([]byte, error) {
	text, err := yaml.Marshal(Bundle(e))
	if err != nil {
		return nil, fmt.Errorf("writing the evidence: %w", err)
	}
	return text, nil
}

// ReadBundle reads a bundle, YAML or JSON. What it does not know it refuses: it could be what the answer rests on.
func ReadBundle(text []byte) (Evidence, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return Evidence{}, errors.New("the file is empty")
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return Evidence{}, fmt.Errorf("the file is no evidence: %w", err)
	}
	if head.APIVersion != GroupVersion || head.Kind != evidenceKind {
		return Evidence{}, fmt.Errorf("the file is a %q of %q, not %s of %s: make one with kubectl rotation report", head.Kind, head.APIVersion, evidenceKind, GroupVersion)
	}
	var e Evidence
	if err := yaml.UnmarshalStrict(text, &e); err != nil {
		return Evidence{}, fmt.Errorf("the file is no evidence that this program knows: %w", err)
	}
	return e, nil
}
