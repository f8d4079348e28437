package tracking_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/controller/tracking"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
)

// TestConfirm: a Deployment whose pod is there and was not seen as it is, is not confirmed; its Jobs are those that are
// there, whatever a cache says.
func TestConfirm(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	template := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "ansible", Image: "ansible"}}}
	labels := func(deployment string) map[string]string {
		return map[string]string{upstream.LabelApp: upstream.AppValue, upstream.LabelDeployment: deployment}
	}
	pods := map[string]*corev1.Pod{}
	for _, deployment := range []string{"mine", "another"} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: deployment, Labels: labels(deployment)},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: template}}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: deployment, Labels: labels(deployment)}, Spec: template}
		if err := c.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pods[deployment] = pod
	}
	tracker := tracking.NewTracker(tracking.Options{Live: c})
	deployment := &dataplanev1.OpenStackDataPlaneDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine", UID: "mine"}}
	deployment.Spec.NodeSets, deployment.Status.Deployed = []string{"edpm"}, true
	older := pods["mine"].DeepCopy()
	older.ResourceVersion = "1"
	for _, tt := range []struct {
		name string
		seen []*corev1.Pod
		want bool
	}{
		{"no pod", nil, false},
		{"as it was", []*corev1.Pod{older}, false},
		{"as it is", []*corev1.Pod{pods["mine"]}, true},
	} {
		journal := upstream.NewJournal()
		for _, pod := range tt.seen {
			journal.PodSeen(pod, 0, false)
		}
		world := upstream.World{NodeSet: &dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: metav1.ObjectMeta{Name: "edpm"}}, Pods: journal.Pods,
			Secrets:     map[string]upstream.Secret{},
			Deployments: map[types.UID]*dataplanev1.OpenStackDataPlaneDeployment{"mine": deployment},
			Jobs:        map[types.UID]*batchv1.Job{}, Confirmed: map[types.UID]bool{}}
		journal.SecretAbsent("dataplanenodeset-edpm", journal.Turn())
		world.Secrets = journal.Secrets
		unseen, err := tracking.Confirm(tracker, t.Context(), &world)
		if err != nil || unseen == tt.want || world.Confirmed["mine"] != tt.want || len(world.Jobs) != 1 {
			t.Errorf("%s was seen: unseen %t, confirmed %v, %d Jobs, %v", tt.name, unseen, world.Confirmed, len(world.Jobs), err)
		}
	}
}
