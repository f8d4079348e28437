package hostpattern

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// asked is one random question to real Ansible.
type asked struct {
	Groups json.RawMessage `json:"groups"`
	Limit  *string         `json:"limit,omitempty"`
	Line   *string         `json:"line,omitempty"`
}

// TestAgainstAnsible asks the installed Ansible for random limits and command lines: wherever we decide, the answers
// are the same, and wherever we do not, its hosts are among those that we call possible.
func TestAgainstAnsible(t *testing.T) {
	count := 4000
	if os.Getenv("ROTATION_DEEP") != "" {
		count = 60000
	}
	if _, err := exec.LookPath("/usr/bin/ansible-playbook"); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("ROTATION_REQUIRE_ANSIBLE") != "" {
			t.Fatal("ansible-playbook is missing: run hack/install-ansible.sh")
		}
		t.Skip("ansible-playbook is missing: run hack/install-ansible.sh to compare with it")
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	questions, inventories := make([]asked, count), make([]Inventory, count)
	var input bytes.Buffer
	encoder := json.NewEncoder(&input)
	encoder.SetEscapeHTML(false)
	for i := range questions {
		questions[i], inventories[i] = randomQuestion(random)
		if err := encoder.Encode(questions[i]); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("/usr/bin/python3", "testdata/ask_ansible.py")
	command.Stdin, command.Stderr = &input, os.Stderr
	command.Env = append(os.Environ(), "ANSIBLE_LOCALHOST_WARNING=False", "ANSIBLE_DEPRECATION_WARNINGS=False")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("asking Ansible: %v", err)
	}
	answers := bufio.NewScanner(bytes.NewReader(out))
	answers.Buffer(nil, 1<<20)
	answers.Scan()
	version, refused, agreed := answers.Text(), 0, 0
	for i, question := range questions {
		if !answers.Scan() {
			t.Fatalf("Ansible answered %d of %d questions", i, count)
		}
		var answer struct {
			Hosts []string
			Error *string
		}
		if err := json.Unmarshal(answers.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		got := resolveAsked(question, inventories[i])
		switch {
		case !got.Decided:
			refused++
			if !isSubset(answer.Hosts, got.Perhaps) {
				t.Errorf("seed %d: %s: Ansible chooses %v, we call only %v possible", seed, show(question), answer.Hosts, got.Perhaps)
			}
			continue
		case answer.Error != nil && got.Err == "", answer.Error == nil && (got.Err != "" || !slices.Equal(got.Surely, answer.Hosts) && len(got.Surely)+len(answer.Hosts) > 0):
			t.Errorf("seed %d: %s: Ansible says %s, we say %v %s", seed, show(question), answers.Text(), got.Surely, got.Err)
		}
		agreed++
	}
	if agreed < count/4 {
		t.Errorf("only %d of %d random limits were decided", agreed, count)
	}
	fmt.Fprintf(os.Stdout, "» hostpattern: %d random limits agree with ansible-core %s (%d more were refused as undecidable)\n", agreed, version, refused)
}

func resolveAsked(question asked, inventory Inventory) Selection {
	if question.Line != nil {
		return ResolveRun(inventory, "all", *question.Line)
	}
	return Resolve(inventory, *question.Limit)
}

func show(question asked) string {
	text, err := json.Marshal(question)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func isSubset(part, whole []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(whole, s) })
}

// randomQuestion makes an unkind question: names of groups and hosts mix, patterns are built from the same pieces.
func randomQuestion(random *rand.Rand) (asked, Inventory) {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	names := []string{"compute-0", "compute-1", "compute-10", "compute-11", "a", "b1", "web", "edpm", "rack-1", "c", "n.x", "compute"}
	var inventory Inventory
	var groups strings.Builder
	taken := map[string]bool{}
	for range 1 + random.IntN(3) {
		group := Group{Name: pick("edpm", "web", "rack-1", "openstack-edpm", "compute-1", "g[0]")}
		if taken[group.Name] {
			continue
		}
		taken[group.Name] = true
		for range random.IntN(5) {
			if name := pick(names...); !slices.Contains(group.Hosts, name) {
				group.Hosts = append(group.Hosts, name)
			}
		}
		inventory.Groups = append(inventory.Groups, group)
		hosts, _ := json.Marshal(append([]string{}, group.Hosts...))
		name, _ := json.Marshal(group.Name)
		fmt.Fprintf(&groups, ",%s:%s", name, hosts)
	}
	var limit strings.Builder
	for range 1 + random.IntN(4) {
		limit.WriteString(pick("", "", "", "!", "&", "~", " "))
		for range 1 + random.IntN(3) {
			limit.WriteString(pick(append(names, "all", "*", "?", "compute-*", "[0]", "[1:2]", "[-1]", "[0:1]", "[!0]", "[a-c]", "[0-9]", "1", "0",
				"-", ".", "ungrouped", "\\d", ".*", "$", "^", "(a|b)", "x+", "localhost", "[1:0]", "[2-1]", "_", "fe80::1", "[c-a]", "[]a]")...))
		}
		limit.WriteString(pick(",", ",", ":", "", " ", ":", ";", "::"))
	}
	text := limit.String()
	question := asked{Groups: json.RawMessage("{" + strings.TrimPrefix(groups.String(), ",") + "}"), Limit: &text}
	if random.IntN(3) == 0 {
		line := Compose(pick("", "", "nova", "all"), pick(text, "'"+text+"'", `"`+text+`"`, text+pick(" --check", " x", "\\", "'")), pick("", "", "x"))
		question.Limit, question.Line = nil, &line
	}
	return question, inventory
}
