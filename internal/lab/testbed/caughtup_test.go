package testbed

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// What the cluster of these tests holds.
const (
	v1 = fleet.Version("n5b4hfirst")
	v2 = fleet.Version("n656hsecond")
)

// stored is a record of NodeSet n: node c0 has v1, and so has the cluster; Deployment old is settled, a run of new goes
// on.
func stored() trackmap.State {
	book := ledger.NewBook()
	book.Nodes["c0"] = ledger.Node{Origin: fleet.None}
	book.Secrets["s"] = ledger.History{UID: "s-uid", Revision: 10, Held: []ledger.Held{{Version: v1, Since: fleet.Instant{Revision: 10}}}}
	at := func(revision uint64) fleet.Instant {
		return fleet.Instant{Revision: revision, Time: time.Unix(int64(revision), 0)}
	}
	book.Runs["old-pod"] = ledger.Run{
		ID: "old-pod", Deployment: "old", DeploymentUID: "old-uid", Service: "nova", Place: "nova", Attempt: 1, Fixed: true,
		Span: fleet.Span{Began: at(20), Ended: at(21), Over: true}, Carried: map[string]fleet.Versions{"s": {v1}},
		Reach: map[string]ledger.Strength{"c0": ledger.Delivered},
	}
	book.Runs["new-pod"] = ledger.Run{
		ID: "new-pod", Deployment: "new", DeploymentUID: "new-uid", Service: "nova", Place: "nova", Attempt: 1, Fixed: true,
		Span: fleet.Span{Began: at(30)}, Carried: map[string]fleet.Versions{"s": {v1}},
		Reach: map[string]ledger.Strength{"c0": ledger.Attempted},
	}
	return trackmap.State{NodeSetUID: "n-uid", Sequence: 1, AsOf: 40, Settled: []string{"old-uid/old"}, Book: book}
}

// objects writes a record as the operator does.
func objects(t *testing.T, s trackmap.State) trackmap.Objects {
	t.Helper()
	wanted := verdict.Wanted{Nodes: []string{"c0"}, Secrets: map[string]verdict.WantedSecret{}}
	for name, history := range s.Book.Secrets {
		wanted.Secrets[name] = verdict.WantedSecret{Expected: history.Current(), Places: []string{"nova"}}
	}
	text, err := trackmap.Encode(s, verdict.Judge(s.Book, wanted, nil))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// caughtUp is a cluster of which the record says everything.
func caughtUp(t *testing.T) sight {
	t.Helper()
	meta := func(name, revision string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), ResourceVersion: revision}
	}
	service := &dataplanev1.OpenStackDataPlaneService{ObjectMeta: meta("nova", "1")}
	service.Spec.DataSources = []dataplanev1.DataSource{{SecretRef: &dataplanev1.SourceReference{Name: "s"}}}
	nodeSet := &dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: meta("n", "50")}
	nodeSet.Generation = 3
	nodeSet.Spec.Nodes = map[string]dataplanev1.NodeSection{"c0": {}}
	nodeSet.Spec.Services = []string{"nova"}
	nodeSet.Status.SecretDeployment = &dataplanev1.SecretDeploymentStatus{TotalNodes: 1, UpdatedNodes: 1, AllNodesUpdated: true, ObservedGeneration: 3}
	deployment := func(name string) dataplanev1.OpenStackDataPlaneDeployment {
		d := dataplanev1.OpenStackDataPlaneDeployment{ObjectMeta: meta(name, "1")}
		d.Spec.NodeSets = []string{"n"}
		return d
	}
	rollout := &rotationv1.SecretRollout{}
	rollout.Status = rotationv1.SecretRolloutStatus{NodeSetGeneration: 3, TotalNodes: 1, UpdatedNodes: 1, AllNodesUpdated: true}
	return sight{
		nodeSet: nodeSet, services: map[string]*dataplanev1.OpenStackDataPlaneService{"nova": service},
		deployments: []dataplanev1.OpenStackDataPlaneDeployment{deployment("old"), deployment("new")},
		secrets:     map[string]corev1.Secret{"s": {ObjectMeta: meta("s", "10")}},
		pods:        map[types.UID]corev1.Pod{"old-pod": pod("old", corev1.PodSucceeded), "new-pod": pod("new", corev1.PodRunning)},
		over:        map[types.UID]bool{"old-uid": true}, reach: reaches(nodeSet), objects: objects(t, stored()), rollout: rollout,
	}
}

