package executor

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What the lab's only worker node looks like.
const (
	workerNode = "worker-0"
	workerIP   = "10.1.1.1"
	podIP      = "10.2.0.5"
)

// podOf makes the next pod of a Job, as the Job controller would.
func podOf(job *batchv1.Job) *corev1.Pod {
	template := job.Spec.Template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: job.Name + "-", Namespace: job.Namespace,
			Labels: template.Labels, Annotations: template.Annotations,
			Finalizers:      []string{batchv1.JobTrackingFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: template.Spec,
	}
}

// setRunning is what a kubelet reports when the container has started.
func setRunning(pod *corev1.Pod, now metav1.Time) {
	status := &pod.Status
	status.Phase, status.StartTime = corev1.PodRunning, &now
	status.HostIP, status.PodIP, status.PodIPs = workerIP, podIP, []corev1.PodIP{{IP: podIP}}
	setReady(status, corev1.ConditionTrue, "", now)
	container, started := pod.Spec.Containers[0], true
	status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: container.Name, Image: container.Image, ImageID: container.Image, Ready: true, Started: &started,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
}

// setTerminated is what a kubelet reports when the container has ended.
func setTerminated(pod *corev1.Pod, how end, now metav1.Time) {
	status := &pod.Status
	status.Phase = corev1.PodFailed
	phaseReason, reason := "PodFailed", "Error"
	if how.exitCode == exitOK {
		status.Phase, phaseReason, reason = corev1.PodSucceeded, "PodCompleted", "Completed"
	}
	setReady(status, corev1.ConditionFalse, phaseReason, now)
	for i := range status.ContainerStatuses {
		container, started := &status.ContainerStatuses[i], false
		terminated := corev1.ContainerStateTerminated{ExitCode: how.exitCode, Reason: reason, Message: how.message(), FinishedAt: now}
		if container.State.Running != nil {
			terminated.StartedAt = container.State.Running.StartedAt
		}
		container.State = corev1.ContainerState{Terminated: &terminated}
		container.Ready, container.Started = false, &started
	}
}

func setReady(status *corev1.PodStatus, is corev1.ConditionStatus, reason string, now metav1.Time) {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: is, Reason: reason, LastTransitionTime: now}
	for i := range status.Conditions {
		if status.Conditions[i].Type == corev1.PodReady {
			status.Conditions[i] = ready
			return
		}
	}
	status.Conditions = append(status.Conditions, ready)
}

// setActive is what the Job controller reports of a Job with a pod.
func setActive(job *batchv1.Job, ready int32, now metav1.Time) {
	none := int32(0)
	if job.Status.StartTime == nil {
		job.Status.StartTime = &now
	}
	job.Status.Active, job.Status.Ready, job.Status.Terminating = 1, &ready, &none
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
}

// Conditions of an ended Job: the first is there before the pod is counted, the second after.
var (
	succeededConditions = [2]batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	failedConditions    = [2]batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
)

// setEnded is what the Job controller reports as soon as it sees that the pod has ended; last says that no other pod
// will follow.
func setEnded(job *batchv1.Job, pod types.UID, succeeded, last bool, now metav1.Time) {
	none := int32(0)
	job.Status.Active, job.Status.Ready = 0, &none
	uncounted := &batchv1.UncountedTerminatedPods{}
	if succeeded {
		uncounted.Succeeded = []types.UID{pod}
	} else {
		uncounted.Failed = []types.UID{pod}
	}
	job.Status.UncountedTerminatedPods = uncounted
	if last {
		addJobCondition(job, succeeded, 0, now)
	}
}

// setCounted is what it reports after it has let the pod go.
func setCounted(job *batchv1.Job, succeeded, last bool, now metav1.Time) {
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	if succeeded {
		job.Status.Succeeded++
		job.Status.CompletionTime = &now
	} else {
		job.Status.Failed++
	}
	if last {
		addJobCondition(job, succeeded, 1, now)
	}
}

// Why a Job ended.
const (
	jobReasonCompleted  = "CompletionsReached"
	jobMessageCompleted = "Reached expected number of succeeded pods"
	jobMessageBackoff   = "Job has reached the specified backoff limit"
)

func addJobCondition(job *batchv1.Job, succeeded bool, which int, now metav1.Time) {
	condition := batchv1.JobCondition{
		Type: failedConditions[which], Reason: batchv1.JobReasonBackoffLimitExceeded, Message: jobMessageBackoff,
		Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now,
	}
	if succeeded {
		condition.Type, condition.Reason, condition.Message = succeededConditions[which], jobReasonCompleted, jobMessageCompleted
	}
	job.Status.Conditions = append(job.Status.Conditions, condition)
}
