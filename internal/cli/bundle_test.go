package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

// saved writes what report prints of a state into a file.
func saved(t *testing.T, evidence report.Evidence, args ...string) string {
	t.Helper()
	o := try(t, evidence, append([]string{"report"}, args...)...)
	if o.code != Holds {
		t.Fatalf("report: %d %s", o.code, o.err)
	}
	file := filepath.Join(t.TempDir(), "bundle")
	if err := os.WriteFile(file, []byte(o.out), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestVerifyExit: 0 where every verdict follows from the bundle, 3 where one does not, 5 where there is none, 1 where
// there is no bundle.
func TestVerifyExit(t *testing.T) {
	wrong := reporttest.Partial().Evidence()
	wrong.Namespaces[0].Holds[0].Status.Verdict = rotationv1.VerdictSafe
	for name, one := range map[string]struct {
		evidence report.Evidence
		code     int
		want     string
	}{
		"equal":     {reporttest.Partial().Evidence(), Holds, "All of 1 verdict follow from the evidence"},
		"different": {wrong, HoldsNot, "verdict is Safe in the hold, Held by the evidence"},
		"unjudged":  {reporttest.Unjudged().Evidence(), NotKnown, "nothing to compare"},
	} {
		for _, format := range []string{"yaml", "json"} {
			file := saved(t, one.evidence, "-o", format)
			o := try(t, report.Evidence{}, "verify", file)
			if o.code != one.code || !strings.Contains(o.out, one.want) {
				t.Errorf("%s as %s: %d, want %d\n%s%s", name, format, o.code, one.code, o.out, o.err)
			}
			narrow(t, []string{"verify"}, o.out)
			var v report.Verification
			if o = try(t, report.Evidence{}, "verify", file, "-o", "json"); json.Unmarshal([]byte(o.out), &v) != nil || v.Equal != (one.code == Holds) || o.code != one.code {
				t.Errorf("%s as %s in JSON: %d %s", name, format, o.code, o.out)
			}
		}
	}
	for _, name := range []string{filepath.Join(t.TempDir(), "none"), "-"} {
		if o := try(t, report.Evidence{}, "verify", name); o.code != Failed {
			t.Errorf("verify %s: %d %s", name, o.code, o.out+o.err)
		}
	}
}

// TestReportSaysWhatIsMissing: a bundle of what could not all be read is one, with a warning beside it.
func TestReportSaysWhatIsMissing(t *testing.T) {
	evidence := reporttest.Partial().Evidence()
	evidence.Namespaces[0].Unread = []report.Unread{{What: "CredentialHolds", Why: "forbidden", Needed: true}}
	o := try(t, evidence, "report")
	if o.code != Holds || !strings.Contains(o.err, "Warning: CredentialHolds cannot be read: forbidden") {
		t.Errorf("report: %d %s", o.code, o.err)
	}
	if back, err := report.ReadBundle([]byte(o.out)); err != nil || len(back.Namespaces[0].Unread) != 1 {
		t.Errorf("the bundle: %v", err)
	}
	file := filepath.Join(t.TempDir(), "bundle.yaml")
	if o := try(t, evidence, "report", "-f", file); o.code != Holds || o.out != "" {
		t.Errorf("report into a file: %d %s", o.code, o.out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", info, err)
	}
}

// TestSimulateFromBundle: a bundle gives the same simulation as the cluster, in its own namespace.
func TestSimulateFromBundle(t *testing.T) {
	evidence := reporttest.Healthy().Evidence()
	args := []string{"simulate", "--rotate", reporttest.NovaConfig, "--identity", "user9", "--fail", "compute-1,edge/edge-0"}
	live := try(t, evidence, args...)
	if live.code != Holds || !strings.Contains(live.out, "user7 would be held by edge/edge-0, edpm/compute-1 while") {
		t.Errorf("simulate: %d\n%s%s", live.code, live.out, live.err)
	}
	narrow(t, args, live.out)
	if file := try(t, report.Evidence{}, append(args, "-f", saved(t, evidence))...); file.out != live.out {
		t.Errorf("from a bundle:\n%s%s\nlive:\n%s", file.out, file.err, live.out)
	}
	for _, wrong := range [][]string{{"simulate"}, {"simulate", "x"}, {"simulate", "--rotate", "secret/"}} {
		if o := try(t, evidence, wrong...); o.code != Misused {
			t.Errorf("%v: %d %s", wrong, o.code, o.err)
		}
	}
	o := try(t, evidence, "simulate", "--rotate", "nova-cell1-compute-confg")
	if o.code != Failed || !strings.Contains(strings.Join(strings.Fields(o.err), " "), "did you mean "+reporttest.NovaConfig) {
		t.Errorf("a Secret that is not tracked: %d %s", o.code, o.err)
	}
}

// TestNextOutputs: whatever is printed can be applied, and who pipes it on reads the remarks beside it.
func TestNextOutputs(t *testing.T) {
	evidence := reporttest.Partial().Evidence()
	table, asYAML, asJSON := try(t, evidence, "next"), try(t, evidence, "next", "-o", "yaml"), try(t, evidence, "next", "-o", "json")
	if table.out != asYAML.out || !strings.Contains(table.out, "kind: OpenStackDataPlaneDeployment") {
		t.Errorf("next:\n%s\nas YAML:\n%s", table.out, asYAML.out)
	}
	var list struct {
		Kind  string           `json:"kind"`
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal([]byte(asJSON.out), &list); err != nil || list.Kind != "List" || len(list.Items) != 1 {
		t.Fatalf("as JSON: %v %s", err, asJSON.out)
	}
	var document map[string]any
	if err := yaml.Unmarshal([]byte(table.out), &document); err != nil || document["metadata"].(map[string]any)["name"] != list.Items[0]["metadata"].(map[string]any)["name"] {
		t.Errorf("YAML and JSON are of different Deployments: %v", err)
	}
	if !strings.Contains(table.err, "Deployment edpm-c10 is not over") {
		t.Errorf("the remarks are not on the error output: %s", table.err)
	}
	batches, first := try(t, evidence, "next", "--batch", "1"), try(t, evidence, "next", "--batch", "1", "--first")
	if strings.Count(batches.out, "kind: ") != 4 || strings.Count(first.out, "kind: ") != 1 || !strings.Contains(batches.out, "# Batch 4 of 4.\n# Apply it only after:\n#   kubectl") {
		t.Errorf("batches:\n%s\nthe first:\n%s", batches.out, first.out)
	}
	if o := try(t, evidence, "next", "--batch", "0"); o.code != Misused {
		t.Errorf("--batch 0: %d", o.code)
	}
	if o := try(t, reporttest.Done().Evidence(), "next"); o.code != Holds || !strings.HasPrefix(o.out, "# Nothing is left to deploy") {
		t.Errorf("with nothing to do: %d %s", o.code, o.out)
	}
	if o := try(t, evidence, "next", "edge", "-o", "name"); o.code != Holds || !strings.HasPrefix(o.out, "openstackdataplanedeployment/rotate-edge-") {
		t.Errorf("for one NodeSet: %d %s", o.code, o.out)
	}
}

// TestWatchLines: without a terminal there are lines; an interval that would keep the API server busy is refused.
func TestWatchLines(t *testing.T) {
	if o := try(t, reporttest.Partial().Evidence(), "watch", "--every", "10ms"); o.code != Misused {
		t.Errorf("--every 10ms: %d %s", o.code, o.err)
	}
	if o := try(t, reporttest.Partial().Evidence(), "watch", "nowhere"); o.code != Failed {
		t.Errorf("a NodeSet that does not exist: %d %s", o.code, o.err)
	}
}
