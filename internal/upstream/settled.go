package upstream

import (
	"fmt"
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

// Settling gives the UIDs of the Deployments that are to be confirmed: nothing but that keeps them from being settled, or
// they are about to go.
func (w World) Settling() []types.UID {
	return slices.DeleteFunc(w.Touching(), func(uid types.UID) bool { return w.Settled[uid] != "" || !w.isDone(uid) && !w.goes(uid) })
}

func (w World) goes(uid types.UID) bool { return w.Deployments[uid].DeletionTimestamp != nil }

// Settles tells whether nothing more is to be learned of the Deployment while it is there.
func (w World) Settles(uid types.UID) bool { return w.Confirmed[uid] && w.isDone(uid) }

// isDone tells whether the Deployment is over, its Jobs are finished and none of its pods runs, and no Secret waits to be
// read.
func (w World) isDone(uid types.UID) bool {
	deployment := w.Deployments[uid]
	if deployment == nil || !isOver(deployment) || len(w.Reads()) > 0 {
		return false
	}
	jobs := map[types.UID]bool{}
	for jobUID, job := range w.Jobs {
		if slices.ContainsFunc(job.OwnerReferences, ownedBy(uid)) && w.concerns(job.Spec.Template.Spec) {
			jobs[jobUID] = true
			if !isFinished(job) {
				return false
			}
		}
	}
	for _, pod := range w.Pods {
		if jobs[pod.JobUID()] && !pod.Over() && !pod.Gone {
			return false
		}
	}
	return true
}

// jobEntry is what stands in Settled for a Job of a Deployment that is not settled yet. No Deployment has such a name.
func jobEntry(deployment types.UID, job string) string {
	return jobPrefix + string(deployment) + "/" + job
}

const jobPrefix = "job/"

// JobsDone gives the UIDs of the Deployment's Jobs that have nothing more to tell, with what stands in Settled for them: one
// that is deleted later was seen.
func (w World) JobsDone(uid types.UID, book ledger.Book) map[types.UID]string {
	done := map[types.UID]string{}
	if len(w.Reads()) > 0 {
		return done
	}
	for jobUID, job := range w.Jobs {
		if slices.ContainsFunc(job.OwnerReferences, ownedBy(uid)) && isFinished(job) && w.hasAllPods(job, uid, book) {
			done[jobUID] = jobEntry(uid, job.Name)
		}
	}
	for _, pod := range w.Pods {
		if !pod.Over() && !pod.Gone {
			delete(done, pod.JobUID())
		}
	}
	return done
}

// Unseen says in a sentence which part of a confirmed Deployment nobody saw, empty where all was seen or is in the book: a
// Job that it had is gone, or pods that a Job has counted are.
func (w World) Unseen(uid types.UID, book ledger.Book) string {
	there := map[string]bool{}
	for _, job := range w.Jobs {
		if !slices.ContainsFunc(job.OwnerReferences, ownedBy(uid)) {
			continue
		}
		there[job.Name] = true
		if w.concerns(job.Spec.Template.Spec) && !w.hasAllPods(job, uid, book) {
			return fmt.Sprintf("pods of Job %s were deleted before anybody saw them", job.Name)
		}
	}
	entries := slices.Collect(maps.Values(w.Settled))
	for _, name := range slices.Sorted(maps.Keys(w.Deployments[uid].Status.AnsibleEEHashes)) {
		if !there[name] && !slices.Contains(entries, jobEntry(uid, name)) {
			return fmt.Sprintf("Job %s was deleted before anybody saw it", name)
		}
	}
	return ""
}

// hasAllPods tells whether as many pods of a Job are known as it has counted.
func (w World) hasAllPods(job *batchv1.Job, deployment types.UID, book ledger.Book) bool {
	return w.podsSeen(job, deployment, book) >= int(job.Status.Succeeded+job.Status.Failed)
}

// podsSeen counts the pods of a Job that are known or that the book has runs of.
func (w World) podsSeen(job *batchv1.Job, deployment types.UID, book ledger.Book) int {
	seen := map[string]bool{}
	for uid, pod := range w.Pods {
		if pod.JobUID() == job.UID {
			seen[string(uid)] = true
		}
	}
	for id, run := range book.Runs {
		if run.DeploymentUID == string(deployment) && run.Service == job.Labels[LabelService] {
			seen[id] = true
		}
	}
	return len(seen)
}

// spanOf bounds what a Deployment did: by its creation and the last change of its status, or, where it is not over, by how
// long Ansible may go on.
func (w World) spanOf(deployment *dataplanev1.OpenStackDataPlaneDeployment, now time.Time) fleet.Span {
	span := fleet.Span{Began: fleet.Instant{Time: deployment.CreationTimestamp.Time}, Over: true}
	if !isOver(deployment) {
		span.Ended.Time = now.Add(AnsibleTimeout)
		return span
	}
	if w.SharedRevisions {
		span.Ended.Revision = Revision(deployment.ResourceVersion)
	}
	for _, entry := range deployment.ManagedFields {
		if entry.Subresource == "status" && entry.Time != nil && entry.Time.After(span.Ended.Time) {
			span.Ended.Time = entry.Time.Time
		}
	}
	if span.Ended.Time.IsZero() {
		span.Ended.Time = now
	}
	return span
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
		if w.concerns(pod.Object.Spec) && !w.isFrozen(pod) {
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
// gone on for as long as its own timeout lets it. One that was last seen before it had mounted anything may have carried
// anything to any node.
func (w World) Vanished(book ledger.Book, now time.Time) []ledger.Run {
	var closed []ledger.Run
	for id, run := range book.Runs {
		pod, there := w.Pods[types.UID(id)]
		if run.Span.Over || there && (pod.Over() || !pod.Gone) {
			continue
		}
		run.Span.Over, run.Span.Ended = true, fleet.Instant{Time: now.Add(AnsibleTimeout)}
		if !run.Fixed {
			run.Carried, run.Reach = maps.Clone(run.Carried), maps.Clone(run.Reach)
			for secret := range run.Carried {
				run.Carried[secret] = fleet.SetOf(fleet.Unknown)
			}
			for node := range book.Nodes {
				run.Reach[node] = ledger.Attempted
			}
		}
		closed = append(closed, run)
	}
	return closed
}
