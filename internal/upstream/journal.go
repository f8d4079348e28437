// Package upstream reads what openstack-operator leaves in the cluster (NodeSets, Deployments, Services, Jobs, pods
// and Secrets) and turns it into runs: what each Ansible execution may have brought to which node.
package upstream

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// Journal is what watches told of the pods and Secrets of one namespace, in order. Everything that time decides is
// taken down here as it passes by: when a pod came and started and went, and what a Secret held when.
type Journal struct {
	// Pods are the Ansible pods, those that are gone included until they are forgotten.
	Pods map[types.UID]Pod
	// Secrets are all Secrets that a watch told of or that histories were restored for.
	Secrets map[string]Secret
	// Identify, if there is one, is asked of every Secret that is read.
	Identify Identify
	// turn counts what was taken down. It orders what was read live against what was seen before.
	turn uint64
}

// Identify gives the names of the credentials in a Secret's data: for each question that it can answer in full, all
// that this finds.
type Identify func(secret string, data map[string][]byte) map[string][]string

// NewJournal is an empty journal.
func NewJournal() *Journal {
	return &Journal{Pods: map[types.UID]Pod{}, Secrets: map[string]Secret{}}
}

// PodSeen adds one sight of a pod. Began is the revision of its creation where a watch told of just that, else one
// at which the pod was not there yet, or 0. Gone says that the pod was deleted.
func (j *Journal) PodSeen(pod *corev1.Pod, began uint64, gone bool) {
	if pod.Labels[LabelApp] != AppValue {
		return
	}
	j.turn++
	j.Pods[pod.UID] = j.Pods[pod.UID].observe(pod, began, gone, j.turn)
}

// PodsListed adds a full list of pods, after a time in which no watch told of anything. Since is the revision up to
// which everything had been told to this journal, 0 where it is new.
func (j *Journal) PodsListed(pods []corev1.Pod, since uint64) {
	listed := map[types.UID]bool{}
	for i := range pods {
		listed[pods[i].UID] = true
		began := since
		if _, known := j.Pods[pods[i].UID]; known {
			began = 0
		}
		j.PodSeen(&pods[i], began, false)
	}
	for uid, pod := range j.Pods {
		switch {
		case listed[uid] || pod.Over():
		case pod.Mounted.IsZero():
			pod.Gone = true // it may have started and ended since; see World.Vanished
			j.Pods[uid] = pod
		default:
			j.turn++
			j.Pods[uid] = pod.observe(pod.Object, 0, true, j.turn)
		}
	}
}

// ForgetPods drops the pods that the function names, once nothing is to be learned from them.
func (j *Journal) ForgetPods(useless func(Pod) bool) {
	for uid, pod := range j.Pods {
		if useless(pod) {
			delete(j.Pods, uid)
		}
	}
}

// SecretWritten notes that a Secret was created, changed or deleted, as a watch tells it.
func (j *Journal) SecretWritten(meta metav1.Object, deleted bool) {
	j.Secrets[meta.GetName()] = j.Secrets[meta.GetName()].announce(meta, deleted)
}

// SecretsListed adds a full list of Secrets, after a time in which no watch told of anything: where a revision
// differs from the one read last, anything may have stood in between.
func (j *Journal) SecretsListed(list []metav1.Object) {
	listed := map[string]bool{}
	for _, meta := range list {
		name := meta.GetName()
		listed[name] = true
		secret := j.Secrets[name]
		secret.told, secret.toldUID = Revision(meta.GetResourceVersion()), string(meta.GetUID())
		unchanged := string(meta.GetUID()) == secret.History.UID && Revision(meta.GetResourceVersion()) == secret.History.Revision
		secret = secret.announce(meta, false)
		secret.gap = !unchanged
		secret.Labels = meta.GetLabels()
		j.Secrets[name] = secret
	}
	for name, secret := range j.Secrets {
		if !listed[name] && secret.Exists() {
			secret.gap = true
			j.Secrets[name] = secret
		}
	}
}

// Turn is to be taken before a live read begins and handed in with it: the read knows of all that was written before
// anything was seen at an earlier turn.
func (j *Journal) Turn() uint64 {
	j.turn++
	return j.turn
}

// SecretRead adds a live read. It answers false while the read is ahead of the watch: then the watch has something
// to tell first, and the read is to be repeated after that.
func (j *Journal) SecretRead(secret *corev1.Secret, turn uint64) bool {
	have, ok := j.Secrets[secret.Name].read(secret, turn, j.Identify)
	if ok {
		j.Secrets[secret.Name] = have
	}
	return ok
}

// SecretAbsent adds the finding of a live read that there is no such Secret.
func (j *Journal) SecretAbsent(name string, turn uint64) {
	j.Secrets[name] = j.Secrets[name].absent(turn)
}

// Restore puts a stored history back, where none or a shorter one is known. What a watch told of before is known then.
func (j *Journal) Restore(name string, history ledger.History) {
	secret := j.Secrets[name]
	if history.Revision <= secret.History.Revision {
		return
	}
	secret.History = history
	secret.announced = slices.DeleteFunc(slices.Clone(secret.announced), func(r uint64) bool { return r <= history.Revision })
	if latest := secret.told; latest == history.Revision && secret.toldUID == history.UID {
		secret.gap = false // listed as it was read last
	}
	j.Secrets[name] = secret
}
