package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

// follow runs a command line with -w on states that come one after the other; at the end of them somebody interrupts it.
func follow(t *testing.T, line string, states ...report.Evidence) outcome {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	read := func(context.Context, scope) (report.Evidence, error) {
		if len(states) == 0 {
			interrupt()
			return report.Evidence{}, ctx.Err()
		}
		first := states[0]
		states = states[1:]
		return first, nil
	}
	return tryWith(ctx, t, read, strings.Fields(line)...)
}

// TestRepeat: what is printed with -w is printed again when it changes and not when only time goes by, in each output;
// whoever interrupts it gets the last answer.
func TestRepeat(t *testing.T) {
	held, later, safe := reporttest.Drifted().Evidence(), reporttest.Drifted().Evidence(), reporttest.Done().Evidence()
	later.CollectedAt = later.CollectedAt.Add(time.Hour)
	for _, line := range []string{"can-delete rabbitmquser/user7", "why-not rabbitmquser/user7", "status edpm", "nodes edpm", "history edpm", "who-uses user7"} {
		for output, separator := range map[string]string{"table": "\n13:00:00 UTC\n", "wide": "\n13:00:00 UTC\n", "yaml": "---\n", "json": ""} {
			rest := " -o " + output
			one, other := try(t, held, strings.Fields(line+rest)...), try(t, safe, strings.Fields(line+rest)...)
			if one.out == other.out {
				t.Fatalf("%s%s prints the same of both", line, rest)
			}
			if o := follow(t, line+rest+" -w", held, later, safe, safe); o.out != one.out+separator+other.out || o.code != other.code || o.err != "" {
				t.Errorf("%s%s -w: exit %d, want %d:\n%s%s", line, rest, o.code, other.code, o.out, o.err)
			}
			if o := follow(t, line+rest+" --watch", safe, held); o.code != one.code {
				t.Errorf("%s%s --watch: exit %d, want %d", line, rest, o.code, one.code)
			}
		}
	}
}

// TestRepeatEnds: an error ends -w, and nothing read is no yes.
func TestRepeatEnds(t *testing.T) {
	if o := follow(t, "can-delete rabbitmquser/user7 -w"); o.code != Failed || !strings.Contains(o.err, "interrupted before") {
		t.Errorf("%+v", o)
	}
	answers := 0
	read := func(context.Context, scope) (report.Evidence, error) {
		if answers++; answers > 1 {
			return report.Evidence{}, errors.New("connection refused")
		}
		return reporttest.Done().Evidence(), nil
	}
	if o := tryWith(t.Context(), t, read, "can-delete", "rabbitmquser/user7", "-w"); o.code != Failed || !strings.Contains(o.err, "connection refused") {
		t.Errorf("%+v", o)
	}
	if o := follow(t, "can-delete rabbitmquser/usr7 -w", reporttest.Done().Evidence()); o.code != Failed || !strings.Contains(o.said(), "did you mean") {
		t.Errorf("%+v", o)
	}
}
