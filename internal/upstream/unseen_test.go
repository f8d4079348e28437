package upstream_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// begun deploys the first version to all nodes before the operator's eyes, and starts a second Deployment.
func begun(t *rapid.T) (*cluster, *watcher, *simPod) {
	c := newCluster(t)
	w := newWatcher(c)
	w.list(0)
	c.runAll(asIs, func() { w.lookAtAll() })
	return c, w, c.begin()
}

// begin starts a Deployment to all nodes.
func (c *cluster) begin() *simPod {
	c.deploy("", false)
	for _, p := range c.pods {
		if p.object.Status.Phase == corev1.PodPending {
			return p
		}
	}
	c.t.Fatal("a Deployment has no pod")
	return nil
}

// rotate writes a new version, which the pod mounts.
func (c *cluster) rotate(p *simPod, user string) fleet.Version {
	c.writeSecret(secretName, "nova.conf", user)
	return c.mount(p)
}

// mount lets the pod start with what the Secret holds.
func (c *cluster) mount(p *simPod) fleet.Version {
	p.mounted = fingerprint.Of(c.secrets[secretName].Data, "Opaque")
	p.object.Status.Phase = corev1.PodRunning
	c.writePod(p, false)
	return p.mounted
}

// fail ends the pod, and its Job with it, after it has brought its version to n0 alone.
func (c *cluster) fail(p *simPod) {
	c.work(p, "n0", false)
	c.work(p, "n0", true)
	p.object.Status.Phase = corev1.PodFailed
	c.writePod(p, false)
	p.job.Status.Failed++
	c.endJob(p.job, batchv1.JobFailed)
}

// mayRun fails unless the node may run that version as far as the operator knows.
func mayRun(t *rapid.T, w *watcher, node string, version fleet.Version) {
	t.Helper()
	for range 3 { // what is settled and forgotten meanwhile changes nothing
		if candidates := w.lookAtAll()[node]; !candidates.Has(version) && !candidates.Has(fleet.Unknown) {
			t.Fatalf("%s runs %s, candidates are %s\n%s\n%+v", node, version.Short(), candidates, strings.Join(w.c.story, "\n"), w.memory.Book.Runs)
		}
	}
}

// TestUnseen: evidence that was deleted before the operator saw it was there all the same. What it may have brought
// stays possible until something newer is delivered.
func TestUnseen(t *testing.T) {
	for name, play := range map[string]func(c *cluster, w *watcher, p *simPod) (node string, runs fleet.Version){
		"a failed pod": func(c *cluster, w *watcher, p *simPod) (string, fleet.Version) {
			version := c.rotate(p, "user1")
			c.fail(p)
			c.lose(p, false)
			w.relist()
			return "n0", version
		},
		"a failed pod while the operator was down": func(c *cluster, w *watcher, p *simPod) (string, fleet.Version) {
			version := c.rotate(p, "user1")
			c.fail(p)
			c.lose(p, false)
			w.die(true)
			return "n0", version
		},
		"a Job": func(c *cluster, w *watcher, p *simPod) (string, fleet.Version) {
			version := c.rotate(p, "user1")
			c.finish(p, true)
			c.lose(p, true)
			w.relist()
			return "n1", version
		},
		"a pod that was seen before it started": func(c *cluster, w *watcher, p *simPod) (string, fleet.Version) {
			w.lookAtAll()
			version := c.rotate(p, "user1")
			c.finish(p, true)
			c.lose(p, false)
			w.relist()
			return "n1", version
		},
		"a pod that was seen before it started, and the operator was down": func(c *cluster, w *watcher, p *simPod) (string, fleet.Version) {
			w.lookAtAll()
			version := c.rotate(p, "user1")
			c.finish(p, true)
			c.lose(p, false)
			w.die(true)
			return "n1", version
		},
		"a failed pod, and later its Job": func(c *cluster, w *watcher, p *simPod) (string, fleet.Version) {
			version := c.rotate(p, "user1")
			c.fail(p)
			d := c.deploys[p.job.OwnerReferences[0].UID]
			over := d.Status.Conditions
			d.Status.Conditions = nil // other Jobs go on
			c.lose(p, false)
			w.relist()
			w.look()
			delete(c.jobs, p.job.UID)
			d.Status.Conditions = over
			return "n0", version
		},
		"a Deployment that was deleted with all it had, while the operator was down": func(c *cluster, w *watcher, p *simPod) (string, fleet.Version) {
			version := c.rotate(p, "user1")
			c.work(p, "n1", false)
			c.work(p, "n1", true)
			d := c.deploys[p.job.OwnerReferences[0].UID]
			d.DeletionTimestamp = &metav1.Time{Time: c.clock}
			c.writePod(p, true)
			delete(c.pods, p.object.UID)
			delete(c.jobs, p.job.UID)
			w.die(true)
			w.look()
			once := w.stored
			c.clock = c.clock.Add(time.Minute)
			if w.look(); !reflect.DeepEqual(w.stored, once) {
				c.t.Fatal("while it goes it is written down again and again")
			}
			delete(c.deploys, d.UID)
			return "n1", version
		},
		// The retry finds the file in place and restarts nothing, and nobody knows any more that there was an attempt.
		"a lost restart, before the record was lost": func(c *cluster, w *watcher, p *simPod) (string, fleet.Version) {
			old := c.nodes["n0"].process
			c.rotate(p, "user1")
			c.work(p, "n0", false)
			p.object.Status.Phase = corev1.PodFailed
			c.writePod(p, false)
			p.job.Status.Failed++
			c.endJob(p.job, batchv1.JobFailed)
			w.lookAtAll()
			c.remove(p.job.OwnerReferences[0].UID)
			w.loseRecord()
			w.die(true)
			w.look()
			c.runAll(asIs, func() { w.lookAtAll() })
			return "n0", old
		},
	} {
		t.Run(name, func(t *testing.T) {
			fewTimes(t, func(t *rapid.T) {
				c, w, p := begun(t)
				node, version := play(c, w, p)
				if runs := c.nodes[node].process; runs != version {
					t.Fatalf("%s runs %s, the story is wrong", node, runs.Short())
				}
				c.writeSecret(secretName, "nova.conf", "user2")
				mayRun(t, w, node, version)
			})
		})
	}
}

