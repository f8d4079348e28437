package executor

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

type (
	nodeSetKind    = dataplanev1.OpenStackDataPlaneNodeSet
	deploymentKind = dataplanev1.OpenStackDataPlaneDeployment
	deploymentSpec = dataplanev1.OpenStackDataPlaneDeploymentSpec
	serviceSpec    = dataplanev1.OpenStackDataPlaneServiceSpec
)

var ok = Outcome{Succeeded: true}

// edpm makes a NodeSet of two nodes with Service nova, deployed with user7, and gives the version of that.
func (b *bed) edpm() string {
	b.t.Helper()
	version := b.user("user7")
	b.novaService()
	b.nodeSet("edpm", []string{"compute-0", "compute-1"}, []string{"nova"})
	b.deployment("initial", nil, "edpm")
	b.must(b.Run(b.t.Context(), "initial", []Outcome{ok}))
	return version
}

// recapOf is the termination message of a pod.
func recapOf(pod corev1.Pod) string { return pod.Status.ContainerStatuses[0].State.Terminated.Message }

func TestVersionsAreThoseAtTheEndOfADeploymentNotThoseMounted(t *testing.T) {
	b := newBed(t)
	b.edpm()
	b.deployment("second", nil, "edpm")
	b.must(b.Start(t.Context(), "second"))
	if d := read[deploymentKind](b, "second"); len(d.Status.SecretHashes) > 0 || d.Status.Deployed {
		t.Errorf("a running Deployment has hashes: %v", d.Status)
	}
	if n := read[nodeSetKind](b, "edpm"); hasStatus(n.Status.Conditions, dataplanev1.ConditionReady, corev1.ConditionTrue) {
		t.Error("a NodeSet is ready while it is deployed")
	}
	rotated := b.user("user8") // after the mount
	if got := string(b.lane("second").content.files["/var/lib/openstack/configs/nova/01-nova.conf"]); !strings.Contains(got, "user7") {
		t.Errorf("the pod has mounted %q", got)
	}
	b.must(b.Finish(t.Context(), "second", ok))
	for _, got := range []string{read[deploymentKind](b, "second").Status.SecretHashes[nova], read[nodeSetKind](b, "edpm").Status.SecretHashes[nova]} {
		if got != rotated {
			t.Errorf("recorded %s, the Secret is at %s", got, rotated)
		}
	}
}

// lane gives the first lane of a Deployment that is running.
func (b *bed) lane(deployment string) *lane {
	b.t.Helper()
	s, _, err := b.find(b.t.Context(), deployment)
	b.must(err)
	return s.lanes[0]
}

func TestANodeSetTakesOverWhatUpstreamTakesOver(t *testing.T) {
	b := newBed(t)
	old := b.edpm()
	rotated := b.user("user8")
	for _, step := range []struct {
		name   string
		change func(*deploymentSpec)
		want   string
	}{
		{"limited", func(s *deploymentSpec) { s.AnsibleLimit = "compute-0" }, old},
		{"all-by-name", func(s *deploymentSpec) { s.AnsibleLimit = "compute-0,compute-1" }, old},
		{"override-limited", func(s *deploymentSpec) { s.ServicesOverride, s.AnsibleLimit = []string{"nova"}, "compute-1" }, old},
		{"star", func(s *deploymentSpec) { s.AnsibleLimit = "*" }, rotated},
	} {
		b.deployment(step.name, step.change, "edpm")
		b.must(b.Run(t.Context(), step.name, []Outcome{ok}))
		n := read[nodeSetKind](b, "edpm").Status
		if n.SecretHashes[nova] != step.want || !hasStatus(n.Conditions, dataplanev1.ConditionReady, corev1.ConditionTrue) {
			t.Errorf("after %s: hash %s, want %s; conditions %v", step.name, n.SecretHashes[nova], step.want, n.Conditions)
		}
		if got := read[deploymentKind](b, step.name).Status.SecretHashes[nova]; got != rotated {
			t.Errorf("Deployment %s has recorded %s", step.name, got)
		}
	}
}

func TestOnlySomeServicesAddToTheVersionsOfANodeSet(t *testing.T) {
	b := newBed(t)
	b.user("user7")
	b.novaService()
	banner := b.secret("banner", map[string]string{"banner.txt": "1"})
	b.service("banner", func(s *serviceSpec) { s.DataSources = []dataplanev1.DataSource{secretSource("banner", false)} })
	b.nodeSet("edpm", []string{"compute-0"}, []string{"nova", "banner"})
	b.deployment("initial", nil, "edpm")
	b.must(b.Run(t.Context(), "initial", []Outcome{ok}))
	rotated := b.user("user8")
	b.secret("banner", map[string]string{"banner.txt": "2"})
	b.deployment("nova-only", func(s *deploymentSpec) { s.ServicesOverride = []string{"nova"} }, "edpm")
	b.must(b.Run(t.Context(), "nova-only", []Outcome{ok}))
	if got := read[nodeSetKind](b, "edpm").Status.SecretHashes; got[nova] != rotated || got["banner"] != banner {
		t.Errorf("the NodeSet has %v", got)
	}
	if got := read[deploymentKind](b, "nova-only").Status.SecretHashes; len(got) != 1 {
		t.Errorf("the Deployment has %v", got)
	}
}

