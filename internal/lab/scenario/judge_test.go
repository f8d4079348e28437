package scenario

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
)

const (
	hash1 = fleet.Version("n5b4hfirst")
	hash2 = fleet.Version("n656hsecond")
)

var known = aliases{"s": {"v1": hash1, "v2": hash2}}

// seen is a NodeSet half way from v1 to v2.
var seen = testbed.State{TotalNodes: 2, UpdatedNodes: 1, Secrets: map[string]testbed.SecretState{"s": {
	Current: hash1, Expected: hash2, Nodes: map[string]fleet.Versions{"c0": fleet.SetOf(hash2), "c1": fleet.SetOf(hash1, hash2)},
}}}

// Each field of an expectation is compared, and what differs is named with what was expected and what was seen.
func TestDifferences(t *testing.T) {
	for _, tt := range []struct{ expect, want string }{
		{"totalNodes: 2, updatedNodes: 1, allNodesUpdated: false", ""},
		{"currentHash: {s: v1}, expectedHash: {s: v2}, nodes: {c0: {s: [v2]}, c1: {s: [v2, v1]}}", ""},
		{"totalNodes: 3", "totalNodes: expected 3, seen 2"},
		{"updatedNodes: 2", "updatedNodes: expected 2, seen 1"},
		{"allNodesUpdated: true", "allNodesUpdated: expected true, seen false"},
		{"currentHash: {s: v2}", "currentHash.s: expected v2, seen [v1]"},
		{"currentHash: {s: none}", "currentHash.s: expected none, seen [v1]"},
		{"expectedHash: {s: \"?\"}", "expectedHash.s: expected ?, seen [v2]"},
		{"expectedHash: {other: o1}", "expectedHash.other: expected o1, seen nothing"},
		{"currentHash: {other: o1}", "currentHash.other: expected o1, seen nothing"},
		{"nodes: {c0: {s: [v1]}}", "nodes.c0.s: expected [v1], seen [v2]"},
		{"nodes: {c0: {s: [v1, v2]}}", "nodes.c0.s: expected [v1, v2], seen [v2]"},
		{"nodes: {c1: {s: [v1]}}", "nodes.c1.s: expected [v1], seen [v1, v2]"},
		{"nodes: {c1: {s: [\"?\"]}}", "nodes.c1.s: expected [?], seen [v1, v2]"},
		{"nodes: {c0: {other: [o1]}}", "nodes.c0.other: expected [o1], seen nothing"},
		{"totalNodes: 0, updatedNodes: 0", "totalNodes: expected 0, seen 2; updatedNodes: expected 0, seen 1"},
	} {
		file, err := Parse("f.yaml", []byte(`
secrets: {s: {as: v1, data: {}}, other: {as: o1, data: {}}}
nodeSets: {n: {nodes: [c0, c1], services: []}}
steps: [{rotate: {secret: s, as: v2, data: {k: v}}}, {expect: {nodeSet: n, `+tt.expect+`}}]`))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(known.differences(file.Steps[1].Action.(Expect), seen), "; "); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.expect, got, tt.want)
		}
	}
}

