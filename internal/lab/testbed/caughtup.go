package testbed

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// sight is what the API server has of one NodeSet and of everything that its numbers rest on.
type sight struct {
	nodeSet     *dataplanev1.OpenStackDataPlaneNodeSet
	deployments []dataplanev1.OpenStackDataPlaneDeployment
	services    map[string]*dataplanev1.OpenStackDataPlaneService
	secrets     map[string]corev1.Secret
	pods        map[types.UID]corev1.Pod
	// over are the UIDs of the Deployments that have been run to their end.
	over map[types.UID]bool
	// reach tells whether a pod was pointed at any node of the NodeSet.
	reach func(corev1.Pod) bool
	// objects are the NodeSet's ConfigMaps, rollout its SecretRollout, nil where it has none.
	objects trackmap.Objects
	rollout *rotationv1.SecretRollout
}

// lag says, in one sentence, what of the things that are in the cluster now the operator has not taken in yet; empty
// says that its record and its numbers rest on all of them, so that nothing of what it says is of an earlier state.
//
// It compares revisions and UIDs that the record holds with those of the objects, and the three places where numbers
// stand with each other. What the numbers ought to be is none of its business.
func (s sight) lag() (State, string) {
	record, _, err := trackmap.Decode(s.objects, string(s.nodeSet.UID))
	if err != nil {
		return State{}, fmt.Sprintf("the record of NodeSet %s: %v", s.nodeSet.Name, err)
	}
	secrets, err := views(s.objects)
	if err != nil {
		return State{}, fmt.Sprintf("the record of NodeSet %s: %v", s.nodeSet.Name, err)
	}
	state := State{Secrets: secrets}
	if told := s.nodeSet.Status.SecretDeployment; told != nil {
		state.TotalNodes, state.UpdatedNodes, state.AllNodesUpdated = int(told.TotalNodes), int(told.UpdatedNodes), told.AllNodesUpdated
	}
	for _, lag := range []string{
		s.secretLag(record, secrets), s.runLag(record), s.deploymentLag(record), s.numberLag(state),
	} {
		if lag != "" {
			return state, lag
		}
	}
	return state, ""
}

// wanted is what the NodeSet's nodes are meant to receive.
func (s sight) wanted() verdict.Wanted {
	return upstream.World{NodeSet: s.nodeSet, Services: s.services}.Wanted(nil)
}

// secretLag compares the Secrets that the NodeSet's services name, and those that are shown, with what the record
// read last.
func (s sight) secretLag(record trackmap.State, shown map[string]SecretState) string {
	names := map[string]bool{}
	for name := range shown {
		names[name] = true
	}
	for name := range s.wanted().Secrets {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		history, live := record.Book.Secrets[name], s.secrets[name]
		revision := upstream.Revision(live.ResourceVersion)
		if history.UID != string(live.UID) || live.UID != "" && history.Revision != revision {
			return fmt.Sprintf("Secret %s: read at revision %d, now at %d", name, history.Revision, revision)
		}
	}
	return ""
}

// runLag looks for every pod that has mounted its Secrets in the record, and for every run that goes on in the record
// among the pods.
func (s sight) runLag(record trackmap.State) string {
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		pod := s.pods[uid]
		if !s.concerns(pod) || pod.Status.Phase == corev1.PodPending || s.owner(pod) == nil || s.over[s.owner(pod).UID] {
			continue
		}
		run, ok := record.Book.Runs[string(uid)]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		switch {
		case !ok && s.reach(pod):
			return fmt.Sprintf("pod %s is not in the record", pod.Name)
		case ok && !run.Fixed:
			return fmt.Sprintf("what pod %s mounted is not known yet", pod.Name)
		case ok && ended && !run.Span.Over:
			return fmt.Sprintf("that pod %s has ended is not in the record", pod.Name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(record.Book.Runs)) {
		if _, there := s.pods[types.UID(id)]; !there && !record.Book.Runs[id].Span.Over {
			return fmt.Sprintf("that the pod of a run of %s is gone is not in the record", record.Book.Runs[id].Deployment)
		}
	}
	return ""
}

// concerns tells whether the pod works for the NodeSet and carries a Secret to nodes.
func (s sight) concerns(pod corev1.Pod) bool {
	const configs = "/var/lib/openstack/configs/"
	forUs := slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.Secret != nil && volume.Secret.SecretName == upstream.InventoryPrefix+s.nodeSet.Name
	})
	carries := slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
		return slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool {
			return strings.HasPrefix(mount.MountPath, configs)
		})
	})
	return forUs && carries
}

// owner is the Deployment of the pod, nil where it is gone.
func (s sight) owner(pod corev1.Pod) *dataplanev1.OpenStackDataPlaneDeployment {
	for i := range s.deployments {
		if s.deployments[i].Name == pod.Labels[upstream.LabelDeployment] {
			return &s.deployments[i]
		}
	}
	return nil
}

// deploymentLag looks for every Deployment that is over among the settled ones of the record.
func (s sight) deploymentLag(record trackmap.State) string {
	for _, deployment := range s.deployments {
		concerns := slices.Contains(deployment.Spec.NodeSets, s.nodeSet.Name)
		if concerns && s.over[deployment.UID] && !slices.Contains(record.Settled, string(deployment.UID)+"/"+deployment.Name) {
			return fmt.Sprintf("that Deployment %s is over is not in the record", deployment.Name)
		}
	}
	return ""
}

// numberLag compares what the NodeSet and its SecretRollout say with each other and with the record.
func (s sight) numberLag(state State) string {
	told := s.nodeSet.Status.SecretDeployment
	if told == nil || told.ObservedGeneration != s.nodeSet.Generation {
		return fmt.Sprintf("NodeSet %s does not say yet how many of its nodes are updated", s.nodeSet.Name)
	}
	nodes := slices.Collect(maps.Keys(s.nodeSet.Spec.Nodes))
	updated := updatedNodes(nodes, state.Secrets)
	all := len(s.wanted().Missing) == 0 && len(nodes) > 0 && updated == len(nodes)
	if state.UpdatedNodes != updated || state.TotalNodes != len(nodes) || state.AllNodesUpdated != all {
		return fmt.Sprintf("NodeSet %s says %d of %d nodes (all: %t), its record shows %d of %d (all: %t)", s.nodeSet.Name,
			state.UpdatedNodes, state.TotalNodes, state.AllNodesUpdated, updated, len(nodes), all)
	}
	if s.rollout == nil {
		return fmt.Sprintf("NodeSet %s has no SecretRollout yet", s.nodeSet.Name)
	}
	status := s.rollout.Status
	if status.NodeSetGeneration != s.nodeSet.Generation || int(status.UpdatedNodes) != updated || int(status.TotalNodes) != len(nodes) || status.AllNodesUpdated != all {
		return fmt.Sprintf("SecretRollout %s says %d of %d nodes (all: %t), the NodeSet %d of %d (all: %t)", s.nodeSet.Name,
			status.UpdatedNodes, status.TotalNodes, status.AllNodesUpdated, updated, len(nodes), all)
	}
	return ""
}