func TestEveryServiceHasAsManyPodsAsAttempts(t *testing.T) {
	b := newBed(t)
	b.user("user7")
	b.novaService()
	b.service("bootstrap", nil)
	b.nodeSet("edpm", []string{"compute-0", "compute-1"}, []string{"bootstrap", "nova"})
	b.deployment("retried", nil, "edpm")
	b.must(b.Run(t.Context(), "retried", []Outcome{{}, {}, ok}))
	for _, name := range []string{"bootstrap-retried-edpm", "nova-retried-edpm"} {
		job := b.job(name)
		phases := map[corev1.PodPhase]int{}
		for _, pod := range b.pods(name) {
			phases[pod.Status.Phase]++
		}
		if job.Status.Failed != 2 || job.Status.Succeeded != 1 || phases[corev1.PodFailed] != 2 || phases[corev1.PodSucceeded] != 1 {
			t.Errorf("Job %s: %+v, pods %v", name, job.Status, phases)
		}
	}
	if !read[deploymentKind](b, "retried").Status.Deployed {
		t.Error("the Deployment is not deployed")
	}
}

func TestAFailedDeploymentStopsThereAndRecordsNothing(t *testing.T) {
	b := newBed(t)
	old := b.edpm()
	b.service("later", nil)
	b.nodeSet("other", []string{"compute-7"}, []string{"later", "nova"})
	b.user("user8")
	b.deployment("bad", nil, "edpm", "other")
	b.must(b.Start(t.Context(), "bad"))
	b.must(b.Finish(t.Context(), "bad", Outcome{Hosts: map[string]HostOutcome{"compute-1": HostFailed, "compute-7": HostOK}}))
	d := read[deploymentKind](b, "bad")
	ready := d.Status.Conditions.Find(dataplanev1.ConditionDeploymentReady)
	if d.Status.Deployed || len(d.Status.SecretHashes) > 0 || ready.Reason != dataplanev1.ReasonBackoffLimitExceeded || ready.Severity != dataplanev1.SeverityError {
		t.Errorf("status %+v", d.Status)
	}
	if got := recapOf(b.pods("nova-bad-edpm")[0]); got != `{"failedHostList":["compute-1"],"failedHosts":1,"failurePercent":100,"totalHosts":1,"unreachableHostList":[],"unreachableHosts":0}` {
		t.Errorf("recap %s", got)
	}
	if pods := b.pods("later-bad-other"); len(pods) != 1 || pods[0].Status.Phase == corev1.PodRunning {
		t.Errorf("the other NodeSet's running pod must end too: %v", pods)
	}
	if pods := b.pods("nova-bad-other"); len(pods) > 0 {
		t.Error("a service began after the Deployment had failed for good")
	}
	if n := read[nodeSetKind](b, "edpm"); n.Status.SecretHashes[nova] != old || !hasStatus(n.Status.Conditions, dataplanev1.ConditionReady, corev1.ConditionFalse) {
		t.Errorf("NodeSet: %v", n.Status)
	}
	if err := b.Start(t.Context(), "bad"); err == nil || !strings.Contains(err.Error(), "is over") {
		t.Errorf("a failed Deployment was started again: %v", err)
	}
}

func TestALimitThatMatchesNobodyStopsARunBeforeItBegins(t *testing.T) {
	b := newBed(t)
	b.edpm()
	b.deployment("nobody", func(s *deploymentSpec) { s.AnsibleLimit = "compute-9" }, "edpm")
	b.must(b.Run(t.Context(), "nobody", []Outcome{ok}))
	pod := b.pods("nova-nobody-edpm")[0]
	if state := pod.Status.ContainerStatuses[0].State.Terminated; pod.Status.Phase != corev1.PodFailed || state.ExitCode != 1 || state.Message != "" {
		t.Errorf("the pod ended as %v", state)
	}
	if read[deploymentKind](b, "nobody").Status.Deployed {
		t.Error("the Deployment is deployed")
	}
}

