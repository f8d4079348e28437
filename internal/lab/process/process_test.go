package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is long, so that a test never passes because of it.
const patience = time.Hour

func TestStopAsks(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p := start(t, log, `trap "echo asked; exit 3" TERM; echo ready; while :; do sleep 0.01; done`)
	wait(t, log, "ready")
	p.Stop(patience)
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) || exit.ExitCode() != 3 {
		t.Errorf("ended with %v, want its own exit code", p.Err())
	}
	if got := LastWords(log, 1); got != "asked" {
		t.Errorf("last words %q", got)
	}
}

// A process that does not listen is killed, and so is whatever it started.
func TestStopInsists(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p := start(t, log, `trap "" TERM; sleep 1000 & echo $!; echo ready; wait`)
	wait(t, log, "ready")
	p.Stop(time.Nanosecond)
	child, err := strconv.Atoi(strings.Fields(LastWords(log, 2))[0])
	if err != nil {
		t.Fatal(err)
	}
	isGone(t, child)
	p.Kill() // once more does no harm
}

// Children do not outlive us: this test runs itself, is killed, and looks for what was left.
func TestNothingOutlivesUs(t *testing.T) {
	if log := os.Getenv("PROCESS_TEST_LOG"); log != "" {
		start(t, log, `echo $$; echo ready; sleep 1000`)
		wait(t, log, "ready")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	log := filepath.Join(t.TempDir(), "log")
	self := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	self.Env = append(os.Environ(), "PROCESS_TEST_LOG="+log)
	if out, err := self.CombinedOutput(); err == nil || strings.Contains(string(out), "FAIL") {
		t.Fatalf("it was not killed: %v\n%s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	isGone(t, child)
}

func start(t *testing.T, log, script string) *Process {
	t.Helper()
	p, err := Start(log, "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// wait reads the log until the word is in it.
func wait(t *testing.T, log, word string) {
	t.Helper()
	for {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), word) {
			return
		}
	}
}

// isGone waits until nobody has the process ID, or only a corpse that nobody has buried.
func isGone(t *testing.T, pid int) {
	t.Helper()
	for syscall.Kill(pid, 0) == nil {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil && strings.Contains(string(status), ") Z ") {
			return
		}
	}
}
