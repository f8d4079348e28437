package replay

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/identity"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// Guard says which credentials to look for.
type Guard struct {
	extractor *identity.Extractor
	proof     bool
}

// Credential says whether a credential may go.
type Credential struct {
	Verdict      verdict.Outcome `json:"verdict"`
	Reason       verdict.Reason  `json:"reason"`
	Message      string          `json:"message"`
	Nodes        []string        `json:"nodes"`
	UnknownNodes []string        `json:"unknownNodes"`
}

// ReadGuard reads a YAML file with a CredentialGuard.
func ReadGuard(file string) (*Guard, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var declared rotationv1.CredentialGuard
	if err := yaml.UnmarshalStrict(text, &declared); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if declared.Kind != "CredentialGuard" || declared.APIVersion != rotationv1.GroupVersion.String() {
		return nil, fmt.Errorf("%s: it is no CredentialGuard of %s", file, rotationv1.GroupVersion)
	}
	extractor, err := identity.Compile(declared.Spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &Guard{extractor: extractor, proof: declared.Spec.Strength == rotationv1.StrengthProved}, nil
}

// journalOf begins a journal that asks for the guard's credentials and notes those that it sees.
func (p *Player) journalOf(seen map[string]bool) *upstream.Journal {
	journal := upstream.NewJournal()
	if guard := p.options.Guard; guard != nil {
		journal.Identify = func(secret string, data map[string][]byte) map[string][]string {
			identities, err := guard.extractor.Identities(secret, data)
			if err != nil || !guard.extractor.Covers(secret) {
				return nil
			}
			for _, identity := range identities {
				seen[identity] = true
			}
			return map[string][]string{guard.extractor.ID(): identities}
		}
	}
	return journal
}

// credentials judges, in every namespace that has NodeSets, the identity that was asked for or all that were seen.
func (p *Player) credentials() map[string]Credential {
	credentials := map[string]Credential{}
	for namespace, ns := range p.namespaces {
		if len(ns.nodeSets) == 0 {
			continue
		}
		identities := ns.seen
		if asked := p.options.Credential; asked != "" {
			identities = map[string]bool{asked: true}
		}
		request := verdict.Request{Question: p.options.Guard.extractor.ID(), Covers: p.options.Guard.extractor.Covers,
			Proof: p.options.Guard.proof, Cluster: p.cluster(ns), NodeSets: p.judged(ns), Now: p.now}
		for identity := range identities {
			request.Identity = identity
			answer := verdict.MayGo(request)
			name := identity
			if p.severalHaveNodeSets() {
				name = namespace + "/" + identity
			}
			credentials[name] = Credential{Verdict: answer.Outcome, Reason: answer.Reason, Message: answer.Message,
				Nodes: append([]string{}, answer.Nodes...), UnknownNodes: append([]string{}, answer.UnknownNodes...)}
		}
	}
	return credentials
}

func (p *Player) severalHaveNodeSets() bool {
	n := 0
	for _, ns := range p.namespaces {
		if len(ns.nodeSets) > 0 {
			n++
		}
	}
	return n > 1
}

// judged are the NodeSets of a namespace as they stand.
func (p *Player) judged(ns *namespace) []verdict.NodeSet {
	var judged []verdict.NodeSet
	for name, nodeSet := range ns.nodeSets {
		memory, world := ns.memories[nodeSet.UID], p.worldOf(ns, nodeSet)
		one := verdict.NodeSet{Name: name, Book: memory.Book, Wanted: world.Wanted(nil)}
		for _, uid := range world.Touching() {
			if memory.Settled[uid] == "" {
				one.Unsettled = append(one.Unsettled, world.Deployments[uid].Name)
			}
		}
		judged = append(judged, one)
	}
	return judged
}

// cluster reads the covered Secrets of a namespace as they stand.
func (p *Player) cluster(ns *namespace) []verdict.ClusterSecret {
	var secrets []verdict.ClusterSecret
	for name, secret := range ns.secrets {
		if !p.options.Guard.extractor.Covers(name) {
			continue
		}
		one := verdict.ClusterSecret{Name: name}
		var err error
		if one.Identities, err = p.options.Guard.extractor.Identities(name, secret.Data); err != nil {
			one.NotFound = err.Error()
		}
		secrets = append(secrets, one)
	}
	return secrets
}
