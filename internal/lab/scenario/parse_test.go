package scenario

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The example of the format reads as what it says.
func TestExample(t *testing.T) {
	file, err := ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, step := range file.Steps {
		steps = append(steps, step.Action.String())
	}
	want := []string{
		"deploy initial on edpm",
		"rotate nova-cell1-compute-config to v2",
		"expect of edpm",
		"start c0 on edpm, limit compute-0",
		"finish c0: succeeded (compute-0 ok)",
		"deploy rest on edpm, limit all:!compute-0, services nova: failed, succeeded",
		"stop the operator",
		"add node compute-2 to edpm",
		"delete OpenStackDataPlaneDeployment c0",
		"expect of edpm",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	total, updated, all := 2, 0, false
	secret := Word{"nova-cell1-compute-config", Position{11, 32}}
	wantExpect := Expect{
		NodeSet: Word{"edpm", Position{10, 21}}, TotalNodes: &total, UpdatedNodes: &updated, AllNodesUpdated: &all,
		Nodes: []Candidates{{Node: Word{"compute-0", Position{11, 20}}, Secret: secret, Aliases: []Word{{"v1", Position{11, 60}}}}},
	}
	if diff := cmp.Diff(wantExpect, file.Steps[2].Action); diff != "" {
		t.Errorf("first expectation (-want +got):\n%s", diff)
	}
	wantSecret := Version{
		Secret: Word{"nova-cell1-compute-config", Position{4, 3}}, As: Word{"v1", Position{4, 35}},
		Data: map[string]string{"01-nova.conf": "transport_url=rabbit://user7:pw@rabbitmq:5671/"},
	}
	if diff := cmp.Diff([]Version{wantSecret}, file.Secrets); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if file.Name != "two-batches" || file.Steps[3].At != (Position{12, 3}) || file.Steps[3].Number != 4 {
		t.Errorf("name %q, fourth step %+v", file.Name, file.Steps[3])
	}
}

const head = `services: {nova: {secrets: [s]}}
secrets: {s: {as: v1, data: {k: a}}}
nodeSets: {edpm: {nodes: [c0, c1], services: [nova]}}
steps:
`

// Whatever is wrong is named with file, line, column and key, all of it at once.
func TestProblems(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", `f.yaml:1:1: the file is empty`},
		{"not YAML", "a: [", `f.yaml:1:1: not YAML: did not find expected node content`},
		{"not YAML later", "a: b\nc: d: e\n", `f.yaml:2:1: not YAML: mapping values are not allowed in this context`},
		{"a list", "- a", `f.yaml:1:1: must be a mapping, not a list`},
		{"two documents", head + "- operator: stop\n---\nsteps: []\n", `f.yaml:6:1: there is a second document; put it in a file of its own`},
		{"nothing in it", "name: x", "f.yaml:1:1: the key \"nodeSets\" is missing\nf.yaml:1:1: the key \"steps\" is missing"},
		{"unknown top key", "nodesets: {}\nsteps: []\n", `f.yaml:1:1: the key "nodeSets" is missing
f.yaml:1:1: nodesets: unknown key "nodesets", did you mean "nodeSets"?`},
		{"unknown key, far from any", head + "- deploy: {name: d, nodeSets: [edpm], colour: red}",
			`f.yaml:5:39: steps[1].deploy.colour: unknown key "colour"`},
		{"unknown key in an expectation", head + "- expect: {nodeSet: edpm,\n    updateNodes: 1}",
			`f.yaml:6:5: steps[1].expect.updateNodes: unknown key "updateNodes", did you mean "updatedNodes"?`},
		{"unknown step", head + "- deply: {name: d, nodeSets: [edpm]}", `f.yaml:5:3: steps[1].deply: unknown step "deply", did you mean "deploy"?`},
		{"two actions", head + "- operator: stop\n  rotate: {secret: s, data: {}}",
			`f.yaml:6:3: steps[1].rotate: a step has one action, and this one has "operator" already; begin the next with a dash`},
		{"empty step", head + "- {}",
			`f.yaml:5:3: steps[1]: the step is empty; it must be one of attempt-delete, attest, delete, deploy, expect, finish, node, operator, override, rotate, start`},
		{"step that is text", head + "- stop", `f.yaml:5:3: steps[1]: must be a mapping, not the text "stop"`},
		{"key twice", head + "- deploy: {name: d, nodeSets: [edpm], name: e}",
			`f.yaml:5:39: steps[1].deploy.name: the key occurs twice, first on line 5`},
		{"missing keys", head + "- finish: {}\n- rotate: {as: v2}", `f.yaml:5:11: steps[1].finish: the key "name" is missing
f.yaml:5:11: steps[1].finish: the key "outcome" is missing
f.yaml:6:11: steps[2].rotate: the key "data" is missing
f.yaml:6:11: steps[2].rotate: the key "secret" is missing`},
		{"wrong types", head + `- deploy: {name: 1, nodeSets: edpm, limit: [c0], tags: null}
- expect: {nodeSet: edpm, totalNodes: two, updatedNodes: -1, allNodesUpdated: "true"}
- rotate: {secret: s, as: v2, data: {port: 5671, tls: yes, on: true}}
`, `f.yaml:5:18: steps[1].deploy.name: must be text, not the number 1; put it in quotes
f.yaml:5:31: steps[1].deploy.nodeSets: must be a list, not the text "edpm"
f.yaml:5:44: steps[1].deploy.limit: must be text, not a list
f.yaml:5:56: steps[1].deploy.tags: must be text, not nothing
f.yaml:6:39: steps[2].expect.totalNodes: must be a number of nodes, not the text "two"
f.yaml:6:58: steps[2].expect.updatedNodes: must be a number of nodes, not the number -1
f.yaml:6:79: steps[2].expect.allNodesUpdated: must be true or false, not the text "true"
f.yaml:7:44: steps[3].rotate.data.port: must be text, not the number 5671; put it in quotes
f.yaml:7:64: steps[3].rotate.data.on: must be text, not true or false (true); put it in quotes`},
		{"words out of their lists", head + `- operator: kil
- start: {name: d, nodeSets: [edpm]}
- finish: {name: d, outcome: success, hosts: {c0: unreachabel}}
- delete: {kind: OpenStackDataPlaneDeploymnet, name: d}
- deploy: {name: e, nodeSets: [edpm], attempts: [ok]}
`, `f.yaml:5:13: steps[1].operator: "kil" is not one of stop, start, restart, kill, did you mean "kill"?
f.yaml:7:30: steps[3].finish.outcome: "success" is not one of succeeded, failed
f.yaml:7:51: steps[3].finish.hosts.c0: "unreachabel" is not one of ok, failed, unreachable, unlisted, did you mean "unreachable"?
f.yaml:8:18: steps[4].delete.kind: "OpenStackDataPlaneDeploymnet" is not one of OpenStackDataPlaneDeployment, OpenStackDataPlaneNodeSet, OpenStackDataPlaneService, Secret, ConfigMap, Job, did you mean "OpenStackDataPlaneDeployment"?
f.yaml:9:50: steps[5].deploy.attempts[1]: "ok" is not one of succeeded, failed`},
		{"attempts", head + "- deploy: {name: d, nodeSets: [edpm], attempts: [succeeded, failed]}\n- deploy: {name: e, nodeSets: [edpm], attempts: []}",
			`f.yaml:5:50: steps[1].deploy.attempts: an attempt that succeeded is the last; nothing can follow it
f.yaml:6:49: steps[2].deploy.attempts: there must be one attempt at least`},
		{"node step without a node", head + "- node: {nodeSet: edpm}\n- node: {nodeSet: edpm, add: c2, remove: c0}",
			"f.yaml:5:9: steps[1].node: must have either \"add\" or \"remove\"\nf.yaml:6:9: steps[2].node: must have either \"add\" or \"remove\""},
		{"nothing declared", `services: {nova: {secrets: [t]}}
secrets: {s: {data: {}}}
nodeSets: {edpm: {nodes: [c0], services: [novo]}}
steps:
- deploy: {name: d, nodeSets: [edpn], services: [nava]}
- rotate: {secret: r, as: v1, data: {}}
- finish: {name: e, outcome: failed}
- node: {nodeSet: edpm, remove: c1}
- delete: {kind: Secret, name: x}
- delete: {kind: ConfigMap, name: edpm}
- delete: {kind: ConfigMap, name: edpn-secret-tracking}
- expect: {nodeSet: edmp, nodes: {c0: {q: [v1]}}}
`, `f.yaml:1:29: services.nova.secrets: no secret "t" is declared
f.yaml:3:43: nodeSets.edpm.services: no service "novo" is declared, did you mean "nova"?
f.yaml:5:32: steps[1].deploy.nodeSets: no nodeSet "edpn" is declared, did you mean "edpm"?
f.yaml:5:50: steps[1].deploy.services: no service "nava" is declared, did you mean "nova"?
f.yaml:6:20: steps[2].rotate.secret: no secret "r" is declared
f.yaml:7:18: steps[3].finish.name: no deployment "e" is declared
f.yaml:8:33: steps[4].node.remove: the nodeSet has no node "c1" at this step, did you mean "c0"?
f.yaml:9:32: steps[5].delete.name: no secret "x" is declared
f.yaml:10:35: steps[6].delete.name: the only ConfigMaps are those of NodeSets, <nodeSet>-secret-tracking
f.yaml:11:35: steps[7].delete.name: no nodeSet "edpn" is declared, did you mean "edpm"?
f.yaml:12:21: steps[8].expect.nodeSet: no nodeSet "edmp" is declared, did you mean "edpm"?
f.yaml:12:40: steps[8].expect.nodes.c0: no secret "q" is declared`},
		{"deployments out of turn", head + `- deploy: {name: d, nodeSets: [edpm]}
- finish: {name: d, outcome: failed}
- start: {name: d, nodeSets: [edpm]}
- start: {name: e, nodeSets: [edpm]}
- delete: {kind: OpenStackDataPlaneDeployment, name: e}
- finish: {name: e, outcome: failed}
- start: {name: e, nodeSets: []}
- finish: {name: e, outcome: succeeded, hosts: {c3: ok}}
`, `f.yaml:6:18: steps[2].finish.name: deployment "d" is over since line 5
f.yaml:7:17: steps[3].start.name: there is a deployment "d" already, since line 5
f.yaml:10:18: steps[6].finish.name: deployment "e" was deleted on line 9
f.yaml:11:30: steps[7].start.nodeSets: name one NodeSet at least
f.yaml:12:49: steps[8].finish.hosts: "c3" is no node of the deployment's nodeSets`},
		{"deleted things", head + `- delete: {kind: OpenStackDataPlaneService, name: nova}
- deploy: {name: d, nodeSets: [edpm]}
- deploy: {name: e, nodeSets: [edpm], services: [nova]}
- delete: {kind: OpenStackDataPlaneNodeSet, name: edpm}
- expect: {nodeSet: edpm}
`, `f.yaml:6:32: steps[2].deploy.nodeSets: nodeSet "edpm" runs service "nova", which was deleted on line 5
f.yaml:7:50: steps[3].deploy.services: service "nova" was deleted on line 5
f.yaml:9:21: steps[5].expect.nodeSet: nodeSet "edpm" was deleted on line 8`},
		{"aliases", head + `- expect: {nodeSet: edpm, currentHash: {s: v2}, nodes: {c0: {s: [v1, V1, v3]}, c1: {s: []}}}
- rotate: {secret: s, as: v2, data: {k: b}}
- rotate: {secret: s, as: v1, data: {k: b}}
- rotate: {secret: s, as: "?", data: {k: b}}
- expect: {nodeSet: edpm, nodes: {c0: {s: ["?", none, v2, v2]}}}
`, `f.yaml:5:44: steps[1].expect.currentHash.s: secret "s" becomes "v2" only later, on line 6
f.yaml:5:70: steps[1].expect.nodes.c0.s: no version "V1" of secret "s" is declared, did you mean "v1"?
f.yaml:5:74: steps[1].expect.nodes.c0.s: no version "v3" of secret "s" is declared, did you mean "v1"?
f.yaml:5:88: steps[1].expect.nodes.c1.s: name one version at least; "none" is nothing delivered, "?" is not known
f.yaml:7:27: steps[3].rotate.as: alias "v1" stands for other data since line 2
f.yaml:8:27: steps[4].rotate.as: "?" has a meaning of its own; take another alias
f.yaml:9:59: steps[5].expect.nodes.c0.s[4]: "v2" occurs twice`},
		{"names", `services: {Nova: {secrets: []}}
secrets: {a_b: {data: {"a b": x}}}
nodeSets: {edpm: {nodes: [c0.example.com, ""], services: []}}
steps: [{node: {nodeSet: edpm, add: c0.example.com}}]
`, `f.yaml:1:12: services: "Nova" cannot be a name: ` + label + `
f.yaml:2:11: secrets: "a_b" cannot be a name: ` + label + `
f.yaml:2:24: secrets.a_b.data.a b: "a b" cannot be a key of a Secret: use letters, digits, dashes, dots and underscores
f.yaml:3:27: nodeSets.edpm.nodes: "c0.example.com" cannot be a name: ` + label + `
f.yaml:3:43: nodeSets.edpm.nodes[2]: must not be empty
f.yaml:4:37: steps[1].node.add: "c0.example.com" cannot be a name: ` + label + `
f.yaml:4:37: steps[1].node.add: nodeSet "edpm" has node "c0.example.com" already`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := Parse("f.yaml", []byte(tt.text))
			if err == nil {
				t.Fatalf("nothing is wrong with %+v", file)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

const label = "use lower-case letters, digits and dashes, with a letter or digit at both ends"

// What may be left out can be; a name comes from the file's; an alias may come back with its data.
func TestOptional(t *testing.T) {
	file, err := Parse("dir/a-b-a.yaml", []byte(head+`- rotate: {secret: s, as: v2, data: {k: b}}
- rotate: {secret: s, as: v1, data: {k: a}}
- delete: {kind: ConfigMap, name: edpm-secret-tracking}
- delete: {kind: Secret, name: s}
- rotate: {secret: s, data: {}}
- expect: {nodeSet: edpm, nodes: {c0: {s: ["?", none]}}}
- start: {name: d, nodeSets: [edpm]}
- finish: {name: d, outcome: failed, hosts: {c0: unlisted}}
- delete: {kind: OpenStackDataPlaneDeployment, name: d}
- deploy: {name: d, nodeSets: [edpm]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if file.Name != "a-b-a" {
		t.Errorf("name %q", file.Name)
	}
}

// Whatever happens to a file, it is either read or something is wrong with one of its lines.
func TestMangled(t *testing.T) {
	text, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pieces := strings.SplitAfter(string(text), "")
	rapid.Check(t, func(t *rapid.T) {
		mangled := append([]string(nil), pieces...)
		for range rapid.IntRange(1, 8).Draw(t, "edits") {
			at := rapid.IntRange(0, len(mangled)-1).Draw(t, "at")
			switch rapid.IntRange(0, 3).Draw(t, "edit") {
			case 0:
				mangled[at] = ""
			case 1:
				mangled[at] = rapid.SampledFrom([]string{"{", "}", "[", "]", ":", ",", "\n", " ", "-", "\"", "&a ", "*a", "1", "#", "é", "\x00"}).Draw(t, "with")
			case 2:
				mangled[at] += mangled[rapid.IntRange(0, len(mangled)-1).Draw(t, "copy")]
			case 3:
				mangled = mangled[:at+1]
			}
		}
		text := strings.Join(mangled, "")
		file, err := Parse("f.yaml", []byte(text))
		if (file == nil) == (err == nil) {
			t.Fatalf("file %v, error %v", file, err)
		}
		for _, one := range unjoin(err) {
			var problem Problem
			if !errors.As(one, &problem) || problem.At.Line < 1 || problem.At.Line > strings.Count(text, "\n")+1 || problem.At.Column < 1 {
				t.Fatalf("not on any line: %v", one)
			}
		}
	})
}

func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}
