package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

// However long its lists were, a status that was judged is stored: it fits the schema and what the server can hold.
// One entry more in any list does not.
func TestOverlongStatusIsStored(t *testing.T) {
	c := newCluster(t)
	rollout := &rotationv1.SecretRollout{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "x"}}
	must(t, c.Create(t.Context(), rollout))
	rollout.Status = overlong()
	rollout.Status.Judge(rotationv1.Findings{Missing: []string{strings.Repeat("m", 100_000)}}, metav1.Now())
	must(t, c.Status().Update(t.Context(), rollout))

	for name, lengthen := range map[string]func(*rotationv1.SecretRolloutStatus){
		"secrets": func(s *rotationv1.SecretRolloutStatus) { s.Secrets = append(s.Secrets, state(1000)) },
		"versions": func(s *rotationv1.SecretRolloutStatus) {
			s.Secrets[0].Versions = append(s.Secrets[0].Versions, version(1000))
		},
		"unsettledDeployments": func(s *rotationv1.SecretRolloutStatus) {
			s.UnsettledDeployments = append(s.UnsettledDeployments, "one-more")
		},
		"identities": func(s *rotationv1.SecretRolloutStatus) {
			s.Secrets[0].Versions[0].Identities = append(s.Secrets[0].Versions[0].Identities, "one-more")
		},
		"may not be more than 128": func(s *rotationv1.SecretRolloutStatus) {
			s.Secrets[0].Versions[0].Identities[0] = strings.Repeat("x", 129)
		},
	} {
		longer := rollout.DeepCopy()
		lengthen(&longer.Status)
		check(t, c.Status().Update(t.Context(), longer), name)
	}
}

func overlong() rotationv1.SecretRolloutStatus {
	status := rotationv1.SecretRolloutStatus{NodeSetGeneration: 1, ConfigMapName: "x", TotalNodes: 1}
	for i := range 200 {
		status.Secrets = append(status.Secrets, state(i))
		status.UnsettledDeployments = append(status.UnsettledDeployments, long("deployment", i, 253))
	}
	return status
}

func state(i int) rotationv1.SecretState {
	state := rotationv1.SecretState{Name: long("secret", i, 253), ExpectedHash: user8, CurrentHash: user7, TotalNodes: 1, DriftSince: &metav1.Time{}}
	*state.DriftSince = metav1.Now()
	for j := range 20 {
		state.Versions = append(state.Versions, version(j))
	}
	if i == 1000 {
		state.Versions = nil
	}
	return state
}

func version(i int) rotationv1.VersionState {
	digits := "456789bcdf"
	hash := []string{"n" + string([]byte{digits[i/100%10], digits[i/10%10], digits[i%10]})}
	hash = append(hash, slices.Repeat([]string{"h5fd"}, 31)...)
	version := rotationv1.VersionState{Hash: rotationv1.Version(strings.Join(hash, "") + "q"), Nodes: 1}
	for j := range 20 {
		version.Identities = append(version.Identities, long("identity", j, 128))
	}
	return version
}

func long(name string, i, length int) string {
	text := fmt.Sprintf("%s-%04d-", name, i)
	return text + strings.Repeat("x", length-len(text))
}
