package trackmap_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

var update = flag.Bool("update", false, "write the golden files anew")

const secret = "nova-cell1-compute-config"

var user7, user8 = novaConfig("user7"), novaConfig("user8")

func novaConfig(user string) fleet.Version {
	return fingerprint.Of(map[string][]byte{
		"01-nova.conf": []byte("transport_url=rabbit://" + user + ":pw@rabbitmq:5671/"),
	}, "Opaque")
}

// instant gives a moment of the story: the revision grows with the time.
func instant(stamp string) fleet.Instant {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		panic(err)
	}
	return fleet.Instant{Revision: uint64(t.Unix()) - 1771500000, Time: t}
}

// nodeSet is one NodeSet of the story, as the operator keeps it from stage to stage.
type nodeSet struct {
	state   trackmap.State
	wanted  verdict.Wanted
	current map[string]fleet.Version
}

func newNodeSet(uid string, nodes ...string) *nodeSet {
	s := &nodeSet{state: trackmap.State{NodeSetUID: uid, Book: ledger.NewBook()}}
	s.wanted.Nodes = nodes
	s.state.Book.Enrol(nodes, fleet.None)
	return s
}

func (s *nodeSet) read(version fleet.Version, at, identity string) {
	s.wanted.Secrets = map[string]verdict.WantedSecret{secret: {Expected: version, Places: []string{"nova"}}}
	changed := instant(at)
	s.state.Book.Secrets[secret] = s.state.Book.Secrets[secret].Add(ledger.Reading{
		UID: "70e462ad-7287-4099-a485-4ae206364b4d", Revision: changed.Revision, Changed: changed, Version: version,
		Identities: map[string][]string{"5d5ea3e0bc0e7d1f": {identity}},
	})
}

func (s *nodeSet) deploy(name, ended string, reach map[string]ledger.Strength) {
	end := instant(ended)
	began := fleet.Instant{Revision: end.Revision - 300, Time: end.Time.Add(-5 * time.Minute)}
	history := s.state.Book.Secrets[secret]
	s.state.Book.Record([]ledger.Run{{
		ID: "pod-of-" + name, Deployment: name, DeploymentUID: "uid-of-" + name, Service: "nova", Place: "nova", Attempt: 1,
		Span:    fleet.Span{Began: began, Ended: end, Over: true},
		Carried: map[string]fleet.Versions{secret: history.Between(began, began, 10*time.Second)},
		Reach:   reach,
	}})
	s.state.Settled = append(s.state.Settled, "uid-of-"+name)
	s.state.AsOf = end.Revision
}

// store judges, writes and reads back, and gives the drift and the text.
func (s *nodeSet) store(t *testing.T) (verdict.Drift, trackmap.Objects) {
	t.Helper()
	s.state.Sequence++
	drift := verdict.Judge(s.state.Book, s.wanted, s.current)
	objects, err := trackmap.Encode(s.state, drift)
	if err != nil {
		t.Fatal(err)
	}
	state, current, err := trackmap.Decode(objects, s.state.NodeSetUID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.state, state, sameState); diff != "" {
		t.Fatal(diff)
	}
	s.state, s.current = state, current
	return drift, objects
}

// seen is what a stage must show, worked out by hand.
type seen struct {
	updated           int
	current, expected fleet.Version
	nodes             map[string]fleet.Version
}

func (s *nodeSet) check(t *testing.T, golden string, want seen) {
	t.Helper()
	drift, objects := s.store(t)
	if drift.UpdatedNodes != want.updated {
		t.Errorf("%s: %d nodes updated, want %d", golden, drift.UpdatedNodes, want.updated)
	}
	var view struct {
		CurrentHash, ExpectedHash fleet.Version
		Nodes                     map[string]struct{ SecretHash fleet.Version }
	}
	if err := json.Unmarshal([]byte(objects[""][secret]), &view); err != nil {
		t.Fatal(err)
	}
	got := seen{updated: want.updated, current: view.CurrentHash, expected: view.ExpectedHash, nodes: map[string]fleet.Version{}}
	for node, r := range view.Nodes {
		got.nodes[node] = r.SecretHash
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(seen{})); diff != "" {
		t.Errorf("%s: %s", golden, diff)
	}
	checkGolden(t, golden, objects)
}

func checkGolden(t *testing.T, name string, objects trackmap.Objects) {
	t.Helper()
	var b strings.Builder
	for _, suffix := range slices.Sorted(maps.Keys(objects)) {
		fmt.Fprintf(&b, "# ConfigMap NODESET-secret-tracking%s\ndata:\n", suffix)
		for _, key := range slices.Sorted(maps.Keys(objects[suffix])) {
			fmt.Fprintf(&b, "  %s: '%s'\n", key, strings.ReplaceAll(objects[suffix][key], "'", "''"))
		}
	}
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (write it anew with -update): %s", path, diff)
	}
}

