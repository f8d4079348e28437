package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// deciding lists the variables that change which hosts or tasks a run has, or which file says so. Where one of them
// is set behind the Deployment's back, nothing can be said of the run.
var deciding = []string{
	"ANSIBLE_CONFIG", "ANSIBLE_HOST_PATTERN_MISMATCH", "ANSIBLE_RUN_TAGS", "ANSIBLE_SKIP_TAGS",
	"ANSIBLE_TRANSFORM_INVALID_GROUP_CHARS", "ANSIBLE_CHECK_MODE",
}

// Environment is the ConfigMap that a container takes variables from (ansibleEEEnvConfigMapName). Data is nil where
// there is no such ConfigMap; Err says that it could not be read.
type Environment struct {
	Data map[string]string
	Err  error
}

// variable gives the last value of a container variable.
func variable(container corev1.Container, name string) string {
	value := ""
	for _, v := range container.Env {
		if v.Name == name {
			value = v.Value
		}
	}
	return strings.TrimSpace(value)
}

// environmentDoubt says what in the container's environment leaves open what the run did; empty where nothing does.
func environmentDoubt(container corev1.Container, from map[string]Environment) string {
	seen := map[string]bool{}
	for _, v := range container.Env {
		if isDeciding(v.Name) {
			return fmt.Sprintf("the variable %s decides what the run does", v.Name)
		}
		if strings.HasPrefix(v.Name, "RUNNER_") && (seen[v.Name] || v.ValueFrom != nil) {
			return fmt.Sprintf("the variable %s is set twice or from elsewhere", v.Name)
		}
		seen[v.Name] = true
	}
	for _, source := range container.EnvFrom {
		if source.ConfigMapRef == nil {
			return "the container takes variables from a Secret"
		}
		env := from[source.ConfigMapRef.Name]
		if env.Err != nil {
			return fmt.Sprintf("ConfigMap %s with the run's variables cannot be read: %v", source.ConfigMapRef.Name, env.Err)
		}
		for _, key := range slices.Sorted(maps.Keys(env.Data)) {
			name := source.Prefix + key
			if isDeciding(name) || strings.HasPrefix(name, "RUNNER_") && !seen[name] {
				return fmt.Sprintf("the variable %s of ConfigMap %s decides what the run does", name, source.ConfigMapRef.Name)
			}
		}
	}
	return ""
}

func isDeciding(name string) bool {
	return slices.Contains(deciding, name) || strings.HasPrefix(name, "ANSIBLE_INVENTORY")
}
