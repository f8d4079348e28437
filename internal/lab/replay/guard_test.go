package replay_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/lab/replay"
)

const (
	guards     = "../../../config/guards/"
	comparison = "../../../docs/upstream-comparison.md"
)

// row is one line of the comparison: what the recording's timeline tells, worked out by hand.
type row struct {
	recording  string
	at         int // 0: at the end
	credential string
	truth      string
	mayGo      bool   // what really would have been right
	verdict    string // ours
	nodes      string
}

var rows = []row{
	{recording: "e-rotated-while-job-runs", credential: "user7", verdict: "Held NodesBehind", nodes: "edpm-compute-0 edpm-compute-1 edpm-compute-2",
		truth: "all nodes run user7: the Secret changed after the pod had mounted it"},
	{recording: "g-succeeded-with-failed-hosts", credential: "user7", verdict: "Held NodesBehind", nodes: "edpm-compute-1 edpm-compute-2",
		truth: "the run succeeded as a whole but failed on node 1 and did not reach node 2; of later runs there is no recap"},
	{recording: "h-two-nodesets-one-secret", credential: "user7", verdict: "Held NodesBehind", nodes: "b0 b1",
		truth: "the nodes of compute-a run user9; the only run on compute-b since user7 failed"},
	{recording: "h-two-nodesets-one-secret", credential: "user8", mayGo: true, verdict: "Safe Safe",
		truth: "only compute-a ever had user8, and runs user9 since"},
	{recording: "i-two-limits-cover-all", at: 187, credential: "user7", mayGo: true, verdict: "Safe Safe",
		truth: "two limited runs brought user8 to all nodes"},
	{recording: "i-two-limits-cover-all", credential: "user7", mayGo: true, verdict: "Safe Safe",
		truth: "as above, and a run with the limit * followed"},
	{recording: "j-node-added-after-rotation", credential: "user7", verdict: "Held NodesBehind", nodes: "edpm-compute-0 edpm-compute-1 edpm-compute-2",
		truth: "user8 went to the new node 3 alone, which then left"},
	{recording: "j-node-added-after-rotation", credential: "user8", verdict: "Held StillInCluster", nodes: "edpm-compute-3",
		truth: "user8 is the current one; node 3 was removed while it ran user8"},
	{recording: "k-tls-cert-secrets", credential: "user7", verdict: "Held StillInCluster", nodes: "edpm-compute-0 edpm-compute-1 edpm-compute-2",
		truth: "user7 is the current one and all nodes run it; only a certificate was renewed"},
}

// TestCredentialsOfRecordings: the recordings give the right answer, and docs/upstream-comparison.md says what this
// test finds out, upstream's own answer included.
func TestCredentialsOfRecordings(t *testing.T) {
	text, err := os.ReadFile(comparison)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := replay.ReadGuard(guards + "rabbitmquser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, row := range rows {
		report := play(t, row.recording, replay.Options{At: row.at, Guard: guard, Credential: row.credential})
		answer, asked := report.Credentials[row.credential]
		if len(report.Credentials) != 1 || !asked {
			t.Fatalf("%s: answers for %v", row.recording, report.Credentials)
		}
		got := fmt.Sprintf("%s %s", answer.Verdict, answer.Reason)
		if got != row.verdict || strings.Join(answer.Nodes, " ") != row.nodes || len(answer.UnknownNodes) > 0 {
			t.Errorf("%s, %s: got %s, nodes %s, unknown %s", row.recording, row.credential, got, answer.Nodes, answer.UnknownNodes)
		}
		if safe := answer.Verdict == "Safe"; safe != row.mayGo {
			t.Errorf("%s, %s: safe is %t, the truth is %t", row.recording, row.credential, safe, row.mayGo)
		}
		upstream := "not in sync: kept"
		if inSync(t, row.recording, row.at) {
			upstream = "in sync: released"
		}
		when := "at the end"
		if row.at > 0 {
			when = fmt.Sprintf("after event %d", row.at)
		}
		ours := strings.ReplaceAll(row.verdict, "Safe Safe", "Safe")
		if row.nodes != "" {
			ours += ": " + strings.ReplaceAll(row.nodes, " ", ", ")
		}
		fmt.Fprintf(&want, "| %s, %s | %s | %s | %s%s | %s |\n", row.recording, when, row.credential, row.truth, upstream,
			map[bool]string{true: "", false: " (wrong)"}[row.mayGo == strings.HasPrefix(upstream, "in")], ours)
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("%s does not have the table\n%s", comparison, &want)
	}
}

