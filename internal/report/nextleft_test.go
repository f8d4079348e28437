package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// rotated is a NodeSet edpm with these hosts, all of them behind.
func rotated(hosts ...string) (*reporttest.Story, *reporttest.Fleet) {
	s := reporttest.New()
	f := s.NodeSet("edpm", hosts...)
	s.Write(reporttest.NovaConfig, "user7").Write("ceilometer-compute-config-data", "x").At(hour)
	f.Deploy("initial", reporttest.Outcome{})
	s.At(10*hour).Write(reporttest.NovaConfig, "user8").At(11 * hour)
	return s, f
}

func planOf(t *testing.T, s *reporttest.Story, options report.NextOptions) (report.Plan, string) {
	t.Helper()
	plan, err := report.Build(s.Evidence()).Next(options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := plan.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return plan, text
}

// TestNextLeaves: what no Deployment brings is left out, with what helps; the rest is planned all the same.
func TestNextLeaves(t *testing.T) {
	shadowed, _ := rotated("edpm", "compute-0")
	misread, _ := rotated("compute-[0:4]", "compute-9")
	port, _ := rotated("compute-0:22")
	unnameable, _ := rotated("ä", "ö", "compute-0")
	gone, _ := rotated("compute-0")
	gone.Change(func(n *report.Namespace) { n.Services = n.Services[1:] })
	unread, _ := rotated("compute-0")
	unread.Change(func(n *report.Namespace) {
		n.Unread = append(n.Unread, report.Unread{What: "OpenStackDataPlaneServices", Why: "forbidden", Needed: true})
		n.Services = nil
	})
	for want, one := range map[string]struct {
		story *reporttest.Story
		limit string
	}{
		"compute-0 of NodeSet edpm: a node has the name of its NodeSet, and Ansible reaches only that one: rename it": {shadowed, "edpm"},
		`reads the host name "compute-[0:4]" in an inventory as something else: rename that node`:                     {misread, "-"},
		`reads the host name "compute-0:22"`: {port, "-"},
		"ä, ö of NodeSet edpm: no ansibleLimit can name it and nothing else: deploy the whole NodeSet with the services nova": {nil, "compute-0"},
		"no service brings Secret nova-cell1-compute-config to nova on the nodes":                                             {gone, "-"},
		"OpenStackDataPlaneServices cannot be read: forbidden":                                                                {unread, "-"},
	} {
		story := one.story
		if story == nil { // one of three nodes is done, so that a limit is needed
			var f *reporttest.Fleet
			story, f = rotated("ä", "ö", "compute-0", "compute-1")
			f.Deploy("part", reporttest.Outcome{Limit: []string{"compute-1"}})
			story.At(12 * hour)
		}
		plan, text := planOf(t, story, report.NextOptions{})
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
		limit := "-"
		if len(plan.Manifests) > 0 {
			limit = plan.Manifests[0].Limit
		}
		if limit != one.limit {
			t.Errorf("%s: the limit is %q, want %q", want, limit, one.limit)
		}
	}
	if plan, _ := planOf(t, unnameable, report.NextOptions{}); len(plan.Manifests) != 1 || len(plan.Left) > 0 {
		t.Errorf("a whole NodeSet needs no names: %v", plan)
	}
}

// TestNextLeavesNamesakes: of two nodes with one host name Ansible reaches one, nobody knows which.
func TestNextLeavesNamesakes(t *testing.T) {
	s, _ := rotated("compute-0", "compute-1")
	e := s.Evidence()
	e.Namespaces[0].NodeSets[0].NodeSet.Spec.Nodes["other"] = dataplanev1.NodeSection{HostName: "compute-0.elsewhere"}
	plan, err := report.Build(e).Next(report.NextOptions{})
	if err != nil || len(plan.Manifests) != 1 || plan.Manifests[0].Limit != "compute-1" || len(plan.Left) != 1 || !strings.Contains(plan.Left[0].Why, "two nodes") {
		t.Errorf("planned %v, left %v, %v", plan.Manifests, plan.Left, err)
	}
}

// TestNextTellsApart: a name that cannot be written as it is does not take others along.
func TestNextTellsApart(t *testing.T) {
	for limit, hosts := range map[string][]string{
		"a?b,!axb,!ayb": {"axb", "ayb", "a,b"}, "a:b,": {"axbx", "a:b"}, "'a b,'": {"axb", "a b"}, "?c,!cc": {"cc", "@c"}, "all": {"compute-0", "all"}, "~c": {"cc", "~c"},
	} {
		s, f := rotated(hosts...)
		f.Deploy("others", reporttest.Outcome{Limit: hosts[:len(hosts)-1]})
		plan, _ := planOf(t, s.At(12*hour), report.NextOptions{})
		if len(plan.Manifests) != 1 || len(plan.Manifests[0].Nodes) != 1 || plan.Manifests[0].Limit != limit {
			t.Errorf("the last of %q has the limit %q: %v", hosts, limit, plan.Manifests)
		}
	}
}

// rebook changes the book of the only NodeSet.
func rebook(t *testing.T, e report.Evidence, change func(ledger.Book)) report.Evidence {
	t.Helper()
	tracked := &e.Namespaces[0].NodeSets[0]
	state, _, err := trackmap.Decode(tracked.Record, string(tracked.NodeSet.UID))
	if err != nil {
		t.Fatal(err)
	}
	change(state.Book)
	if tracked.Record, err = trackmap.Encode(state, verdict.Drift{}); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestNextNeedsTheSecret: what is not in the cluster cannot be brought.
func TestNextNeedsTheSecret(t *testing.T) {
	s, _ := rotated("compute-0")
	e := rebook(t, s.Evidence(), func(b ledger.Book) {
		history := b.Secrets[reporttest.NovaConfig]
		b.Secrets[reporttest.NovaConfig] = history.Add(ledger.Reading{Revision: history.Revision + 1, Version: fleet.Unknown})
	})
	delete(e.Namespaces[0].Secrets, reporttest.NovaConfig)
	plan, err := report.Build(e).Next(report.NextOptions{})
	if err != nil || len(plan.Manifests) > 0 || len(plan.Left) != 1 || plan.Left[0].Why != "Secret nova-cell1-compute-config is not in the cluster" {
		t.Errorf("planned %v, left %v, %v", plan.Manifests, plan.Left, err)
	}
}

// TestNextCountsWhatIsUnderWay: a node that has what the cluster has, and to which a run is bringing something else, is
// to be deployed after that.
func TestNextCountsWhatIsUnderWay(t *testing.T) {
	s, f := rotated("compute-0", "compute-1")
	f.Deploy("stale", reporttest.Outcome{Limit: []string{"compute-1"}, Open: true})
	s.At(12*hour).Write(reporttest.NovaConfig, "user7").At(13 * hour)
	plan, _ := planOf(t, s, report.NextOptions{})
	if len(plan.Manifests) != 1 || plan.Manifests[0].Limit != "compute-1" {
		t.Errorf("planned %v", plan.Manifests)
	}
}

// TestNextBringsToOnePlace: of two services that bring a Secret, only the one runs whose copy is old.
func TestNextBringsToOnePlace(t *testing.T) {
	s, f := rotated("compute-0", "compute-1")
	f.Deploy("all", reporttest.Outcome{})
	s.Service("extra", reporttest.NovaConfig)
	e := s.At(12 * hour).Evidence()
	e.Namespaces[0].NodeSets[0].NodeSet.Spec.Services = []string{"nova", "telemetry", "extra"}
	plan, err := report.Build(e).Next(report.NextOptions{})
	if err != nil || len(plan.Manifests) != 1 || !slices.Equal(plan.Manifests[0].Services, []string{"extra"}) {
		t.Errorf("planned %v, %v", plan.Manifests, err)
	}
}

// TestNextSaysWhatProvesNothing: after a bad end the same content once more proves no restart.
func TestNextSaysWhatProvesNothing(t *testing.T) {
	if _, text := planOf(t, reporttest.Partial(), report.NextOptions{}); !strings.Contains(text, "cannot prove that the process restarted") {
		t.Errorf("it is not said that the restart stays unproved:\n%s", text)
	}
	s, _ := rotated("compute-0")
	if _, text := planOf(t, s, report.NextOptions{}); strings.Contains(text, "Note") {
		t.Errorf("there is something to note where all is well:\n%s", text)
	}
}

// TestNextFindsServices: of the services that bring a Secret, the one is taken whose files the nodes have, also where the
// NodeSet no longer runs it.
func TestNextFindsServices(t *testing.T) {
	s, _ := rotated("compute-0", "compute-1")
	s.Change(func(n *report.Namespace) {
		custom := *n.Services[0].DeepCopy()
		custom.Name, custom.UID, custom.Spec.EDPMServiceType = "nova-custom", "uid-nova-custom", "nova"
		n.Services[0].Name = "nova-old"
		n.Services = append(n.Services, custom)
	})
	plan, text := planOf(t, s, report.NextOptions{})
	if len(plan.Manifests) != 1 || !slices.Equal(plan.Manifests[0].Services, []string{"nova-custom"}) {
		t.Errorf("planned %v", plan.Manifests)
	}
	if !strings.Contains(text, "service nova-custom is none of its services") {
		t.Errorf("it is not said that the service is none of the NodeSet's:\n%s", text)
	}
}

// TestNextNeeds: nodes that need different services get Deployments of their own.
func TestNextNeeds(t *testing.T) {
	s, f := rotated("compute-0", "compute-1", "compute-2")
	s.Write("ceilometer-compute-config-data", "y").At(12 * hour)
	f.Deploy("nova-0", reporttest.Outcome{Limit: []string{"compute-0"}, Secrets: []string{reporttest.NovaConfig}})
	s.At(13 * hour)
	f.Deploy("telemetry-1", reporttest.Outcome{Limit: []string{"compute-1"}, Secrets: []string{"ceilometer-compute-config-data"}})
	plan, _ := planOf(t, s.At(14*hour), report.NextOptions{})
	var got []string
	for _, m := range plan.Manifests {
		got = append(got, strings.Join(m.Services, "+")+" "+m.Limit)
	}
	if want := []string{"telemetry compute-0", "nova compute-1", "nova+telemetry compute-2"}; !slices.Equal(got, want) {
		t.Errorf("planned %q, want %q", got, want)
	}
}

// TestNextBatches: each batch says what it waits for, and the order is that of the nodes.
func TestNextBatches(t *testing.T) {
	var hosts []string
	for i := range 10 {
		hosts = append(hosts, fmt.Sprint("compute-", i))
	}
	s, _ := rotated(hosts...)
	plan, text := planOf(t, s, report.NextOptions{Batch: report.Batch{Percent: 40}})
	if len(plan.Manifests) != 3 || plan.Manifests[0].Limit != "compute-0,compute-1,compute-2,compute-3" || plan.Manifests[2].Limit != "compute-8,compute-9" {
		t.Errorf("planned %v", plan.Manifests)
	}
	for i := range 2 {
		want := fmt.Sprintf("# Batch %d of 3.\n# Apply it only after:\n#   kubectl -n openstack wait openstackdataplanedeployment/%s --for=condition=Ready", i+2, plan.Manifests[i].Name)
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestNextSplitsLongLimits: a limit that no program could be given becomes several.
func TestNextSplitsLongLimits(t *testing.T) {
	var hosts []string
	for i := range 700 {
		hosts = append(hosts, fmt.Sprintf("%s-%d", strings.Repeat("c", 200), i))
	}
	s, f := rotated(hosts...)
	f.Deploy("one", reporttest.Outcome{Limit: hosts[:1]})
	plan, _ := planOf(t, s.At(12*hour), report.NextOptions{})
	nodes := 0
	for _, m := range plan.Manifests {
		nodes += len(m.Nodes)
		if len(m.Limit) > 100_000 || m.Batches != 1 {
			t.Errorf("a limit has %d bytes in batch %d of %d", len(m.Limit), m.Batch, m.Batches)
		}
	}
	if len(plan.Manifests) != 2 || nodes != 699 {
		t.Errorf("%d nodes in %d Deployments", nodes, len(plan.Manifests))
	}
}

// TestNextComments: nothing in a name ends the comment that it stands in.
func TestNextComments(t *testing.T) {
	s, _ := rotated("compute-0\nkind: Pod", "compute-1")
	_, text := planOf(t, s, report.NextOptions{})
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "kind: Pod") {
			t.Errorf("a host name became text of its own:\n%s", text)
		}
	}
	s, f := rotated("compute-0", "compute-1")
	f.Deploy("going", reporttest.Outcome{Limit: []string{"compute-1"}, Open: true})
	if _, text = planOf(t, s, report.NextOptions{}); !strings.Contains(text, "Deployment going is not over, or not recorded yet, and goes to compute-1 of NodeSet edpm") {
		t.Errorf("the Deployment that is under way is not mentioned:\n%s", text)
	}
	s.Change(func(n *report.Namespace) {
		n.Deployments = append(n.Deployments, dataplanev1.OpenStackDataPlaneDeployment{})
		n.Unread = append(n.Unread, report.Unread{What: "OpenStackDataPlaneDeployments", Why: "forbidden"})
	})
	if _, text = planOf(t, s, report.NextOptions{}); !strings.Contains(text, "OpenStackDataPlaneDeployments cannot be read (forbidden)") {
		t.Errorf("it is not said that names may be taken:\n%s", text)
	}
}
