// Package rabbitmq plays random rotations with a real RabbitMQ: no agent is ever locked out, and every old user goes.
package rabbitmq

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/rotation-operator/rotation-operator/internal/lab/broker"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	testplane.MainWithPolicies(m)
}

// patience bounds how long one thing is waited for; a test that passes does not use it up.
const patience = time.Minute

// room is what all histories share.
type room struct {
	broker  *broker.Broker
	manager string
	seed    uint64
	// refused and accepted count attempts to delete old users, gone the users that the broker deleted.
	refused, accepted, gone, kills atomic.Int64
}

func newRoom(t *testing.T) *room {
	t.Helper()
	if err := broker.Available(); err != nil && os.Getenv("ROTATION_REQUIRE_RABBITMQ") == "" {
		t.Skip(err)
	}
	r := &room{manager: filepath.Join(t.TempDir(), "manager"), seed: number(t, "ROTATION_SEED", rand.Uint64N(1<<32))}
	if out, err := exec.Command("go", "build", "-o", r.manager, "../../cmd/manager").CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, out)
	}
	var err error
	if r.broker, err = broker.Start(context.WithoutCancel(t.Context()), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.broker.Stop)
	return r
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestRotations plays random histories: with the gate no agent ever fails to log in, and at the end of each history every
// old user is gone; without it the same histories lock agents out, and the test sees it.
// ROTATION_HISTORIES says how many, ROTATION_SEED which ones, ROTATION_HISTORY picks a single one.
func TestRotations(t *testing.T) {
	r := newRoom(t)
	t.Run("nobody is locked out", func(t *testing.T) { playGuarded(t, r) })
	t.Run("gate off", func(t *testing.T) { playUnguarded(t, r) })
}

func playGuarded(t *testing.T, r *room) {
	first, count := uint64(0), number(t, "ROTATION_HISTORIES", 6)
	if os.Getenv("ROTATION_HISTORY") != "" {
		first, count = number(t, "ROTATION_HISTORY", 0), 1
	}
	t.Run("histories", func(t *testing.T) {
		for i := first; i < first+count; i++ {
			t.Run(strconv.FormatUint(i, 10), func(t *testing.T) {
				t.Parallel()
				h := newHistory(t, r, i, true)
				h.play()
				h.finish()
			})
		}
	})
	if t.Failed() {
		return
	}
	if r.refused.Load() == 0 || r.gone.Load() < int64(count) {
		t.Errorf("%d deletions were refused and %d users went: that is no test", r.refused.Load(), r.gone.Load())
	}
	fmt.Fprintf(os.Stdout, "» rabbitmq: %d histories, the operator killed %d times, %d deletions refused, %d accepted, %d users gone from the broker, no agent locked out\n",
		count, r.kills.Load(), r.refused.Load(), r.accepted.Load(), r.gone.Load())
}

func playUnguarded(t *testing.T, r *room) {
	const most = 20
	for i := range uint64(most) {
		h := newHistory(t, r, i, false)
		h.play()
		if locked := h.locked(); len(locked) > 0 {
			fmt.Fprintf(os.Stdout, "» rabbitmq: with the gate off history %d locks agents out: %s\n", i, locked[0])
			return
		}
	}
	t.Errorf("seed %d: nobody was locked out in %d histories without the gate", r.seed, most)
}

// story is what has happened, for whoever has to understand a failure.
type story []string

func (s *story) add(format string, values ...any) { *s = append(*s, fmt.Sprintf(format, values...)) }

func (s *story) String() string { return strings.Join(*s, "\n") }
