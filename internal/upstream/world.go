package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// World is everything that is judged at once for one NodeSet: objects of its namespace as they were last seen.
type World struct {
	NodeSet *dataplanev1.OpenStackDataPlaneNodeSet
	// Deployments are those of the namespace, by UID. Of Services and Environments (ConfigMaps), by name, and of Jobs,
	// by UID, there may be more than the NodeSet needs.
	Deployments  map[types.UID]*dataplanev1.OpenStackDataPlaneDeployment
	Services     map[string]*dataplanev1.OpenStackDataPlaneService
	Jobs         map[types.UID]*batchv1.Job
	Environments map[string]Environment
	Pods         map[types.UID]Pod
	Secrets      map[string]Secret
	// Settled are the UIDs, each with its name, of Deployments whose runs are all in the book: their pods are not
	// judged again, when other evidence may be gone.
	Settled map[types.UID]string
	// Confirmed are the UIDs of Deployments of which live lists, taken after they were over, showed all Jobs that there
	// are, which are in Jobs then, and no pod that is not in Pods as it is. Different kinds are watched apart, and what
	// one watch tells of may be long before what another one does.
	Confirmed map[types.UID]bool
	// Margin is how long before a pod's creation a kubelet may still have served the older content of a Secret.
	Margin time.Duration
	// SharedRevisions says that revisions of Secrets and pods come from one counter (one etcd) and may be compared.
	SharedRevisions bool
}

// Hosts gives the inventory host name of every node of the NodeSet. Two nodes may share one.
func (w World) Hosts() []string {
	hosts := make([]string, 0, len(w.NodeSet.Spec.Nodes))
	for _, key := range slices.Sorted(maps.Keys(w.NodeSet.Spec.Nodes)) {
		hosts = append(hosts, w.NodeSet.InventoryHost(key))
	}
	return hosts
}

// services gives the services that the NodeSet runs: of those that share an edpmServiceType only the first, as
// openstack-operator does it. Missing names the ones that do not exist.
func (w World) services() (running []*dataplanev1.OpenStackDataPlaneService, missing []string) {
	seen := map[string]bool{}
	for _, name := range w.NodeSet.Spec.Services {
		service, ok := w.Services[name]
		if !ok {
			missing = append(missing, name)
			continue
		}
		if place := placeOf(service); !seen[place] {
			seen[place] = true
			running = append(running, service)
		}
	}
	return running, missing
}

// placeOf is where on a node the files of a service go.
func placeOf(service *dataplanev1.OpenStackDataPlaneService) string {
	if service.Spec.EDPMServiceType != "" {
		return service.Spec.EDPMServiceType
	}
	return service.Name
}

// Wanted gives what the nodes are meant to receive: the Secrets that the NodeSet's services name as data sources
// and the certificates made for its hosts. Also are Secrets that nodes have received otherwise.
func (w World) Wanted(also []string) verdict.Wanted {
	wanted := verdict.Wanted{Nodes: w.Hosts(), Secrets: map[string]verdict.WantedSecret{}}
	running, missing := w.services()
	for _, name := range missing {
		wanted.Missing = append(wanted.Missing, fmt.Sprintf("OpenStackDataPlaneService %s does not exist", name))
	}
	certs := slices.Sorted(maps.Keys(w.Certs()))
	for _, service := range running {
		for _, name := range w.brings(service, certs) {
			w.want(wanted, name, placeOf(service))
		}
	}
	for _, name := range also {
		if w.Secrets[name].Exists() {
			w.want(wanted, name)
		}
	}
	return wanted
}

// brings names the Secrets that a service takes to the nodes: its data sources, unless they are optional and not there,
// and the certificates of the hosts.
func (w World) brings(service *dataplanev1.OpenStackDataPlaneService, certs []string) []string {
	var names []string
	for _, source := range service.Spec.DataSources {
		if source.ConfigMapRef != nil || source.SecretRef == nil {
			continue // openstack-operator looks at configMapRef first
		}
		optional := source.SecretRef.Optional != nil && *source.SecretRef.Optional
		if !optional || w.Secrets[source.SecretRef.Name].Exists() {
			names = append(names, source.SecretRef.Name)
		}
	}
	if service.Spec.AddCertMounts {
		names = append(names, certs...)
	}
	return names
}

// Carriers names those of the NodeSet's services, in their order, that take one of the Secrets to the nodes. Left are the
// Secrets that none of them does.
func (w World) Carriers(secrets []string) (services, left []string) {
	running, _ := w.services()
	certs, carried := slices.Sorted(maps.Keys(w.Certs())), map[string]bool{}
	for _, service := range running {
		brings := w.brings(service, certs)
		for _, name := range brings {
			carried[name] = true
		}
		if slices.ContainsFunc(secrets, func(name string) bool { return slices.Contains(brings, name) }) {
			services = append(services, service.Name)
		}
	}
	left = slices.DeleteFunc(slices.Clone(secrets), func(name string) bool { return carried[name] })
	return services, left
}

