// Package next compares the limits of planned Deployments with what the installed Ansible makes of them.
package next

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

// names are host names that mean something in a limit, or that are names of groups as well, among ordinary ones.
var names = []string{
	"compute-0", "compute-1", "compute-2", "compute-10", "compute-11", "compute-1x", "compute", "edge-0", "edge-1", "all", "ungrouped",
	"edpm", "edge", "localhost", "*", "comp*", "?ompute-0", "~c", "~^compute-1", "!compute-0", "&compute-1", "@compute-0", "-compute", "a,b", "a b",
	"'q'", `"q"`, `b\s`, "$HOME", "$(X)", "10", "_x", "#c", "compute-0;x", "a:b", "fe80::1", "x]", "true", "{{ x }}", "ä",
}

// ansible is a process that answers for real Ansible.
type ansible struct {
	in      io.Writer
	out     *bufio.Scanner
	version string
}

type question struct {
	Inventory []string `json:"inventory"`
	Line      string   `json:"line"`
	Plays     []string `json:"plays"`
}

func startAnsible(t *testing.T) *ansible {
	if _, err := exec.LookPath("/usr/bin/ansible-playbook"); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("ROTATION_REQUIRE_ANSIBLE") != "" {
			t.Fatal("ansible-playbook is missing: run hack/install-ansible.sh")
		}
		t.Skip("ansible-playbook is missing: run hack/install-ansible.sh to compare with it")
	}
	command := exec.Command("/usr/bin/python3", "testdata/ask_ansible.py")
	command.Stderr, command.Env = os.Stderr, append(os.Environ(), "ANSIBLE_LOCALHOST_WARNING=False", "ANSIBLE_DEPRECATION_WARNINGS=False")
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("asking Ansible: %v", err)
		}
	})
	a := &ansible{in: in, out: bufio.NewScanner(out)}
	a.out.Buffer(nil, 1<<20)
	a.out.Scan()
	a.version = a.out.Text()
	return a
}

