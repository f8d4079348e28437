package upstream_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/config/proof"
	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
)

// TestMain asks for thousands of histories by default, and for many more in a deep run.
func TestMain(m *testing.M) {
	checks := "2000"
	if os.Getenv("ROTATION_DEEP") != "" {
		checks = "100000"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// The simulation is a small cluster with a fleet of three nodes, one Secret that is rotated, and Deployments that
// start, fail, overlap and go. It knows what really runs on each node. An operator of the pure rooms alone looks on:
// late, by watches that lag behind each other, and dies now and then.

const secretName = "nova-config"

type machine struct{ file, process fleet.Version }

// simPod is a pod with what only the simulation knows.
type simPod struct {
	object  *corev1.Pod
	mounted fleet.Version
	changed map[string]bool
	job     *batchv1.Job
	ends    bool // whether it will end well
}

type cluster struct {
	t         *rapid.T
	story     []string
	revision  uint64
	clock     time.Time
	nodes     map[string]*machine
	nodeSet   *dataplanev1.OpenStackDataPlaneNodeSet
	service   *dataplanev1.OpenStackDataPlaneService
	secrets   map[string]*corev1.Secret
	jobs      map[types.UID]*batchv1.Job
	deploys   map[types.UID]*dataplanev1.OpenStackDataPlaneDeployment
	pods      map[types.UID]*simPod
	podEvents []simEvent[*corev1.Pod]
	secEvents []simEvent[*corev1.Secret]
	lost      bool // somebody deleted a pod or a Job
}

type simEvent[T any] struct {
	revision    uint64
	object      T
	added, gone bool
}

func newCluster(t *rapid.T) *cluster {
	c := &cluster{t: t, clock: time.Unix(1_700_000_000, 0), nodes: map[string]*machine{}, secrets: map[string]*corev1.Secret{},
		jobs: map[types.UID]*batchv1.Job{}, deploys: map[types.UID]*dataplanev1.OpenStackDataPlaneDeployment{}, pods: map[types.UID]*simPod{}}
	c.nodeSet = &dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: metav1.ObjectMeta{Name: "edpm", UID: "edpm"}}
	c.nodeSet.Spec.Services = []string{"nova"}
	c.nodeSet.Spec.Nodes = map[string]dataplanev1.NodeSection{}
	inventory := "edpm:\n  hosts:\n"
	for _, host := range []string{"n0", "n1", "n2"} {
		c.nodeSet.Spec.Nodes[host] = dataplanev1.NodeSection{}
		c.nodes[host] = &machine{fleet.None, fleet.None}
		inventory += "    " + host + ": {}\n"
	}
	c.service = &dataplanev1.OpenStackDataPlaneService{ObjectMeta: metav1.ObjectMeta{Name: "nova"}}
	c.service.Spec.DataSources = []dataplanev1.DataSource{{SecretRef: &dataplanev1.SourceReference{Name: secretName}}}
	c.writeSecret("dataplanenodeset-edpm", "inventory", inventory)
	c.writeSecret(secretName, "nova.conf", "user0")
	return c
}

// tell adds to the story that is shown when the property fails.
func (c *cluster) tell(format string, args ...any) {
	c.story = append(c.story, fmt.Sprintf("%d: ", c.revision)+fmt.Sprintf(format, args...))
}

func (c *cluster) stamp(object metav1.Object) {
	c.revision++
	c.clock = c.clock.Add(time.Duration(rapid.IntRange(1, 400).Draw(c.t, "ms")) * time.Millisecond)
	now := metav1.NewTime(c.clock.Truncate(time.Second))
	if object.GetResourceVersion() == "" {
		object.SetCreationTimestamp(now)
	}
	object.SetResourceVersion(fmt.Sprint(c.revision))
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "sim", Time: &now, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{}}`)}}})
}

func (c *cluster) writeSecret(name, key, value string) {
	secret := c.secrets[name]
	if secret == nil {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Type: corev1.SecretTypeOpaque}
	}
	secret = secret.DeepCopy()
	added := secret.ResourceVersion == ""
	secret.Data = map[string][]byte{key: []byte(value)}
	c.stamp(secret)
	c.secrets[name] = secret
	c.tell("Secret %s = %s %s", name, value, fingerprint.Of(secret.Data, "Opaque").Short())
	c.secEvents = append(c.secEvents, simEvent[*corev1.Secret]{c.revision, secret, added, false})
}

func (c *cluster) writePod(p *simPod, gone bool) {
	added := p.object.ResourceVersion == ""
	c.stamp(p.object)
	c.tell("%s %s added=%t gone=%t", p.object.Name, p.object.Status.Phase, added, gone)
	c.podEvents = append(c.podEvents, simEvent[*corev1.Pod]{c.revision, p.object.DeepCopy(), added, gone})
}

// deploy creates a Deployment with a Job and its first pod; a proof only looks at the nodes.
func (c *cluster) deploy(limit string, isProof bool) {
	name := fmt.Sprint("d", len(c.deploys), "-", c.revision)
	d := &dataplanev1.OpenStackDataPlaneDeployment{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	d.Spec.NodeSets, d.Spec.AnsibleLimit = []string{"edpm"}, limit
	if isProof {
		d.Spec.ServicesOverride = []string{"prove-nova"}
	}
	service := "nova"
	if isProof {
		service = "prove-nova"
	}
	yes := true
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "nova-" + name, UID: types.UID("job-" + name), Labels: map[string]string{upstream.LabelService: service},
		OwnerReferences: []metav1.OwnerReference{{Kind: "OpenStackDataPlaneDeployment", Name: name, UID: d.UID, Controller: &yes}}}}
	job.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "inventory", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "dataplanenodeset-edpm"}}}}
	d.Status.AnsibleEEHashes = map[string]string{job.Name: "hash"}
	c.stamp(d)
	c.deploys[d.UID] = d
	c.stamp(job)
	c.jobs[job.UID] = job
	c.startPod(job)
}

func (c *cluster) startPod(job *batchv1.Job) {
	deployment := c.deploys[job.OwnerReferences[0].UID]
	env := []corev1.EnvVar{{Name: "RUNNER_EXTRA_VARS", Value: "\nedpm_override_hosts: edpm\nedpm_service_type: nova\n\n\n"}}
	if deployment.Spec.AnsibleLimit != "" {
		env = append(env, corev1.EnvVar{Name: "RUNNER_CMDLINE", Value: "\n--limit " + deployment.Spec.AnsibleLimit + "\n\n"})
	}
	service, playbook := "nova", "osp.edpm.nova"
	if isProof(deployment) {
		service, playbook = "prove-nova", "playbook.yaml"
		env = append(env, corev1.EnvVar{Name: "RUNNER_PLAYBOOK", Value: "\n" + proofPlaybook + "\n\n"})
	}
	yes, uid := true, fmt.Sprint("pod-", job.Name, "-", c.revision)
	volume := func(name, secret, key string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: []corev1.KeyToPath{{Key: key}}}}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid),
			Labels:          map[string]string{upstream.LabelApp: upstream.AppValue, upstream.LabelDeployment: deployment.Name, upstream.LabelService: service},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: job.UID, Controller: &yes}}},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{volume("s", secretName, "nova.conf"), volume("inventory", "dataplanenodeset-edpm", "inventory")},
			Containers: []corev1.Container{{Args: []string{"ansible-runner", "run", "/runner", "-p", playbook}, Env: env,
				VolumeMounts: []corev1.VolumeMount{{Name: "s", MountPath: "/var/lib/openstack/configs/nova/nova.conf"}, {Name: "inventory", MountPath: "/runner/inventory/hosts"}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	p := &simPod{object: pod, job: job, changed: map[string]bool{}}
	c.pods[pod.UID] = p
	c.writePod(p, false)
}

func (p *simPod) hosts(c *cluster) []string {
	switch limit := c.deploys[p.job.OwnerReferences[0].UID].Spec.AnsibleLimit; limit {
	case "":
		return []string{"n0", "n1", "n2"}
	case "all:!n0":
		return []string{"n1", "n2"}
	default:
		return strings.Split(limit, ",")
	}
}

// progress moves one pod on: it mounts, is seen running, works on nodes, ends.
func (c *cluster) progress(p *simPod) {
	hosts := p.hosts(c)
	switch {
	case p.mounted == "":
		p.mounted = fingerprint.Of(c.secrets[secretName].Data, "Opaque")
		c.tell("%s mounts %s", p.object.Name, p.mounted.Short())
		p.ends = rapid.IntRange(0, 2).Draw(c.t, "ends well") > 0
	case p.object.Status.Phase == corev1.PodPending:
		p.object.Status.Phase = corev1.PodRunning
		p.object.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		c.writePod(p, false)
	case p.object.Status.Phase == corev1.PodRunning && isProof(c.deploys[p.job.OwnerReferences[0].UID]):
		c.endPod(p, hosts)
	case p.object.Status.Phase == corev1.PodRunning && rapid.IntRange(0, 2).Draw(c.t, "work or end") > 0:
		host := rapid.SampledFrom(hosts).Draw(c.t, "host")
		c.work(p, host, rapid.Bool().Draw(c.t, "restart"))
	case p.object.Status.Phase == corev1.PodRunning:
		c.endPod(p, hosts)
	}
}

// work does the next step on one host: the file, or the restart that the changed file asks for.
func (c *cluster) work(p *simPod, host string, restart bool) {
	node := c.nodes[host]
	defer func() {
		c.tell("%s on %s restart=%t: %s/%s", p.object.Name, host, restart, node.file.Short(), node.process.Short())
	}()
	if !restart {
		p.changed[host] = p.changed[host] || node.file != p.mounted
		node.file = p.mounted
	} else if p.changed[host] {
		node.process = node.file
	}
}

func (c *cluster) endPod(p *simPod, hosts []string) {
	recap := map[string]any{"totalHosts": len(hosts), "failedHosts": 0, "failedHostList": []string{}, "unreachableHosts": 0, "unreachableHostList": []string{}}
	exit, phase := int32(0), corev1.PodSucceeded
	failed := hosts[:1]
	if isProof(c.deploys[p.job.OwnerReferences[0].UID]) {
		failed = slices.DeleteFunc(slices.Clone(hosts), func(host string) bool { return *c.nodes[host] == machine{p.mounted, p.mounted} })
		p.ends = len(failed) == 0
		c.tell("%s proves; bad are %v", p.object.Name, failed)
	} else if p.ends {
		for _, host := range hosts {
			c.work(p, host, false)
			c.work(p, host, true)
		}
	}
	if !p.ends {
		exit, phase = 2, corev1.PodFailed
		recap["failedHosts"], recap["failedHostList"] = len(failed), failed
	}
	message, err := json.Marshal(recap)
	if err != nil {
		c.t.Fatal(err)
	}
	p.object.Status.Phase = phase
	p.object.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: string(message)}}}}
	c.writePod(p, false)
	if phase == corev1.PodFailed {
		p.job.Status.Failed++
	}
	switch {
	case p.ends:
		c.endJob(p.job, batchv1.JobComplete)
	case rapid.Bool().Draw(c.t, "retry"):
		c.startPod(p.job)
	default:
		c.endJob(p.job, batchv1.JobFailed)
	}
}

func (c *cluster) endJob(job *batchv1.Job, condition batchv1.JobConditionType) {
	job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue}}
	deployment := c.deploys[job.OwnerReferences[0].UID]
	defer c.stampStatus(deployment)
	if condition == batchv1.JobComplete {
		job.Status.Succeeded, deployment.Status.Deployed = 1, true
		return
	}
	deployment.Status.Conditions = dataplanev1.Conditions{{Type: dataplanev1.ConditionDeploymentReady, Status: "False",
		Severity: dataplanev1.SeverityError, Reason: dataplanev1.ReasonBackoffLimitExceeded}}
}

// stampStatus is a write of the status.
func (c *cluster) stampStatus(d *dataplanev1.OpenStackDataPlaneDeployment) {
	c.stamp(d)
	d.ManagedFields[0].Subresource = "status"
}

func isProof(d *dataplanev1.OpenStackDataPlaneDeployment) bool {
	return len(d.Spec.ServicesOverride) > 0
}

// proofPlaybook is what ships.
var proofPlaybook = func() string {
	services, err := proof.Services()
	if err != nil {
		panic(err)
	}
	return services[0].Spec.PlaybookContents
}()

// remove deletes a Deployment with its Job and pods, which only goes once the operator has let it go.
func (c *cluster) remove(uid types.UID) {
	for _, podUID := range slices.Sorted(maps.Keys(c.pods)) {
		p := c.pods[podUID]
		if p.job.OwnerReferences[0].UID == uid {
			c.writePod(p, true)
			delete(c.pods, podUID)
		}
	}
	maps.DeleteFunc(c.jobs, func(_ types.UID, job *batchv1.Job) bool { return job.OwnerReferences[0].UID == uid })
	delete(c.deploys, uid)
}

// nothingLost fails where something counts as unseen although nothing was deleted: a watch that lags is waited for.
func nothingLost(t *rapid.T, c *cluster, book ledger.Book) {
	for id, run := range book.Runs {
		if strings.HasPrefix(id, "unseen-") && !c.lost {
			t.Fatalf("%s: %s\n%s", id, run.Doubt, strings.Join(c.story, "\n"))
		}
	}
}

// lose deletes an ended pod, or with its Job all pods of one that is finished, as a time to live does it.
func (c *cluster) lose(p *simPod, withJob bool) {
	if p.object.Status.Phase != corev1.PodSucceeded && p.object.Status.Phase != corev1.PodFailed || withJob && len(p.job.Status.Conditions) == 0 {
		return
	}
	c.lost = true
	for _, uid := range slices.Sorted(maps.Keys(c.pods)) {
		if other := c.pods[uid]; other == p || withJob && other.job == p.job {
			c.writePod(other, true)
			delete(c.pods, uid)
		}
	}
	if withJob {
		c.tell("Job %s is gone", p.job.Name)
		delete(c.jobs, p.job.UID)
	}
}

// TestTruthIsAlwaysACandidate: whenever the operator has been told everything, what each node's process really runs
// is among its candidates, whatever happened before.
func TestTruthIsAlwaysACandidate(t *testing.T) {
	histories, exact, looks, proofs, allowed := 0, 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		c := newCluster(t)
		w := newWatcher(c)
		w.bring(len(c.podEvents), len(c.secEvents))
		w.look()
		steps := rapid.IntRange(10, 60).Draw(t, "steps")
		for range steps {
			switch rapid.IntRange(0, 13).Draw(t, "step") {
			case 0:
				c.writeSecret(secretName, "nova.conf", fmt.Sprint("user", rapid.IntRange(0, 2).Draw(t, "user")))
			case 1:
				if len(c.deploys) < 4 {
					c.deploy(rapid.SampledFrom([]string{"", "n0", "n1,n2", "all:!n0"}).Draw(t, "limit"), rapid.IntRange(0, 3).Draw(t, "proof") == 0)
				}
			case 2:
				w.bring(rapid.IntRange(w.podsAt, len(c.podEvents)).Draw(t, "pods"), rapid.IntRange(w.secsAt, len(c.secEvents)).Draw(t, "secrets"))
				w.look()
			case 3:
				if rapid.Bool().Draw(t, "only the watch breaks") {
					w.relist()
					break
				}
				if rapid.IntRange(0, 3).Draw(t, "record") == 0 {
					w.loseRecord()
				}
				w.die(rapid.Bool().Draw(t, "forgotten"))
			case 4:
				for _, uid := range slices.Sorted(maps.Keys(w.memory.Settled)) {
					if c.deploys[uid] != nil && rapid.Bool().Draw(t, "remove") {
						c.remove(uid)
					}
				}
			case 5:
				if pods := slices.Sorted(maps.Keys(c.pods)); len(pods) > 0 {
					c.lose(c.pods[rapid.SampledFrom(pods).Draw(t, "lost pod")], rapid.Bool().Draw(t, "with its Job"))
				}
			case 6:
				c.clock = c.clock.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "pause")) * time.Second)
			default:
				if running := slices.Sorted(maps.Keys(c.pods)); len(running) > 0 {
					c.progress(c.pods[rapid.SampledFrom(running).Draw(t, "pod")])
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "look") > 0 {
				continue
			}
			w.bring(len(c.podEvents), len(c.secEvents))
			looks++
			judged := w.look()
			nothingLost(t, c, w.memory.Book)
			for host, candidates := range judged {
				truth := c.nodes[host].process
				if !candidates.Has(truth) && !candidates.Has(fleet.Unknown) {
					t.Fatalf("%s runs %s, candidates are %s\n%s\n%+v", host, truth.Short(), candidates, strings.Join(c.story, "\n"), w.memory.Book)
				}
				if candidates.IsOnly(truth) && truth != fleet.None {
					exact++
				}
			}
			for _, user := range w.safe() {
				allowed++
				version := fingerprint.Of(map[string][]byte{"nova.conf": []byte(user)}, "Opaque")
				for host, node := range c.nodes {
					if node.process == version {
						t.Fatalf("%s may go, and %s runs it\n%s\n%+v", user, host, strings.Join(c.story, "\n"), w.memory.Book)
					}
				}
			}
			for _, run := range w.memory.Book.Runs {
				for _, strength := range run.Reach {
					if strength == ledger.Proved {
						proofs++
					}
				}
			}
		}
	})
	if exact == 0 || proofs == 0 || allowed == 0 {
		t.Error("no node was ever known exactly, or proved, or no user might go: the property held vacuously")
	}
	fmt.Fprintf(os.Stdout, "» evidence: %d random histories, %d looks: the truth was always a candidate (%d times the only one, %d times with a proof), %d users might go and no node ran them\n", histories, looks, exact, proofs, allowed)
}
