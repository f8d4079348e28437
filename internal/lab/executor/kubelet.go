package executor

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
)

// container is what a pod's container has when it starts. None of it changes later: every file is mounted by subPath.
type container struct {
	name string
	// files are contents by path.
	files map[string][]byte
	// env are variables, those of the ConfigMap first, so that the container's own win.
	env map[string]string
	// elsewhere are variables that come from somewhere a kubelet would look and the lab does not.
	elsewhere []string
}

// mounted reads everything that the pod mounts, as it is now. It never reads an object twice, so that the keys of one
// Secret are of one version.
func (e *Executor) mounted(ctx context.Context, pod *corev1.Pod) (container, error) {
	spec := pod.Spec.Containers[0]
	content := container{name: spec.Name, files: map[string][]byte{}, env: map[string]string{}}
	objects, volumes := map[string]map[string][]byte{}, map[string]corev1.Volume{}
	for _, volume := range pod.Spec.Volumes {
		volumes[volume.Name] = volume
	}
	for _, mount := range spec.VolumeMounts {
		files, err := e.filesOf(ctx, volumes[mount.Name], objects)
		if err != nil {
			return container{}, fmt.Errorf("pod %s cannot start: %w", pod.Name, err)
		}
		for name, data := range files {
			at := path.Join(mount.MountPath, name)
			if mount.SubPath != "" {
				at = mount.MountPath
			}
			if mount.SubPath == "" || mount.SubPath == name {
				content.files[at] = data
			}
		}
	}
	for _, from := range spec.EnvFrom {
		var environment corev1.ConfigMap
		switch err := e.get(ctx, from.ConfigMapRef.Name, &environment); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return container{}, fmt.Errorf("pod %s cannot start: %w", pod.Name, err)
		}
		for key, value := range environment.Data {
			content.env[from.Prefix+key] = value
		}
	}
	for _, variable := range spec.Env {
		content.env[variable.Name] = variable.Value
		if variable.ValueFrom != nil {
			content.elsewhere = append(content.elsewhere, variable.Name)
		}
	}
	return content, nil
}

// filesOf gives the files of a volume. Objects holds what has been read already.
func (e *Executor) filesOf(ctx context.Context, volume corev1.Volume, objects map[string]map[string][]byte) (map[string][]byte, error) {
	var object client.Object
	var name string
	var items []corev1.KeyToPath
	switch {
	case volume.Secret != nil:
		object, name, items = &corev1.Secret{}, volume.Secret.SecretName, volume.Secret.Items
	case volume.ConfigMap != nil:
		object, name, items = &corev1.ConfigMap{}, volume.ConfigMap.Name, volume.ConfigMap.Items
	default:
		return nil, fmt.Errorf("volume %s is of a kind that the lab does not mount", volume.Name)
	}
	id := fmt.Sprintf("%T %s", object, name)
	data, read := objects[id]
	if !read {
		if err := e.get(ctx, name, object); err != nil {
			return nil, fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		data = dataOf(object)
		objects[id] = data
	}
	if len(items) == 0 {
		return data, nil
	}
	files := map[string][]byte{}
	for _, item := range items {
		value, has := data[item.Key]
		if !has {
			return nil, fmt.Errorf("volume %s: %s has no key %s", volume.Name, name, item.Key)
		}
		files[item.Path] = value
	}
	return files, nil
}

// dataOf gives the keys and values of a ConfigMap or Secret.
func dataOf(object client.Object) map[string][]byte {
	data := map[string][]byte{}
	switch o := object.(type) {
	case *corev1.Secret:
		maps.Copy(data, o.Data)
	case *corev1.ConfigMap:
		maps.Copy(data, o.BinaryData)
		for key, value := range o.Data {
			data[key] = []byte(value)
		}
	}
	return data
}

// commandLine is what ansible-runner adds to ansible-playbook's command line.
func (c container) commandLine() string { return strings.TrimSpace(c.env[variableCommandLine]) }

// inventoryFiles are the paths of inventories, in the order in which Ansible reads them.
func (c container) inventoryFiles() []string {
	var paths []string
	for _, at := range slices.Sorted(maps.Keys(c.files)) {
		if strings.HasPrefix(at, inventoryPath+"/") {
			paths = append(paths, at)
		}
	}
	return paths
}

// inventory puts the mounted inventories together.
func (c container) inventory() (hostpattern.Inventory, error) {
	var inventory hostpattern.Inventory
	for _, at := range c.inventoryFiles() {
		groups, err := readInventory(c.files[at])
		if err != nil {
			return hostpattern.Inventory{}, fmt.Errorf("container %s: %w", c.name, err)
		}
		inventory.Groups = append(inventory.Groups, groups...)
	}
	return inventory, nil
}

// runsOn says which hosts the container's run is pointed at.
func (c container) runsOn() (hostpattern.Selection, error) {
	inventory, err := c.inventory()
	if err != nil {
		return hostpattern.Selection{}, err
	}
	var vars struct {
		Hosts string `yaml:"edpm_override_hosts"`
	}
	if err := yaml.Unmarshal([]byte(c.env[variableExtraVars]), &vars); err != nil {
		return hostpattern.Selection{}, fmt.Errorf("container %s: its extra variables cannot be read", c.name)
	}
	return hostpattern.ResolveRun(inventory, vars.Hosts, c.commandLine()), nil
}