// inSync answers as AreSecretHashesInSync of lib-common does: NodeSets without hashes are passed over, and every Secret
// in the hashes of the others must exist and have that hash. No NodeSets are in sync.
func inSync(t *testing.T, recording string, at int) bool {
	t.Helper()
	nodeSets := map[string]*dataplanev1.OpenStackDataPlaneNodeSet{}
	secrets := map[string]*corev1.Secret{}
	lines := recorded(t, recording)
	for event := (replay.Event{}); lines.More() && (at == 0 || event.N < at); {
		event = replay.Event{}
		must(t, lines.Decode(&event))
		var head metav1.PartialObjectMetadata
		must(t, json.Unmarshal(event.Object, &head))
		switch head.Kind {
		case "OpenStackDataPlaneNodeSet":
			keep(t, nodeSets, head.Name, event)
		case "Secret":
			keep(t, secrets, head.Namespace+"/"+head.Name, event)
		}
	}
	if len(nodeSets) == 0 || len(secrets) == 0 {
		t.Fatalf("%s has %d NodeSets and %d Secrets", recording, len(nodeSets), len(secrets))
	}
	for _, nodeSet := range nodeSets {
		for name, deployed := range nodeSet.Status.SecretHashes {
			secret := secrets[nodeSet.Namespace+"/"+name]
			if secret == nil || string(fingerprint.Of(secret.Data, string(secret.Type))) != deployed {
				return false
			}
		}
	}
	return true
}

func recorded(t *testing.T, recording string) *json.Decoder {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", recording, "events.jsonl.gz"))
	must(t, err)
	t.Cleanup(func() { file.Close() })
	lines, err := gzip.NewReader(file)
	must(t, err)
	return json.NewDecoder(lines)
}

func keep[T any](t *testing.T, objects map[string]*T, key string, event replay.Event) {
	t.Helper()
	objects[key] = new(T)
	must(t, json.Unmarshal(event.Object, objects[key]))
	if event.Type == "DELETED" {
		delete(objects, key)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestGuardCommand: the command prints what the rows say, and refuses what is no guard.
func TestGuardCommand(t *testing.T) {
	recording := filepath.Join("testdata", "e-rotated-while-job-runs", "events.jsonl.gz")
	notAGuard, unknownField, badPattern := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "c")
	must(t, os.WriteFile(notAGuard, []byte("apiVersion: v1\nkind: Secret\n"), 0o600))
	must(t, os.WriteFile(unknownField, []byte("kind: CredentialGuard\nspec: {secrets: []}\n"), 0o600))
	must(t, os.WriteFile(badPattern, []byte(`{apiVersion: rotation.openstack.org/v1alpha1, kind: CredentialGuard, spec: {credential: {identityPaths: [.a]},
		sources: [{secretNames: [a], keys: [b], regexp: "password=(?P<identity>a)"}]}}`), 0o600))
	for _, tt := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"--guard", guards + "rabbitmquser.yaml"}, "user7         Held    NodesBehind     3 nodes may still run user7"},
		{[]string{"--guard", guards + "rabbitmquser.yaml", "--credential", "user8", "-o", "json"}, `"reason": "StillInCluster"`},
		{[]string{"--guard", guards + "keystoneapplicationcredential.yaml", "--credential", "abc", "-o", "json"}, `"verdict": "Safe"`},
		{[]string{"--credential", "user7"}, "!--credential needs --guard"},
		{[]string{"--guard", "nowhere"}, "!nowhere: no such file"},
		{[]string{"--guard", notAGuard}, "!is no CredentialGuard"},
		{[]string{"--guard", unknownField}, `!unknown field "secrets"`},
		{[]string{"--guard", badPattern}, "!stands where a password stands"},
	} {
		var out strings.Builder
		command := replay.NewCommand()
		command.SetArgs(append(tt.arguments, recording))
		command.SetOut(&out)
		command.SetErr(&out)
		err := command.Execute()
		if want, fails := strings.CutPrefix(tt.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v", tt.arguments, err)
			}
		} else if squeezed := strings.Join(strings.Fields(out.String()), " "); err != nil || !strings.Contains(squeezed, strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%s: %v\n%s", tt.arguments, err, &out)
		}
	}
}
