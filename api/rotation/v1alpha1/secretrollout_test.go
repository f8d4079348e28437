package v1alpha1

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestJudge(t *testing.T) {
	secrets := []SecretState{{Name: "s", ExpectedHash: "n1q", TotalNodes: 3}}
	unknown := []SecretState{{Name: "gone", ExpectedHash: VersionUnknown, TotalNodes: 3}}
	for _, tt := range []struct {
		name     string
		status   SecretRolloutStatus
		findings Findings
		want     string
	}{
		{"all updated", SecretRolloutStatus{TotalNodes: 3, UpdatedNodes: 3, AllNodesUpdated: true, Secrets: secrets}, Findings{}, `
Ready=True Ready: All 3 nodes run the expected version of every Secret
Updated=True AllNodesUpdated: All 3 nodes run the expected version of every Secret
Degraded=False NodesKnown: It is known what every node runs
Settled=True DeploymentsSettled: No Deployment is under way`},
		{"rotated", SecretRolloutStatus{TotalNodes: 5, Secrets: secrets}, Findings{Behind: []string{"a", "b", "c", "d", "e"}}, `
Ready=False NodesBehind: 5 of 5 nodes do not surely run the expected version of every Secret: a, b, c and 2 more; deploy them
Updated=False NodesBehind: 5 of 5 nodes do not surely run the expected version of every Secret: a, b, c and 2 more; deploy them
Degraded=False NodesKnown: It is known what every node runs
Settled=True DeploymentsSettled: No Deployment is under way`},
		{"under way", SecretRolloutStatus{TotalNodes: 3, UpdatedNodes: 1, DegradedNodes: 2, Secrets: secrets, UnsettledDeployments: []string{"d2", "d1"}},
			Findings{Behind: []string{"b", "c"}, InDoubt: []string{"b", "c"}}, `
Ready=False NodesBehind: 2 of 3 nodes do not surely run the expected version of every Secret: b, c; deploy them
Updated=False NodesBehind: 2 of 3 nodes do not surely run the expected version of every Secret: b, c; deploy them
Degraded=Unknown DeploymentsUnsettled: 2 of 3 nodes may run one of several versions of a Secret: b, c; a Deployment is under way
Settled=False DeploymentsUnsettled: Under way: d1, d2`},
		{"a failed run", SecretRolloutStatus{TotalNodes: 3, UpdatedNodes: 2, DegradedNodes: 1, Secrets: unknown}, Findings{Behind: []string{"c"}, InDoubt: []string{"c"}}, `
Ready=False NodesInDoubt: 1 of 3 nodes may run one of several versions of a Secret: c; deploy them again
Updated=Unknown SecretUnknown: Missing or not readable in the cluster: gone
Degraded=True NodesInDoubt: 1 of 3 nodes may run one of several versions of a Secret: c; deploy them again
Settled=True DeploymentsSettled: No Deployment is under way`},
		{"still running, all updated", SecretRolloutStatus{TotalNodes: 3, UpdatedNodes: 3, AllNodesUpdated: true, Secrets: secrets, UnsettledDeployments: []string{"d"}}, Findings{}, `
Ready=False DeploymentsUnsettled: Under way: d
Updated=True AllNodesUpdated: All 3 nodes run the expected version of every Secret
Degraded=False NodesKnown: It is known what every node runs
Settled=False DeploymentsUnsettled: Under way: d`},
		{"no nodes", SecretRolloutStatus{Secrets: secrets}, Findings{}, `
Ready=Unknown NothingTracked: The NodeSet has no nodes
Updated=Unknown NothingTracked: The NodeSet has no nodes
Degraded=False NodesKnown: It is known what every node runs
Settled=True DeploymentsSettled: No Deployment is under way`},
		{"no Secrets", SecretRolloutStatus{TotalNodes: 3}, Findings{}, `
Ready=Unknown NothingTracked: No Secret goes to the nodes
Updated=Unknown NothingTracked: No Secret goes to the nodes
Degraded=False NodesKnown: It is known what every node runs
Settled=True DeploymentsSettled: No Deployment is under way`},
		{"certificates only", SecretRolloutStatus{TotalNodes: 3, UpdatedNodes: 3, AllNodesUpdated: true, HostSecrets: &HostSecrets{Total: 3, Updated: 3}}, Findings{}, `
Ready=True Ready: All 3 nodes run the expected version of every Secret
Updated=True AllNodesUpdated: All 3 nodes run the expected version of every Secret
Degraded=False NodesKnown: It is known what every node runs
Settled=True DeploymentsSettled: No Deployment is under way`},
		{"something missing", SecretRolloutStatus{TotalNodes: 3, UpdatedNodes: 3, AllNodesUpdated: true, Secrets: secrets},
			Findings{Missing: []string{"OpenStackDataPlaneService nova does not exist", strings.Repeat("é", 2000)}}, `
Ready=Unknown EvidenceIncomplete: OpenStackDataPlaneService nova does not exist; ` + strings.Repeat("é", 488) + `…
Updated=Unknown EvidenceIncomplete: OpenStackDataPlaneService nova does not exist; ` + strings.Repeat("é", 488) + `…
Degraded=False NodesKnown: It is known what every node runs
Settled=True DeploymentsSettled: No Deployment is under way`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.status.Judge(tt.findings, metav1.Now())
			var got strings.Builder
			for _, c := range tt.status.Conditions {
				fmt.Fprintf(&got, "\n%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
			}
			if diff := cmp.Diff(tt.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// atLeast makes a property look at this many cases unless the command line says otherwise.
func atLeast(cases string) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set(cases); err != nil {
			panic(err)
		}
	}
}

// Whatever is put in: Ready and Updated are never True without what they stand for, the time of a condition moves only
// with its status, nothing is longer than the schema allows, and what is behind is not what is cut off.
func TestJudgeHolds(t *testing.T) {
	atLeast("2000")
	rapid.Check(t, func(t *rapid.T) {
		status, findings := drawStatus(t)
		behind := slices.ContainsFunc(status.Secrets, func(s SecretState) bool { return s.UpdatedNodes < s.TotalNodes })
		first, again := metav1.NewTime(time.Unix(1, 0)), *status.DeepCopy()
		status.Judge(findings, first)

		is := map[string]metav1.ConditionStatus{}
		for _, c := range status.Conditions {
			is[c.Type] = c.Status
		}
		if is[ConditionUpdated] == metav1.ConditionTrue && (!status.AllNodesUpdated || len(findings.Missing) > 0 || status.TotalNodes == 0) {
			t.Fatalf("Updated without ground: %+v %+v", status, findings)
		}
		isReady := is[ConditionUpdated] == "True" && is[ConditionSettled] == "True" && is[ConditionDegraded] == "False"
		if isReady != (is[ConditionReady] == metav1.ConditionTrue) || len(is) != 4 {
			t.Fatalf("Ready is not what the others make it: %v", is)
		}
		if (is[ConditionDegraded] == metav1.ConditionFalse) != (status.DegradedNodes == 0) ||
			(is[ConditionSettled] == metav1.ConditionTrue) != (len(status.UnsettledDeployments) == 0) {
			t.Fatalf("conditions contradict the numbers: %v %+v", is, status)
		}
		if behind && status.Secrets != nil && !slices.ContainsFunc(status.Secrets, func(s SecretState) bool { return s.UpdatedNodes < s.TotalNodes }) {
			t.Fatal("the Secrets that are behind were cut off")
		}
		within(t, status)

		again.Conditions = slices.Clone(status.Conditions)
		again.Judge(findings, metav1.NewTime(time.Unix(2, 0)))
		if diff := cmp.Diff(status, again); diff != "" {
			t.Fatalf("judging again changes the status (-first +again):\n%s", diff)
		}
		again.AllNodesUpdated, again.UpdatedNodes, again.TotalNodes, again.DegradedNodes = false, 0, 1, 1
		again.Judge(findings, metav1.NewTime(time.Unix(2, 0)))
		for i, c := range again.Conditions {
			if (c.Status == status.Conditions[i].Status) != c.LastTransitionTime.Equal(&first) {
				t.Fatalf("%s went from %s to %s and has time %v", c.Type, status.Conditions[i].Status, c.Status, c.LastTransitionTime)
			}
		}
	})
}

func drawStatus(t *rapid.T) (SecretRolloutStatus, Findings) {
	total := rapid.Int32Range(0, 5).Draw(t, "total")
	status := SecretRolloutStatus{TotalNodes: total, UpdatedNodes: rapid.OneOf(rapid.Just(total), rapid.Int32Range(0, total)).Draw(t, "updated"), ObservedGeneration: 1}
	status.DegradedNodes = rapid.Int32Range(0, total-status.UpdatedNodes).Draw(t, "degraded")
	status.AllNodesUpdated = total > 0 && status.UpdatedNodes == total && rapid.Bool().Draw(t, "all")
	expected := rapid.SampledFrom([][]Version{{"n1q", "n2q"}, {"n1q", "n2q", "n3q", "?"}}).Draw(t, "expected")
	lengths := rapid.SampledFrom([]int{0, 1, 1, 2, 2, 3, 3, 9, 70, 140})
	for i := range lengths.Draw(t, "secrets") {
		secret := SecretState{Name: fmt.Sprintf("s%d", i), ExpectedHash: rapid.SampledFrom(expected).Draw(t, "expected"), TotalNodes: total}
		secret.UpdatedNodes = rapid.SampledFrom([]int32{0, total, total, total}).Draw(t, "on")
		for j := range rapid.SampledFrom([]int{0, 1, 1, 1, 2, 10}).Draw(t, "versions") {
			secret.Versions = append(secret.Versions, VersionState{Hash: Version(fmt.Sprint("n", j)), Nodes: rapid.Int32Range(0, total).Draw(t, "nodes"),
				Identities: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", strings.Repeat("x", 129)}), 0, 12).Draw(t, "identities")})
		}
		status.Secrets = append(status.Secrets, secret)
	}
	for i := range lengths.Draw(t, "deployments") {
		status.UnsettledDeployments = append(status.UnsettledDeployments, fmt.Sprint("d", i%100))
	}
	return status, Findings{Missing: rapid.SliceOfN(rapid.StringMatching("[A-Z][a-z ]{0,9}"), 0, 2).Draw(t, "missing"), Behind: []string{"a"}, InDoubt: []string{"b"}}
}

// within checks what the schema checks.
func within(t *rapid.T, status SecretRolloutStatus) {
	isSet := func(list []string) bool {
		return slices.IsSorted(list) && len(slices.Compact(slices.Clone(list))) == len(list)
	}
	ok := len(status.Secrets) <= 128 && len(status.UnsettledDeployments) <= 64 && isSet(status.UnsettledDeployments)
	for _, secret := range status.Secrets {
		ok = ok && len(secret.Versions) <= 8
		for _, version := range secret.Versions {
			ok = ok && len(version.Identities) <= 8 && isSet(version.Identities) &&
				!slices.ContainsFunc(version.Identities, func(identity string) bool { return len(identity) > 128 })
		}
	}
	if !ok {
		text, _ := json.Marshal(status)
		t.Fatalf("longer than the schema allows: %s", text)
	}
}
