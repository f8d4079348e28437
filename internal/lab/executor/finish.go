package executor

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

// finish takes a started Deployment to its end. The NodeSets' Jobs end in turn; after each of them the Deployment's
// status is written and that NodeSet's next service begins. Once the Deployment has failed for good no service begins
// any more, while the Jobs of other NodeSets still end, as upstream.
func (e *Executor) finish(ctx context.Context, name string, attempts []Outcome) error {
	s, deployment, err := e.find(ctx, name)
	if err != nil {
		return err
	}
	if s == nil {
		return fmt.Errorf("Deployment %s was not started", name)
	}
	if limit := deployment.Spec.BackoffLimit; limit != nil && len(attempts) > int(*limit)+1 {
		return fmt.Errorf("Deployment %s has %d attempts, but its backoffLimit allows %d", name, len(attempts), *limit+1)
	}
	var queue []*lane
	for _, l := range s.lanes {
		switch {
		case l.running:
			queue = append(queue, l)
		case !l.isDone():
			return fmt.Errorf("Deployment %s: service %s of NodeSet %s is not running", name, l.services[l.done], l.progress.nodeSet)
		}
	}
	failed := false
	for len(queue) > 0 {
		l := queue[0]
		queue = queue[1:]
		succeeded, err := e.endJob(ctx, s, l, attempts)
		if err != nil {
			return err
		}
		if failed {
			continue // the Deployment's status says no more
		}
		failed = !succeeded
		var problem error
		if succeeded && !l.isDone() {
			if problem = e.begin(ctx, s, l); problem == nil {
				queue = append(queue, l)
			}
		}
		if err := errors.Join(problem, e.report(ctx, s)); err != nil {
			return err
		}
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.running, s.deployment.UID)
	return nil
}

// endJob goes through the attempts of the lane's Job, the first of which is running, and tells how the Job ended.
func (e *Executor) endJob(ctx context.Context, s *session, l *lane, attempts []Outcome) (succeeded bool, err error) {
	for i, outcome := range attempts {
		if i > 0 {
			if err := e.startPod(ctx, l); err != nil {
				return false, err
			}
		}
		how, err := e.play(ctx, l.content, outcome)
		if err != nil {
			return false, fmt.Errorf("pod %s: %w", l.pod.Name, err)
		}
		succeeded = how.exitCode == exitOK
		if err := e.endPod(ctx, l, how, succeeded || i == len(attempts)-1); err != nil {
			return false, err
		}
		if summary := parseRecap(how.message()); summary != nil {
			s.summaries[l.job.Name] = *summary
		}
		if succeeded {
			break
		}
	}
	if !succeeded {
		l.problem = &problem{reason: dataplanev1.ReasonBackoffLimitExceeded, message: fmt.Sprintf(
			"backoff limit reached for execution.name %s execution.namespace %s execution.condition.message: %s",
			l.job.Name, l.job.Namespace, jobMessageBackoff)}
		return false, nil
	}
	l.done, l.started, l.job = l.done+1, false, nil
	return true, nil
}

// play runs what the container is there for, or pretends to.
func (e *Executor) play(ctx context.Context, content container, outcome Outcome) (end, error) {
	selection, err := content.runsOn()
	if err != nil {
		return end{}, err
	}
	if !e.options.Ansible {
		return scripted(selection, outcome), nil
	}
	return e.runAnsible(ctx, content, faultsOf(selection, outcome))
}

// endPod has the pod end, and the Job controller see and count it; last says that no other pod will follow. Counting
// takes the Job controller's finalizer off the pod.
func (e *Executor) endPod(ctx context.Context, l *lane, how end, last bool) error {
	c, pod, succeeded := e.options.Client, l.pod, how.exitCode == exitOK
	steps := []func() error{
		func() error {
			return patch(ctx, c.Status(), asKubelet, pod, func(pod *corev1.Pod) { setTerminated(pod, how, metav1.Now()) })
		},
		func() error {
			return patch(ctx, c.Status(), asController, l.job, func(job *batchv1.Job) { setEnded(job, pod.UID, succeeded, last, metav1.Now()) })
		},
		func() error { return e.release(ctx, pod) },
		func() error {
			return patch(ctx, c.Status(), asController, l.job, func(job *batchv1.Job) { setCounted(job, succeeded, last, metav1.Now()) })
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	e.options.Log("pod %s has ended with exit code %d", pod.Name, how.exitCode)
	l.pod, l.content, l.running = nil, container{}, false
	return nil
}

// release takes the Job controller's finalizer off a pod, and no other.
func (e *Executor) release(ctx context.Context, pod *corev1.Pod) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := e.get(ctx, pod.Name, pod); err != nil {
			return err
		}
		before := pod.DeepCopy()
		if !controllerutil.RemoveFinalizer(pod, batchv1.JobTrackingFinalizer) {
			return nil
		}
		return e.options.Client.Patch(ctx, pod, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(asController))
	})
}

// report writes how far the Deployment is into its status, and lets its NodeSets see it.
func (e *Executor) report(ctx context.Context, s *session) error {
	var live dataplanev1.OpenStackDataPlaneDeployment
	if err := e.get(ctx, s.deployment.Name, &live); err != nil {
		return fmt.Errorf("Deployment %s: %w", s.deployment.Name, err)
	}
	var all []progress
	for _, l := range s.lanes {
		var nodeSet dataplanev1.OpenStackDataPlaneNodeSet
		if err := e.get(ctx, l.progress.nodeSet, &nodeSet); err != nil {
			return fmt.Errorf("NodeSet %s: %w", l.progress.nodeSet, err)
		}
		l.configHash, l.bmhHash = nodeSet.Status.ConfigHash, nodeSet.Status.BMHRefHash
		all = append(all, l.progress)
	}
	status := deploymentStatus(&live, all, metav1.Now())
	if len(s.jobHashes) > 0 {
		status.AnsibleEEHashes = copied(s.jobHashes)
	}
	if len(s.summaries) > 0 {
		status.AnsibleExecutionSummaries = map[string]dataplanev1.AnsibleExecutionSummary{}
		for job, summary := range s.summaries {
			status.AnsibleExecutionSummaries[job] = summary
		}
	}
	if status.Deployed {
		e.hash(ctx, s, &status)
	}
	before := live.Status.Conditions.Find(dataplanev1.ConditionDeploymentReady)
	if after := status.Conditions.Find(dataplanev1.ConditionDeploymentReady); before == nil || *before != *after {
		e.mutex.Lock()
		e.last++
		e.changes[string(live.UID)] = e.last
		e.mutex.Unlock()
	}
	err := patch(ctx, e.options.Client.Status(), asOperator, &live, func(d *dataplanev1.OpenStackDataPlaneDeployment) { d.Status = status })
	if err != nil {
		return fmt.Errorf("status of Deployment %s: %w", live.Name, err)
	}
	for _, l := range s.lanes {
		if err := e.SyncNodeSet(ctx, l.progress.nodeSet); err != nil {
			return err
		}
	}
	return nil
}
