package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
)

// Picture is what an expectation wants to see of a NodeSet or of a credential, or what was seen, with versions by their
// aliases.
type Picture struct {
	Credential      *CredentialPicture `json:"credential,omitempty"`
	NodeSet         string             `json:"nodeSet,omitempty"`
	TotalNodes      *int               `json:"totalNodes,omitempty"`
	UpdatedNodes    *int               `json:"updatedNodes,omitempty"`
	AllNodesUpdated *bool              `json:"allNodesUpdated,omitempty"`
	// CurrentHash and ExpectedHash are by Secret, Nodes by node and Secret.
	CurrentHash  map[string]string              `json:"currentHash,omitempty"`
	ExpectedHash map[string]string              `json:"expectedHash,omitempty"`
	Nodes        map[string]map[string][]string `json:"nodes,omitempty"`
}

// aliases are the names of versions, by Secret.
type aliases map[string]map[string]fleet.Version

// add takes down that a Secret holds the version under the alias.
func (a aliases) add(secret, alias string, v fleet.Version) {
	if a[secret] == nil {
		a[secret] = map[string]fleet.Version{}
	}
	if alias != "" {
		a[secret][alias] = v
	}
}

// of names a version: by its alias, the first of several, or else by itself.
func (a aliases) of(secret string, v fleet.Version) string {
	for _, alias := range slices.Sorted(maps.Keys(a[secret])) {
		if a[secret][alias] == v {
			return alias
		}
	}
	return string(v)
}

func (a aliases) ofAll(secret string, versions fleet.Versions) []string {
	names := make([]string, len(versions))
	for i, v := range versions {
		names[i] = a.of(secret, v)
	}
	slices.Sort(names)
	return names
}

// version is what an alias stands for.
func (a aliases) version(secret, alias string) fleet.Version {
	if v, ok := a[secret][alias]; ok {
		return v
	}
	return fleet.Version(alias) // "?" and "none"
}

// wanted is the picture that an expectation draws.
func (e Expect) wanted() Picture {
	p := Picture{NodeSet: e.NodeSet.Text, TotalNodes: e.TotalNodes, UpdatedNodes: e.UpdatedNodes, AllNodesUpdated: e.AllNodesUpdated}
	for _, hash := range e.CurrentHash {
		set(&p.CurrentHash, hash.Secret.Text, hash.Alias.Text)
	}
	for _, hash := range e.ExpectedHash {
		set(&p.ExpectedHash, hash.Secret.Text, hash.Alias.Text)
	}
	for _, c := range e.Nodes {
		node := p.Nodes[c.Node.Text]
		set(&node, c.Secret.Text, slices.Sorted(slices.Values(texts(c.Aliases))))
		set(&p.Nodes, c.Node.Text, node)
	}
	return p
}

func set[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// picture is what was seen.
func (a aliases) picture(nodeSet string, s testbed.State) Picture {
	p := Picture{
		NodeSet: nodeSet, TotalNodes: &s.TotalNodes, UpdatedNodes: &s.UpdatedNodes, AllNodesUpdated: &s.AllNodesUpdated,
		CurrentHash: map[string]string{}, ExpectedHash: map[string]string{}, Nodes: map[string]map[string][]string{},
	}
	for name, secret := range s.Secrets {
		p.CurrentHash[name], p.ExpectedHash[name] = a.of(name, secret.Current), a.of(name, secret.Expected)
		for node, candidates := range secret.Nodes {
			row := p.Nodes[node]
			set(&row, name, a.ofAll(name, candidates))
			p.Nodes[node] = row
		}
	}
	return p
}

// differences says, one by one, where the state is not as expected.
func (a aliases) differences(e Expect, s testbed.State) []string {
	var found []string
	differs := func(key string, expected, seen any) {
		found = append(found, fmt.Sprintf("%s: expected %v, seen %v", key, expected, seen))
	}
	if e.TotalNodes != nil && *e.TotalNodes != s.TotalNodes {
		differs("totalNodes", *e.TotalNodes, s.TotalNodes)
	}
	if e.UpdatedNodes != nil && *e.UpdatedNodes != s.UpdatedNodes {
		differs("updatedNodes", *e.UpdatedNodes, s.UpdatedNodes)
	}
	if e.AllNodesUpdated != nil && *e.AllNodesUpdated != s.AllNodesUpdated {
		differs("allNodesUpdated", *e.AllNodesUpdated, s.AllNodesUpdated)
	}
	for _, hash := range e.CurrentHash {
		name := hash.Secret.Text
		if secret, shown := s.Secrets[name]; !shown || secret.Current != a.version(name, hash.Alias.Text) {
			differs("currentHash."+name, hash.Alias, a.seen(name, shown, secret.Current))
		}
	}
	for _, hash := range e.ExpectedHash {
		name := hash.Secret.Text
		if secret, shown := s.Secrets[name]; !shown || secret.Expected != a.version(name, hash.Alias.Text) {
			differs("expectedHash."+name, hash.Alias, a.seen(name, shown, secret.Expected))
		}
	}
	for _, c := range e.Nodes {
		name := c.Secret.Text
		var want fleet.Versions
		for _, alias := range c.Aliases {
			want = want.Union(fleet.SetOf(a.version(name, alias.Text)))
		}
		have, shown := s.Secrets[name].Nodes[c.Node.Text]
		if !shown || !slices.Equal(want, have) {
			differs("nodes."+c.Node.Text+"."+name, "["+list(c.Aliases)+"]", a.seen(name, shown, have...))
		}
	}
	return found
}

// seen names versions for people.
func (a aliases) seen(secret string, shown bool, versions ...fleet.Version) string {
	if !shown {
		return "nothing"
	}
	names := a.ofAll(secret, versions)
	for i, name := range names {
		names[i] = fleet.Version(name).Short()
	}
	return "[" + strings.Join(names, ", ") + "]"
}
