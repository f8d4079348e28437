package upstream

import (
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// Touching gives the UIDs of the Deployments that name the NodeSet.
func (w World) Touching() []types.UID {
	var uids []types.UID
	for uid, deployment := range w.Deployments {
		if slices.Contains(deployment.Spec.NodeSets, w.NodeSet.Name) {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// Settles tells whether nothing more is to be learned of the Deployment: it is over, its Jobs are finished and none
// of its pods runs, and no Secret waits to be read.
func (w World) Settles(uid types.UID) bool {
	deployment := w.Deployments[uid]
	if deployment == nil || !isOver(deployment) || len(w.Reads()) > 0 {
		return false
	}
	jobs := map[types.UID]bool{}
	for jobUID, job := range w.Jobs {
		if slices.ContainsFunc(job.OwnerReferences, ownedBy(uid)) {
			jobs[jobUID] = true
			if !isFinished(job) || w.lacksPods(job) {
				return false
			}
		}
	}
	for _, pod := range w.Pods {
		if jobs[pod.JobUID()] && !pod.Over() {
			return false
		}
	}
	return true
}

// lacksPods tells whether the Job has counted more ended pods than were seen: the others are still to come.
func (w World) lacksPods(job *batchv1.Job) bool {
	seen := int32(0)
	for _, pod := range w.Pods {
		if pod.JobUID() == job.UID {
			seen++
		}
	}
	return seen < job.Status.Succeeded
}

// Quiet tells whether nothing is unsettled: then no run can turn up that began before now.
func (w World) Quiet() bool { return len(w.Unsettled()) == 0 }

// Unsettled names the Deployments that may still bring something to the NodeSet or be found to have done so: those that
// name it and are not settled, and those that have a pod with its inventory, as the ones of a global service have.
func (w World) Unsettled() []string {
	var names []string
	for _, uid := range w.Touching() {
		if w.Settled[uid] == "" {
			names = append(names, w.Deployments[uid].Name)
		}
	}
	for _, pod := range w.Pods {
		if w.concerns(pod) && !w.isFrozen(pod) {
			names = append(names, pod.Object.Labels[LabelDeployment])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// HasSeen tells whether what was seen of a pod is as new as this sight of it.
func (w World) HasSeen(pod *corev1.Pod) bool {
	seen, ok := w.Pods[pod.UID]
	return ok && Revision(seen.Object.ResourceVersion) >= Revision(pod.ResourceVersion)
}

// Told names the Secrets that openstack-operator says were delivered to the NodeSet.
func (w World) Told() []string { return slices.Sorted(maps.Keys(w.NodeSet.Status.SecretHashes)) }

// isOver tells whether openstack-operator is done with the Deployment for good (upstream-contract: deployed, or the
// backoff limit reached).
func isOver(deployment *dataplanev1.OpenStackDataPlaneDeployment) bool {
	if deployment.Status.Deployed {
		return true
	}
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == dataplanev1.ConditionDeploymentReady && condition.Status == "False" &&
			condition.Severity == dataplanev1.SeverityError && condition.Reason == dataplanev1.ReasonBackoffLimitExceeded {
			return true
		}
	}
	return false
}

// Vanished closes the runs of the book whose pods are no longer there although nobody saw them end. Ansible may have
// gone on for as long as its own timeout lets it.
func (w World) Vanished(book ledger.Book, now time.Time) []ledger.Run {
	var closed []ledger.Run
	for id, run := range book.Runs {
		if _, there := w.Pods[types.UID(id)]; !there && !run.Span.Over {
			run.Span.Over, run.Span.Ended = true, fleet.Instant{Time: now.Add(AnsibleTimeout)}
			closed = append(closed, run)
		}
	}
	return closed
}
