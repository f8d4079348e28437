package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// addSecrets sums the grid up by Secret. When the drift began, the SecretRollout says.
func (n *NodeSet) addSecrets(tracked Tracked) {
	f := n.facts
	since := map[string]*time.Time{}
	if tracked.Rollout != nil {
		for _, secret := range tracked.Rollout.Status.Secrets {
			if secret.DriftSince != nil {
				since[secret.Name] = timeOf(secret.DriftSince.Time)
			}
		}
	}
	secrets, counts := map[string]*Secret{}, map[string]map[fleet.Version]int{}
	for name, drift := range f.drift.Secrets {
		secrets[name] = &Secret{
			Name: name, Host: f.book.Scope[name], Expected: drift.Expected, Current: drift.Current,
			ExpectedIdentities: f.identities(name, drift.Expected).names, Versions: []Version{},
		}
		counts[name] = map[fleet.Version]int{}
	}
	for _, node := range n.NodeList {
		for _, cell := range node.Cells {
			if node.Departed {
				continue
			}
			secrets[cell.Secret].count(cell.State)
			candidates := cell.Candidates
			if len(candidates) == 0 {
				candidates = []fleet.Version{cell.Version}
			}
			for _, version := range candidates {
				counts[cell.Secret][version]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		secret := secrets[name]
		secret.addVersions(f, counts[name])
		if secret.Updated < secret.Nodes {
			secret.DriftSince = since[name]
			if n.DriftSince == nil || secret.DriftSince != nil && secret.DriftSince.Before(*n.DriftSince) {
				n.DriftSince = secret.DriftSince
			}
		}
		if _, scoped := f.book.Scope[name]; scoped {
			n.HostSecrets = append(n.HostSecrets, *secret)
		} else {
			n.Secrets = append(n.Secrets, *secret)
		}
	}
}

func (s *Secret) addVersions(f facts, counts map[fleet.Version]int) {
	for version, nodes := range counts {
		inside := f.identities(s.Name, version)
		s.Versions = append(s.Versions, Version{
			Version: version, Nodes: nodes, Identities: inside.names, IdentitiesUnknown: inside.unknown,
			Since: sinceOf(f.book.Secrets[s.Name], version),
		})
	}
	slices.SortFunc(s.Versions, func(a, b Version) int {
		return cmp.Or(first(a.Version == s.Expected, b.Version == s.Expected), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Version, b.Version))
	})
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func sinceOf(history ledger.History, version fleet.Version) *time.Time {
	for _, held := range history.Held {
		if held.Version == version {
			return timeOf(held.Since.Time)
		}
	}
	return nil
}
