package executor

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
)

// Where openstack-operator mounts things.
const (
	configsPath   = "/var/lib/openstack/configs"
	caCertsPath   = "/var/lib/openstack/cacerts"
	inventoryPath = "/runner/inventory"
	sshKeyPath    = "/runner/env/ssh_key"
)

// Labels of Jobs and of what else openstack-operator makes.
const (
	labelApp        = "app"
	appValue        = "openstackansibleee"
	labelService    = "openstackdataplaneservice"
	labelDeployment = "openstackdataplanedeployment"
	labelNodeSet    = "openstackdataplanenodeset"
)

// Variables of the container by which ansible-runner learns what to do.
const (
	variableCommandLine = "RUNNER_CMDLINE"
	variablePlaybook    = "RUNNER_PLAYBOOK"
	variableExtraVars   = "RUNNER_EXTRA_VARS"
)

const (
	inventoryKey        = "inventory"
	sshKey              = "ssh-privatekey"
	image               = "quay.io/openstack-k8s-operators/openstack-ansibleee-runner:latest"
	networksAnnotation  = "k8s.v1.cni.cncf.io/networks"
	hashAnnotation      = "hash"
	defaultEnvironment  = "openstack-aee-default-env"
	keptAfterEndSeconds = 600
	privateMode         = int32(0o600)
)

// source is a ConfigMap or Secret with the keys it had when the Job was made.
type source struct {
	secret bool
	name   string
	keys   []string
}

// work is what one Job is made from.
type work struct {
	deployment *dataplanev1.OpenStackDataPlaneDeployment
	// nodeSets are all of the Deployment.
	nodeSets []*dataplanev1.OpenStackDataPlaneNodeSet
	// nodeSet is the one whose turn it is.
	nodeSet *dataplanev1.OpenStackDataPlaneNodeSet
	service *dataplanev1.OpenStackDataPlaneService
	// sources are the data sources that exist, in the service's order.
	sources []source
	// authorities are the services whose caCerts are mounted.
	authorities []*dataplanev1.OpenStackDataPlaneService
}

// job makes the Job as openstack-operator would.
func (w work) job() (*batchv1.Job, error) {
	name := jobName(w.service, w.deployment.Name, w.nodeSet.Name)
	env, err := w.environment()
	if err != nil {
		return nil, err
	}
	volumes, mounts := w.mounts()
	labels := map[string]string{
		labelApp: appValue, labelService: w.service.Name, labelDeployment: w.deployment.Name, labelNodeSet: w.nodeSet.Name,
	}
	yes := true
	pod := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: w.nodeSet.Name,
		NodeSelector: w.deployment.Spec.AnsibleJobNodeSelector, Volumes: volumes,
		Containers: []corev1.Container{{
			Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
			Args: append([]string{"ansible-runner", "run", "/runner"}, append(w.playbook(), "-i", name)...),
			Env:  env, VolumeMounts: mounts,
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: w.environmentName()}, Optional: &yes,
			}}},
		}},
	}
	hash, err := objectHash(pod)
	if err != nil {
		return nil, err
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.deployment.Namespace, Labels: labels,
			Annotations: map[string]string{networksAnnotation: "[]", hashAnnotation: hash},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(w.deployment, dataplanev1.GroupVersion.WithKind("OpenStackDataPlaneDeployment")),
			},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: w.deployment.Spec.BackoffLimit,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{networksAnnotation: "[]"}},
				Spec:       pod,
			},
		},
	}
	if keep := w.deployment.Spec.PreserveJobs; keep != nil && !*keep {
		seconds := int32(keptAfterEndSeconds)
		job.Spec.TTLSecondsAfterFinished = &seconds
	}
	return job, nil
}

func (w work) environmentName() string {
	if w.deployment.Spec.AnsibleEEEnvConfigMapName != "" {
		return w.deployment.Spec.AnsibleEEEnvConfigMapName
	}
	return defaultEnvironment
}

// playbook gives the arguments that say what ansible-runner runs.
func (w work) playbook() []string {
	switch {
	case w.service.Spec.Playbook != "":
		return []string{"-p", w.service.Spec.Playbook}
	case w.service.Spec.PlaybookContents != "":
		return []string{"-p", "playbook.yaml"}
	default:
		return []string{"-r", w.service.Spec.Role}
	}
}

