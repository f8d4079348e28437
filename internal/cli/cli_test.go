package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

// said is what somebody reads, in one line.
func (o outcome) said() string { return strings.Join(strings.Fields(o.out+o.err), " ") }

// TestExit: each question ends with the code that scripts rely on, and says why.
func TestExit(t *testing.T) {
	lost := reporttest.Done().Change(func(n *report.Namespace) {
		n.Unread = append(n.Unread, report.Unread{What: "CredentialOverrides", Why: "forbidden", Needed: true})
	})
	for _, one := range []struct {
		name  string
		story *reporttest.Story
		line  string
		code  int
		says  string
	}{
		{"safe", reporttest.Done(), "can-delete rabbitmquser/user7", Holds, "YES"},
		{"plural", reporttest.Done(), "can-delete rabbitmqusers/user7", Holds, "YES"},
		{"short name", reporttest.Done(), "can-delete rmquser/user7", Holds, "YES"},
		{"held", reporttest.Drifted(), "can-delete RabbitMQUser/user7", HoldsNot, "must not be deleted (NodesBehind)"},
		{"not judged", reporttest.Unjudged(), "can-delete rabbitmquser/user7", NotKnown, "UNKNOWN"},
		{"written since", reporttest.Unseen(), "can-delete rabbitmquser/user6", NotKnown, "speaks against it"},
		{"not read", lost, "can-delete rabbitmquser/user7", NotKnown, "CredentialOverrides cannot be read: forbidden"},
		{"override", reporttest.Overridden(), "why-not rabbitmquser/user7", Holds, "Without the override: 1. NodesBehind"},
		{"no such name", reporttest.Done(), "can-delete rabbitmquser/usr7", Failed, "did you mean rabbitmquser/user7?"},
		{"only in Secrets", reporttest.Done(), "can-delete rabbitmquser/user8", Failed, "no guarded object has it"},
		{"no such kind", reporttest.Done(), "can-delete rabitmquser/user7", NotKnown, "did you mean rabbitmquser?"},
		{"no kind", reporttest.Done(), "can-delete user7", Misused, "is not KIND/NAME"},
		{"no NodeSet", reporttest.Done(), "status edpn", Failed, "did you mean edpm or edge?"},
		{"no Secret", reporttest.Done(), "nodes edpm --secret nova", Failed, "did you mean " + reporttest.NovaConfig},
		{"no identity", reporttest.Done(), "who-uses user77", Failed, "did you mean user7 or user8?"},
		{"no node", reporttest.Done(), "history compute-3", Failed, "did you mean compute-0"},
		{"no labels", reporttest.Done(), "status -l zone=1", Failed, "no NodeSet has the labels zone=1"},
		{"selector", reporttest.Done(), "status -l =", Misused, "the selector makes no sense"},
		{"output", reporttest.Done(), "status -o xml", Misused, `there is no output "xml"`},
		{"flag", reporttest.Done(), "status --outptu json", Misused, "unknown flag: --outptu"},
		{"command", reporttest.Done(), "statsu", Misused, "did you mean status?"},
		{"argument missing", reporttest.Done(), "nodes", Misused, "NODESET is missing"},
		{"argument too many", reporttest.Done(), "nodes a b", Misused, `"b" is not expected after NODESET`},
		{"jsonpath", reporttest.Done(), "status -o jsonpath={", Misused, "makes no sense"},
		{"wait for what", reporttest.Done(), "wait edpm", Misused, "--for is safe or updated"},
		{"wait, safe", reporttest.Done(), "wait --for safe rabbitmquser/user7", Holds, "may be deleted"},
		{"wait, updated", reporttest.Done(), "wait --for updated edpm", Holds, "all 4 nodes updated"},
		{"wait in vain", reporttest.Drifted(), "wait --for updated edpm --timeout 20ms --every 1ms", TimedOut, "timed out; at last NodeSet edpm: 0 of 4 nodes"},
		{"wait, not known", lost, "wait --for safe rabbitmquser/user7 --timeout 20ms --every 1ms", TimedOut, "CredentialOverrides cannot be read"},
		{"wait, not read", lost, "wait --for updated edpm --timeout 20ms --every 1ms", TimedOut, "is not known: CredentialOverrides cannot be read"},
		{"attest, no reason", reporttest.Done(), "attest edpm/compute-0", Misused, "--reason is missing"},
		{"attest, no node", reporttest.Done(), "attest compute-0 --reason gone", Misused, "is not NODESET/NODE"},
		{"attest, unknown node", reporttest.Done(), "attest edpm/compute-3 --reason gone", Failed, "did you mean edpm/compute-0"},
		{"override, unknown", reporttest.Done(), "override rabbitmquser/x --reason gone", Failed, "nothing is known of RabbitMQUser"},
		{"status, not read", lost, "status", NotKnown, "CredentialOverrides cannot be read"},
		{"version", reporttest.Done(), "version", Holds, "kubectl-rotation"},
		{"completion", reporttest.Done(), "__complete can-delete rabbitmquser/", Holds, "rabbitmquser/user7"},
		{"completion of nodes", reporttest.Done(), "__complete attest edpm/compute-1", Holds, "edpm/compute-1 edpm/compute-10"},
	} {
		t.Run(one.name, func(t *testing.T) {
			o := try(t, one.story.Evidence(), strings.Fields(one.line)...)
			if o.code != one.code || !strings.Contains(o.said(), one.says) {
				t.Errorf("%s: exit %d, want %d and %q:\n%s%s", one.line, o.code, one.code, one.says, o.out, o.err)
			}
			narrow(t, []string{one.line}, o.err)
		})
	}
}

