package upstream_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// TestWhatProves: after a lost restart a node's candidates are the old and the new version. A proof leaves the new one,
// whatever else leaves both; and whatever is not the shipped playbook may have touched the node.
func TestWhatProves(t *testing.T) {
	env := func(name, value string) func(*corev1.Container) {
		return func(c *corev1.Container) {
			for i := range c.Env {
				if c.Env[i].Name == name {
					c.Env[i].Value = value
					return
				}
			}
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Container)
		// proved are the nodes that are surely on the new version afterwards, touched says that the run left a trace.
		proved  string
		touched bool
	}{
		{"the shipped playbook", func(*corev1.Container) {}, "n0 n1 n2", true},
		{"on one node", env("RUNNER_CMDLINE", "--limit n1"), "n1", true},
		{"a changed playbook", env("RUNNER_PLAYBOOK", proofPlaybook+"# changed"), "", true},
		{"some of the tasks", env("RUNNER_CMDLINE", "--tags nova"), "", false},
		{"without some of the tasks", env("RUNNER_CMDLINE", "--skip-tags always"), "", false},
		{"check mode", env("RUNNER_CMDLINE", "--check"), "", false},
		{"another service's place", env("RUNNER_EXTRA_VARS", "edpm_override_hosts: edpm\nedpm_service_type: ovn"), "", false},
		{"a variable of the playbook", env("RUNNER_EXTRA_VARS", "edpm_override_hosts: edpm\nedpm_service_type: nova\nrotation_proof_found: {}"), "", false},
		{"Secret not mounted", func(c *corev1.Container) { c.VolumeMounts = c.VolumeMounts[1:] }, "", false},
		{"from elsewhere", func(c *corev1.Container) { c.Args[len(c.Args)-1] = "osp.edpm.nova" }, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fewTimes(t, func(t *rapid.T) {
				c := newCluster(t)
				w := newWatcher(c)
				run := func(isProof, good bool) {
					c.deploy("", isProof)
					for _, p := range c.pods {
						if p.object.Status.Phase != corev1.PodPending {
							continue
						}
						p.mounted, p.ends = fingerprint.Of(c.secrets[secretName].Data, "Opaque"), good
						if isProof {
							tt.change(&p.object.Spec.Containers[0])
						}
						p.object.Status.Phase = corev1.PodRunning
						c.writePod(p, false)
						w.lookAtAll()
						for host := range c.nodes {
							c.work(p, host, false) // the file is there, and the restart only where it ends well
						}
						if isProof {
							for host := range c.nodes {
								c.nodes[host].process = c.nodes[host].file
							}
						}
						c.finish(p, good)
						w.lookAtAll()
					}
				}
				w.lookAtAll()
				run(false, true)
				c.writeSecret(secretName, "nova.conf", "user1")
				w.lookAtAll()
				run(false, false)
				run(false, true)
				fresh := fingerprint.Of(c.secrets[secretName].Data, "Opaque")
				for node, candidates := range w.lookAtAll() {
					if len(candidates) != 2 {
						t.Fatalf("%s: the lost restart leaves %s", node, candidates)
					}
				}
				before := len(w.memory.Book.Runs)
				run(true, true)
				var proved []string
				candidates := w.lookAtAll()
				for _, node := range []string{"n0", "n1", "n2"} {
					if candidates[node].IsOnly(fresh) {
						proved = append(proved, node)
					}
				}
				if got := strings.Join(proved, " "); got != tt.proved {
					t.Fatalf("proved are %q, want %q\n%s", got, tt.proved, strings.Join(c.story, "\n"))
				}
				if touched := len(w.memory.Book.Runs) > before; touched != tt.touched && tt.proved == "" {
					t.Fatalf("a run was recorded: %t\n%+v", touched, w.memory.Book.Runs)
				}
				for _, r := range w.memory.Book.Runs {
					for host, strength := range r.Reach {
						if strength == ledger.Proved && !strings.Contains(tt.proved, host) {
							t.Fatalf("%s is proved", host)
						}
					}
				}
			})
		})
	}
}

// TestOwnPlaybook: a service's own playbook proves nothing, not even that it delivered.
func TestOwnPlaybook(t *testing.T) {
	fewTimes(t, func(t *rapid.T) {
		c := newCluster(t)
		w := newWatcher(c)
		w.lookAtAll()
		c.deploy("", true)
		for _, p := range c.pods {
			container := &p.object.Spec.Containers[0]
			container.Env[len(container.Env)-1].Value = "- hosts: all"
			p.mounted, p.ends = fingerprint.Of(c.secrets[secretName].Data, "Opaque"), true
			p.object.Status.Phase = corev1.PodRunning
			c.writePod(p, false)
			for host := range c.nodes {
				c.nodes[host] = &machine{p.mounted, p.mounted}
			}
			c.endPod(p, p.hosts(c))
		}
		for node, candidates := range w.lookAtAll() {
			if !candidates.Has(fleet.None) || len(candidates) != 2 {
				t.Fatalf("%s: %s", node, candidates)
			}
		}
	})
}

// fewTimes checks what draws nothing but the pace of the clock, for which a few rounds are enough.
func fewTimes(t *testing.T, check func(*rapid.T)) {
	t.Helper()
	const enough = 5
	rounds := 0
	rapid.Check(t, func(t *rapid.T) {
		if rounds++; rounds <= enough {
			check(t)
		}
	})
}

// lookAtAll looks once everything that has happened was told.
func (w *watcher) lookAtAll() map[string]fleet.Versions {
	w.bring(len(w.c.podEvents), len(w.c.secEvents))
	return w.look()
}

// finish ends a pod with a recap that is good for all hosts, or bad for the first.
func (c *cluster) finish(p *simPod, good bool) {
	if isProof(c.deploys[p.job.OwnerReferences[0].UID]) {
		if !good {
			c.t.Fatal("a proof ends as the nodes are")
		}
	}
	hosts := p.hosts(c)
	for _, v := range p.object.Spec.Containers[0].Env {
		if v.Name == "RUNNER_CMDLINE" && strings.Contains(v.Value, "--limit n1") {
			hosts = []string{"n1"}
		}
	}
	p.ends = good
	c.endPod(p, hosts)
}