// TestUnseenIsOvercome: what nobody saw is out of question once something newer has surely replaced it.
func TestUnseenIsOvercome(t *testing.T) {
	fewTimes(t, func(t *rapid.T) {
		c, w, p := begun(t)
		c.rotate(p, "user1")
		c.fail(p)
		c.lose(p, true)
		w.relist()
		for _, user := range []string{"user2", "user0"} {
			c.writeSecret(secretName, "nova.conf", user)
			w.lookAtAll()
			c.runAll(asIs, func() { w.lookAtAll() })
		}
		fresh := fingerprint.Of(c.secrets[secretName].Data, "Opaque")
		for node, candidates := range w.lookAtAll() {
			if !candidates.IsOnly(fresh) {
				t.Fatalf("%s runs %s, candidates are %s\n%+v", node, fresh.Short(), candidates, w.memory.Book.Runs)
			}
		}
	})
}

// TestPast: where nobody knows what was deployed before, a delivery counts as one, but does not prove a restart before a
// second version is delivered.
func TestPast(t *testing.T) {
	for name, forget := range map[string]func(c *cluster, w *watcher, p *simPod){
		"the record was lost": func(c *cluster, w *watcher, p *simPod) {
			w.lookAtAll()
			c.remove(p.job.OwnerReferences[0].UID)
			w.loseRecord()
			w.die(true)
		},
		"the first look came after the Jobs": func(c *cluster, w *watcher, p *simPod) {
			for _, p := range c.pods {
				c.lose(p, true)
			}
			c.nodeSet.Status.DeploymentStatuses = map[string]dataplanev1.Conditions{p.object.Labels[upstream.LabelDeployment]: nil}
			*w = *newWatcher(c)
			w.list(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fewTimes(t, func(t *rapid.T) {
				c, w, p := begun(t)
				c.rotate(p, "user1")
				c.finish(p, true)
				forget(c, w, p)
				w.look()
				for round, user := range []string{"user1", "user2"} {
					c.clock = c.clock.Add(time.Minute)
					if round > 0 {
						c.writeSecret(secretName, "nova.conf", user)
						w.lookAtAll()
					}
					c.runAll(asIs, func() { w.lookAtAll() })
					w.isDelivered(t, round > 0)
				}
			})
		})
	}
}

// isDelivered fails unless it is said of all nodes that the latest version was delivered, and that they surely run it, or
// not that.
func (w *watcher) isDelivered(t *rapid.T, surely bool) {
	t.Helper()
	fresh := fingerprint.Of(w.c.secrets[secretName].Data, "Opaque")
	for range 3 {
		candidates := w.lookAtAll()
		delivered := verdict.Judge(w.memory.Book, w.world().Wanted(nil), nil).Secrets[secretName].Nodes
		for node := range w.c.nodes {
			if !delivered[node].Candidates.IsOnly(fresh) || candidates[node].IsOnly(fresh) != surely {
				t.Fatalf("%s has %s after a delivery of %s, surely %t, and it says %s\n%+v", node, candidates[node], fresh.Short(), surely, delivered[node].Candidates, w.memory.Book)
			}
		}
	}
}

// TestSeenInTime: a Job that is deleted after it was seen, while its Deployment goes on, leaves nothing unknown.
func TestSeenInTime(t *testing.T) {
	for name, after := range map[string]func(*watcher){
		"the operator is up": func(*watcher) {}, "it dies": func(w *watcher) { w.die(false) }, "it was down for long": func(w *watcher) { w.die(true) },
	} {
		t.Run(name, func(t *testing.T) {
			fewTimes(t, func(t *rapid.T) {
				c := newCluster(t)
				w := newWatcher(c)
				w.list(0)
				c.runAll(asIs, func() { w.lookAtAll() })
				c.writeSecret(secretName, "nova.conf", "user1")
				w.lookAtAll()
				p := c.begin()
				version := c.mount(p)
				w.lookAtAll()
				c.finish(p, true)
				d := c.deploys[p.job.OwnerReferences[0].UID]
				d.Status.Deployed = false // other services follow
				w.lookAtAll()
				after(w)
				c.lose(p, true)
				w.lookAtAll()
				after(w)
				d.Status.Deployed = true
				for range 3 {
					for node, candidates := range w.lookAtAll() {
						if !candidates.IsOnly(version) {
							t.Fatalf("%s runs %s, candidates are %s\n%s\n%+v", node, version.Short(), candidates, strings.Join(c.story, "\n"), w.memory.Book)
						}
					}
				}
				if len(w.memory.Settled) != 2 {
					t.Fatalf("settled are %v, want the two Deployments", w.memory.Settled)
				}
			})
		})
	}
}
