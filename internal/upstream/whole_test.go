package upstream_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

func setVariable(name, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		container := &pod.Spec.Containers[0]
		container.Env = slices.DeleteFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == name })
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
	}
}

// setRecap changes what a pod that has ended says of its hosts.
func setRecap(message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Terminated != nil {
				status.State.Terminated.Message = message
			}
		}
	}
}

const (
	oneFailed      = `{"totalHosts":3,"failedHosts":1,"failedHostList":["n0"],"unreachableHosts":0,"unreachableHostList":[]}`
	oneUnreachable = `{"totalHosts":3,"failedHosts":0,"failedHostList":[],"unreachableHosts":1,"unreachableHostList":["n2"]}`
)

// runAll deploys all nodes in one go, with the pod changed from its start to its end. Told is called whenever the pod has
// got on.
func (c *cluster) runAll(change func(*corev1.Pod), told func()) {
	c.deploy("", false)
	for _, p := range c.pods {
		if p.object.Status.Phase != corev1.PodPending {
			continue
		}
		p.mounted = fingerprint.Of(c.secrets[secretName].Data, "Opaque")
		p.object.Status.Phase = corev1.PodRunning
		change(p.object)
		c.writePod(p, false)
		told()
		c.finish(p, true)
		change(p.object)
		c.writePod(p, false)
		told()
	}
}

func asIs(*corev1.Pod) {}

// TestFirstLook: the operator is installed on a fleet that was deployed before, so that what that run carried and where
// it went is unknown for good. If the run did all that it does, the next delivery is exact. If it may have left a file
// beside an old process, it may have been the very file that is delivered next, and then nobody restarts.
func TestFirstLook(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		exact  bool
	}{
		{"ended well", asIs, true},
		{"ended well on one node", setVariable("RUNNER_CMDLINE", "--limit n1"), true},
		{"to nobody knows which nodes", setVariable("RUNNER_EXTRA_VARS", "edpm_service_type: nova"), true},
		{"failed", func(pod *corev1.Pod) {
			if pod.Status.Phase == corev1.PodSucceeded {
				pod.Status.Phase = corev1.PodFailed
			}
		}, false},
		{"a host failed", setRecap(oneFailed), false},
		{"a host was unreachable", setRecap(oneUnreachable), false},
		{"left no recap", setRecap(""), false},
		{"some of the tasks", setVariable("RUNNER_CMDLINE", "--tags nova"), false},
		{"check mode", setVariable("RUNNER_CMDLINE", "--check"), false},
		{"unknown options", setVariable("RUNNER_CMDLINE", "--start-at-task x"), false},
		{"connected elsewhere", setVariable("RUNNER_EXTRA_VARS", "edpm_override_hosts: edpm\nedpm_service_type: nova\nansible_host: other"), false},
		{"its own playbook", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Args = []string{"ansible-runner", "run", "/runner", "-p", "playbook.yaml"}
		}, false},
		{"nobody knows what", func(pod *corev1.Pod) { pod.Spec.Containers[0].Args = []string{"sh"} }, false},
		{"a variable that decides", setVariable("ANSIBLE_INVENTORY_ENABLED", "auto"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fewTimes(t, func(t *rapid.T) {
				c := newCluster(t)
				run := func(change func(*corev1.Pod)) { c.runAll(change, func() {}) }
				run(tt.change)
				c.writeSecret(secretName, "nova.conf", "user1")
				w := newWatcher(c)
				w.list(0)
				w.look()
				c.writeSecret(secretName, "nova.conf", "user2")
				w.lookAtAll()
				run(asIs)
				fresh := fingerprint.Of(c.secrets[secretName].Data, "Opaque")
				for node, candidates := range w.lookAtAll() {
					if exact := candidates.IsOnly(fresh); exact != tt.exact || !exact && !candidates.Has(fleet.Unknown) {
						t.Fatalf("%s has %s after a delivery of %s, exact: %t\n%s\n%+v", node, candidates, fresh.Short(), tt.exact, strings.Join(c.story, "\n"), w.memory.Book.Runs)
					}
				}
			})
		})
	}
}

// TestSeenHalfway: a run that the operator saw ended well as a whole, and something of it says that it left a host with
// the new file beside the old process. The next delivery of the same version proves no restart there.
func TestSeenHalfway(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"a host failed":                  setRecap(oneFailed),
		"its limit must have stopped it": setVariable("RUNNER_CMDLINE", "--limit stranger"),
	} {
		t.Run(name, func(t *testing.T) {
			fewTimes(t, func(t *rapid.T) {
				c := newCluster(t)
				w := newWatcher(c)
				w.list(0)
				run := func(change func(*corev1.Pod)) { c.runAll(change, func() { w.lookAtAll() }) }
				old := fingerprint.Of(c.secrets[secretName].Data, "Opaque")
				run(asIs)
				c.writeSecret(secretName, "nova.conf", "user1")
				w.lookAtAll()
				run(change)
				run(asIs)
				if candidates := w.look()["n0"]; !candidates.Has(old) {
					t.Fatalf("n0 has %s\n%+v", candidates, w.memory.Book.Runs)
				}
			})
		})
	}
}
