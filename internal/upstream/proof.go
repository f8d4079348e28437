package upstream

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/rotation-operator/rotation-operator/config/proof"
)

// proves tells which place (edpmServiceType) a pod proves: it runs a playbook of ours, word for word. A label on the
// Service would not do, for anybody can put one on anything, at any time. Such a run changes nothing on a node, so it
// either proves something or is none.
func proves(pod *corev1.Pod) string {
	container := ansibleContainer(pod)
	if !slices.Contains(container.Args, "playbook.yaml") {
		return ""
	}
	return proof.Proves(variable(container, "RUNNER_PLAYBOOK"))
}

// proofDoubt says why a run of such a playbook proves nothing; empty where it does.
func proofDoubt(pod *corev1.Pod, place string) string {
	var extra map[string]any
	if err := yaml.Unmarshal([]byte(variable(ansibleContainer(pod), "RUNNER_EXTRA_VARS")), &extra); err != nil {
		return "the extra variables cannot be read"
	}
	switch {
	case extra["edpm_service_type"] != place:
		return "the playbook proves another service"
	case slices.ContainsFunc(slices.Collect(maps.Keys(extra)), isOfProof):
		return "an extra variable overrides one of the playbook's own"
	}
	return ""
}

func isOfProof(name string) bool { return strings.HasPrefix(name, "rotation_proof") }
