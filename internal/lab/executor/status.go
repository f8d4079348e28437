package executor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

// Messages of conditions, as openstack-operator words them.
const (
	messageInputDone       = "Input data complete"
	messageNotStarted      = "Deployment not started"
	messageRunning         = "Deployment in progress"
	messageCompleted       = "Deployment completed"
	messageSetupComplete   = "Setup complete"
	messageServiceWaiting  = "Deployment not yet ready for %s service"
	messageServiceReady    = "Deployment ready for %s service"
	messageServiceError    = "Deployment error occurred in %s service error %s"
	messageDeploymentError = "Deployment error occurred "
)

// progress is how far a Deployment is on one NodeSet.
type progress struct {
	nodeSet string
	// configHash and bmhHash are the NodeSet's.
	configHash, bmhHash string
	// services are those to run, of which the first done are done.
	services []string
	done     int
	// started says that the service after those has a Job.
	started bool
	// problem says why that service could not start or has failed.
	problem *problem
}

// problem is why a service does not go on: the reason of its condition and the error.
type problem struct{ reason, message string }

func (p progress) isDone() bool { return p.done == len(p.services) }

// conditions are the NodeSet's part of nodeSetConditions. Their times mean nothing, as upstream: now is always new.
func (p progress) conditions(now metav1.Time) dataplanev1.Conditions {
	var conditions dataplanev1.Conditions
	for _, service := range p.services[:p.done] {
		conditions = append(conditions, isTrue(serviceCondition(service), fmt.Sprintf(messageServiceReady, service)))
	}
	if !p.isDone() {
		service := p.services[p.done]
		switch {
		case p.problem != nil:
			message := fmt.Sprintf(messageServiceError, service, p.problem.message)
			conditions = append(conditions, isError(serviceCondition(service), p.problem.reason, message))
		case p.started:
			conditions = append(conditions, isRequested(serviceCondition(service), fmt.Sprintf(messageServiceWaiting, service)))
		}
	}
	ready := isTrue(dataplanev1.ConditionNodeSetDeploymentReady, messageCompleted)
	if !p.isDone() {
		unstarted := isUnknown(dataplanev1.ConditionNodeSetDeploymentReady, messageNotStarted)
		ready = mirror(dataplanev1.ConditionNodeSetDeploymentReady, append(dataplanev1.Conditions{unstarted}, conditions...))
	}
	return listed(append(dataplanev1.Conditions{ready}, conditions...), nil, now)
}

// deploymentStatus gives the status of a Deployment that is that far. Hashes of Secrets come with setHashes.
func deploymentStatus(deployment *dataplanev1.OpenStackDataPlaneDeployment, all []progress, now metav1.Time) dataplanev1.OpenStackDataPlaneDeploymentStatus {
	status := deployment.Status.DeepCopy()
	status.ObservedGeneration = deployment.Generation
	status.NodeSetConditions = map[string]dataplanev1.Conditions{}
	status.Deployed = true
	for _, p := range all {
		status.NodeSetConditions[p.nodeSet] = p.conditions(now)
		if !p.isDone() {
			status.Deployed = false
			continue
		}
		status.NodeSetHashes = withEntry(status.NodeSetHashes, p.nodeSet, p.configHash)
		status.BMHRefHashes = withEntry(status.BMHRefHashes, p.nodeSet, p.bmhHash)
	}
	input := isTrue(dataplanev1.ConditionInputReady, messageInputDone)
	ready := deploymentReady(all)
	summary := isTrue(dataplanev1.ConditionReady, messageSetupComplete)
	if ready.Status != corev1.ConditionTrue {
		summary = mirror(dataplanev1.ConditionReady, dataplanev1.Conditions{ready, input})
	}
	status.Conditions = listed(dataplanev1.Conditions{summary, ready, input}, deployment.Status.Conditions, now)
	return *status
}

