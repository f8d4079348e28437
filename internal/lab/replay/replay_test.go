package replay_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/lab/replay"
)

const (
	edpm  = "openstack-edpm"
	nova  = "nova-cell1-compute-config"
	metad = "neutron-ovn-metadata-agent-neutron-config"
	node0 = "edpm-compute-0"
	node1 = "edpm-compute-1"
	node2 = "edpm-compute-2"
	node3 = "edpm-compute-3"
)

// answer is what the recording's timeline tells, worked out by hand: which content each pod mounted, on which hosts
// it ran and how it ended. Versions go by the labels of hash-labels.yaml.
type answer struct {
	recording      string
	at             int // 0: at the end
	nodeSet        string
	total, updated int
	secret         string
	expected       string
	nodes          map[string]string // labels separated by blanks
}

var answers = []answer{
	{recording: "a-full-success", nodeSet: edpm, total: 3, updated: 3, secret: nova, expected: "nova(user7)",
		nodes: all3("nova(user7)")},
	// The limited run reached node 0 only; nodes 1 and 2 never saw user8.
	{recording: "b-ansiblelimit-one-node", nodeSet: edpm, total: 3, updated: 1, secret: nova, expected: "nova(user8)",
		nodes: map[string]string{node0: "nova(user8)", node1: "nova(user7)", node2: "nova(user7)"}},
	// In the end a full run delivered both; before it (event 121) nova was new everywhere, neutron on node 1 alone.
	{recording: "c-services-override", nodeSet: edpm, total: 3, updated: 3, secret: metad, expected: "neutron(neutronuser2)",
		nodes: all3("neutron(neutronuser2)")},
	{recording: "d-rotated-before-deployment", nodeSet: edpm, total: 3, updated: 3, secret: nova, expected: "nova(user8)",
		nodes: all3("nova(user8)")},
	// The pod mounted user7 before the Secret became user8, and succeeded: the nodes run user7. Upstream says user8.
	{recording: "e-rotated-while-job-runs", nodeSet: edpm, total: 3, updated: 0, secret: nova, expected: "nova(user8)",
		nodes: all3("nova(user7)")},
	// While that pod still ran nothing else was possible either.
	{recording: "e-rotated-while-job-runs", at: 108, nodeSet: edpm, total: 3, updated: 0, secret: nova, expected: "nova(user8)",
		nodes: all3("nova(user7)")},
	{recording: "e3-rotation-adds-key-while-job-runs", nodeSet: edpm, total: 3, updated: 0, secret: nova,
		expected: "nova(user8+03-extra.conf)", nodes: all3("nova(user7)")},
	// Attempt 1 carried user7 and failed, attempt 2 carried user8 and succeeded: another file, so services restarted.
	{recording: "e4-rotated-between-failed-attempts", nodeSet: edpm, total: 3, updated: 3, secret: nova, expected: "nova(user8)",
		nodes: all3("nova(user8)")},
	// Two attempts with user8 failed, then a repair with user8 went well: it may have found the file in place and
	// restarted nothing (lost restart), so user7 stays possible.
	{recording: "f-job-failed-backoff-limit", nodeSet: edpm, total: 3, updated: 0, secret: nova, expected: "nova(user8)",
		nodes: all3("nova(user7) nova(user8)")},
	// The recap of a succeeded run lists node 1 as failed and node 2 as unreachable; later runs left no usable recap.
	{recording: "g-succeeded-with-failed-hosts", nodeSet: edpm, total: 3, updated: 1, secret: nova, expected: "nova(user8)",
		nodes: map[string]string{node0: "nova(user8)", node1: "nova(user7) nova(user8)", node2: "nova(user7) nova(user8)"}},
	// user8 reached a only; then user9 was delivered to a, while its run on b failed.
	{recording: "h-two-nodesets-one-secret", nodeSet: "compute-a", total: 2, updated: 2, secret: nova, expected: "nova(user9)",
		nodes: map[string]string{"a0": "nova(user9)", "a1": "nova(user9)"}},
	{recording: "h-two-nodesets-one-secret", nodeSet: "compute-b", total: 2, updated: 0, secret: nova, expected: "nova(user9)",
		nodes: map[string]string{"b0": "nova(user7) nova(user9)", "b1": "nova(user7) nova(user9)"}},
	// Two limits cover the fleet; upstream still says user7.
	{recording: "i-two-limits-cover-all", nodeSet: edpm, total: 3, updated: 3, secret: nova, expected: "nova(user8)",
		nodes: all3("nova(user8)")},
	// Node 3 came, was deployed alone with user8, and went again.
	{recording: "j-node-added-after-rotation", nodeSet: edpm, total: 3, updated: 0, secret: nova, expected: "nova(user8)",
		nodes: all3("nova(user7)")},
	// Node 0's certificate was renewed, a run limited to node 1 did not bring it, a full run did.
	{recording: "k-tls-cert-secrets", nodeSet: edpm, total: 3, updated: 3, secret: "cert-neutron-metadata-default-edpm-compute-0",
		expected: "cert-neutron-metadata-default-edpm-compute-0@v2",
		nodes:    map[string]string{node0: "cert-neutron-metadata-default-edpm-compute-0@v2"}},
	{recording: "n-ansiblevarsfrom-secret", nodeSet: edpm, total: 3, updated: 3, secret: nova, expected: "nova(user7)",
		nodes: all3("nova(user7)")},
	{recording: "o-companion-metadata-writes", nodeSet: edpm, total: 3, updated: 3, secret: nova, expected: "nova(user7)",
		nodes: all3("nova(user7)")},
	{recording: "s-status-field", nodeSet: edpm, total: 3, updated: 3, secret: nova, expected: "nova(user8)",
		nodes: all3("nova(user8)")},
	// One run for both NodeSets; its recap counts one host where the limit chooses four, so it proves nothing.
	{recording: "w-deploy-on-all-nodesets", nodeSet: "compute-a", total: 2, updated: 0, secret: "site-banner-secret",
		expected: "banner(v1)", nodes: map[string]string{"compute-a-0": "none banner(v1)", "compute-a-1": "none banner(v1)"}},
	{recording: "w-deploy-on-all-nodesets", nodeSet: "compute-b", total: 2, updated: 0, secret: "site-banner-secret",
		expected: "banner(v1)", nodes: map[string]string{"compute-b-0": "none banner(v1)", "compute-b-1": "none banner(v1)"}},
}

