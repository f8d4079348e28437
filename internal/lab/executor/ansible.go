package executor

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/rotation-operator/rotation-operator/config/proof"
	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
)

//go:embed ansible
var shipped embed.FS

// faults are the hosts on which a run goes wrong by order; what a node's own directory says comes on top.
type faults struct{ broken, unreachable []string }

// faultsOf takes over from an outcome what can be ordered. How the run then ends is up to Ansible.
func faultsOf(selection hostpattern.Selection, outcome Outcome) faults {
	var f faults
	for i, host := range selection.Perhaps {
		switch outcome.of(host, i == 0) {
		case HostFailed:
			f.broken = append(f.broken, host)
		case HostUnreachable:
			f.unreachable = append(f.unreachable, host)
		case HostOK, HostUnlisted:
		}
	}
	return f
}

// Markers in a node's directory: tasks fail on a broken node, and Ansible does not reach an unreachable one.
const (
	markerBroken      = ".broken"
	markerUnreachable = ".unreachable"
)

const (
	privateDir  = 0o700
	privateFile = 0o600
)

// runAnsible runs the shipped playbook with the real ansible-playbook, from a private directory laid out like the pod,
// which is gone when it returns. What Ansible prints is dropped: it may quote Secrets.
func (e *Executor) runAnsible(ctx context.Context, content container, wrong faults) (how end, err error) {
	run, err := e.prepare(content, wrong)
	if err != nil {
		return end{}, err
	}
	dir, err := os.MkdirTemp("", "rotation-lab-pod-") // makes it for the owner alone
	if err != nil {
		return end{}, fmt.Errorf("no private directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := run.write(dir); err != nil {
		return end{}, err
	}
	code, err := run.execute(ctx, dir)
	if err != nil {
		return end{}, err
	}
	recap, err := readStats(filepath.Join(dir, recapFile))
	return end{exitCode: code, stats: recap}, err
}

// ansibleRun is one run of ansible-playbook.
type ansibleRun struct {
	content container
	// place is where the service's files go on the nodes, nodes the directory of the nodes.
	place, nodes string
	faults       faults
}

// prepare checks what the lab cannot play, and makes the nodes' directories.
func (e *Executor) prepare(content container, wrong faults) (ansibleRun, error) {
	if _, err := exec.LookPath("ansible-playbook"); err != nil {
		return ansibleRun{}, errors.New("ansible-playbook is not installed; install ansible-core, or use scripted runs")
	}
	if e.options.NodesDir == "" {
		return ansibleRun{}, errors.New("real Ansible needs a directory for the nodes")
	}
	for _, name := range []string{variableCommandLine, variableExtraVars} {
		if value := content.env[name]; strings.Contains(value, "$(") || strings.Contains(value, "$$") {
			return ansibleRun{}, fmt.Errorf("%s holds $( or $$, which the lab does not expand as Kubernetes would", name)
		}
	}
	if len(content.elsewhere) > 0 {
		return ansibleRun{}, fmt.Errorf("the lab does not look up variables that come from elsewhere: %s", strings.Join(content.elsewhere, ", "))
	}
	var vars struct {
		Place string `yaml:"edpm_service_type"`
	}
	if err := yaml.Unmarshal([]byte(content.env[variableExtraVars]), &vars); err != nil {
		return ansibleRun{}, fmt.Errorf("container %s: its extra variables cannot be read", content.name)
	}
	if !filepath.IsLocal(vars.Place) || vars.Place == "." || strings.ContainsAny(vars.Place, `/\`) {
		return ansibleRun{}, fmt.Errorf("edpmServiceType %q cannot be a directory's name", vars.Place)
	}
	nodes, err := filepath.Abs(e.options.NodesDir)
	if err != nil {
		return ansibleRun{}, fmt.Errorf("directory of the nodes: %w", err)
	}
	inventory, err := content.inventory()
	if err != nil {
		return ansibleRun{}, err
	}
	for _, group := range inventory.Groups {
		for _, host := range group.Hosts {
			for _, dir := range []string{filepath.Join("var", "lib", "openstack", vars.Place), "run"} {
				if err := os.MkdirAll(filepath.Join(nodes, host, dir), privateDir); err != nil {
					return ansibleRun{}, fmt.Errorf("node %s: %w", host, err)
				}
			}
			if _, err := os.Stat(filepath.Join(nodes, host, markerUnreachable)); err == nil {
				wrong.unreachable = append(slices.Clone(wrong.unreachable), host)
			}
		}
	}
	return ansibleRun{content: content, place: vars.Place, nodes: nodes, faults: wrong}, nil
}

// Where things are below the private directory.
const (
	inventoryDir = "runner/inventory"
	configsDir   = "configs"
	shippedDir   = "ansible"
	recapFile    = "recap.json"
	commandFile  = "runner/env/cmdline"
	extraFile    = "runner/env/extravars"
	labFile      = "runner/env/lab.json"
)

// write lays the private directory out.
func (r ansibleRun) write(dir string) error {
	files := map[string][]byte{
		commandFile: []byte(r.content.env[variableCommandLine]),
		extraFile:   []byte("---\n" + r.content.env[variableExtraVars]),
		"tmp/keep":  nil,
	}
	for _, at := range r.content.inventoryFiles() {
		files[filepath.Join(inventoryDir, filepath.Base(at))] = r.content.files[at]
	}
	for _, key := range r.keys() {
		files[filepath.Join(configsDir, key)] = r.content.files[r.configs()+key]
	}
	for _, host := range r.faults.unreachable {
		// Ansible calls a host unreachable on which it cannot make its temporary directory.
		files[filepath.Join(inventoryDir, "host_vars", host+".yaml")] = []byte("ansible_remote_tmp: /dev/null/unreachable\n")
	}
	vars, err := json.Marshal(r.vars(dir))
	if err != nil {
		return fmt.Errorf("variables of the lab: %w", err)
	}
	files[labFile] = vars
	err = fs.WalkDir(shipped, shippedDir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[path], err = shipped.ReadFile(path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("shipped files: %w", err)
	}
	if own := r.content.env[variablePlaybook]; proof.Proves(own) != "" {
		files[shippedDir+"/playbook.yaml"] = []byte(onDirectories.Replace(own))
	}
	for name, data := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), privateDir); err != nil {
			return fmt.Errorf("private directory: %w", err)
		}
		if err := os.WriteFile(at, data, privateFile); err != nil {
			return fmt.Errorf("private directory: %w", err)
		}
	}
	return nil
}

// onDirectories turns a proof playbook, which is for real nodes, into one for nodes that are directories.
var onDirectories = strings.NewReplacer(
	`"/var/lib/openstack/configs/{{ edpm_service_type }}`, `"{{ rotation_lab_configs }}`,
	`"/var/lib/openstack/{{ edpm_service_type }}`, `"{{ rotation_lab_nodes }}/{{ inventory_hostname }}/var/lib/openstack/{{ edpm_service_type }}`,
	`[systemctl, `, `[sh, "{{ playbook_dir }}/systemctl.sh", "{{ rotation_lab_nodes }}/{{ inventory_hostname }}/run/{{ edpm_service_type }}.loaded", `,
)

// configs is the path below which the pod has the service's files.
func (r ansibleRun) configs() string { return configsPath + "/" + r.place + "/" }

// keys are the names of the service's files.
func (r ansibleRun) keys() []string {
	keys := []string{}
	for _, at := range slices.Sorted(maps.Keys(r.content.files)) {
		if key, ours := strings.CutPrefix(at, r.configs()); ours {
			keys = append(keys, key)
		}
	}
	return keys
}

// vars are the variables that overrule all others: no run leaves this machine, whatever an inventory says.
func (r ansibleRun) vars(dir string) map[string]any {
	broken := r.faults.broken
	if broken == nil {
		broken = []string{}
	}
	return map[string]any{
		"ansible_connection": "local", "ansible_become": false, "ansible_python_interpreter": "/usr/bin/python3",
		"rotation_lab_nodes": r.nodes, "rotation_lab_configs": filepath.Join(dir, configsDir),
		"rotation_lab_keys": r.keys(), "rotation_lab_broken": broken,
	}
}

// execute gives ansible-playbook's exit code.
func (r ansibleRun) execute(ctx context.Context, dir string) (int32, error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	// The order of the arguments is ansible-runner's; the lab's own variables come last and win.
	command := exec.CommandContext(ctx, "python3", in(shippedDir+"/launch.py"), in(commandFile),
		"-i", in(inventoryDir), "-e", "@"+in(extraFile), "-e", "@"+in(labFile), in(shippedDir+"/playbook.yaml"))
	command.Dir = dir
	for _, name := range slices.Sorted(maps.Keys(r.content.env)) {
		command.Env = append(command.Env, name+"="+r.content.env[name])
	}
	command.Env = append(command.Env, "PATH="+os.Getenv("PATH"), "HOME="+in("tmp"), "TMPDIR="+in("tmp"), "LC_ALL=C.UTF-8",
		"ANSIBLE_CONFIG="+in(shippedDir+"/ansible.cfg"), "ANSIBLE_HOME="+in("tmp"), "ANSIBLE_LOCAL_TEMP="+in("tmp"),
		"ANSIBLE_REMOTE_TMP="+in("tmp"), "ANSIBLE_CALLBACKS_ENABLED=rotation_recap", "ANSIBLE_CALLBACK_PLUGINS="+in(shippedDir), "ROTATION_LAB_RECAP="+in(recapFile))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	// The kernel sends the death signal when the thread that started the child ends, so it must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("ansible-playbook was stopped: %w", ctx.Err())
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return int32(exit.ExitCode()), nil
	case err != nil:
		return 0, fmt.Errorf("ansible-playbook: %w", err)
	}
	return exitOK, nil
}

// readStats reads what the callback plugin wrote; nil where Ansible never came to its recap.
func readStats(path string) (*stats, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no stats are not an error
	}
	var s stats
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("Ansible's recap: %w", err)
	}
	return &s, nil
}