// A version without an alias is shown as it is, in short to people.
func TestUnnamedVersion(t *testing.T) {
	one := 1
	expect := Expect{UpdatedNodes: &one, Nodes: []Candidates{{Word{Text: "c0"}, Word{Text: "s"}, []Word{{Text: "v1"}}}}}
	got := aliases{"s": {"v1": hash1}}.differences(expect, seen)
	if diff := cmp.Diff([]string{"nodes.c0.s: expected [v1], seen [n656hsec]"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	picture := aliases{}.picture("n", seen)
	if diff := cmp.Diff([]string{string(hash1), string(hash2)}, picture.Nodes["c1"]["s"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What is printed, to people and to programs, and what the error is.
func TestReport(t *testing.T) {
	yes, two := true, 2
	expected := Picture{NodeSet: "n", UpdatedNodes: &two, Nodes: map[string]map[string][]string{"c0": {"s": {"v1"}}}}
	shown := known.picture("n", seen)
	file := &File{Name: "story", Path: "dir/story.yaml"}
	good := Result{File: file.Path, Line: 7, Step: 2, Expected: Picture{NodeSet: "n", AllNodesUpdated: &yes}, Seen: &shown, OK: true}
	bad := Result{File: file.Path, Line: 12, Step: 3, Expected: expected, Seen: &shown, Why: []string{"updatedNodes: expected 2, seen 1"}}
	lost := Result{File: file.Path, Line: 13, Step: 4, Expected: expected, Why: []string{"a step before it failed: line 12: oh"}}
	for _, tt := range []struct {
		name    string
		json    bool
		results []Result
		broken  error
		want    string
		wantErr string
	}{
		{"good", false, []Result{good}, nil, `story (dir/story.yaml)
    5    stop the operator
    7  ✓ expect of n

1 of 1 expectations hold
`, ""},
		{"bad", false, []Result{good, bad}, nil, `story (dir/story.yaml)
    5    stop the operator
    7  ✓ expect of n
   12  ✗ expect of n
           updatedNodes: expected 2, seen 1

1 of 2 expectations hold
`, "not all expectations hold"},
		{"broken", false, []Result{lost}, errors.New("line 12: oh"), `story (dir/story.yaml)
    5    stop the operator
   13  ✗ expect of n
           a step before it failed: line 12: oh
       ✗ line 12: oh

0 of 1 expectations hold
`, "line 12: oh"},
		{"no expectations, as JSON", true, nil, nil, "[]\n", ""},
		{"as JSON", true, []Result{bad, lost}, errors.New("line 12: oh"), jsonReport, "line 12: oh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			r := report{out: &out, json: tt.json, results: []Result{}}
			r.begin(file)
			r.told(Step{At: Position{5, 3}, Action: Operator{Word{Text: "stop"}}}, nil)
			for _, result := range tt.results {
				r.told(Step{At: Position{result.Line, 3}, Action: Expect{NodeSet: Word{Text: "n"}}}, &result)
			}
			r.end(tt.results, tt.broken)
			err := r.close()
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := errText(err); got != tt.wantErr {
				t.Errorf("error %q, want %q", got, tt.wantErr)
			}
		})
	}
}

const jsonReport = `[
  {
    "file": "dir/story.yaml",
    "line": 12,
    "step": 3,
    "expected": {
      "nodeSet": "n",
      "updatedNodes": 2,
      "nodes": {
        "c0": {
          "s": [
            "v1"
          ]
        }
      }
    },
    "seen": {
      "nodeSet": "n",
      "totalNodes": 2,
      "updatedNodes": 1,
      "allNodesUpdated": false,
      "currentHash": {
        "s": "v1"
      },
      "expectedHash": {
        "s": "v2"
      },
      "nodes": {
        "c0": {
          "s": [
            "v2"
          ]
        },
        "c1": {
          "s": [
            "v1",
            "v2"
          ]
        }
      }
    },
    "ok": false,
    "why": [
      "updatedNodes: expected 2, seen 1"
    ]
  },
  {
    "file": "dir/story.yaml",
    "line": 13,
    "step": 4,
    "expected": {
      "nodeSet": "n",
      "updatedNodes": 2,
      "nodes": {
        "c0": {
          "s": [
            "v1"
          ]
        }
      }
    },
    "ok": false,
    "why": [
      "a step before it failed: line 12: oh"
    ]
  }
]
`

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Wrong input is told apart by its exit code, and nothing is started for it.
func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "name one scenario file at least"},
		{[]string{"-o", "yaml", "x.yaml"}, `unknown output "yaml": use json or text`},
		{[]string{"--timeout", "0s", "x.yaml"}, "--timeout must be more than 0s"},
		{[]string{"--nonsense"}, "unknown flag: --nonsense"},
		{[]string{"testdata/none.yaml", "testdata/bad.yaml"}, `open testdata/none.yaml: no such file or directory
testdata/bad.yaml:3:13: steps[1].operator: "stopp" is not one of stop, start, restart, kill, did you mean "stop"?`},
	} {
		command := NewCommand()
		var out bytes.Buffer
		command.SetArgs(tt.args)
		command.SetOut(&out)
		command.SetErr(&out)
		err := command.ExecuteContext(t.Context())
		var coded interface{ ExitCode() int }
		if errText(err) != tt.want || !errors.As(err, &coded) || coded.ExitCode() != 2 {
			t.Errorf("%v: %v\nwant %s", tt.args, err, tt.want)
		}
	}
	command := NewCommand()
	command.SetArgs([]string{"--manager", "testdata/none", "testdata/example.yaml"})
	err := command.ExecuteContext(t.Context())
	if want := "the operator cannot be started: "; !strings.HasPrefix(errText(err), want) || !strings.Contains(err.Error(), "--manager") {
		t.Errorf("%v, want %s…", err, want)
	}
}
