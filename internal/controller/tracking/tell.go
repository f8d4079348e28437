package tracking

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/store"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// FieldManager owns what the operator applies to objects.
const FieldManager = "rotation-operator"

// tell says what is stored: in the SecretRollout, then in the NodeSet. Neither is written if it says so already.
func (t *Tracker) tell(ctx context.Context, s *state, world upstream.World, drift verdict.Drift) error {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	if err := t.tellRollout(ctx, s, world, drift, now); err != nil {
		return err
	}
	return t.tellNodeSet(ctx, world.NodeSet, drift, now)
}

func (t *Tracker) tellNodeSet(ctx context.Context, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, drift verdict.Drift, now metav1.Time) error {
	want := dataplanev1.SecretDeploymentStatus{
		ConfigMapName: store.ConfigMapName(nodeSet.Name), TotalNodes: int32(drift.TotalNodes), UpdatedNodes: int32(drift.UpdatedNodes),
		AllNodesUpdated: drift.AllNodesUpdated(), ObservedGeneration: nodeSet.Generation, LastUpdateTime: now,
	}
	if have := nodeSet.Status.SecretDeployment; have != nil {
		same := *have
		same.LastUpdateTime = want.LastUpdateTime
		if equality.Semantic.DeepEqual(same, want) {
			return nil
		}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return fmt.Errorf("NodeSet %s: %w", nodeSet.Name, err)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"secretDeployment": fields}}}
	patch.SetGroupVersionKind(dataplanev1.GroupVersion.WithKind("OpenStackDataPlaneNodeSet"))
	patch.SetNamespace(nodeSet.Namespace)
	patch.SetName(nodeSet.Name)
	patch.SetUID(nodeSet.UID)
	err = t.options.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(FieldManager), client.ForceOwnership)
	if isPruned(err) {
		log.FromContext(ctx).V(1).Info("The NodeSet's CRD has no status.secretDeployment; the SecretRollout has the counts")
		return nil
	}
	if err != nil {
		return fmt.Errorf("status of NodeSet %s: %w", nodeSet.Name, err)
	}
	return nil
}

// isPruned tells whether the API server's CRD lacks the field: openstack-operator's own does, and server-side apply
// then fails with an internal error.
func isPruned(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "field not declared in schema")
}

func (t *Tracker) tellRollout(ctx context.Context, s *state, world upstream.World, drift verdict.Drift, now metav1.Time) error {
	var rollout rotationv1.SecretRollout
	key := client.ObjectKeyFromObject(world.NodeSet)
	err := t.options.Client.Get(ctx, key, &rollout)
	if apierrors.IsNotFound(err) {
		rollout = newRollout(world.NodeSet)
		err = t.options.Client.Create(ctx, &rollout)
	}
	if err != nil {
		return fmt.Errorf("SecretRollout %s: %w", key.Name, err)
	}
	before := rollout.DeepCopy()
	rollout.Status = rolloutStatus(s, world, drift, before, now)
	if equality.Semantic.DeepEqual(before.Status, rollout.Status) {
		return nil
	}
	if err := t.options.Client.Status().Patch(ctx, &rollout, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("status of SecretRollout %s: %w", key.Name, err)
	}
	t.tellJudged(key.Namespace, "")
	return nil
}

func newRollout(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) rotationv1.SecretRollout {
	yes := true
	return rotationv1.SecretRollout{ObjectMeta: metav1.ObjectMeta{
		Namespace: nodeSet.Namespace, Name: nodeSet.Name,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: dataplanev1.GroupVersion.String(), Kind: "OpenStackDataPlaneNodeSet", Name: nodeSet.Name, UID: nodeSet.UID, Controller: &yes,
		}},
	}}
}

func rolloutStatus(s *state, world upstream.World, drift verdict.Drift, rollout *rotationv1.SecretRollout, now metav1.Time) rotationv1.SecretRolloutStatus {
	before := rollout.Status
	status := rotationv1.SecretRolloutStatus{
		ObservedGeneration: rollout.Generation, NodeSetGeneration: world.NodeSet.Generation,
		ConfigMapName: store.ConfigMapName(world.NodeSet.Name), TotalNodes: int32(drift.TotalNodes),
		UpdatedNodes: int32(drift.UpdatedNodes), DegradedNodes: int32(drift.DoubtfulNodes), AllNodesUpdated: drift.AllNodesUpdated(),
		Conditions: before.Conditions,
	}
	findings := rotationv1.Findings{Missing: slices.Clone(drift.Missing)}
	if s.aside != "" {
		findings.Missing = append(findings.Missing, fmt.Sprintf("The record could not be read and was set aside as ConfigMap %s", s.aside))
	}
	behind, doubtful := map[string]bool{}, map[string]bool{}
	hosts := rotationv1.HostSecrets{}
	for _, name := range slices.Sorted(maps.Keys(drift.Secrets)) {
		secret := drift.Secrets[name]
		for node, record := range secret.Nodes {
			behind[node] = behind[node] || !record.Candidates.IsOnly(secret.Expected)
			doubtful[node] = doubtful[node] || len(record.Candidates) > 1 || record.Candidates.Has(fleet.Unknown)
		}
		if _, scoped := s.memory.Book.Scope[name]; scoped {
			hosts.Total++
			if len(secret.Nodes) > 0 && secret.Updated == len(secret.Nodes) {
				hosts.Updated++
			}
			continue
		}
		status.Secrets = append(status.Secrets, secretState(name, secret, before.Secrets, now))
	}
	if hosts.Total > 0 {
		status.HostSecrets = &hosts
	}
	findings.Behind, findings.InDoubt = names(behind), names(doubtful)
	world.Settled = s.memory.Settled
	status.UnsettledDeployments = world.Unsettled()
	for _, node := range s.memory.Book.Nodes {
		if node.Departed {
			status.DepartedNodes++
		}
	}
	status.Judge(findings, now)
	return status
}

func names(set map[string]bool) []string {
	maps.DeleteFunc(set, func(_ string, in bool) bool { return !in })
	return slices.Sorted(maps.Keys(set))
}

func secretState(name string, secret verdict.SecretDrift, before []rotationv1.SecretState, now metav1.Time) rotationv1.SecretState {
	state := rotationv1.SecretState{
		Name: name, ExpectedHash: rotationv1.Version(secret.Expected), CurrentHash: rotationv1.Version(secret.Current),
		TotalNodes: int32(len(secret.Nodes)), UpdatedNodes: int32(secret.Updated),
	}
	counts := map[fleet.Version]int32{}
	for _, record := range secret.Nodes {
		for _, version := range record.Candidates {
			counts[version]++
		}
	}
	for _, version := range slices.Sorted(maps.Keys(counts)) {
		state.Versions = append(state.Versions, rotationv1.VersionState{Hash: rotationv1.Version(version), Nodes: counts[version]})
	}
	if secret.Updated < len(secret.Nodes) {
		state.DriftSince = &now
		for _, old := range before {
			if old.Name == name && old.DriftSince != nil {
				state.DriftSince = old.DriftSince
			}
		}
	}
	return state
}
