package tracking_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/config/rbac"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
	"github.com/rotation-operator/rotation-operator/internal/operator"
	"github.com/rotation-operator/rotation-operator/internal/store"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// site is a namespace with a NodeSet of two nodes, one service and its Secret, and the operator at work.
type site struct {
	t         *testing.T
	c         client.WithWatch
	namespace string
	stop      context.CancelFunc
	stopped   chan error
}

func newSite(t *testing.T) *site {
	s := &site{t: t, c: testplane.Client(t), namespace: testplane.Namespace(t)}
	s.create(&dataplanev1.OpenStackDataPlaneService{ObjectMeta: s.meta("nova"), Spec: dataplanev1.OpenStackDataPlaneServiceSpec{
		Playbook: "osp.edpm.nova", DataSources: []dataplanev1.DataSource{{SecretRef: &dataplanev1.SourceReference{Name: "nova-config"}}}}})
	s.create(&corev1.Secret{ObjectMeta: s.meta("nova-config"), Data: map[string][]byte{"nova.conf": []byte("user7")}})
	s.create(&corev1.Secret{ObjectMeta: s.meta("dataplanenodeset-edpm"), Data: map[string][]byte{
		"inventory": []byte("edpm:\n    hosts:\n        compute-0: {}\n        compute-1: {}\n")}})
	s.create(&dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: s.meta("edpm"), Spec: dataplanev1.OpenStackDataPlaneNodeSetSpec{
		NodeTemplate: dataplanev1.NodeTemplate{AnsibleSSHPrivateKeySecret: "ssh"}, Services: []string{"nova"},
		Nodes: map[string]dataplanev1.NodeSection{"compute-0": {}, "compute-1": {}}}})
	s.startOperator()
	return s
}

func (s *site) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

func (s *site) create(object client.Object) {
	s.t.Helper()
	if err := s.c.Create(context.Background(), object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) startOperator() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.stopped = cancel, make(chan error, 1)
	config := s.account()
	go func() {
		s.stopped <- operator.Run(ctx, config, operator.Options{Namespaces: []string{s.namespace}, MetricsAddress: "0", HealthAddress: "0"})
	}()
	s.t.Cleanup(s.stopOperator)
}

// account is a user of the operator's own with exactly the rights that config/rbac gives it.
func (s *site) account() *rest.Config {
	s.t.Helper()
	user := "operator-of-" + s.namespace
	_, config, err := testplane.Plane(s.t).Kubeconfig(user)
	if err != nil {
		s.t.Fatal(err)
	}
	role, err := rbac.Role()
	if err != nil {
		s.t.Fatal(err)
	}
	role.Namespace = s.namespace
	binding := &rbacv1.RoleBinding{ObjectMeta: s.meta(role.Name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}
	for _, object := range []client.Object{role, binding} {
		if err := s.c.Create(context.Background(), object); client.IgnoreAlreadyExists(err) != nil {
			s.t.Fatal(err)
		}
	}
	return config
}

func (s *site) stopOperator() {
	if s.stop == nil {
		return
	}
	s.stop()
	if err := <-s.stopped; err != nil {
		s.t.Error(err)
	}
	s.stop = nil
}

func (s *site) rotate(value string) {
	s.t.Helper()
	var secret corev1.Secret
	s.get(&secret, "nova-config")
	secret.Data["nova.conf"] = []byte(value)
	if err := s.c.Update(context.Background(), &secret); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) get(object client.Object, name string) {
	s.t.Helper()
	if err := s.c.Get(context.Background(), client.ObjectKey{Namespace: s.namespace, Name: name}, object); err != nil {
		s.t.Fatal(err)
	}
}

// deploy plays a whole Deployment of one Job with one pod that ends well.
func (s *site) deploy(name, limit string, hosts int) {
	s.t.Helper()
	deployment := &dataplanev1.OpenStackDataPlaneDeployment{ObjectMeta: s.meta(name), Spec: dataplanev1.OpenStackDataPlaneDeploymentSpec{
		NodeSets: []string{"edpm"}, AnsibleLimit: limit}}
	s.create(deployment)
	job, pod := s.start(deployment)
	message, err := json.Marshal(map[string]any{"totalHosts": hosts, "failedHosts": 0, "unreachableHosts": 0, "failedHostList": []string{}, "unreachableHostList": []string{}})
	if err != nil {
		s.t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "ansible", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(message)}}}}
	s.status(pod)
	now := metav1.Now()
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	job.Status.Succeeded, job.Status.StartTime, job.Status.CompletionTime = 1, &now, &now
	s.status(job)
	s.get(deployment, name)
	deployment.Status.Deployed = true
	s.status(deployment)
}

