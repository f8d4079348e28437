package upstream

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// Where openstack-operator mounts what goes to the nodes; everything else in the pod stays in the pod.
const (
	configsPath = "/var/lib/openstack/configs/"
	certsPath   = "/var/lib/openstack/certs/"
)

// Runs gives what every pod that is known says of the NodeSet's nodes.
func (w World) Runs() []ledger.Run {
	var runs []ledger.Run
	for _, uid := range slices.Sorted(maps.Keys(w.Pods)) {
		if pod := w.Pods[uid]; w.concerns(pod.Object.Spec) && !w.isFrozen(pod) {
			if run := w.run(pod); len(run.Carried) > 0 && len(run.Reach) > 0 {
				runs = append(runs, run)
			}
		}
	}
	return runs
}

// isFrozen tells whether the pod belongs to a settled Deployment. Where its Job is gone, the name has to do, unless
// there is another Deployment of that name.
func (w World) isFrozen(pod Pod) bool {
	if job := w.Jobs[pod.JobUID()]; job != nil {
		owner := metav1.GetControllerOf(job)
		return owner != nil && w.Settled[owner.UID] != ""
	}
	name, frozen := pod.Object.Labels[LabelDeployment], false
	for _, settled := range w.Settled {
		frozen = frozen || settled == name
	}
	for uid, deployment := range w.Deployments {
		if deployment.Name == name && w.Settled[uid] == "" {
			return false
		}
	}
	return frozen
}

// concerns tells whether a pod works with the NodeSet's inventory.
func (w World) concerns(pod corev1.PodSpec) bool {
	for _, volume := range pod.Volumes {
		if volume.Secret != nil && volume.Secret.SecretName == w.inventoryName() {
			return true
		}
	}
	return false
}

func (w World) run(pod Pod) ledger.Run {
	job := w.Jobs[pod.JobUID()]
	deployment := w.deploymentOf(job)
	run := ledger.Run{
		ID: string(pod.Object.UID), Deployment: pod.Object.Labels[LabelDeployment], Service: pod.Object.Labels[LabelService],
		Place: w.placeOfRun(pod.Object), Attempt: w.attempt(pod), Span: fleet.Span{Began: pod.Created, Ended: pod.Ended, Over: pod.Over()},
		Mounted: pod.Mounted,
	}
	if deployment != nil {
		run.DeploymentUID = string(deployment.UID)
	}
	run.Carried, run.Partly = w.carried(pod)
	run.Fixed = w.isFixed(pod)
	selection := w.selection(pod)
	recap, doubt, whole := w.doubt(pod, job, deployment, selection)
	run.Doubt, run.Whole, run.Reach = doubt, whole, map[string]ledger.Strength{}
	if pod.Over() && pod.Mounted.IsZero() {
		return run // it never started
	}
	hosts, best, least := w.Hosts(), ledger.Delivered, true
	if proves(pod.Object) != "" {
		best, least = ledger.Proved, false // it changes nothing: it proves something, or is as if it had not been
	}
	for _, host := range selection.Perhaps {
		if least {
			run.Reach[host] = ledger.Attempted
		}
		once := slices.Index(hosts, host) >= 0 && !slices.Contains(hosts[slices.Index(hosts, host)+1:], host)
		if doubt == "" && once && slices.Contains(selection.Surely, host) && !recap.isBad(host) {
			run.Reach[host] = best
		}
	}
	maps.DeleteFunc(run.Reach, func(host string, _ ledger.Strength) bool { return !w.isOurs(host, pod) })
	return run
}

// isFixed tells whether the pod has mounted its Secrets and all that they held until then is known. A pod that never
// started has mounted nothing.
func (w World) isFixed(pod Pod) bool {
	for name := range mounts(pod.Object) {
		if !w.Secrets[name].knownSince(pod) {
			return pod.Over() && pod.Mounted.IsZero()
		}
	}
	return true
}