func (w World) want(wanted verdict.Wanted, secret string, places ...string) {
	entry := wanted.Secrets[secret]
	entry.Expected = w.Secrets[secret].History.Current()
	if w.Secrets[secret].Stale() {
		entry.Expected = fleet.Unknown
	}
	for _, place := range places {
		if !slices.Contains(entry.Places, place) {
			entry.Places = append(entry.Places, place)
		}
	}
	wanted.Secrets[secret] = entry
}

// Certs gives the Secrets with a certificate for one host of the NodeSet, each with that host's inventory name.
func (w World) Certs() map[string]string {
	certs := map[string]string{}
	for name, secret := range w.Secrets {
		if secret.Labels[labelCertNodeSet] != w.NodeSet.Name || secret.Labels[labelCertService] == "" || secret.deleted {
			continue
		}
		host, _, _ := strings.Cut(secret.Labels[labelCertHost], ".")
		if host != "" && slices.Contains(w.Hosts(), host) {
			certs[name] = host
		}
	}
	return certs
}

// Reads names the Secrets to read live: those of interest that were never read, those that the watch told of since
// the last read, and those that a pod has mounted since.
func (w World) Reads() []string {
	names := map[string]bool{}
	for _, name := range w.Interest() {
		names[name] = w.Secrets[name].Stale()
	}
	for _, pod := range w.Pods {
		if w.concerns(pod.Object.Spec) && !w.isFrozen(pod) && !pod.Mounted.IsZero() {
			for name := range mounts(pod.Object) {
				names[name] = names[name] || !w.Secrets[name].knownSince(pod)
			}
		}
	}
	maps.DeleteFunc(names, func(_ string, read bool) bool { return !read })
	return slices.Sorted(maps.Keys(names))
}

// EnvironmentsToRead names the ConfigMaps that pods which are judged take variables from.
func (w World) EnvironmentsToRead() []string {
	names := map[string]bool{}
	for _, pod := range w.Pods {
		if !w.concerns(pod.Object.Spec) || w.isFrozen(pod) {
			continue
		}
		for _, source := range ansibleContainer(pod.Object).EnvFrom {
			if source.ConfigMapRef != nil {
				names[source.ConfigMapRef.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Interest names the Secrets whose content the judgement rests on.
func (w World) Interest() []string {
	names := map[string]bool{w.inventoryName(): true}
	running, _ := w.services()
	for _, service := range running {
		for _, source := range service.Spec.DataSources {
			if source.SecretRef != nil && source.ConfigMapRef == nil {
				names[source.SecretRef.Name] = true
			}
		}
	}
	for name := range w.Certs() {
		names[name] = true
	}
	for _, pod := range w.Pods {
		if w.concerns(pod.Object.Spec) && !w.isFrozen(pod) {
			for name := range mounts(pod.Object) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// InventoryPrefix and the NodeSet's name make the name of its inventory Secret.
const InventoryPrefix = "dataplanenodeset-"

func (w World) inventoryName() string { return InventoryPrefix + w.NodeSet.Name }

// Origin is what the NodeSet's nodes held before anything that is known: nothing, or anything where the NodeSet
// shows traces of deployments whose evidence is gone.
func (w World) Origin() fleet.Version {
	status := w.NodeSet.Status
	byName := map[string]*dataplanev1.OpenStackDataPlaneDeployment{}
	for _, deployment := range w.Deployments {
		if slices.Contains(deployment.Spec.NodeSets, w.NodeSet.Name) && w.hasJobs(deployment.UID) {
			byName[deployment.Name] = deployment
		}
	}
	for name := range status.DeploymentStatuses {
		if byName[name] == nil {
			return fleet.Unknown
		}
	}
	explains := func(told func(*dataplanev1.OpenStackDataPlaneDeployment) bool) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(byName)), told)
	}
	for secret, hash := range status.SecretHashes {
		if !explains(func(d *dataplanev1.OpenStackDataPlaneDeployment) bool { return d.Status.SecretHashes[secret] == hash }) {
			return fleet.Unknown
		}
	}
	if hash := status.DeployedConfigHash; hash != "" &&
		!explains(func(d *dataplanev1.OpenStackDataPlaneDeployment) bool {
			return d.Status.NodeSetHashes[w.NodeSet.Name] == hash
		}) {
		return fleet.Unknown
	}
	return fleet.None
}

func (w World) hasJobs(deployment types.UID) bool {
	for _, job := range w.Jobs {
		if slices.ContainsFunc(job.OwnerReferences, ownedBy(deployment)) && w.concerns(job.Spec.Template.Spec) {
			return true
		}
	}
	return false
}