// deploymentReady is the condition of the whole. It is final only if the last NodeSet with a problem has used up its
// attempts, as upstream.
func deploymentReady(all []progress) dataplanev1.Condition {
	var errors []string
	final, done := false, true
	for _, p := range all {
		done = done && p.isDone()
		if p.problem != nil {
			errors = append(errors, fmt.Sprintf("nodeSet: %s error: %s", p.nodeSet, p.problem.message))
			final = p.problem.reason == dataplanev1.ReasonBackoffLimitExceeded
		}
	}
	message := messageDeploymentError + strings.Join(errors, " & ")
	switch {
	case final:
		return isError(dataplanev1.ConditionDeploymentReady, dataplanev1.ReasonBackoffLimitExceeded, message)
	case len(errors) > 0:
		retried := isError(dataplanev1.ConditionDeploymentReady, dataplanev1.ReasonError, message)
		retried.Severity = dataplanev1.SeverityWarning
		return retried
	case done:
		return isTrue(dataplanev1.ConditionDeploymentReady, messageCompleted)
	default:
		return isRequested(dataplanev1.ConditionDeploymentReady, messageRunning)
	}
}

// isOver tells whether openstack-operator looks at the Deployment no more.
func isOver(deployment *dataplanev1.OpenStackDataPlaneDeployment) bool {
	ready := deployment.Status.Conditions.Find(dataplanev1.ConditionDeploymentReady)
	return deployment.Status.Deployed || ready != nil &&
		ready.Severity == dataplanev1.SeverityError && ready.Reason == dataplanev1.ReasonBackoffLimitExceeded
}

func withEntry(entries map[string]string, key, value string) map[string]string {
	if entries == nil {
		entries = map[string]string{}
	}
	entries[key] = value
	return entries
}

// Messages of a NodeSet's conditions.
const (
	messageNodeSetReady   = "NodeSet Ready"
	messageWaiting        = "NodeSet setup ready, waiting for OpenStackDataPlaneDeployment..."
	messageAccountCreated = "ServiceAccount created"
	messageNodeSetError   = "DataPlaneNodeSet error occurred Unable to generate inventory for "
)

// nodeSetState is what a NodeSet's Deployments say of it.
type nodeSetState struct {
	running, ready bool
	// failure is the message of the newest Deployment where that has failed.
	failure string
}

// replay goes through the NodeSet's Deployments, oldest first, and takes over into its status what openstack-operator
// takes over. That is not what nodes run; see the contract of the field secretHashes.
func replay(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, deployments []*dataplanev1.OpenStackDataPlaneDeployment) (state nodeSetState) {
	status := &nodeSet.Status
	for i, deployment := range deployments {
		conditions := deployment.Status.NodeSetConditions[nodeSet.Name]
		if status.DeploymentStatuses == nil {
			status.DeploymentStatuses = map[string]dataplanev1.Conditions{}
		}
		status.DeploymentStatuses[deployment.Name] = conditions
		if len(deployment.Status.AnsibleExecutionSummaries) > 0 {
			if status.DeploymentExecutionSummaries == nil {
				status.DeploymentExecutionSummaries = map[string]map[string]dataplanev1.AnsibleExecutionSummary{}
			}
			status.DeploymentExecutionSummaries[deployment.Name] = deployment.Status.DeepCopy().AnsibleExecutionSummaries
		}
		ready := conditions.Find(dataplanev1.ConditionNodeSetDeploymentReady)
		if hasFailed(ready) {
			if i == len(deployments)-1 {
				return nodeSetState{failure: ready.Message}
			}
			continue
		}
		state = nodeSetState{running: ready != nil && ready.Status == corev1.ConditionFalse}
		if ready != nil && ready.Status == corev1.ConditionTrue && isCurrent(nodeSet, deployment) {
			state.ready = true
			takeOver(status, deployment, nodeSet.Name)
		}
	}
	return state
}

// isCurrent tells whether the NodeSet is as it was when the Deployment was done with it.
func isCurrent(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, deployment *dataplanev1.OpenStackDataPlaneDeployment) bool {
	return deployment.Status.NodeSetHashes[nodeSet.Name] == nodeSet.Status.ConfigHash &&
		(nodeSet.Spec.PreProvisioned || deployment.Status.BMHRefHashes[nodeSet.Name] == nodeSet.Status.BMHRefHash)
}

