package executor

import (
	"os"
	"path/filepath"
	"testing"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

func TestA(t *testing.T) {
	b := newBed(t)
	b.options.Ansible, b.options.NodesDir = true, t.TempDir()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	b.user("user7")
	b.novaService()
	b.nodeSet("edpm", []string{"compute-0", "compute-1"}, []string{"nova"})
	b.deployment("initial", nil, "edpm")
	b.must(b.Run(t.Context(), "initial", []Outcome{{Succeeded: true}}))
	filepath.Walk(b.options.NodesDir, func(path string, info os.FileInfo, err error) error {
		t.Log(path, info.Mode())
		if !info.IsDir() {
			x, _ := os.ReadFile(path)
			t.Log(string(x))
		}
		return nil
	})
	t.Log(b.pods("nova-initial-edpm")[0].Status.ContainerStatuses)
	run := func(name string, f func(*dataplanev1.OpenStackDataPlaneDeploymentSpec), o Outcome) {
		b.user(name)
		b.deployment(name, f, "edpm")
		b.must(b.Run(t.Context(), name, []Outcome{o}))
		t.Log(name, b.pods("nova-" + name + "-edpm")[0].Status.ContainerStatuses[0].State.Terminated)
	}
	run("limit", func(s *dataplanev1.OpenStackDataPlaneDeploymentSpec) { s.AnsibleLimit = "compute-1" }, Outcome{Succeeded: true})
	run("nobody", func(s *dataplanev1.OpenStackDataPlaneDeploymentSpec) { s.AnsibleLimit = "compute-7" }, Outcome{Succeeded: true})
	run("tags", func(s *dataplanev1.OpenStackDataPlaneDeploymentSpec) { s.AnsibleTags = "other" }, Outcome{Succeeded: true})
	run("check", func(s *dataplanev1.OpenStackDataPlaneDeploymentSpec) { s.AnsibleLimit = "compute-1 --check" }, Outcome{Succeeded: true})
	run("broken", nil, Outcome{})
	run("unreachable", nil, Outcome{Hosts: map[string]HostOutcome{"compute-1": HostUnreachable}})
	run("unreachable-limit", func(s *dataplanev1.OpenStackDataPlaneDeploymentSpec) { s.AnsibleLimit = "compute-1" }, Outcome{Hosts: map[string]HostOutcome{"compute-1": HostUnreachable}})
	filepath.Walk(b.options.NodesDir, func(path string, info os.FileInfo, err error) error {
		t.Log(path, info.Mode())
		if !info.IsDir() {
			x, _ := os.ReadFile(path)
			t.Log(string(x))
		}
		return nil
	})
	e, _ := os.ReadDir(tmp)
	t.Log(e)
}
