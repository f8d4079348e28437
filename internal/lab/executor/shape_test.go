package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

// recorded is what the stock openstack-operator, the real Job controller and an API server of Kubernetes 1.36 made of
// two Deployments dpl-2 of NodeSet openstack-edpm, and of one with a service for all NodeSets.
type recorded struct {
	Succeeded struct {
		Job, Pod, Inventory, DeploymentStatus, NodeSetStatus any
		JobStatuses, PodStatuses                             []any
		DeploymentSteps                                      [][]string
	}
	Failed struct {
		JobStatuses, PodStatuses []any
		DeploymentSteps          [][]string
		NodeSetConditions        []string
	}
	Global map[string]any
}

func readRecorded(t *testing.T) (r recorded) {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded.json")
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dropped are fields that are not the executor's to imitate: an API server's own, and those of a cluster's network.
var dropped = map[string]bool{
	"managedFields": true, "resourceVersion": true, "kind": true, "apiVersion": true, "imageID": true,
	"dnsConfig": true, "dnsPolicy": true, "dnsClusterAddresses": true, "ctlplaneSearchDomain": true, "allIPs": true,
}

var (
	times  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[\d:.]+Z$`)
	uids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	spaces = regexp.MustCompile(`\b(osp-[a-z]-[a-z0-9-]+-\d|test-[a-z0-9]{5})\b`)
	pods   = regexp.MustCompile(`(-openstack-edpm)-[a-z0-9]{5}$`)
	hashes = regexp.MustCompile(`^n[4-9bcdfh]{64,129}q$`)
)

// plain takes away what must differ between two runs: times, UIDs, random names, versions.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		result := map[string]any{}
		for key, field := range v {
			if !dropped[key] && !isPodScheduled(field) {
				result[key] = plain(field)
			}
		}
		return result
	case []any:
		result := []any{}
		for _, item := range v {
			if !isPodScheduled(item) {
				result = append(result, plain(item))
			}
		}
		return result
	case string:
		v = times.ReplaceAllString(v, "TIME")
		v = uids.ReplaceAllString(v, "UID")
		v = spaces.ReplaceAllString(v, "NAMESPACE")
		v = pods.ReplaceAllString(v, "$1-RANDOM")
		return hashes.ReplaceAllString(v, "HASH")
	default:
		return value
	}
}

// isPodScheduled tells the condition that the recording's kubelet overwrote and a real one keeps.
func isPodScheduled(value any) bool {
	fields, ok := value.(map[string]any)
	return ok && fields["type"] == "PodScheduled"
}

// generic gives an object as parsed JSON.
func generic(t *testing.T, object any) any {
	t.Helper()
	var value any
	text, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(plain(generic(t, want)), plain(generic(t, got))); diff != "" {
		t.Errorf("%s is not as recorded (-recorded +executor):\n%s", what, diff)
	}
}

// film watches a kind from now on.
func (b *bed) film(list client.ObjectList) watch.Interface {
	b.t.Helper()
	w, err := b.admin.Watch(b.t.Context(), list, client.InNamespace(b.options.Namespace))
	b.must(err)
	b.t.Cleanup(w.Stop)
	return w
}

// seen gives all that was filmed of an object, up to how it is now.
func seen[T any, P interface {
	*T
	client.Object
}](b *bed, film watch.Interface, name string) []P {
	b.t.Helper()
	var states []P
	for last := read[T, P](b, name).GetResourceVersion(); ; {
		event, open := <-film.ResultChan()
		object, ok := event.Object.(P)
		if !open || !ok {
			b.t.Fatalf("the watch ended before it showed %s: %v", name, event.Object)
		}
		if object.GetName() != name {
			continue
		}
		states = append(states, object)
		if object.GetResourceVersion() == last {
			return states
		}
	}
}

// statuses gives the status of each state, without those that only repeat the one before.
func statuses(t *testing.T, states any) []any {
	t.Helper()
	list, _ := generic(t, states).([]any)
	var all []any
	for _, state := range list {
		status, _ := state.(map[string]any)["status"].(map[string]any)
		if status == nil {
			status = map[string]any{}
		}
		if value := plain(status); len(all) == 0 || !reflect.DeepEqual(all[len(all)-1], value) {
			all = append(all, value)
		}
	}
	return all
}

// unready leaves out the states in which a pod is ready: the recorded Job controller was too late to see the second one.
func unready(statuses []any) []any {
	return slices.DeleteFunc(statuses, func(status any) bool { return status.(map[string]any)["ready"] == float64(1) })
}

func condition(c dataplanev1.Condition) string {
	return fmt.Sprintf("%s %s %s %s %s", c.Type, c.Status, c.Severity, c.Reason, c.Message)
}

// steps gives the conditions of each state of a Deployment, without repetitions.
func steps(states []*dataplanev1.OpenStackDataPlaneDeployment) [][]string {
	var all [][]string
	for _, state := range states {
		var lines []string
		for _, c := range state.Status.Conditions {
			lines = append(lines, condition(c))
		}
		for _, nodeSet := range state.Spec.NodeSets {
			for _, c := range state.Status.NodeSetConditions[nodeSet] {
				lines = append(lines, nodeSet+": "+condition(c))
			}
		}
		if len(lines) > 0 && (len(all) == 0 || !slices.Equal(all[len(all)-1], lines)) {
			all = append(all, lines)
		}
	}
	return all
}

// recordedInput makes the Services, Secrets and NodeSet of the recording.
func (b *bed) recordedInput(services ...string) {
	b.t.Helper()
	for secret, keys := range map[string][]string{
		nova: {"01-nova.conf", "02-nova-override.conf"}, "nova-migration-ssh-key": {"ssh-privatekey", "ssh-publickey"},
		"neutron-ovn-metadata-agent-neutron-config": {"10-neutron-metadata.conf"},
		"nova-metadata-neutron-config":              {"05-nova-metadata.conf"}, "site-banner-secret": {"banner.txt"},
	} {
		data := map[string]string{}
		for _, key := range keys {
			data[key] = key + " of " + secret
		}
		b.secret(secret, data)
	}
	for name, spec := range map[string]dataplanev1.OpenStackDataPlaneServiceSpec{
		"bootstrap":        {Playbook: "osp.edpm.bootstrap"},
		"neutron-metadata": {Playbook: "osp.edpm.neutron_metadata", DataSources: []dataplanev1.DataSource{secretSource("neutron-ovn-metadata-agent-neutron-config", false), secretSource("nova-metadata-neutron-config", false)}},
		"nova":             {Playbook: "osp.edpm.nova", DataSources: []dataplanev1.DataSource{secretSource(nova, false), secretSource("nova-migration-ssh-key", false), secretSource("nova-extra-config", true)}},
		"site-banner":      {Playbook: "site.banner", DataSources: []dataplanev1.DataSource{secretSource("site-banner-secret", false)}},
		"site-global":      {Playbook: "site.global", DeployOnAllNodeSets: true, DataSources: []dataplanev1.DataSource{secretSource("site-banner-secret", false)}},
	} {
		b.service(name, func(s *dataplanev1.OpenStackDataPlaneServiceSpec) { *s = spec })
	}
	nodeSet := &dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: b.meta("openstack-edpm")}
	nodeSet.Spec = dataplanev1.OpenStackDataPlaneNodeSetSpec{
		PreProvisioned: true, Services: services, Nodes: map[string]dataplanev1.NodeSection{},
		NodeTemplate: dataplanev1.NodeTemplate{AnsibleSSHPrivateKeySecret: "dataplane-ansible-ssh-private-key-secret"},
	}
	for i := range 3 {
		name := fmt.Sprintf("edpm-compute-%d", i)
		nodeSet.Spec.Nodes[name] = dataplanev1.NodeSection{HostName: name, Ansible: dataplanev1.AnsibleOpts{AnsibleHost: fmt.Sprintf("192.168.122.1%d", i)}}
	}
	b.create(nodeSet)
	b.must(b.SyncNodeSet(b.t.Context(), nodeSet.Name))
}

const recordedJob = "nova-dpl-2-openstack-edpm"

func TestAllObjectsAreAsRecordedWhereARunSucceeds(t *testing.T) {
	b, want := newBed(t), readRecorded(t).Succeeded
	b.recordedInput("bootstrap", "neutron-metadata", "nova", "site-banner")
	b.deployment("dpl-base", nil, "openstack-edpm")
	b.must(b.Run(t.Context(), "dpl-base", []Outcome{{Succeeded: true}}))
	jobs, podFilm, deployments := b.film(&batchv1.JobList{}), b.film(&corev1.PodList{}), b.film(&dataplanev1.OpenStackDataPlaneDeploymentList{})
	b.deployment("dpl-2", nil, "openstack-edpm")
	b.must(b.Run(t.Context(), "dpl-2", []Outcome{{Succeeded: true}}))

	job := seen[batchv1.Job](b, jobs, recordedJob)
	same(t, "the Job", job[0], want.Job)
	same(t, "the sequence of the Job's statuses", statuses(t, job), want.JobStatuses)
	pod := seen[corev1.Pod](b, podFilm, b.pods(recordedJob)[0].Name)
	same(t, "the sequence of the pod's statuses", statuses(t, pod), want.PodStatuses)
	bound := pod[slices.IndexFunc(pod, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })].DeepCopy()
	bare, _ := generic(t, bound).(map[string]any)
	delete(bare, "status")
	same(t, "the pod", bare, want.Pod)
	if last := pod[len(pod)-1]; len(last.Finalizers) > 0 {
		t.Errorf("the pod that was counted still has %v", last.Finalizers)
	}
	deployment := seen[dataplanev1.OpenStackDataPlaneDeployment](b, deployments, "dpl-2")
	same(t, "the sequence of the Deployment's conditions", steps(deployment), want.DeploymentSteps)
	rest := deployment[len(deployment)-1].Status
	rest.Conditions, rest.NodeSetConditions = nil, nil
	same(t, "the Deployment's status", rest, want.DeploymentStatus)
	same(t, "the NodeSet's status", read[dataplanev1.OpenStackDataPlaneNodeSet](b, "openstack-edpm").Status, want.NodeSetStatus)
	same(t, "the inventory Secret", read[corev1.Secret](b, "dataplanenodeset-openstack-edpm").ObjectMeta, want.Inventory)
}

func TestAllObjectsAreAsRecordedWhereAttemptsAreUsedUp(t *testing.T) {
	b, want := newBed(t), readRecorded(t).Failed
	b.recordedInput("nova")
	jobs, podFilm, deployments := b.film(&batchv1.JobList{}), b.film(&corev1.PodList{}), b.film(&dataplanev1.OpenStackDataPlaneDeploymentList{})
	one := int32(1)
	b.deployment("dpl-2", func(spec *dataplanev1.OpenStackDataPlaneDeploymentSpec) { spec.BackoffLimit = &one }, "openstack-edpm")
	failed := Outcome{Hosts: map[string]HostOutcome{
		"edpm-compute-0": HostOK, "edpm-compute-1": HostFailed, "edpm-compute-2": HostUnreachable,
	}}
	b.must(b.Start(t.Context(), "dpl-2"))
	first := b.pods(recordedJob)[0].Name
	b.must(b.finish(t.Context(), "dpl-2", []Outcome{failed, failed}))

	same(t, "the sequence of the Job's statuses", unready(statuses(t, seen[batchv1.Job](b, jobs, recordedJob))), unready(want.JobStatuses))
	same(t, "the sequence of the pod's statuses", statuses(t, seen[corev1.Pod](b, podFilm, first)), want.PodStatuses)
	all := steps(seen[dataplanev1.OpenStackDataPlaneDeployment](b, deployments, "dpl-2"))
	last := slices.DeleteFunc(want.DeploymentSteps[0], func(line string) bool { // the recorded one ran other services before
		return strings.Contains(line, "ServiceBootstrap") || strings.Contains(line, "ServiceNeutron")
	})
	same(t, "the Deployment's conditions", all[len(all)-1], last)
	var lines []string
	for _, c := range read[dataplanev1.OpenStackDataPlaneNodeSet](b, "openstack-edpm").Status.Conditions {
		lines = append(lines, condition(c))
	}
	same(t, "the NodeSet's conditions", lines, want.NodeSetConditions)
}

func TestTheJobOfAServiceForAllNodeSetsIsAsRecorded(t *testing.T) {
	b, want := newBed(t), readRecorded(t).Global
	b.recordedInput("nova")
	for _, name := range []string{"compute-b", "compute-a"} {
		b.nodeSet(name, []string{name + "-0", name + "-1"}, []string{"bootstrap", "site-global"})
	}
	b.deployment("dpl", nil, "compute-a", "compute-b")
	b.must(b.Run(t.Context(), "dpl", []Outcome{{Succeeded: true}}))
	job := b.job("site-global-dpl")
	spec := job.Spec.Template.Spec
	for i := range spec.Volumes { // the recorded NodeSets name another Secret
		if secret := spec.Volumes[i].Secret; secret != nil && secret.SecretName == "ssh" {
			secret.SecretName = "dataplane-ansible-ssh-private-key-secret"
		}
	}
	same(t, "the Job", map[string]any{
		"name": job.Name, "labels": job.Labels, "volumes": spec.Volumes,
		"env": spec.Containers[0].Env, "args": spec.Containers[0].Args, "volumeMounts": spec.Containers[0].VolumeMounts,
	}, want)
	if pod := b.pods(job.Name)[0]; !strings.Contains(pod.Status.ContainerStatuses[0].State.Terminated.Message, `"totalHosts":4`) {
		t.Errorf("it must run on the nodes of both: %s", pod.Status.ContainerStatuses[0].State.Terminated.Message)
	}
	if n := len(b.pods("bootstrap-dpl-compute-b")); n != 1 {
		t.Errorf("the second NodeSet's own service ran %d times", n)
	}
}
