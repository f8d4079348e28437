package testbed

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
)

// State is what the cluster shows of one NodeSet: the counts of its status, and per Secret the view in its ConfigMap.
type State struct {
	TotalNodes, UpdatedNodes int
	AllNodesUpdated          bool
	Secrets                  map[string]SecretState
}

// SecretState is what the cluster shows of one Secret.
type SecretState struct {
	// Current is the version that every node had when all last had the same one, None where that never was.
	Current fleet.Version
	// Expected is the version in the cluster.
	Expected fleet.Version
	// Nodes gives the candidates of each node.
	Nodes map[string]fleet.Versions
}

// views reads what a NodeSet's ConfigMaps show of each Secret, as anybody who knows the documented format would.
func views(objects trackmap.Objects) (map[string]SecretState, error) {
	secrets := map[string]SecretState{}
	for _, data := range objects {
		for secret, text := range data {
			if strings.HasPrefix(secret, "_") {
				continue
			}
			state, err := readView(text)
			if err != nil {
				return nil, fmt.Errorf("key %s: %w", secret, err)
			}
			secrets[secret] = state
		}
	}
	return secrets, nil
}

// record is what stands of one node, or of nodes that are alike.
type record struct {
	SecretHash fleet.Version  `json:"secretHash"`
	Candidates fleet.Versions `json:"candidates"`
}

func (r record) candidates() fleet.Versions {
	if len(r.Candidates) == 0 {
		return fleet.SetOf(r.SecretHash)
	}
	return fleet.SetOf(r.Candidates...)
}

func readView(text string) (SecretState, error) {
	var view struct {
		CurrentHash  fleet.Version     `json:"currentHash"`
		ExpectedHash fleet.Version     `json:"expectedHash"`
		Nodes        map[string]record `json:"nodes"`
		Groups       []struct {
			record
			Nodes string `json:"nodes"`
		} `json:"groups"`
	}
	if err := json.Unmarshal([]byte(text), &view); err != nil {
		return SecretState{}, err
	}
	state := SecretState{Current: view.CurrentHash, Expected: view.ExpectedHash, Nodes: map[string]fleet.Versions{}}
	if state.Current == "" {
		state.Current = fleet.None
	}
	for node, r := range view.Nodes {
		state.Nodes[node] = r.candidates()
	}
	for _, group := range view.Groups {
		nodes, err := trackmap.Unfold(group.Nodes)
		if err != nil {
			return SecretState{}, err
		}
		for _, node := range nodes {
			state.Nodes[node] = group.candidates()
		}
	}
	return state, nil
}

// updatedNodes counts, from the views, the nodes that run exactly the expected version of each of their Secrets.
func updatedNodes(nodes []string, secrets map[string]SecretState) int {
	updated := 0
	for _, node := range nodes {
		behind := len(secrets) == 0
		for _, secret := range secrets {
			candidates, receives := secret.Nodes[node]
			behind = behind || receives && (secret.Expected == fleet.Unknown || !candidates.IsOnly(secret.Expected))
		}
		if !behind {
			updated++
		}
	}
	return updated
}
