package executor

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
)

func TestARecapCountsEachHostOnce(t *testing.T) {
	host := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"})
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.SliceOf(host)
		s := stats{Processed: hosts.Draw(t, "processed"), Failures: hosts.Draw(t, "failures"), Dark: hosts.Draw(t, "dark")}
		failed, dark, bad, total := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, h := range s.Processed {
			total[h] = true
		}
		for _, h := range s.Failures {
			failed[h], bad[h] = true, true
		}
		for _, h := range s.Dark {
			dark[h], bad[h] = true, true
		}
		percentage := 0
		if len(total) > 0 {
			percentage = int(math.Floor(float64(len(bad))*100/float64(len(total)) + 0.5))
		}
		list := func(set map[string]bool) string {
			text, _ := json.Marshal(append([]string{}, slices.Sorted(maps.Keys(set))...))
			return string(text)
		}
		want := fmt.Sprintf(`{"failedHostList":%s,"failedHosts":%d,"failurePercent":%d,"totalHosts":%d,"unreachableHostList":%s,"unreachableHosts":%d}`,
			list(failed), len(failed), percentage, len(total), list(dark), len(dark))
		if got := (end{stats: &s}).message(); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

func TestARecapThatIsTooLongIsCutAndReadByNobody(t *testing.T) {
	s := stats{}
	for i := range 500 {
		s.Processed = append(s.Processed, fmt.Sprintf("compute-%d", i))
	}
	s.Failures = s.Processed
	message := end{stats: &s}.message()
	if len(message) != 4096 || parseRecap(message) != nil {
		t.Errorf("%d bytes, read as %v", len(message), parseRecap(message))
	}
}

func TestAScriptedRunDoesWhatItsOutcomeSays(t *testing.T) {
	words := rapid.SampledFrom([]HostOutcome{HostOK, HostFailed, HostUnreachable, HostUnlisted})
	rapid.Check(t, func(t *rapid.T) {
		hosts := slices.Sorted(slices.Values(rapid.SliceOfNDistinct(rapid.StringMatching(`compute-\d`), 1, 6, rapid.ID[string]).Draw(t, "hosts")))
		outcome := Outcome{Succeeded: rapid.Bool().Draw(t, "succeeded"), Hosts: rapid.MapOf(rapid.StringMatching(`compute-\d`), words).Draw(t, "named")}
		got := scripted(hostpattern.Selection{Surely: hosts, Perhaps: hosts, Decided: true}, outcome)
		if outcome.Succeeded != (got.exitCode == 0) {
			t.Fatalf("exit code %d", got.exitCode)
		}
		for _, host := range hosts {
			want, named := outcome.Hosts[host]
			if !named {
				want = HostUnlisted
				if outcome.Succeeded {
					want = HostOK
				} else if len(outcome.Hosts) == 0 && host == hosts[0] {
					want = HostFailed
				}
			}
			in := func(list []string) bool { return slices.Contains(list, host) }
			is := [3]bool{in(got.stats.Processed), in(got.stats.Failures), in(got.stats.Dark)}
			if expected := [3]bool{want != HostUnlisted, want == HostFailed, want == HostUnreachable}; is != expected {
				t.Fatalf("%s: processed, failed, dark are %v, want %v", host, is, expected)
			}
		}
	})
}

func TestJobNames(t *testing.T) {
	service := &dataplanev1.OpenStackDataPlaneService{ObjectMeta: metav1.ObjectMeta{Name: "nova"}}
	for _, c := range []struct {
		deployment, want string
		global           bool
	}{
		{deployment: "d1", want: "nova-d1-edpm"},
		{deployment: "d1", global: true, want: "nova-d1"},
		{deployment: strings.Repeat("d", 53), want: "nova-" + strings.Repeat("d", 53) + "-edpm"},                      // 63 letters
		{deployment: strings.Repeat("d", 54), want: "nova-" + strings.Repeat("d", 49) + "-4c8fba78"},                  // 64
		{deployment: strings.Repeat("d", 48) + ".-more-of-it", want: "nova-" + strings.Repeat("d", 48) + "-9a5cf58a"}, // cut behind .
	} {
		service.Spec.DeployOnAllNodeSets = c.global
		if got := jobName(service, c.deployment, "edpm"); got != c.want {
			t.Errorf("%s: got %s, want %s", c.deployment, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		service.Name = rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?`).Draw(t, "service")
		name := jobName(service, rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?`).Draw(t, "deployment"), "edpm")
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Fatalf("%s: %v", name, problems)
		}
	})
}

