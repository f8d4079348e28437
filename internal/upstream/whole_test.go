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

// TestFirstLook: the operator is installed on a fleet that was deployed before, so that what that run carried and where
// it went is unknown for good. If the run did all that it does, the next delivery is exact. If it may have left a file
// beside an old process, it may have been the very file that is delivered next, and then nobody restarts.
func TestFirstLook(t *testing.T) {
	terminated := func(change func(*corev1.ContainerStateTerminated)) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for _, status := range pod.Status.ContainerStatuses {
				if status.State.Terminated != nil {
					change(status.State.Terminated)
				}
			}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		exact  bool
	}{
		{"ended well", func(*corev1.Pod) {}, true},
		{"ended well on one node", setVariable("RUNNER_CMDLINE", "--limit n1"), true},
		{"to nobody knows which nodes", setVariable("RUNNER_EXTRA_VARS", "edpm_service_type: nova"), true},
		{"failed", func(pod *corev1.Pod) {
			if pod.Status.Phase == corev1.PodSucceeded {
				pod.Status.Phase = corev1.PodFailed
			}
		}, false},
		{"a host failed", terminated(func(ended *corev1.ContainerStateTerminated) {
			ended.Message = `{"totalHosts":3,"failedHosts":1,"failedHostList":["n0"],"unreachableHosts":0,"unreachableHostList":[]}`
		}), false},
		{"a host was unreachable", terminated(func(ended *corev1.ContainerStateTerminated) {
			ended.Message = `{"totalHosts":3,"failedHosts":0,"failedHostList":[],"unreachableHosts":1,"unreachableHostList":["n2"]}`
		}), false},
		{"left no recap", terminated(func(ended *corev1.ContainerStateTerminated) { ended.Message = "" }), false},
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
			rounds := 0
			rapid.Check(t, func(t *rapid.T) { // for the clock alone, so that a few rounds are enough
				const enough = 5
				if rounds++; rounds > enough {
					return
				}
				c := newCluster(t)
				run := func(change func(*corev1.Pod)) {
					c.deploy("", false)
					for _, p := range c.pods {
						if p.object.Status.Phase != corev1.PodPending {
							continue
						}
						p.mounted, p.ends = fingerprint.Of(c.secrets[secretName].Data, "Opaque"), true
						p.object.Status.Phase = corev1.PodRunning
						change(p.object)
						c.writePod(p, false)
						c.finish(p, true)
						change(p.object)
						c.writePod(p, false)
					}
				}
				run(tt.change)
				c.writeSecret(secretName, "nova.conf", "user1")
				w := newWatcher(c)
				w.list(0)
				w.look()
				c.writeSecret(secretName, "nova.conf", "user2")
				w.bring(len(c.podEvents), len(c.secEvents))
				w.look()
				run(func(*corev1.Pod) {})
				w.bring(len(c.podEvents), len(c.secEvents))
				fresh := fingerprint.Of(c.secrets[secretName].Data, "Opaque")
				for node, candidates := range w.look() {
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
		"a host failed": func(pod *corev1.Pod) {
			for _, status := range pod.Status.ContainerStatuses {
				if status.State.Terminated != nil {
					status.State.Terminated.Message = `{"totalHosts":3,"failedHosts":1,"failedHostList":["n0"],"unreachableHosts":0,"unreachableHostList":[]}`
				}
			}
		},
		"its limit must have stopped it": setVariable("RUNNER_CMDLINE", "--limit stranger"),
	} {
		t.Run(name, func(t *testing.T) {
			rounds := 0
			rapid.Check(t, func(t *rapid.T) { // for the clock alone
				const enough = 5
				if rounds++; rounds > enough {
					return
				}
				c := newCluster(t)
				w := newWatcher(c)
				w.list(0)
				run := func(change func(*corev1.Pod)) {
					c.deploy("", false)
					for _, p := range c.pods {
						if p.object.Status.Phase != corev1.PodPending {
							continue
						}
						p.mounted = fingerprint.Of(c.secrets[secretName].Data, "Opaque")
						p.object.Status.Phase = corev1.PodRunning
						change(p.object)
						c.writePod(p, false)
						w.bring(len(c.podEvents), len(c.secEvents))
						w.look()
						c.finish(p, true)
						change(p.object)
						c.writePod(p, false)
						w.bring(len(c.podEvents), len(c.secEvents))
						w.look()
					}
				}
				old := fingerprint.Of(c.secrets[secretName].Data, "Opaque")
				run(func(*corev1.Pod) {})
				c.writeSecret(secretName, "nova.conf", "user1")
				w.bring(len(c.podEvents), len(c.secEvents))
				w.look()
				run(change)
				run(func(*corev1.Pod) {})
				if candidates := w.look()["n0"]; !candidates.Has(old) {
					t.Fatalf("n0 has %s\n%+v", candidates, w.memory.Book.Runs)
				}
			})
		})
	}
}