func TestTheCommandLineDecidesWhoIsCounted(t *testing.T) {
	b := newBed(t)
	b.edpm()
	b.deployment("one", func(s *deploymentSpec) {
		s.AnsibleTags, s.AnsibleLimit, s.AnsibleSkipTags = "edpm_nova", "all:!compute-0", "slow"
	}, "edpm")
	b.must(b.Run(t.Context(), "one", []Outcome{ok}))
	if got := recapOf(b.pods("nova-one-edpm")[0]); !strings.Contains(got, `"totalHosts":1,`) {
		t.Errorf("recap %s", got)
	}
	env := b.job("nova-one-edpm").Spec.Template.Spec.Containers[0].Env
	want := corev1.EnvVar{Name: "RUNNER_CMDLINE", Value: "\n--tags edpm_nova --limit all:!compute-0 --skip-tags slow\n\n"}
	if !slices.Contains(env, want) {
		t.Errorf("variables %v", env)
	}
}

func TestWhatIsMissingIsSaidAndWaitedFor(t *testing.T) {
	b := newBed(t)
	b.novaService() // its Secret is missing, nova-extra is optional
	b.nodeSet("edpm", []string{"compute-0"}, []string{"nova"})
	b.deployment("initial", nil, "edpm")
	if err := b.Start(t.Context(), "initial"); err == nil || !strings.Contains(err.Error(), nova) {
		t.Fatalf("Start gave %v", err)
	}
	d := read[deploymentKind](b, "initial")
	service := d.Status.NodeSetConditions["edpm"].Find("ServiceNovaDeploymentReady")
	ready := d.Status.Conditions.Find(dataplanev1.ConditionDeploymentReady)
	if service == nil || service.Reason != dataplanev1.ReasonError || !strings.Contains(service.Message, nova) || ready.Severity != dataplanev1.SeverityWarning {
		t.Errorf("status %+v", d.Status)
	}
	if err := b.Finish(t.Context(), "initial", ok); err == nil {
		t.Error("a Deployment without a running pod was finished")
	}
	b.user("user7")
	b.must(b.Start(t.Context(), "initial"))
	b.must(b.Finish(t.Context(), "initial", ok))
	if !read[deploymentKind](b, "initial").Status.Deployed {
		t.Error("the Deployment is not deployed")
	}
}

func TestAPodWaitsForWhatItCannotMount(t *testing.T) {
	b := newBed(t)
	b.edpm()
	b.deployment("second", nil, "edpm")
	b.must(b.Start(t.Context(), "second"))
	b.secret(nova, map[string]string{"another.conf": ""})
	err := b.finish(t.Context(), "second", []Outcome{{}, ok}) // the Job's keys are those of its first day
	if err == nil || !strings.Contains(err.Error(), "01-nova.conf") {
		t.Fatalf("finish gave %v", err)
	}
	phases := map[corev1.PodPhase]int{}
	for _, pod := range b.pods("nova-second-edpm") {
		phases[pod.Status.Phase]++
	}
	if phases[corev1.PodPending] != 1 || phases[corev1.PodFailed] != 1 {
		t.Errorf("pods %v", phases)
	}
	b.user("user8")
	b.must(b.Start(t.Context(), "second"))
	b.must(b.Finish(t.Context(), "second", ok))
}

func TestTheInventoryIsFrozenWhileADeploymentRuns(t *testing.T) {
	b := newBed(t)
	b.edpm()
	inventory := func() string { return string(read[corev1.Secret](b, "dataplanenodeset-edpm").Data["inventory"]) }
	before := inventory()
	b.deployment("second", nil, "edpm")
	b.must(b.Start(t.Context(), "second"))
	n := read[nodeSetKind](b, "edpm")
	n.Spec.Nodes["compute-2"] = dataplanev1.NodeSection{HostName: "compute-2.example.com"}
	b.must(b.admin.Update(t.Context(), n))
	b.must(b.SyncNodeSet(t.Context(), "edpm"))
	if inventory() != before {
		t.Error("the inventory changed under a running Deployment")
	}
	b.must(b.Finish(t.Context(), "second", ok))
	if !strings.Contains(inventory(), "compute-2:") {
		t.Errorf("the new node is missing:\n%s", inventory())
	}
}