// doubt goes through what must hold before any host counts as delivered; the first that does not is the reason, and
// empty says that all does. Whole says that what does not hold leaves open only what the run carried and where it went:
// wherever that was, it did all that it does.
func (w World) doubt(pod Pod, job *batchv1.Job, deployment *dataplanev1.OpenStackDataPlaneDeployment, selection hostpattern.Selection) (recap summary, reason string, whole bool) {
	container := ansibleContainer(pod.Object)
	var recapErr error
	recap, recapErr = summaryOf(pod.Object)
	line, lineErr := hostpattern.ParseCommandLine(variable(container, "RUNNER_CMDLINE"))
	environment := environmentDoubt(container, w.Environments)
	own, proved := slices.Contains(container.Args, "playbook.yaml"), proves(pod.Object)
	bad := slices.Concat(recap.FailedHostList, recap.UnreachableHostList)
	stranger := ""
	for _, host := range bad {
		if stranger == "" && !slices.Contains(selection.Surely, host) {
			stranger = host
		}
	}
	const what, where = true, true
	checks := []struct {
		fails  bool
		reason string
		// only is true where nothing but what was carried, or where to, is left open.
		only bool
	}{
		{!w.isFixed(pod), "what the pod mounted is not known yet", what},
		{!pod.Over(), "the run goes on", false},
		{!pod.Succeeded(), "the run did not end well", false},
		{job == nil || deployment == nil, "no Job of a Deployment owns the pod", what},
		{job != nil && !isComplete(job), "the Job is not complete", what},
		{!slices.Contains(container.Args, "-p") && !slices.Contains(container.Args, "-r"), "what the pod runs is not known", false},
		{own && proved == "", "the service brings its own playbook, which nobody has audited", false},
		{proved != "" && proofDoubt(pod.Object, proved) != "", proofDoubt(pod.Object, proved), false},
		{environment != "", environment, false},
		{lineErr != nil, fmt.Sprint(lineErr), false},
		{lineErr == nil && line.Narrowed(), "tags chose some of the tasks", false},
		{connectsElsewhere(variable(container, "RUNNER_EXTRA_VARS")), elsewhere, false},
		{!selection.Decided, selection.Why, selection.Why != contradicted},
		{recapErr != nil, fmt.Sprint(recapErr), false},
		{recapErr == nil && *recap.TotalHosts != len(selection.Surely), "the recap counts other hosts than the limit chooses", where},
		{stranger != "", fmt.Sprintf("the recap lists %s, which the limit does not choose", stranger), false},
	}
	whole = len(bad) == 0
	for _, check := range checks {
		if check.fails {
			reason, whole = cmp.Or(reason, check.reason), whole && check.only
		}
	}
	return recap, reason, whole
}

// Two reasons for which it is open where a run went that cast doubt on what it did as well.
const (
	elsewhere    = "an extra variable changes where Ansible connects to"
	contradicted = "the run ended well although its limit must have stopped it"
)

// selection resolves which hosts the run was pointed at. Where that cannot be decided, every host of every
// inventory may be in it, and every node of the NodeSet.
func (w World) selection(pod Pod) hostpattern.Selection {
	container := ansibleContainer(pod.Object)
	inventory, known := w.inventory(pod)
	all := w.Hosts()
	for _, group := range inventory.Groups {
		all = append(all, group.Hosts...)
	}
	slices.Sort(all)
	undecided := func(why string) hostpattern.Selection {
		return hostpattern.Selection{Perhaps: slices.Compact(all), Why: why}
	}
	var extra struct {
		Hosts string `json:"edpm_override_hosts"`
	}
	switch err := yaml.Unmarshal([]byte(variable(container, "RUNNER_EXTRA_VARS")), &extra); {
	case !known:
		return undecided("the inventory that the pod mounted is not known")
	case err != nil || extra.Hosts == "":
		return undecided("the pod does not say which hosts its plays are for")
	case connectsElsewhere(variable(container, "RUNNER_EXTRA_VARS")):
		return undecided(elsewhere)
	}
	selection := hostpattern.ResolveRun(inventory, extra.Hosts, variable(container, "RUNNER_CMDLINE"))
	if selection.Err != "" && pod.Succeeded() {
		return undecided(contradicted)
	}
	if !selection.Decided && selection.Err == "" {
		return undecided(selection.Why)
	}
	return selection
}

// connectsElsewhere tells whether extra variables hold one of Ansible's own, which override those of the inventory.
func connectsElsewhere(extraVars string) bool {
	var vars map[string]any
	if err := yaml.Unmarshal([]byte(extraVars), &vars); err != nil {
		return true
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(vars)), func(name string) bool { return strings.HasPrefix(name, "ansible_") })
}