func (a *ansible) ask(t *testing.T, q question) [][]string {
	t.Helper()
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.in.Write(append(text, '\n')); err != nil || !a.out.Scan() {
		t.Fatalf("Ansible does not answer %s: %v", text, err)
	}
	var answer struct {
		Hosts [][]string
		Error *string
	}
	if err := json.Unmarshal(a.out.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Error != nil {
		t.Fatalf("%s: Ansible stops: %s", text, *answer.Error)
	}
	return answer.Hosts
}

// fleet is a namespace half way through a rotation.
type fleet struct {
	story *reporttest.Story
	files map[string]string
}

// newFleet makes NodeSets with random hosts and lets random parts of them be deployed with the new content.
func newFleet(t *testing.T, random *rand.Rand, dir string) fleet {
	f := fleet{story: reporttest.New(), files: map[string]string{}}
	fleets, hosts := map[string]*reporttest.Fleet{}, map[string][]string{}
	nodeSets := []string{"edpm", "edge", "compute-1"}
	random.Shuffle(len(nodeSets), func(i, j int) { nodeSets[i], nodeSets[j] = nodeSets[j], nodeSets[i] })
	nodeSets = nodeSets[:1+random.IntN(3)]
	for _, nodeSet := range nodeSets {
		pool := slices.Clone(names)
		random.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
		hosts[nodeSet] = pool[:1+random.IntN(9)]
		fleets[nodeSet] = f.story.NodeSet(nodeSet, hosts[nodeSet]...)
		f.files[nodeSet] = writeInventory(t, dir, nodeSet, hosts[nodeSet])
	}
	f.story.Write(reporttest.NovaConfig, "user7").Write("ceilometer-compute-config-data", "x").At(time.Hour)
	for _, nodeSet := range nodeSets {
		fleets[nodeSet].Deploy("initial-"+nodeSet, reporttest.Outcome{})
	}
	f.story.At(5*time.Hour).Write(reporttest.NovaConfig, "user8")
	if random.IntN(3) == 0 {
		f.story.Write("ceilometer-compute-config-data", "y")
	}
	for i, nodeSet := range nodeSets {
		f.story.At(time.Duration(6+i) * time.Hour)
		if n := random.IntN(len(hosts[nodeSet]) + 1); n > 0 {
			fleets[nodeSet].Deploy("part-"+nodeSet, reporttest.Outcome{Limit: hosts[nodeSet][:n]})
		}
	}
	f.story.At(20 * time.Hour)
	return f
}

// writeInventory writes what openstack-operator would: one group with the NodeSet's name.
func writeInventory(t *testing.T, dir, nodeSet string, hosts []string) string {
	all := map[string]map[string]any{}
	for _, host := range hosts {
		all[host] = map[string]any{"ansible_host": "192.168.122.100", "canonical_hostname": host + ".ctlplane.example.com"}
	}
	text, err := yaml.Marshal(map[string]any{nodeSet: map[string]any{"vars": map[string]any{"edpm_nodeset_name": nodeSet}, "hosts": all}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "inventory-"+nodeSet)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAgainstAnsible: over all manifests of a plan, Ansible reaches just the nodes that are not updated and that the plan
// does not leave out, each by one manifest; with the inventory of each NodeSet, and with all of them in one run.
func TestAgainstAnsible(t *testing.T) {
	count := 400
	if os.Getenv("ROTATION_DEEP") != "" {
		count = 10000
	}
	asked := startAnsible(t)
	seed := rand.Uint64()
	random, dir := rand.New(rand.NewPCG(seed, 2)), t.TempDir()
	manifests, reached, left := 0, 0, 0
	batches := []report.Batch{{}, {Nodes: 1}, {Nodes: 3}, {Percent: 30}}
	for range count {
		f := newFleet(t, random, dir)
		built := report.Build(f.story.Evidence())
		plan, err := built.Next(report.NextOptions{Batch: batches[random.IntN(len(batches))]})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, m := range plan.Manifests {
			for _, node := range reachedBy(t, asked, f, m) {
				got[node]++
				reached++
			}
			manifests++
		}
		for _, l := range plan.Left {
			got[l.NodeSet+"/"+l.Name]++
			left++
		}
		for _, nodeSet := range built.NodeSets {
			for _, node := range nodeSet.NodeList {
				want, name := 1, nodeSet.Name+"/"+node.Name
				if node.State == report.Updated {
					want = 0
				}
				if got[name] != want {
					t.Fatalf("seed %d: %s is %s and is reached %d times", seed, name, node.State, got[name])
				}
				delete(got, name)
			}
		}
		if len(got) > 0 {
			t.Fatalf("seed %d: there is no such node: %v", seed, got)
		}
	}
	if left > reached/2 {
		t.Errorf("%d nodes are left out, only %d reached", left, reached)
	}
	fmt.Fprintf(os.Stdout, "» next: the limits of %d Deployments for %d fleets reach just their %d nodes with ansible-core %s (%d nodes no limit can name)\n",
		manifests, count, reached, asked.version, left)
}

// reachedBy asks for a Deployment: every NodeSet's own runs, and a run over all of its NodeSets.
func reachedBy(t *testing.T, asked *ansible, f fleet, m report.Manifest) []string {
	var all, files, union []string
	line := hostpattern.Compose("", m.Limit, "")
	for _, nodeSet := range m.NodeSets {
		answers := asked.ask(t, question{Inventory: []string{f.files[nodeSet]}, Line: line, Plays: []string{nodeSet, "all"}})
		if !slices.Equal(answers[0], answers[1]) {
			t.Fatalf("%q: the play for %s reaches %q, the one for all %q", line, nodeSet, answers[0], answers[1])
		}
		for _, host := range answers[0] {
			all, union = append(all, nodeSet+"/"+host), append(union, host)
		}
		files = append(files, f.files[nodeSet])
	}
	slices.Sort(union)
	if together := asked.ask(t, question{Inventory: files, Line: line, Plays: []string{"all"}})[0]; !slices.Equal(together, slices.Compact(union)) {
		var inventories []byte
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			inventories = append(inventories, text...)
		}
		t.Fatalf("%q: over all NodeSets the run reaches %q, one by one %q; %s", line, together, union, inventories)
	}
	return all
}

// TestProgram lets ansible-playbook itself list the hosts of a plan.
func TestProgram(t *testing.T) {
	startAnsible(t)
	dir := t.TempDir()
	story := reporttest.Partial()
	inventory := writeInventory(t, dir, "edpm", []string{"compute-0", "compute-1", "compute-2", "compute-10"})
	playbook := filepath.Join(dir, "play.yaml")
	if err := os.WriteFile(playbook, []byte("- hosts: \"{{ edpm_override_hosts }}\"\n  gather_facts: false\n  tasks: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plan, err := report.Build(story.Evidence()).Next(report.NextOptions{NodeSets: []string{"edpm"}})
	if err != nil || len(plan.Manifests) != 1 {
		t.Fatal(plan, err)
	}
	args := append(strings.Fields(hostpattern.Compose("", plan.Manifests[0].Limit, "")), "-i", inventory, "-e", "edpm_override_hosts=edpm", "--list-hosts", playbook)
	out, err := exec.Command("/usr/bin/ansible-playbook", args...).Output()
	if err != nil {
		t.Fatalf("ansible-playbook %q: %v", args, err)
	}
	_, list, _ := strings.Cut(string(out), "hosts (")
	hosts := strings.Fields(list)[1:]
	slices.Sort(hosts)
	if want := []string{"compute-10", "compute-2"}; !slices.Equal(hosts, want) {
		t.Errorf("ansible-playbook lists %q, want %q", hosts, want)
	}
}