func TestServiceConditionsHaveUpstreamsNames(t *testing.T) {
	for service, want := range map[string]string{
		"neutron-metadata": "ServiceNeutronMetadataDeploymentReady", "reboot-os": "ServiceRebootOsDeploymentReady", "nova2cell": "ServiceNova2CellDeploymentReady",
	} {
		if got := serviceCondition(service); got != want {
			t.Errorf("%s: %s", service, got)
		}
	}
}

func TestAnInventoryReadsBack(t *testing.T) {
	order := regexp.MustCompile(`(?m)^        ([a-z0-9-]+):\n`)
	rapid.Check(t, func(t *rapid.T) {
		nodeSet := &dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: metav1.ObjectMeta{Name: "edpm"}}
		nodeSet.Spec.Nodes = map[string]dataplanev1.NodeSection{}
		hosts := map[string]bool{}
		for i, name := range rapid.SliceOf(rapid.StringMatching(`[a-z]{1,3}-(0?\d|1\d)(\.example)?`)).Draw(t, "names") {
			nodeSet.Spec.Nodes[fmt.Sprint("node", i)] = dataplanev1.NodeSection{HostName: name}
			short, _, _ := strings.Cut(name, ".")
			hosts[short] = true
		}
		text, err := inventoryOf(nodeSet, nil)
		if err != nil {
			t.Fatal(err)
		}
		groups, err := readInventory(text)
		if err != nil || len(groups) != 1 || groups[0].Name != "edpm" {
			t.Fatalf("%v, %v in\n%s", groups, err, text)
		}
		_, tail, _ := strings.Cut(string(text), "    hosts:")
		var inText []string
		for _, match := range order.FindAllStringSubmatch(tail, -1) {
			inText = append(inText, match[1])
		}
		if !slices.Equal(groups[0].Hosts, inText) || !slices.Equal(slices.Sorted(slices.Values(inText)), slices.Sorted(maps.Keys(hosts))) {
			t.Fatalf("read %v, text has %v, nodes are %v:\n%s", groups[0].Hosts, inText, hosts, text)
		}
	})
}

func TestAnInventoryHasItsHostsInUpstreamsOrder(t *testing.T) {
	nodeSet := &dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: metav1.ObjectMeta{Name: "edpm"}}
	nodeSet.Spec.Nodes = map[string]dataplanev1.NodeSection{}
	want := []string{"compute-1", "compute-1-2", "compute-1-10", "compute-01", "compute-2", "compute-10"}
	for _, name := range want {
		nodeSet.Spec.Nodes[name] = dataplanev1.NodeSection{Ansible: dataplanev1.AnsibleOpts{
			AnsibleVars: map[string]json.RawMessage{"edpm_number": json.RawMessage("1"), "edpm_list": json.RawMessage(`["x"]`)},
		}}
	}
	text, err := inventoryOf(nodeSet, []string{"nova"})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := readInventory(text)
	if diff := cmp.Diff([]hostpattern.Group{{Name: "edpm", Hosts: want}}, groups); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if !strings.Contains(string(text), "            edpm_number: 1\n") {
		t.Errorf("variables are missing:\n%s", text)
	}
}