// takeOver merges a finished Deployment's hashes. Those of Secrets count only without a limit; of a Deployment that ran
// all services they replace what was there.
func takeOver(status *dataplanev1.OpenStackDataPlaneNodeSetStatus, deployment *dataplanev1.OpenStackDataPlaneDeployment, nodeSet string) {
	for name, hash := range deployment.Status.ConfigMapHashes {
		status.ConfigMapHashes = withEntry(status.ConfigMapHashes, name, hash)
	}
	if limit := deployment.Spec.AnsibleLimit; limit == "" || limit == "*" {
		if len(deployment.Spec.ServicesOverride) == 0 {
			status.SecretHashes = nil
		}
		for name, hash := range deployment.Status.SecretHashes {
			status.SecretHashes = withEntry(status.SecretHashes, name, hash)
		}
	}
	status.DeployedConfigHash = deployment.Status.NodeSetHashes[nodeSet]
}

// nodeSetConditions are the NodeSet's own. Inventory says why there is none, nil where there is one.
func nodeSetConditions(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, state nodeSetState, inventory error, now metav1.Time) dataplanev1.Conditions {
	others := dataplanev1.Conditions{
		isTrue(dataplanev1.ConditionInputReady, messageInputDone),
		isTrue("NodeSetDNSDataReady", "NodeSetDNSDataReady ready"),
		isTrue("NodeSetIPReservationReady", "NodeSetIPReservationReady ready"),
		isTrue("ServiceAccountReady", messageAccountCreated),
	}
	if len(nodeSet.Spec.Nodes) > 0 && !nodeSet.Spec.PreProvisioned {
		others = append(others, isTrue("NodeSetBaremetalProvisionReady", "NodeSetBaremetalProvisionReady ready"))
	}
	setup := isTrue(dataplanev1.ConditionSetupReady, messageSetupComplete)
	deployed := isRequested(dataplanev1.ConditionDeploymentReady, messageWaiting)
	switch {
	case inventory != nil:
		setup = isError(dataplanev1.ConditionSetupReady, dataplanev1.ReasonError, messageNodeSetError+nodeSet.Name)
		deployed = isUnknown(dataplanev1.ConditionDeploymentReady, messageNotStarted)
	case state.ready:
		deployed = isTrue(dataplanev1.ConditionDeploymentReady, messageCompleted)
	case state.running:
		deployed = isRequested(dataplanev1.ConditionDeploymentReady, messageRunning)
	case state.failure != "":
		deployed = isError(dataplanev1.ConditionDeploymentReady, dataplanev1.ReasonError, state.failure)
	}
	others = append(others, setup, deployed)
	summary := isTrue(dataplanev1.ConditionReady, messageNodeSetReady)
	if slices.ContainsFunc(others, func(c dataplanev1.Condition) bool { return c.Status != corev1.ConditionTrue }) {
		summary = mirror(dataplanev1.ConditionReady, others)
	}
	return listed(append(others, summary), nodeSet.Status.Conditions, now)
}

// inOrder sorts Deployments as openstack-operator means to: by the time since when they are as ready as they are. It
// leaves open what comes first within a second; here the number of the last change does, and what has none yet is last.
func inOrder(deployments []*dataplanev1.OpenStackDataPlaneDeployment, changes map[string]int) []*dataplanev1.OpenStackDataPlaneDeployment {
	key := func(d *dataplanev1.OpenStackDataPlaneDeployment) (since time.Time, change int) {
		if ready := d.Status.Conditions.Find(dataplanev1.ConditionDeploymentReady); ready != nil {
			return ready.LastTransitionTime.Time, changes[string(d.UID)]
		}
		return d.CreationTimestamp.Time, math.MaxInt
	}
	sorted := slices.Clone(deployments)
	slices.SortStableFunc(sorted, func(a, b *dataplanev1.OpenStackDataPlaneDeployment) int {
		sinceA, changeA := key(a)
		sinceB, changeB := key(b)
		return cmp.Or(sinceA.Compare(sinceB), cmp.Compare(changeA, changeB))
	})
	return sorted
}

// copied is a copy of a map with all entries, never nil.
func copied(entries map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, entries)
	return all
}
