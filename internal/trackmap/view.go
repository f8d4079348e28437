package trackmap

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// view is what stands under a Secret's name: with nodes in format 1, with groups in format 2.
type view struct {
	Format       int               `json:"format,omitempty"`
	CurrentHash  fleet.Version     `json:"currentHash"`
	ExpectedHash fleet.Version     `json:"expectedHash"`
	Nodes        map[string]record `json:"nodes,omitzero"`
	Groups       []group           `json:"groups,omitzero"`
}

// record is what the view says of a node.
type record struct {
	SecretHash     fleet.Version  `json:"secretHash"`
	DeploymentName string         `json:"deploymentName,omitempty"`
	LastUpdated    string         `json:"lastUpdated,omitempty"`
	Candidates     fleet.Versions `json:"candidates,omitempty"`
}

// group are nodes, folded, with equal records.
type group struct {
	record
	Count int    `json:"count"`
	Nodes string `json:"nodes"`
}

// views writes one text per Secret and says in which format: the one that lists every node if that takes no more
// bytes than there are to spare, else the one with groups.
func views(book ledger.Book, drift verdict.Drift, spare int) (map[string]string, int, error) {
	plain := map[string]string{}
	for secret, state := range drift.Secrets {
		if secret == "" || isOurs(secret) {
			return nil, 0, fmt.Errorf("%q is no name of a Secret", secret)
		}
		if spare < 0 {
			continue
		}
		text, err := marshal(plainView(book, state))
		if err != nil {
			return nil, 0, fmt.Errorf("the view of Secret %q: %w", secret, err)
		}
		plain[secret] = text
		spare -= len(secret) + len(text)
	}
	if spare >= 0 {
		return plain, formatPlain, nil
	}
	grouped := map[string]string{}
	for secret, state := range drift.Secrets {
		text, err := marshal(groupedView(book, state))
		if err != nil {
			return nil, 0, fmt.Errorf("the view of Secret %q: %w", secret, err)
		}
		grouped[secret] = text
	}
	return grouped, formatGrouped, nil
}

func plainView(book ledger.Book, state verdict.SecretDrift) view {
	nodes := make(map[string]record, len(state.Nodes))
	for node, r := range state.Nodes {
		nodes[node] = recordOf(book, state.Expected, r)
	}
	return view{CurrentHash: state.Current, ExpectedHash: state.Expected, Nodes: nodes}
}

func groupedView(book ledger.Book, state verdict.SecretDrift) view {
	type likeness struct {
		candidates, deployment string
		at                     int64
	}
	alike, example := map[likeness][]string{}, map[likeness]record{}
	for node, r := range state.Nodes {
		candidates := make([]string, len(r.Candidates))
		for i, version := range r.Candidates {
			candidates[i] = string(version)
		}
		like := likeness{strings.Join(candidates, " "), book.Runs[r.Run].Deployment, r.At.Unix()}
		if alike[like] == nil {
			example[like] = recordOf(book, state.Expected, r)
		}
		alike[like] = append(alike[like], node)
	}
	groups := make([]group, 0, len(alike))
	for like, nodes := range alike {
		groups = append(groups, group{record: example[like], Count: len(nodes), Nodes: Fold(nodes)})
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Nodes, b.Nodes))
	})
	return view{Format: formatGrouped, CurrentHash: state.Current, ExpectedHash: state.Expected, Groups: groups}
}

// recordOf shows of several candidates one that is not the expected version, so that nobody who reads this field
// alone is told that the node is updated. Which one is left to the order of texts, in which Unknown comes first.
func recordOf(book ledger.Book, expected fleet.Version, r verdict.NodeRecord) record {
	shown := record{SecretHash: fleet.Unknown, DeploymentName: book.Runs[r.Run].Deployment}
	if !r.At.IsZero() {
		shown.LastUpdated = r.At.UTC().Format(time.RFC3339)
	}
	if len(r.Candidates) > 1 {
		shown.Candidates = r.Candidates
	}
	for _, version := range r.Candidates {
		shown.SecretHash = version
		if version != expected {
			break
		}
	}
	return shown
}