func TestHostNamesThatLeaveADirectoryAreRefused(t *testing.T) {
	for _, name := range []string{"../../etc", "a/b", `a\b`, ".hidden"} {
		nodeSet := &dataplanev1.OpenStackDataPlaneNodeSet{}
		nodeSet.Spec.Nodes = map[string]dataplanev1.NodeSection{"n": {HostName: name}}
		if text, err := inventoryOf(nodeSet, nil); err == nil {
			t.Errorf("%s became\n%s", name, text)
		}
	}
}

func TestPlans(t *testing.T) {
	service := func(name, place string, global bool) *dataplanev1.OpenStackDataPlaneService {
		s := &dataplanev1.OpenStackDataPlaneService{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec.EDPMServiceType, s.Spec.DeployOnAllNodeSets = place, global
		return s
	}
	known := map[string]*dataplanev1.OpenStackDataPlaneService{
		"nova": service("nova", "", false), "nova-cell2": service("nova-cell2", "nova", false), "ovn": service("ovn", "ovn", false),
		"known-hosts": service("known-hosts", "", true), "keys": service("keys", "", true),
	}
	nodeSet := func(name string, services ...string) *dataplanev1.OpenStackDataPlaneNodeSet {
		n := &dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Spec.Services = services
		return n
	}
	a := nodeSet("a", "known-hosts", "keys", "ovn", "nova", "nova-cell2", "nova")
	b := nodeSet("b", "known-hosts", "keys", "nova-cell2", "nova", "gone", "gone")
	both := []*dataplanev1.OpenStackDataPlaneNodeSet{a, b}
	for _, c := range []struct {
		override []string
		want     map[string][]string
	}{
		{nil, map[string][]string{"a": {"known-hosts", "keys", "ovn", "nova"}, "b": {"nova-cell2", "gone"}}},
		{[]string{"nova", "keys"}, map[string][]string{"a": {"nova", "keys"}, "b": {"nova"}}},
	} {
		if diff := cmp.Diff(c.want, planServices(both, c.override, known)); diff != "" {
			t.Errorf("override %v:\n%s", c.override, diff)
		}
	}
}

func TestConditionsKeepTheTimeSinceWhenTheyHold(t *testing.T) {
	early, late := metav1.Unix(1, 0), metav1.Unix(2, 0)
	before := listed(dataplanev1.Conditions{isTrue("B", "b"), isTrue("A", "a"), isTrue("Ready", "r")}, nil, early)
	after := listed(dataplanev1.Conditions{isTrue("A", "a"), isRequested("B", "b"), isTrue("Ready", "other")}, before, late)
	var got []string
	for _, c := range after {
		got = append(got, fmt.Sprint(c.Type, c.LastTransitionTime.Unix()))
	}
	if !slices.Equal(got, []string{"Ready2", "A1", "B2"}) {
		t.Errorf("%v", got)
	}
	worst := mirror("X", dataplanev1.Conditions{isTrue("A", ""), isUnknown("B", ""), isRequested("C", "waits"), isRequested("D", "")})
	if worst.Type != "X" || worst.Status != corev1.ConditionFalse || worst.Message != "waits" {
		t.Errorf("mirrors %+v", worst)
	}
}

func TestDeploymentsOfOneSecondComeInTheOrderOfTheirChanges(t *testing.T) {
	deployment := func(name string, since int64) *dataplanev1.OpenStackDataPlaneDeployment {
		d := &dataplanev1.OpenStackDataPlaneDeployment{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(2, 0)}}
		if since > 0 {
			d.Status.Conditions = listed(dataplanev1.Conditions{isTrue("DeploymentReady", "")}, nil, metav1.Unix(since, 0))
		}
		return d
	}
	all := []*dataplanev1.OpenStackDataPlaneDeployment{deployment("new", 0), deployment("c", 2), deployment("later", 3), deployment("b", 2), deployment("earlier", 1)}
	var got []string
	for _, d := range inOrder(all, map[string]int{"later": 1, "b": 2, "earlier": 3, "c": 4}) {
		got = append(got, d.Name)
	}
	if !slices.Equal(got, []string{"earlier", "b", "c", "new", "later"}) {
		t.Errorf("%v", got)
	}
}