func all3(labels string) map[string]string {
	return map[string]string{node0: labels, node1: labels, node2: labels}
}

func TestRecordings(t *testing.T) {
	covered := map[string]bool{}
	for _, want := range answers {
		name := want.recording + "/" + want.nodeSet
		covered[want.recording] = true
		t.Run(name, func(t *testing.T) {
			labels := labelsOf(t, want.recording)
			report := play(t, want.recording, replay.Options{At: want.at})
			got := report.NodeSets[want.nodeSet]
			if got.TotalNodes != want.total || got.UpdatedNodes != want.updated || got.AllNodesUpdated != (want.total == want.updated) {
				t.Errorf("%d of %d nodes updated (all: %t), want %d of %d", got.UpdatedNodes, got.TotalNodes, got.AllNodesUpdated, want.updated, want.total)
			}
			secret := got.Secrets[want.secret]
			if labels[secret.ExpectedHash] != want.expected {
				t.Errorf("expected version of %s is %s, want %s", want.secret, labels[secret.ExpectedHash], want.expected)
			}
			if len(secret.Nodes) != len(want.nodes) {
				t.Errorf("%d nodes have records of %s, want %d", len(secret.Nodes), want.secret, len(want.nodes))
			}
			for node, versions := range want.nodes {
				if names := labelled(labels, secret.Nodes[node]); names != versions {
					t.Errorf("%s may run %q of %s, want %q", node, names, want.secret, versions)
				}
			}
		})
	}
	recordings, err := filepath.Glob("testdata/*/events.jsonl.gz")
	if err != nil || len(recordings) == 0 {
		t.Fatal("no recordings")
	}
	for _, recording := range recordings {
		if name := filepath.Base(filepath.Dir(recording)); !covered[name] {
			t.Errorf("recording %s has no answer", name)
		}
	}
}

// TestMarginWidens: with a kubelet that may serve older content, a Secret rotated shortly before a pod stays in doubt.
func TestMarginWidens(t *testing.T) {
	labels := labelsOf(t, "d-rotated-before-deployment")
	report := play(t, "d-rotated-before-deployment", replay.Options{Margin: time.Minute}).NodeSets[edpm]
	for _, node := range []string{node0, node1, node2} {
		names := labelled(labels, report.Secrets[nova].Nodes[node])
		if !strings.Contains(names, "nova(user7)") || !strings.Contains(names, "nova(user8)") || report.UpdatedNodes != 0 {
			t.Errorf("%s may run %q with a margin of a minute, want both versions among them and no node updated", node, names)
		}
	}
}

func play(t *testing.T, recording string, options replay.Options) replay.Report {
	t.Helper()
	player := replay.NewPlayer(options)
	if err := player.File(filepath.Join("testdata", recording, "events.jsonl.gz")); err != nil {
		t.Fatal(err)
	}
	return player.Report()
}

func labelsOf(t *testing.T, recording string) map[fleet.Version]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", recording, "hash-labels.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var byLabel map[string]fleet.Version
	if err := yaml.Unmarshal(raw, &byLabel); err != nil {
		t.Fatal(err)
	}
	labels := map[fleet.Version]string{fleet.None: "none", fleet.Unknown: "?"}
	for label, hash := range byLabel {
		labels[hash] = label
	}
	return labels
}

func labelled(labels map[fleet.Version]string, versions fleet.Versions) string {
	var names []string
	for _, v := range versions {
		names = append(names, labels[v])
	}
	slices.SortFunc(names, func(a, b string) int {
		if a == "none" || b == "none" {
			return strings.Compare(b, a)
		}
		return strings.Compare(a, b)
	})
	return strings.Join(names, " ")
}
