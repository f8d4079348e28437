package limit_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rotation-operator/rotation-operator/internal/lab/limit"
)

func TestCommand(t *testing.T) {
	const inventory = `{"inventory":{"groups":{"edpm":["compute-0","compute-1"]}}`
	for name, tc := range map[string]struct{ in, out, err string }{
		"no limit": {in: inventory + `}`, out: `{"surely":["compute-0","compute-1"],"perhaps":["compute-0","compute-1"],"decided":true,"error":null}`},
		"the example that chooses nobody": {in: inventory + `,"limit":"compute-[0:9]"}`,
			out: `{"surely":[],"perhaps":[],"decided":true,"error":"the limit leaves no hosts to target"}`},
		"undecided": {in: inventory + `,"limit":"@file"}`, out: `{"surely":[],"perhaps":["compute-0","compute-1"],"decided":false,"error":null}`},
		"fields of a Deployment": {in: inventory + `,"spec":{"ansibleLimit":"compute-0"}}`,
			out: `{"surely":["compute-0"],"perhaps":["compute-0"],"decided":true,"error":null}`},
		"the play is for others": {in: inventory + `,"limit":"compute-0","play_hosts":"other"}`, out: `{"surely":[],"perhaps":[],"decided":true,"error":null}`},
		"settings":               {in: inventory + `,"limit":"compute-0","env":{"X":"y"}}`, out: `{"surely":[],"perhaps":["compute-0","compute-1"],"decided":false,"error":null}`},
		"not JSON":               {in: inventory + "}\n{oops", err: "standard input, line 2: "},
		"no inventory":           {in: `{"limit":"a"}`, err: "line 1: there is no inventory"},
		"limit and spec":         {in: inventory + `,"limit":"a","spec":{}}`, err: "line 1: give a limit or a spec, not both"},
	} {
		t.Run(name, func(t *testing.T) {
			command := limit.NewCommand()
			var out bytes.Buffer
			command.SetIn(strings.NewReader(tc.in))
			command.SetOut(&out)
			command.SetArgs(nil)
			command.SilenceErrors = true
			err := command.Execute()
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || strings.TrimSpace(out.String()) != tc.out {
				t.Errorf("got %s (%v), want %s", out.String(), err, tc.out)
			}
		})
	}
}