// TestCannotRead: what goes wrong on the way is an error with its reason.
func TestCannotRead(t *testing.T) {
	read := func(context.Context, scope) (report.Evidence, error) {
		return report.Evidence{}, errors.New("the way is \x1b[31mblocked")
	}
	for _, line := range []string{"status", "nodes x", "who-uses x", "can-delete a/b", "next", "history x", "wait --for updated x", "report"} {
		if o := tryWith(t.Context(), t, read, strings.Fields(line)...); o.code != Failed || o.out != "" || !strings.Contains(o.err, "Error: the way is ?[31mblocked") {
			t.Errorf("%s: %+v", line, o)
		}
	}
}

// TestInterrupted: whoever leaves a wait has not got a yes.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	read := func(context.Context, scope) (report.Evidence, error) {
		cancel()
		return reporttest.Done().Evidence(), nil
	}
	if o := tryWith(ctx, t, read, "wait", "--for", "updated", "edpm"); o.code != Failed || !strings.Contains(o.err, "interrupted") {
		t.Errorf("%+v", o)
	}
}

// TestSameValue: JSON, YAML and jsonpath are of the value that the text is of.
func TestSameValue(t *testing.T) {
	for _, line := range []string{"status", "nodes edpm", "who-uses user7", "can-delete rabbitmquser/user7", "history edpm"} {
		args := strings.Fields(line)
		evidence := reporttest.Partial().Evidence()
		asJSON, asYAML := try(t, evidence, append(args, "-o", "json")...), try(t, evidence, append(args, "-o", "yaml")...)
		var kind struct{ APIVersion, Kind string }
		if err := json.Unmarshal([]byte(asJSON.out), &kind); err != nil || kind.APIVersion != report.GroupVersion || kind.Kind == "" {
			t.Errorf("%s: %v %v", line, kind, err)
		}
		back, err := yaml.YAMLToJSON([]byte(asYAML.out))
		var compact bytes.Buffer
		if err != nil || json.Compact(&compact, []byte(asJSON.out)) != nil {
			t.Errorf("%s: %v", line, err)
		}
		var one, other any
		if json.Unmarshal(back, &one) != nil || json.Unmarshal(compact.Bytes(), &other) != nil || toJSON(t, one) != toJSON(t, other) {
			t.Errorf("%s: YAML and JSON differ", line)
		}
	}
	evidence := reporttest.Drifted().Evidence()
	for _, path := range []string{"jsonpath={.nodeSets[*].behind}", "jsonpath=.nodeSets[*].behind"} {
		if o := try(t, evidence, "status", "-o", path); o.out != "2 4\n" {
			t.Errorf("%s: %q %s", path, o.out, o.err)
		}
	}
	if o := try(t, evidence, "status", "--no-headers"); strings.Contains(o.out, "UPDATED") || !strings.HasPrefix(o.out, "edge ") {
		t.Errorf("without headers: %s", o.out)
	}
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestColour: colours only repeat what the words say, and names cannot bring their own.
func TestColour(t *testing.T) {
	r := report.Build(reporttest.Partial().Evidence())
	r.NodeSets[0].Name = "ed\x1b[2Jge"
	plain, coloured := &page{}, &page{colour: true}
	plain.status(r, false, false)
	coloured.status(r, false, false)
	stripped := regexp.MustCompile(`\x1b\[[0-9]+m`).ReplaceAllString(coloured.text.String(), "")
	if stripped != plain.text.String() || stripped == coloured.text.String() || strings.Contains(stripped, "\x1b") {
		t.Errorf("with colours:\n%s\nwithout:\n%s", coloured.text.String(), plain.text.String())
	}
}

// TestDocs: every command in the documents exists and takes its flags.
func TestDocs(t *testing.T) {
	files, err := filepath.Glob("../../docs/tasks/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no documents", err)
	}
	line := regexp.MustCompile("kubectl rotation [^|&#\n`]+")
	found := 0
	for _, file := range append(files, "../../docs/cli.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range line.FindAllString(string(text), -1) {
			found++
			args := strings.Fields(strings.TrimPrefix(regexp.MustCompile(`'[^']*'`).ReplaceAllString(example, "quoted"), "kubectl rotation "))
			to := &tool{}
			to.flags = newFlags()
			command, rest, err := to.root().Find(args)
			if err == nil && command.HasParent() {
				err = command.ParseFlags(rest)
			}
			if err != nil || !command.HasParent() {
				t.Errorf("%s: %s: %v", file, example, err)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d commands found", found)
	}
}