func (s *site) status(object client.Object) {
	s.t.Helper()
	if err := s.c.Status().Update(context.Background(), object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) start(deployment *dataplanev1.OpenStackDataPlaneDeployment) (*batchv1.Job, *corev1.Pod) {
	s.t.Helper()
	volume := func(name, secret, key string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: []corev1.KeyToPath{{Key: key, Path: key}}}}}
	}
	env := []corev1.EnvVar{{Name: "RUNNER_EXTRA_VARS", Value: "\nedpm_override_hosts: edpm\nedpm_service_type: nova\n\n\n"}}
	if deployment.Spec.AnsibleLimit != "" {
		env = append(env, corev1.EnvVar{Name: "RUNNER_CMDLINE", Value: "\n--limit " + deployment.Spec.AnsibleLimit + "\n\n"})
	}
	labels := map[string]string{upstream.LabelApp: upstream.AppValue, upstream.LabelDeployment: deployment.Name, upstream.LabelService: "nova", upstream.LabelNodeSet: "edpm"}
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Volumes: []corev1.Volume{volume("config", "nova-config", "nova.conf"), volume("inventory", "dataplanenodeset-edpm", "inventory")},
		Containers: []corev1.Container{{Name: "ansible", Image: "ee", Args: []string{"ansible-runner", "run", "/runner", "-p", "osp.edpm.nova"}, Env: env,
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/var/lib/openstack/configs/nova/nova.conf", SubPath: "nova.conf"},
				{Name: "inventory", MountPath: "/runner/inventory/hosts", SubPath: "inventory"}}}}}
	yes := true
	job := &batchv1.Job{ObjectMeta: s.meta("nova-" + deployment.Name), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}}}
	job.Labels = labels
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: dataplanev1.GroupVersion.String(), Kind: "OpenStackDataPlaneDeployment", Name: deployment.Name, UID: deployment.UID, Controller: &yes}}
	s.create(job)
	pod := &corev1.Pod{ObjectMeta: s.meta(job.Name + "-x"), Spec: spec}
	pod.Labels = labels
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: &yes}}
	s.create(pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "ansible", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	s.status(pod)
	return job, pod
}

// expect waits until the NodeSet says the counts, and its SecretRollout the same.
func (s *site) expect(total, updated int32) {
	s.t.Helper()
	var nodeSet dataplanev1.OpenStackDataPlaneNodeSet
	var rollout rotationv1.SecretRollout
	err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		key := client.ObjectKey{Namespace: s.namespace, Name: "edpm"}
		if err := s.c.Get(ctx, key, &nodeSet); err != nil {
			return false, err
		}
		if err := s.c.Get(ctx, key, &rollout); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		got := nodeSet.Status.SecretDeployment
		return got != nil && got.TotalNodes == total && got.UpdatedNodes == updated && got.AllNodesUpdated == (total == updated) &&
			rollout.Status.UpdatedNodes == updated && rollout.Status.TotalNodes == total, nil
	})
	if err != nil {
		text, _ := json.MarshalIndent(map[string]any{"nodeSet": nodeSet.Status.SecretDeployment, "rollout": rollout.Status}, "", " ")
		s.t.Fatalf("want %d of %d updated: %v\n%s", updated, total, err, text)
	}
}

// settles waits until the Deployment carries no finalizer of ours any more.
func (s *site) settles(name string) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		var deployment dataplanev1.OpenStackDataPlaneDeployment
		err := s.c.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, &deployment)
		return !strings.Contains(fmt.Sprint(deployment.Finalizers), rotationv1.EvidenceFinalizer), err
	})
	if err != nil {
		s.t.Fatalf("Deployment %s keeps its finalizer: %v", name, err)
	}
}

func TestFiveStages(t *testing.T) {
	s := newSite(t)
	s.expect(2, 0)
	s.deploy("initial", "", 2)
	s.expect(2, 2)
	s.settles("initial")
	s.rotate("user8")
	s.expect(2, 0)
	s.deploy("c0", "compute-0", 1)
	s.expect(2, 1)
	s.deploy("rest", "compute-1", 1)
	s.expect(2, 2)
	s.settles("rest")
}