func pod(deployment string, phase corev1.PodPhase) corev1.Pod {
	volume := func(name, secret string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: deployment + "-pod", Labels: map[string]string{upstream.LabelDeployment: deployment}},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{volume("inventory", "dataplanenodeset-n"), volume("config", "s")},
			Containers: []corev1.Container{{
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/var/lib/openstack/configs/nova/k"}},
			}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func TestCaughtUp(t *testing.T) {
	state, lag := caughtUp(t).lag()
	if lag != "" {
		t.Fatalf("it lags: %s", lag)
	}
	want := State{TotalNodes: 1, UpdatedNodes: 1, AllNodesUpdated: true, Secrets: map[string]SecretState{
		"s": {Current: v1, Expected: v1, Nodes: map[string]fleet.Versions{"c0": {v1}}},
	}}
	if diff := cmp.Diff(want, state); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Anything that is in the cluster and not in the record, or the other way round, is a lag, and so are numbers that do
// not go together.
func TestLag(t *testing.T) {
	running := func(name string) corev1.Pod { return pod(name, corev1.PodRunning) }
	record := func(change func(*trackmap.State)) func(*testing.T, *sight) {
		return func(t *testing.T, s *sight) {
			state := stored()
			change(&state)
			s.objects = objects(t, state)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*testing.T, *sight)
		want   string
	}{
		{"no record", func(_ *testing.T, s *sight) { s.objects = nil }, "the record of NodeSet n: nothing is stored"},
		{"another's record", record(func(s *trackmap.State) { s.NodeSetUID = "x" }), "the record of NodeSet n: stored for another NodeSet"},
		{"Secret written", func(_ *testing.T, s *sight) {
			s.secrets["s"] = corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "s-uid", ResourceVersion: "11"}}
		}, "Secret s: read at revision 10, now at 11"},
		{"Secret made anew", func(_ *testing.T, s *sight) {
			s.secrets["s"] = corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "other", ResourceVersion: "10"}}
		}, "Secret s: read at revision 10, now at 10"},
		{"Secret gone", func(_ *testing.T, s *sight) { delete(s.secrets, "s") }, "Secret s: read at revision 10, now at 0"},
		{"another Secret wanted", func(_ *testing.T, s *sight) {
			s.services["nova"].Spec.DataSources[0].SecretRef.Name = "s2"
			s.secrets["s2"] = corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "s2-uid", ResourceVersion: "9"}}
		}, "Secret s2: read at revision 0, now at 9"},
		{"new pod", func(_ *testing.T, s *sight) { s.pods["newer-pod"] = running("new") }, "pod new-pod is not in the record"},
		{"new pod that does not run yet", func(_ *testing.T, s *sight) { s.pods["newer-pod"] = pod("new", corev1.PodPending) }, ""},
		{"new pod for nobody", func(_ *testing.T, s *sight) {
			p := running("new")
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "RUNNER_CMDLINE", Value: "--limit c9"}}
			s.pods["newer-pod"] = p
		}, ""},
		{"new pod of another NodeSet", func(_ *testing.T, s *sight) {
			p := running("new")
			p.Spec.Volumes[0].Secret.SecretName = "dataplanenodeset-m"
			s.pods["newer-pod"] = p
		}, ""},
		{"new pod that carries nothing", func(_ *testing.T, s *sight) {
			p := running("new")
			p.Spec.Containers[0].VolumeMounts = nil
			s.pods["newer-pod"] = p
		}, ""},
		{"earlier pod of a settled Deployment", func(_ *testing.T, s *sight) { s.pods["older-pod"] = pod("old", corev1.PodFailed) }, ""},
		{"pod whose Deployment is gone", func(_ *testing.T, s *sight) { s.pods["older-pod"] = pod("older", corev1.PodFailed) }, ""},
		{"mounted and not known", record(func(s *trackmap.State) { run(s, "new-pod", func(r *ledger.Run) { r.Fixed = false }) }),
			"what pod new-pod mounted is not known yet"},
		{"pod has ended", func(_ *testing.T, s *sight) { s.pods["new-pod"] = pod("new", corev1.PodFailed) },
			"that pod new-pod has ended is not in the record"},
		{"pod is gone", func(_ *testing.T, s *sight) { delete(s.pods, "new-pod") },
			"that the pod of a run of new is gone is not in the record"},
		{"Deployment is over", func(_ *testing.T, s *sight) { s.over["new-uid"] = true },
			"that Deployment new is over is not in the record"},
		{"Deployment of that name is another", record(func(s *trackmap.State) { s.Settled = []string{"older-uid/old"} }),
			"that Deployment old is over is not in the record"},
		{"nothing told", func(_ *testing.T, s *sight) { s.nodeSet.Status.SecretDeployment = nil },
			"NodeSet n does not say yet how many of its nodes are updated"},
		{"told of an older NodeSet", func(_ *testing.T, s *sight) { s.nodeSet.Generation = 4 },
			"NodeSet n does not say yet how many of its nodes are updated"},
		{"told less than recorded", func(_ *testing.T, s *sight) { s.nodeSet.Status.SecretDeployment.UpdatedNodes = 0 },
			"NodeSet n says 0 of 1 nodes (all: true), its record shows 1 of 1 (all: true)"},
		{"told all although a Service is missing", func(_ *testing.T, s *sight) { s.nodeSet.Spec.Services = []string{"nova", "neutron"} },
			"NodeSet n says 1 of 1 nodes (all: true), its record shows 1 of 1 (all: false)"},
		{"told of other nodes", func(_ *testing.T, s *sight) { s.nodeSet.Status.SecretDeployment.TotalNodes = 2 },
			"NodeSet n says 1 of 2 nodes (all: true), its record shows 1 of 1 (all: true)"},
		{"no SecretRollout", func(_ *testing.T, s *sight) { s.rollout = nil }, "NodeSet n has no SecretRollout yet"},
		{"SecretRollout says otherwise", func(_ *testing.T, s *sight) { s.rollout.Status.UpdatedNodes = 0 },
			"SecretRollout n says 0 of 1 nodes (all: true), the NodeSet 1 of 1 (all: true)"},
		{"SecretRollout says otherwise of all", func(_ *testing.T, s *sight) { s.rollout.Status.AllNodesUpdated = false },
			"SecretRollout n says 1 of 1 nodes (all: false), the NodeSet 1 of 1 (all: true)"},
		{"SecretRollout of other nodes", func(_ *testing.T, s *sight) { s.rollout.Status.TotalNodes = 2 },
			"SecretRollout n says 1 of 2 nodes (all: true), the NodeSet 1 of 1 (all: true)"},
		{"SecretRollout of an older NodeSet", func(_ *testing.T, s *sight) { s.rollout.Status.NodeSetGeneration = 2 },
			"SecretRollout n says 1 of 1 nodes (all: true), the NodeSet 1 of 1 (all: true)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := caughtUp(t)
			tt.change(t, &s)
			if _, lag := s.lag(); lag != tt.want && (tt.want == "" || !strings.HasPrefix(lag, tt.want)) {
				t.Errorf("got  %q\nwant %q", lag, tt.want)
			}
		})
	}
}