func TestForeignFieldsAndFinalizersSurvive(t *testing.T) {
	b := newBed(t)
	b.edpm()
	n := read[nodeSetKind](b, "edpm")
	foreign := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"secretDeployment":{"configMapName":"x","totalNodes":2,
		"updatedNodes":1,"allNodesUpdated":false,"observedGeneration":1,"lastUpdateTime":"2026-01-01T00:00:00Z"},"other":{"kept":true}}}`))
	b.must(b.admin.Status().Patch(t.Context(), n, foreign))
	b.deployment("second", nil, "edpm")
	d := read[deploymentKind](b, "second")
	d.Finalizers, d.Annotations = []string{"example.com/evidence"}, map[string]string{"example.com/note": "kept"}
	b.must(b.admin.Update(t.Context(), d))
	b.must(b.Run(t.Context(), "second", []Outcome{ok}))
	if d := read[deploymentKind](b, "second"); !slices.Equal(d.Finalizers, []string{"example.com/evidence"}) || d.Annotations["example.com/note"] != "kept" {
		t.Errorf("metadata %v", d.ObjectMeta)
	}
	n = read[nodeSetKind](b, "edpm")
	kept := b.generic(n)["status"].(map[string]any)["other"]
	if n.Status.SecretDeployment == nil || n.Status.SecretDeployment.UpdatedNodes != 1 || kept == nil {
		t.Errorf("status lost its foreign fields: %v, %v", n.Status.SecretDeployment, kept)
	}
}

func TestGarbageIsWhatHasNoOwnerAnyMore(t *testing.T) {
	b := newBed(t)
	b.edpm()
	b.deployment("doomed", nil, "edpm")
	b.must(b.Start(t.Context(), "doomed"))
	rollout := &rotationv1.SecretRollout{ObjectMeta: b.meta("edpm")}
	rollout.OwnerReferences = append(rollout.OwnerReferences, ownedBy(read[nodeSetKind](b, "edpm")))
	b.create(rollout)
	b.must(b.CollectGarbage(t.Context())) // nothing is garbage yet
	film := b.film(&corev1.PodList{})
	b.must(b.admin.Delete(t.Context(), read[deploymentKind](b, "doomed")))
	b.must(b.CollectGarbage(t.Context()))
	var last *corev1.Pod
	for event := range film.ResultChan() {
		pod, isPod := event.Object.(*corev1.Pod)
		if isPod && pod.Labels[labelDeployment] == "doomed" {
			if last = pod; event.Type == watch.Deleted {
				break
			}
		}
	}
	if state := last.Status.ContainerStatuses[0].State.Terminated; last.Status.Phase != corev1.PodFailed || state == nil || state.ExitCode == 0 {
		t.Errorf("the running pod went as %v", last.Status)
	}
	if err := b.Finish(t.Context(), "doomed", ok); err == nil {
		t.Error("a deleted Deployment was finished")
	}
	if len(b.pods("nova-doomed-edpm")) > 0 || len(b.pods("nova-initial-edpm")) != 1 {
		t.Error("the wrong pods are gone")
	}
	b.must(b.SyncNodeSet(t.Context(), "edpm"))
	if n := read[nodeSetKind](b, "edpm"); !hasStatus(n.Status.Conditions, dataplanev1.ConditionReady, corev1.ConditionTrue) {
		t.Errorf("upstream forgets a deleted Deployment at once: %v", n.Status.Conditions)
	}
	b.must(b.admin.Delete(t.Context(), read[nodeSetKind](b, "edpm")))
	b.must(b.CollectGarbage(t.Context()))
	for _, object := range []client.Object{&corev1.Secret{ObjectMeta: b.meta("dataplanenodeset-edpm")}, &rotationv1.SecretRollout{ObjectMeta: b.meta("edpm")}} {
		if err := b.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("%T: %v", object, err)
		}
	}
	read[corev1.Secret](b, nova) // it has no owner and stays
}

func TestOverlappingDeploymentsBothEnd(t *testing.T) {
	b := newBed(t)
	b.edpm()
	b.deployment("older", nil, "edpm")
	b.must(b.Start(t.Context(), "older"))
	b.user("user8")
	b.deployment("newer", nil, "edpm")
	b.must(b.Run(t.Context(), "newer", []Outcome{ok}))
	if err := b.Start(t.Context(), "older"); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Errorf("started twice: %v", err)
	}
	rotated := b.user("user9")
	b.must(b.Finish(t.Context(), "older", ok))
	if got := read[nodeSetKind](b, "edpm").Status.SecretHashes[nova]; got != rotated {
		t.Errorf("the Deployment that ended last decides: %s, want %s", got, rotated)
	}
}

func TestWrongCallsGetOneClearSentence(t *testing.T) {
	b := newBed(t)
	b.edpm()
	b.deployment("second", nil, "edpm")
	b.deployment("lost", nil, "nowhere")
	for what, err := range map[string]error{
		"Deployment missing":         b.Start(t.Context(), "missing"),
		"Deployment second was not":  b.Finish(t.Context(), "second", ok),
		"has no attempt":             b.Run(t.Context(), "second", nil),
		"NodeSet nowhere":            b.Start(t.Context(), "lost"),
		"its backoffLimit allows 7":  b.Run(t.Context(), "second", make([]Outcome, 8)),
		"NodeSet unknown":            b.SyncNodeSet(t.Context(), "unknown"),
		"Deployment initial is over": b.Start(t.Context(), "initial"),
	} {
		if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want a sentence with %q, got %v", what, err)
		}
	}
}