// inventory gives the inventory that the pod mounted, put together from its Secrets. Known is false unless every
// content that a Secret may have had then lists the same hosts.
func (w World) inventory(pod Pod) (merged hostpattern.Inventory, known bool) {
	known = true
	for _, name := range inventoryMounts(pod.Object) {
		secret := w.Secrets[name]
		var one *hostpattern.Inventory
		for _, version := range w.between(secret, pod) {
			content, ok := secret.Contents[version]
			switch {
			case !ok || content.Inventory == nil, one != nil && !sameInventory(*one, *content.Inventory):
				known = false
			default:
				one = content.Inventory
			}
		}
		if one == nil {
			known = false
			continue
		}
		merged.Groups = append(merged.Groups, one.Groups...)
	}
	return merged, known && len(merged.Groups) > 0
}

func sameInventory(a, b hostpattern.Inventory) bool {
	return slices.EqualFunc(a.Groups, b.Groups, func(x, y hostpattern.Group) bool {
		return x.Name == y.Name && slices.Equal(x.Hosts, y.Hosts)
	})
}

// inventoryMounts names the inventory Secrets in the order in which Ansible reads them: by file name, as strings.
func inventoryMounts(pod *corev1.Pod) []string {
	type file struct{ path, secret string }
	var files []file
	for _, mount := range ansibleContainer(pod).VolumeMounts {
		if !strings.HasPrefix(mount.MountPath, "/runner/inventory/") {
			continue
		}
		for _, volume := range pod.Spec.Volumes {
			if volume.Name == mount.Name && volume.Secret != nil {
				files = append(files, file{mount.MountPath, volume.Secret.SecretName})
			}
		}
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.secret
	}
	return names
}

// isOurs tells whether a host of the run is a node of this NodeSet: listed now, or in its part of the inventory then.
func (w World) isOurs(host string, pod Pod) bool {
	if slices.Contains(w.Hosts(), host) {
		return true
	}
	inventory, _ := w.inventory(pod)
	for _, group := range inventory.Groups {
		if group.Name == w.NodeSet.Name && slices.Contains(group.Hosts, host) {
			return true
		}
	}
	return false
}

// between gives the versions of the Secret that the pod may have mounted.
func (w World) between(secret Secret, pod Pod) fleet.Versions {
	created, mounted := pod.Created, pod.Mounted
	if !w.SharedRevisions {
		created.Revision, mounted.Revision = 0, 0
	}
	versions := secret.History.Between(created, mounted, w.Margin)
	if secret.Stale() {
		versions = versions.Union(fleet.SetOf(fleet.Unknown))
	}
	return versions
}

// deploymentOf follows the owner reference of a Job, by UID: names come back.
func (w World) deploymentOf(job *batchv1.Job) *dataplanev1.OpenStackDataPlaneDeployment {
	if job == nil {
		return nil
	}
	owner := metav1.GetControllerOf(job)
	if owner == nil {
		return nil
	}
	return w.Deployments[owner.UID]
}

func ownedBy(uid types.UID) func(metav1.OwnerReference) bool {
	return func(owner metav1.OwnerReference) bool { return owner.UID == uid }
}

// attempt counts the pods of the Job that were there before this one, itself included.
func (w World) attempt(pod Pod) int {
	n := 1
	for _, other := range w.Pods {
		if other.JobUID() == pod.JobUID() && other.Object.UID != pod.Object.UID &&
			(other.Created.Revision < pod.Created.Revision || other.Created.Time.Before(pod.Created.Time)) {
			n++
		}
	}
	return n
}

func (w World) placeOfRun(pod *corev1.Pod) string {
	var extra struct {
		Type string `json:"edpm_service_type"`
	}
	if err := yaml.Unmarshal([]byte(variable(ansibleContainer(pod), "RUNNER_EXTRA_VARS")), &extra); err == nil && extra.Type != "" {
		return extra.Type
	}
	if service := w.Services[pod.Labels[LabelService]]; service != nil {
		return placeOf(service)
	}
	return pod.Labels[LabelService]
}

// ansibleContainer is the container that runs Ansible: the only one that openstack-operator puts into the pod.
func ansibleContainer(pod *corev1.Pod) corev1.Container {
	if len(pod.Spec.Containers) == 0 {
		return corev1.Container{}
	}
	return pod.Spec.Containers[0]
}
