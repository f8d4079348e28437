package executor

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

// newAnsibleBed is a bed whose runs are real, and that checks at the end of the test that no private directory is left.
func newAnsibleBed(t *testing.T) *bed {
	t.Helper()
	if _, err := exec.LookPath("ansible-playbook"); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("ROTATION_REQUIRE_ANSIBLE") != "" {
			t.Fatal("this test needs ansible-playbook: install ansible-core")
		}
		t.Skip("ansible-playbook is not installed")
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Cleanup(func() {
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	b := newBed(t)
	b.options.Ansible, b.options.NodesDir = true, t.TempDir()
	return b
}

// onNode reads a file of a node, empty where there is none.
func (b *bed) onNode(node, path string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.options.NodesDir, node, path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(text)
}

// credential is the user that a node's service has loaded, which must be the one in its file.
func (b *bed) credential(node string) string {
	b.t.Helper()
	file := b.onNode(node, "var/lib/openstack/nova/01-nova.conf")
	loaded := b.onNode(node, "run/nova.loaded")
	if sum := fmt.Sprintf("%x  01-nova.conf", sha256.Sum256([]byte(file))); file != "" && !strings.Contains(loaded, sum) {
		b.t.Errorf("node %s has loaded something else than lies there:\n%s", node, loaded)
	}
	_, user, _ := strings.Cut(file, "rabbit://")
	user, _, _ = strings.Cut(user, ":")
	return user
}

func (b *bed) checkNodes(want map[string]string) {
	b.t.Helper()
	for node, user := range want {
		if got := b.credential(node); got != user {
			b.t.Errorf("node %s runs %q, want %q", node, got, user)
		}
	}
}

// mark puts a marker into a node's directory.
func (b *bed) mark(node, marker string) {
	b.t.Helper()
	b.must(os.MkdirAll(filepath.Join(b.options.NodesDir, node), privateDir))
	b.must(os.WriteFile(filepath.Join(b.options.NodesDir, node, marker), nil, privateFile))
}

// ran runs a Deployment and gives how the newest pod of its Service nova ended.
func (b *bed) ran(name string, change func(*deploymentSpec), attempts ...Outcome) corev1.ContainerStateTerminated {
	b.t.Helper()
	b.deployment(name, change, "edpm")
	b.must(b.Run(b.t.Context(), name, attempts))
	var last *corev1.ContainerStateTerminated
	for _, pod := range b.pods("nova-" + name + "-edpm") {
		state := pod.Status.ContainerStatuses[0].State.Terminated
		if last == nil || last.ExitCode != 0 {
			last = state
		}
	}
	return *last
}

func TestARealRunBringsTheNewCredentialToTheNodes(t *testing.T) {
	b := newAnsibleBed(t)
	b.secret("nova-extra", map[string]string{"02-extra.conf": "[extra]"})
	b.edpm()
	b.checkNodes(map[string]string{"compute-0": "user7", "compute-1": "user7"})
	if got := b.onNode("compute-1", "var/lib/openstack/nova/02-extra.conf"); got != "[extra]" {
		t.Errorf("the other data source has become %q", got)
	}
	b.user("user8")
	one := b.ran("one", func(s *deploymentSpec) { s.AnsibleLimit = "compute-0" }, ok)
	b.checkNodes(map[string]string{"compute-0": "user8", "compute-1": "user7"})
	all := b.ran("all", nil, ok)
	b.checkNodes(map[string]string{"compute-0": "user8", "compute-1": "user8"})
	const recap = `{"failedHostList":[],"failedHosts":0,"failurePercent":0,"totalHosts":%d,"unreachableHostList":[],"unreachableHosts":0}`
	if one.Message != fmt.Sprintf(recap, 1) || all.Message != fmt.Sprintf(recap, 2) {
		t.Errorf("recaps\n%s\n%s", one.Message, all.Message)
	}
	for _, path := range []string{"var/lib/openstack/nova", "run", "var/lib/openstack/nova/01-nova.conf"} {
		if info, err := os.Stat(filepath.Join(b.options.NodesDir, "compute-0", path)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v %v", path, info.Mode(), err)
		}
	}
}

func TestARealRunCarriesWhatWasMountedNotWhatIsThere(t *testing.T) {
	b := newAnsibleBed(t)
	b.user("user7")
	b.novaService()
	b.nodeSet("edpm", []string{"compute-0"}, []string{"nova"})
	b.deployment("slow", nil, "edpm")
	b.must(b.Start(t.Context(), "slow"))
	rotated := b.user("user8")
	b.must(b.Finish(t.Context(), "slow", ok))
	b.checkNodes(map[string]string{"compute-0": "user7"})
	if got := read[nodeSetKind](b, "edpm").Status.SecretHashes[nova]; got != rotated {
		t.Errorf("upstream records the new version, %s, here it is %s", rotated, got)
	}
}

func TestABrokenNodeStopsARealRunAndTheNextAttemptRepairs(t *testing.T) {
	b := newAnsibleBed(t)
	b.edpm()
	b.user("user8")
	b.mark("compute-1", ".broken")
	broken := b.ran("broken", nil, ok)
	want := `{"failedHostList":["compute-1"],"failedHosts":1,"failurePercent":50,"totalHosts":2,"unreachableHostList":[],"unreachableHosts":0}`
	if broken.ExitCode != 2 || broken.Message != want {
		t.Errorf("exit code %d, recap %s", broken.ExitCode, broken.Message)
	}
	b.checkNodes(map[string]string{"compute-0": "user7", "compute-1": "user7"}) // any_errors_fatal
	b.must(os.Remove(filepath.Join(b.options.NodesDir, "compute-1", ".broken")))
	if repaired := b.ran("repaired", nil, Outcome{}, ok); repaired.ExitCode != 0 {
		t.Errorf("exit code %d", repaired.ExitCode)
	}
	if n := len(b.pods("nova-repaired-edpm")); n != 2 {
		t.Errorf("%d attempts", n)
	}
	b.checkNodes(map[string]string{"compute-0": "user8", "compute-1": "user8"})
}

func TestAnUnreachableNodeIsReportedAsSuch(t *testing.T) {
	b := newAnsibleBed(t)
	b.edpm()
	b.user("user8")
	b.mark("compute-0", ".unreachable")
	got := b.ran("lonely", nil, ok)
	want := `{"failedHostList":[],"failedHosts":0,"failurePercent":50,"totalHosts":2,"unreachableHostList":["compute-0"],"unreachableHosts":1}`
	// With any_errors_fatal the exit code is 2 up to ansible-core 2.17 and 4 from 2.18 on.
	if (got.ExitCode != 2 && got.ExitCode != 4) || got.Message != want {
		t.Errorf("exit code %d, recap %s", got.ExitCode, got.Message)
	}
	b.checkNodes(map[string]string{"compute-0": "user7", "compute-1": "user7"})
}

func TestOtherWaysToRunRealAnsible(t *testing.T) {
	b := newAnsibleBed(t)
	b.edpm()
	b.user("user8")
	const none = `{"failedHostList":[],"failedHosts":0,"failurePercent":0,"totalHosts":0,"unreachableHostList":[],"unreachableHosts":0}`
	one := strings.Replace(none, `"totalHosts":0`, `"totalHosts":1`, 1)
	for i, c := range []struct {
		what, message string
		change        func(*deploymentSpec)
		exit          int32
	}{
		{"tags that no task has", none, func(s *deploymentSpec) { s.AnsibleTags = "other" }, 0},
		{"the tags of all tasks, skipped", none, func(s *deploymentSpec) { s.AnsibleSkipTags = "edpm_nova" }, 0},
		{"nobody", "", func(s *deploymentSpec) { s.AnsibleLimit = "compute-9" }, 1},
		{"an open quote, for ansible-runner", "", func(s *deploymentSpec) { s.AnsibleLimit = "compute-0'" }, 1},
		{"a word too many", "", func(s *deploymentSpec) { s.AnsibleLimit = "compute-0, compute-1" }, 2},
		{"check mode through the limit", one, func(s *deploymentSpec) { s.AnsibleLimit = "compute-0 --check" }, 0},
		{"a connection to somewhere else", one, func(s *deploymentSpec) {
			s.AnsibleLimit = "compute-9,compute-1 --connection ssh --check"
			s.AnsibleExtraVars = map[string]json.RawMessage{"ansible_connection": json.RawMessage(`"ssh"`), "ansible_host": json.RawMessage(`"192.0.2.1"`)}
		}, 0},
	} {
		got := b.ran(fmt.Sprint("d", i), c.change, ok)
		if got.ExitCode != c.exit || got.Message != c.message {
			t.Errorf("%s: exit code %d, recap %q", c.what, got.ExitCode, got.Message)
		}
		b.checkNodes(map[string]string{"compute-0": "user7", "compute-1": "user7"})
	}
}

func TestScriptedRunsCountAsRealOnes(t *testing.T) {
	b := newAnsibleBed(t)
	b.user("user7")
	b.novaService()
	b.nodeSet("edpm", []string{"compute-0", "compute-1"}, []string{"nova"})
	for i, limit := range []string{"", "all:!compute-0", "~compute-[01]", "edpm[1:]", "compute-9,compute-1", "compute-9"} {
		name := fmt.Sprint("d", i)
		b.deployment(name, func(s *deploymentSpec) { s.AnsibleLimit = limit }, "edpm")
		b.must(b.Start(t.Context(), name))
		selection, err := b.lane(name).content.runsOn()
		b.must(err)
		pretended := scripted(selection, ok)
		b.must(b.Finish(t.Context(), name, ok))
		really := b.pods("nova-" + name + "-edpm")[0].Status.ContainerStatuses[0].State.Terminated
		if really.ExitCode != pretended.exitCode || really.Message != pretended.message() {
			t.Errorf("limit %q: really %d %s, scripted %d %s", limit, really.ExitCode, really.Message, pretended.exitCode, pretended.message())
		}
	}
}

func TestTheContentOfSecretsIsNeverTold(t *testing.T) {
	b := newAnsibleBed(t)
	const canary = "s3cr3t-c4n4ry"
	var told strings.Builder
	b.options.Log = func(format string, args ...any) { fmt.Fprintf(&told, format+"\n", args...) }
	b.secret(nova, map[string]string{"01-nova.conf": canary})
	b.novaService()
	b.nodeSet("edpm", []string{"compute-0", "compute-1"}, []string{"nova"})
	tell := func(err error) { fmt.Fprintln(&told, err) }
	for i, change := range []func(*deploymentSpec){
		nil, func(s *deploymentSpec) { s.AnsibleTags = "x --diff -vvvv" }, func(s *deploymentSpec) { s.AnsibleLimit = "@/proc/self/environ" },
		func(s *deploymentSpec) { s.AnsibleLimit = "$(RUNNER_EXTRA_VARS)" },
	} {
		name := fmt.Sprint("d", i)
		b.deployment(name, change, "edpm")
		tell(b.Run(t.Context(), name, []Outcome{{}, ok}))
		for _, object := range []any{read[deploymentKind](b, name), read[nodeSetKind](b, "edpm"), b.pods("nova-" + name + "-edpm")} {
			text, err := json.Marshal(object)
			b.must(err)
			told.Write(text)
		}
	}
	// What an inventory holds is no less secret, and here it cannot be read.
	broken := container{name: "x", files: map[string][]byte{"/runner/inventory/hosts": []byte("edpm: [" + canary)}}
	_, err := broken.runsOn()
	tell(err)
	bad := dataplanev1.OpenStackDataPlaneNodeSet{}
	bad.Spec.NodeTemplate.Ansible.AnsibleVars = map[string]json.RawMessage{"x": json.RawMessage("[" + canary)}
	_, err = inventoryOf(&bad, nil)
	tell(err)
	if strings.Contains(told.String(), canary) {
		t.Errorf("the secret was told:\n%s", told.String())
	}
	if !strings.Contains(b.onNode("compute-0", "var/lib/openstack/nova/01-nova.conf"), canary) {
		t.Error("no run delivered the secret, so this test shows nothing")
	}
}

func TestAStoppedRunLeavesNothingBehind(t *testing.T) {
	b := newAnsibleBed(t)
	b.user("user7")
	b.novaService()
	b.nodeSet("edpm", []string{"compute-0"}, []string{"nova"})
	b.deployment("endless", nil, "edpm")
	// An ansible-playbook that says that it runs and then never ends, first in the path.
	bin := t.TempDir()
	pipe := filepath.Join(bin, "pipe")
	b.must(syscall.Mkfifo(pipe, privateFile))
	script := "#!/bin/sh\nexec 3> " + pipe + "\nsleep 1000 &\necho >&3\nwait\n"
	b.must(os.WriteFile(filepath.Join(bin, "ansible-playbook"), []byte(script), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.Run(ctx, "endless", []Outcome{ok}) }()
	said, err := os.Open(pipe) // waits for the other side
	b.must(err)
	defer said.Close()
	_, err = said.Read(make([]byte, 1))
	b.must(err)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run gave %v", err)
	}
	if _, err := io.ReadAll(said); err != nil { // ends when the last process that could write has ended
		t.Error(err)
	}
	if pod := b.pods("nova-endless-edpm")[0]; pod.Status.Phase != corev1.PodRunning {
		t.Errorf("nobody has seen the pod end, but it is %s", pod.Status.Phase)
	}
}

func TestRealRunsRefuseWhatTheyCannotPlay(t *testing.T) {
	b := newAnsibleBed(t)
	b.user("user7")
	b.service("custom", func(s *serviceSpec) { s.Playbook, s.PlaybookContents = "", "- hosts: all\n" })
	b.service("outside", func(s *serviceSpec) { s.EDPMServiceType = "../../../../etc" })
	b.nodeSet("edpm", []string{"compute-0"}, []string{"custom"})
	for _, c := range []struct {
		service, want string
		change        func(*Executor)
	}{
		{"custom", "brings its own playbook", nil},
		{"outside", "cannot be a directory's name", nil},
		{"outside", "needs a directory for the nodes", func(e *Executor) { e.options.NodesDir = "" }},
	} {
		if c.change != nil {
			c.change(b.Executor)
		}
		name := fmt.Sprintf("%s-%d", c.service, len(c.want))
		b.deployment(name, func(s *deploymentSpec) { s.ServicesOverride = []string{c.service} }, "edpm")
		if err := b.Run(t.Context(), name, []Outcome{ok}); err == nil || !strings.Contains(err.Error(), c.want) || slices.Contains([]byte(err.Error()), '\n') {
			t.Errorf("want a sentence with %q, got %v", c.want, err)
		}
	}
}
