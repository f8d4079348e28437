package upstream

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

// Labels that openstack-operator puts on the Jobs of a Deployment and on their pods.
const (
	LabelDeployment = "openstackdataplanedeployment"
	LabelNodeSet    = "openstackdataplanenodeset"
	LabelService    = "openstackdataplaneservice"
	// LabelApp with AppValue is on all of them.
	LabelApp = "app"
	AppValue = "openstackansibleee"
)

// Pod is what was seen of the life of one Ansible pod.
type Pod struct {
	// Object is the pod as it was seen last, without managedFields.
	Object *corev1.Pod
	// Created is not later than the pod's creation.
	Created fleet.Instant
	// Mounted is not earlier than the start of the pod's containers, zero while they have not been seen started.
	Mounted fleet.Instant
	// Ended is not earlier than the end of the pod's containers, zero while they may be running.
	Ended fleet.Instant
	// seen is the journal's turn at which the pod was first seen with its containers started.
	seen uint64
	// Gone says that the pod was deleted. One that is gone and not over was last seen before its containers started, and
	// nobody knows what it did then.
	Gone bool
}

// JobUID is the UID of the Job that owns the pod, empty where none does.
func (p Pod) JobUID() types.UID {
	if owner := metav1.GetControllerOf(p.Object); owner != nil && owner.Kind == "Job" {
		return owner.UID
	}
	return ""
}

// Over tells whether nothing of the pod runs any more.
func (p Pod) Over() bool { return !p.Ended.IsZero() }

// Succeeded tells whether every container of the pod ended with exit code 0.
func (p Pod) Succeeded() bool {
	if p.Object.Status.Phase != corev1.PodSucceeded || len(p.Object.Status.ContainerStatuses) == 0 {
		return false
	}
	for _, status := range p.Object.Status.ContainerStatuses {
		if status.State.Terminated == nil || status.State.Terminated.ExitCode != 0 {
			return false
		}
	}
	return true
}

// AnsibleTimeout bounds how long Ansible goes on in a pod that vanished without a last word: ansible-runner's
// job_timeout, which the image of openstack-operator sets to one hour.
const AnsibleTimeout = time.Hour

// observe adds one sight of the pod. Began is the revision at or before which the pod surely did not exist yet, or
// the one of its creation; gone says that the pod has just been deleted.
func (p Pod) observe(pod *corev1.Pod, began uint64, gone bool, turn uint64) Pod {
	now := fleet.Instant{Revision: Revision(pod.ResourceVersion), Time: lastWrite(pod)}
	p.Created = p.Created.Later(fleet.Instant{Revision: began, Time: pod.CreationTimestamp.Time})
	if p.Mounted.IsZero() && hasStarted(pod) {
		p.Mounted, p.seen = now, turn
	}
	if p.Ended.IsZero() {
		switch {
		case hasEnded(pod), gone && p.Mounted.IsZero():
			p.Ended = now
		case gone:
			p.Ended = fleet.Instant{Time: now.Time.Add(AnsibleTimeout)}
		}
	}
	p.Gone = p.Gone || gone
	p.Object = pod.DeepCopy()
	p.Object.ManagedFields = nil
	return p
}

func hasStarted(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodRunning || hasEnded(pod) {
		return true
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil || status.State.Terminated != nil || status.LastTerminationState.Terminated != nil {
			return true
		}
	}
	return false
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// lastWrite is when the object was last written, by the API server's clock; the zero time where nothing tells.
func lastWrite(object metav1.Object) time.Time {
	last := object.GetCreationTimestamp().Time
	for _, entry := range object.GetManagedFields() {
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	if deleted := object.GetDeletionTimestamp(); deleted != nil && deleted.After(last) {
		last = deleted.Time
	}
	return last
}

// Revision reads a resourceVersion as a number; 0 where it is none. Since Kubernetes 1.35 resourceVersions of one
// resource are defined to be comparable numbers (KEP-5504).
func Revision(resourceVersion string) uint64 {
	if _, err := resourceversion.CompareResourceVersion(resourceVersion, "1"); err != nil {
		return 0
	}
	var n uint64
	for _, digit := range []byte(resourceVersion) {
		n = n*10 + uint64(digit-'0')
	}
	return n
}

// isComplete tells whether the Job controller calls the Job complete. Everything before that may still change.
func isComplete(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		if condition.Type == batchv1.JobComplete {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// isFinished tells whether the Job controller starts no more pods for the Job.
func isFinished(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		if (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