// environment gives the container's variables: those of the NodeSet, then the runner's own, which win.
func (w work) environment() ([]corev1.EnvVar, error) {
	env := slices.Clone(w.nodeSet.Spec.Env)
	add := func(name, value string) {
		if value != "" {
			env = append(env, corev1.EnvVar{Name: name, Value: "\n" + value + "\n\n"})
		}
	}
	spec := w.service.Spec
	add("RUNNER_ROLE", spec.Role)
	if spec.PlaybookContents != "" {
		add(variablePlaybook, spec.PlaybookContents)
	} else {
		add(variablePlaybook, spec.Playbook)
	}
	limits := w.deployment.Spec
	add(variableCommandLine, hostpattern.Compose(limits.AnsibleTags, limits.AnsibleLimit, limits.AnsibleSkipTags))
	vars, err := w.extraVars()
	if err != nil {
		return nil, err
	}
	add(variableExtraVars, vars)
	return env, nil
}

// extraVars are the Deployment's, and those that openstack-operator sets over them.
func (w work) extraVars() (string, error) {
	vars := map[string]any{}
	if err := decodeVars(w.deployment.Spec.AnsibleExtraVars, vars); err != nil {
		return "", fmt.Errorf("ansibleExtraVars of Deployment %s: %w", w.deployment.Name, err)
	}
	vars["edpm_override_hosts"] = w.nodeSet.Name
	if w.service.Spec.DeployOnAllNodeSets {
		vars["edpm_override_hosts"] = "all"
	}
	vars["edpm_service_type"] = placeOf(w.service)
	if len(w.deployment.Spec.ServicesOverride) > 0 {
		vars["edpm_services_override"] = w.deployment.Spec.ServicesOverride
	}
	text, err := yaml.Marshal(vars)
	if err != nil {
		return "", fmt.Errorf("extra variables of Deployment %s: %w", w.deployment.Name, err)
	}
	return string(text), nil
}

// decodeVars adds JSON values to Ansible variables.
func decodeVars(raw map[string]json.RawMessage, into map[string]any) error {
	for name, value := range raw {
		var decoded any
		if err := yaml.Unmarshal(value, &decoded); err != nil {
			return fmt.Errorf("variable %s cannot be read", name) // without the parser's words, which quote the value
		}
		into[name] = decoded
	}
	return nil
}

// mounts gives the volumes and where they go: a volume for each key of ConfigMaps, then of Secrets, then authorities'
// certificates, keys to log in with, and inventories.
func (w work) mounts() (volumes []corev1.Volume, mounts []corev1.VolumeMount) {
	add := func(volume corev1.Volume, path, subPath string) {
		volumes = append(volumes, volume)
		mounts = append(mounts, corev1.VolumeMount{Name: volume.Name, MountPath: path, SubPath: subPath})
	}
	for _, secrets := range []bool{false, true} {
		for _, source := range w.sources {
			if source.secret != secrets {
				continue
			}
			for i, key := range source.keys {
				add(source.volume(i), path.Join(configsPath, placeOf(w.service), key), key)
			}
		}
	}
	for _, service := range w.authorities {
		name := volumeName(service.Name+"-"+service.Spec.CACerts, "cacert")
		add(corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: service.Spec.CACerts},
		}}, path.Join(caCertsPath, placeOf(service)), "")
	}
	nodeSets := w.reached()
	for _, nodeSet := range nodeSets {
		file := "ssh_key_" + nodeSet.Name
		volume := keyVolume("ssh-key-"+nodeSet.Name, nodeSet.Spec.NodeTemplate.AnsibleSSHPrivateKeySecret, sshKey, file)
		mode := privateMode
		volume.Secret.DefaultMode = &mode
		add(volume, path.Join(sshKeyPath, file), file)
	}
	for i, nodeSet := range nodeSets {
		name, file := "inventory", "hosts"
		if w.service.Spec.DeployOnAllNodeSets {
			name = fmt.Sprintf("inventory-%d", i)
			file = name
		}
		add(keyVolume(name, inventoryName(nodeSet.Name), inventoryKey, name), path.Join(inventoryPath, file), name)
	}
	return volumes, mounts
}

// reached are the NodeSets that the Job works on, by name.
func (w work) reached() []*dataplanev1.OpenStackDataPlaneNodeSet {
	if !w.service.Spec.DeployOnAllNodeSets {
		return []*dataplanev1.OpenStackDataPlaneNodeSet{w.nodeSet}
	}
	return slices.SortedFunc(slices.Values(w.nodeSets), func(a, b *dataplanev1.OpenStackDataPlaneNodeSet) int {
		return strings.Compare(a.Name, b.Name)
	})
}

func (s source) volume(i int) corev1.Volume {
	name, items := fmt.Sprintf("%s-%d", s.name, i), []corev1.KeyToPath{{Key: s.keys[i], Path: s.keys[i]}}
	if s.secret {
		return corev1.Volume{Name: volumeName(name, "sec"), VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: s.name, Items: items},
		}}
	}
	return corev1.Volume{Name: volumeName(name, "cm"), VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.name}, Items: items},
	}}
}

func keyVolume(name, secret, key, file string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: []corev1.KeyToPath{{Key: key, Path: file}}},
	}}
}