// TestARestartChangesNothing stops the operator between all steps; what happens meanwhile is found out afterwards.
func TestARestartChangesNothing(t *testing.T) {
	s := newSite(t)
	away := func(during func()) {
		s.stopOperator()
		during()
		s.startOperator()
	}
	s.expect(2, 0)
	away(func() { s.deploy("initial", "", 2) })
	s.expect(2, 2)
	away(func() { s.rotate("user8") })
	s.expect(2, 0)
	away(func() { s.deploy("c0", "compute-0", 1); s.rotate("user9"); s.deploy("both", "", 2) })
	s.expect(2, 2)
	away(func() {})
	s.expect(2, 2)
	s.settles("c0")
}

// TestTheRecordIsWrittenAgain: whoever deletes or edits the record while the operator runs changes nothing for long.
func TestTheRecordIsWrittenAgain(t *testing.T) {
	s := newSite(t)
	s.expect(2, 0)
	s.deploy("initial", "", 2)
	s.expect(2, 2)
	s.settles("initial")
	name := store.ConfigMapName("edpm")
	whole := func() map[string]string {
		var record corev1.ConfigMap
		err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
			if err := s.c.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, &record); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			var nodeSet dataplanev1.OpenStackDataPlaneNodeSet
			s.get(&nodeSet, "edpm")
			_, _, err := trackmap.Decode(trackmap.Objects{"": record.Data}, string(nodeSet.UID))
			return err == nil, nil
		})
		if err != nil {
			t.Fatalf("the record is not written again: %v\n%v", err, record.Data)
		}
		return record.Data
	}
	before := whole()["nova-config"]
	if err := s.c.Delete(context.Background(), &corev1.ConfigMap{ObjectMeta: s.meta(name)}); err != nil {
		t.Fatal(err)
	}
	if after := whole()["nova-config"]; after != before {
		t.Errorf("the view became %s", after)
	}
	var record corev1.ConfigMap
	s.get(&record, name)
	record.Data["nova-config"] = strings.ReplaceAll(record.Data["nova-config"], "compute-1", "compute-9")
	if err := s.c.Update(context.Background(), &record); err != nil {
		t.Fatal(err)
	}
	if after := whole()["nova-config"]; after != before {
		t.Errorf("the view became %s", after)
	}
	s.expect(2, 2)
	var aside corev1.ConfigMapList
	if err := s.c.List(context.Background(), &aside, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(aside.Items, func(cm corev1.ConfigMap) bool { return strings.HasPrefix(cm.Name, name+"-unreadable-") }) {
		t.Error("what somebody had written was not set aside")
	}
}

// TestAForbiddenSecretIsUnknown: who may not read a Secret any more does not go on saying what was true before.
func TestAForbiddenSecretIsUnknown(t *testing.T) {
	s := newSite(t)
	s.expect(2, 0)
	s.deploy("initial", "", 2)
	s.expect(2, 2)
	s.settles("initial")
	var role rbacv1.Role
	s.get(&role, "rotation-operator")
	whole := role.DeepCopy()
	for i, rule := range role.Rules {
		if slices.Contains(rule.Resources, "secrets") {
			role.Rules[i].Verbs = []string{"list", "watch"}
		}
	}
	if err := s.c.Update(context.Background(), &role); err != nil {
		t.Fatal(err)
	}
	s.mayRead(false)
	s.rotate("user8")
	s.expect(2, 0)
	var rollout rotationv1.SecretRollout
	s.get(&rollout, "edpm")
	updated := meta.FindStatusCondition(rollout.Status.Conditions, rotationv1.ConditionUpdated)
	if updated == nil || updated.Status != metav1.ConditionUnknown || updated.Reason != string(rotationv1.ReasonSecretUnknown) {
		t.Errorf("the condition is %+v", updated)
	}
	whole.ResourceVersion = role.ResourceVersion
	if err := s.c.Update(context.Background(), whole); err != nil {
		t.Fatal(err)
	}
	s.mayRead(true)
	s.deploy("again", "", 2)
	s.expect(2, 2)
}

// mayRead waits until the API server has taken in whether the operator's account may read Secrets.
func (s *site) mayRead(want bool) {
	s.t.Helper()
	_, config, err := testplane.Plane(s.t).Kubeconfig("operator-of-" + s.namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "nova-config"}, &corev1.Secret{})
		return (err == nil) == want, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
