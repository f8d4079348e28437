package upstream

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

// mounts gives the Secrets that the pod mounts, each with the keys; nil keys mean all of them.
func mounts(pod *corev1.Pod) map[string][]string {
	secrets := map[string][]string{}
	for _, volume := range pod.Spec.Volumes {
		for _, source := range secretSources(volume) {
			var keys []string
			for _, item := range source.items {
				keys = append(keys, item.Key)
			}
			have, seen := secrets[source.name]
			if keys == nil || seen && have == nil {
				secrets[source.name] = nil
				continue
			}
			secrets[source.name] = append(have, keys...)
		}
	}
	return secrets
}

type secretSource struct {
	name  string
	items []corev1.KeyToPath
}

func secretSources(volume corev1.Volume) []secretSource {
	var sources []secretSource
	if volume.Secret != nil {
		sources = append(sources, secretSource{volume.Secret.SecretName, volume.Secret.Items})
	}
	if volume.Projected != nil {
		for _, projection := range volume.Projected.Sources {
			if projection.Secret != nil {
				sources = append(sources, secretSource{projection.Secret.Name, projection.Secret.Items})
			}
		}
	}
	return sources
}

// mountedUnder names the Secrets that the Ansible container sees below the path.
func mountedUnder(pod *corev1.Pod, path string) []string {
	var names []string
	for _, mount := range ansibleContainer(pod).VolumeMounts {
		if !strings.HasPrefix(mount.MountPath, path) {
			continue
		}
		for _, volume := range pod.Spec.Volumes {
			if volume.Name != mount.Name {
				continue
			}
			for _, source := range secretSources(volume) {
				names = append(names, source.name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// carried gives the versions that the pod may have carried to the nodes: of each data source, and of each host's
// certificate in the bundles. Partly lists the data sources of which it did not mount every key.
func (w World) carried(pod Pod) (carried map[string]fleet.Versions, partly []string) {
	carried = map[string]fleet.Versions{}
	keys := mounts(pod.Object)
	for _, name := range mountedUnder(pod.Object, configsPath) {
		secret := w.Secrets[name]
		carried[name] = w.between(secret, pod)
		if keys[name] != nil && !hasAllKeys(secret, carried[name], keys[name]) {
			partly = append(partly, name)
		}
	}
	certs := w.Certs()
	for _, bundle := range mountedUnder(pod.Object, certsPath) {
		for name, host := range certs {
			if strings.HasPrefix(bundle, w.bundlePrefix(w.Secrets[name])) {
				carried[name] = carried[name].Union(w.certsIn(w.Secrets[bundle], host, pod))
			}
		}
	}
	maps.DeleteFunc(carried, func(_ string, versions fleet.Versions) bool { return len(versions) == 0 })
	return carried, partly
}

func hasAllKeys(secret Secret, versions fleet.Versions, mounted []string) bool {
	mounted = slices.Compact(slices.Sorted(slices.Values(mounted)))
	for _, version := range versions {
		if keys, known := secret.History.KeysOf(version); !known || !slices.Equal(keys, mounted) {
			return false
		}
	}
	return true
}

// bundlePrefix is how openstack-operator names the bundles that a host's certificate is copied into.
func (w World) bundlePrefix(cert Secret) string {
	return strings.Join([]string{w.NodeSet.Name, cert.Labels[labelCertService], cert.Labels[labelCertKey], "certs-"}, "-")
}

// certsIn gives the versions of the host's certificate in the bundle that the pod may have mounted. A bundle that
// was split (secretMaxSize) may hold other hosts only: then the pod carries nothing for this one from it.
func (w World) certsIn(bundle Secret, host string, pod Pod) fleet.Versions {
	var versions fleet.Versions
	for _, content := range w.between(bundle, pod) {
		known, ok := bundle.Contents[content]
		if !ok {
			return fleet.SetOf(fleet.Unknown)
		}
		if version, has := known.Certs[host]; has {
			versions = versions.Union(fleet.SetOf(version))
		}
	}
	return versions
}