func run(s *trackmap.State, id string, change func(*ledger.Run)) {
	r := s.Book.Runs[id]
	change(&r)
	s.Book.Runs[id] = r
}

// Both forms of a view read the same: with every node, and with nodes grouped.
func TestReadView(t *testing.T) {
	want := SecretState{Current: v1, Expected: v2, Nodes: map[string]fleet.Versions{
		"c0": fleet.SetOf(v2), "c1": fleet.SetOf(v1, v2), "c2": fleet.SetOf(v1, v2), "c3": fleet.SetOf(fleet.None), "c4": fleet.SetOf(fleet.Unknown),
	}}
	for name, text := range map[string]string{
		"plain": `{"currentHash":"n5b4hfirst","expectedHash":"n656hsecond","nodes":{
			"c0":{"secretHash":"n656hsecond","deploymentName":"d"},
			"c1":{"secretHash":"n5b4hfirst","candidates":["n5b4hfirst","n656hsecond"]},
			"c2":{"secretHash":"n5b4hfirst","candidates":["n656hsecond","n5b4hfirst"]},
			"c3":{"secretHash":"none"}, "c4":{"secretHash":"?"}}}`,
		"grouped": `{"format":2,"currentHash":"n5b4hfirst","expectedHash":"n656hsecond","groups":[
			{"secretHash":"n656hsecond","deploymentName":"d","count":1,"nodes":"c0"},
			{"secretHash":"n5b4hfirst","candidates":["n5b4hfirst","n656hsecond"],"count":2,"nodes":"c[1-2]"},
			{"secretHash":"none","count":1,"nodes":"c3"}, {"secretHash":"?","count":1,"nodes":"c4"}]}`,
	} {
		got, err := readView(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	if never, err := readView(`{"currentHash":"","expectedHash":"?"}`); err != nil || never.Current != fleet.None {
		t.Errorf("nothing was ever on all nodes: %v, %v", never, err)
	}
	for _, text := range []string{``, `{"nodes":[]}`, `{"groups":[{"nodes":"c[1-"}]}`} {
		if _, err := readView(text); err == nil {
			t.Errorf("%s: read", text)
		}
	}
}

// A node counts if every Secret that it receives is exactly as expected.
func TestUpdatedNodes(t *testing.T) {
	state := func(expected fleet.Version, nodes map[string]fleet.Versions) SecretState {
		return SecretState{Expected: expected, Nodes: nodes}
	}
	for _, tt := range []struct {
		name    string
		secrets map[string]SecretState
		want    int
	}{
		{"no Secrets", nil, 0},
		{"both", map[string]SecretState{"s": state(v1, map[string]fleet.Versions{"c0": {v1}, "c1": {v1}})}, 2},
		{"one in doubt", map[string]SecretState{"s": state(v1, map[string]fleet.Versions{"c0": {v1}, "c1": {v1, v2}})}, 1},
		{"expected unknown", map[string]SecretState{"s": state(fleet.Unknown, map[string]fleet.Versions{"c0": {fleet.Unknown}, "c1": {v1}})}, 0},
		{"one Secret behind", map[string]SecretState{
			"s": state(v1, map[string]fleet.Versions{"c0": {v1}, "c1": {v1}}), "r": state(v2, map[string]fleet.Versions{"c0": {v1}, "c1": {v2}}),
		}, 1},
		{"a Secret for one node alone", map[string]SecretState{
			"s": state(v1, map[string]fleet.Versions{"c0": {v1}, "c1": {v1}}), "cert": state(v2, map[string]fleet.Versions{"c0": {v2}}),
		}, 2},
	} {
		if got := updatedNodes([]string{"c0", "c1"}, tt.secrets); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