// TestStagesOfARotation: what stands in the cluster at each of the five stages.
func TestStagesOfARotation(t *testing.T) {
	const delivered = ledger.Delivered
	a := newNodeSet("9d3a5a5e-0c5e-4a5c-8d60-5d6d5f6c0a01", "compute-0", "compute-1")
	a.read(user7, "2026-02-19T12:00:00Z", "user7")
	a.check(t, "stage-0-nothing-deployed", seen{0, "", user7, map[string]fleet.Version{"compute-0": "none", "compute-1": "none"}})

	a.deploy("edpm-initial", "2026-02-20T10:00:00Z", map[string]ledger.Strength{"compute-0": delivered, "compute-1": delivered})
	a.check(t, "stage-1-deployed", seen{2, user7, user7, map[string]fleet.Version{"compute-0": user7, "compute-1": user7}})

	a.read(user8, "2026-02-23T09:00:00Z", "user8")
	a.check(t, "stage-2-rotated", seen{0, user7, user8, map[string]fleet.Version{"compute-0": user7, "compute-1": user7}})

	a.deploy("edpm-c0", "2026-02-23T12:00:00Z", map[string]ledger.Strength{"compute-0": delivered})
	a.check(t, "stage-3-one-node", seen{1, user7, user8, map[string]fleet.Version{"compute-0": user8, "compute-1": user7}})

	a.deploy("edpm-all", "2026-02-24T12:00:00Z", map[string]ledger.Strength{"compute-0": delivered, "compute-1": delivered})
	a.check(t, "stage-4-all", seen{2, user8, user8, map[string]fleet.Version{"compute-0": user8, "compute-1": user8}})

	b := newNodeSet("9d3a5a5e-0c5e-4a5c-8d60-5d6d5f6c0a02", "compute-10", "compute-11")
	b.read(user7, "2026-02-19T12:00:00Z", "user7")
	b.deploy("edpm-b-initial", "2026-02-20T11:00:00Z", map[string]ledger.Strength{"compute-10": delivered, "compute-11": delivered})
	b.store(t)
	b.read(user8, "2026-02-23T09:00:00Z", "user8")
	b.check(t, "stage-5-second-nodeset-behind", seen{0, user7, user8, map[string]fleet.Version{"compute-10": user7, "compute-11": user7}})
	a.check(t, "stage-5-first-nodeset", seen{2, user8, user8, map[string]fleet.Version{"compute-0": user8, "compute-1": user8}})

	b.deploy("edpm-b-all", "2026-02-25T12:00:00Z", map[string]ledger.Strength{"compute-10": delivered, "compute-11": delivered})
	b.check(t, "stage-5-second-nodeset", seen{2, user8, user8, map[string]fleet.Version{"compute-10": user8, "compute-11": user8}})
}

// TestDoubtIsShown: a node with several candidates never shows the expected version, and lists all of them.
func TestDoubtIsShown(t *testing.T) {
	s := newNodeSet("9d3a5a5e-0c5e-4a5c-8d60-5d6d5f6c0a03", "compute-0", "compute-1", "compute-2")
	s.read(user7, "2026-02-19T12:00:00Z", "user7")
	s.deploy("edpm-initial", "2026-02-20T10:00:00Z", map[string]ledger.Strength{"compute-0": ledger.Delivered, "compute-2": ledger.Attempted})
	s.read(user8, "2026-02-23T09:00:00Z", "user8")
	s.deploy("edpm-failed", "2026-02-23T12:00:00Z", map[string]ledger.Strength{"compute-0": ledger.Attempted, "compute-1": ledger.Attempted})
	s.wanted.Nodes = append(s.wanted.Nodes, "compute-3")
	s.state.Book.Enrol(s.wanted.Nodes, fleet.Unknown)
	s.check(t, "doubt", seen{0, "", user8, map[string]fleet.Version{
		"compute-0": user7, "compute-1": "none", "compute-2": user7, "compute-3": "?",
	}})
}

// TestGroupsAndShards: the texts of a large fleet, at limits so low that three nodes are one.
func TestGroupsAndShards(t *testing.T) {
	s := newNodeSet("9d3a5a5e-0c5e-4a5c-8d60-5d6d5f6c0a04", "compute-0", "compute-1", "compute-2")
	s.read(user7, "2026-02-19T12:00:00Z", "user7")
	s.deploy("edpm-initial", "2026-02-20T10:00:00Z", map[string]ledger.Strength{
		"compute-0": ledger.Delivered, "compute-1": ledger.Delivered, "compute-2": ledger.Attempted,
	})
	drift := verdict.Judge(s.state.Book, s.wanted, s.current)
	for name, limit := range map[string]int{"grouped": 1 << 20, "sharded": 1200} {
		objects, err := trackmap.EncodeWithin(s.state, drift, 0, limit, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		checkGolden(t, name, objects)
	}
}
