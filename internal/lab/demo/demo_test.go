package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const patience = time.Minute

// manager builds the operator, and the plugin beside it.
func manager(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "../../../cmd/manager", "../../../cmd/kubectl-rotation").CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, out)
	}
	return filepath.Join(dir, "manager")
}

// terminal takes what the demo prints, and does something beside it when it comes to some words.
type terminal struct {
	words string
	then  func(printed string)

	mutex sync.Mutex
	text  bytes.Buffer
	once  sync.Once
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	n, err := t.text.Write(p)
	if printed := t.text.String(); t.words != "" && strings.Contains(printed, t.words) {
		t.once.Do(func() { go t.then(printed) })
	}
	return n, err
}

func (t *terminal) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.text.String()
}

// play runs the demo, and checks that nothing of it is left.
func play(ctx context.Context, t *testing.T, options Options, out *terminal) error {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	options.Timeout = patience
	err := Run(ctx, options, out)
	if left, readErr := os.ReadDir(temp); readErr != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, readErr)
	}
	if children := childrenOf(t, os.Getpid()); len(children) > 0 {
		t.Errorf("still running: %v", children)
	}
	return err
}

// childrenOf lists the command lines of a process's children.
func childrenOf(t *testing.T, pid int) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatalf("no processes: %v", err)
	}
	var children []string
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended in the meantime
		}
		var state string
		var parent int
		fields := string(text[bytes.LastIndexByte(text, ')')+1:])
		if _, err := fmt.Sscan(fields, &state, &parent); err == nil && parent == pid {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			children = append(children, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return children
}

var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d+\.\ds\b`), "TIME"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`(operator     |with )/\S+`), "${1}PATH"},
}

func masked(printed string) string {
	for _, mask := range masks {
		printed = mask.what.ReplaceAllString(printed, mask.with)
	}
	return printed
}

// The demo prints what it should, in lines that fit, with real Ansible where that is installed, and ends by itself.
func TestOnce(t *testing.T) {
	program := manager(t)
	var out terminal
	if err := play(t.Context(), t, Options{Manager: program}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	golden := "testdata/scripted.txt"
	if _, err := exec.LookPath("ansible-playbook"); err == nil {
		golden = "testdata/ansible.txt"
	}
	compare(t, golden, out.String())
}

func compare(t *testing.T, golden, printed string) {
	t.Helper()
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), masked(printed)); diff != "" {
		t.Errorf("%s: -want +got:\n%s", golden, diff)
	}
	const width = 80
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "  ") && !strings.Contains(line, "kube") && utf8.RuneCountInString(line) > width+1 {
			t.Errorf("%d characters: %s", utf8.RuneCountInString(line)-1, line)
		}
	}
}

// Without Ansible the demo says so. When it stays, what it invites to do works as it is printed, and an interruption
// is its end.
func TestStay(t *testing.T) {
	program := manager(t)
	t.Setenv("PATH", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := terminal{words: "configmap edpm-secret-tracking -o yaml\n\n", then: func(printed string) {
		defer interrupt()
		_, invitation, _ := strings.Cut(printed, "Ctrl-C stops everything.")
		const dashboard = "kubectl rotation dashboard -n openstack\n"
		script := ""
		for line := range strings.Lines(invitation) {
			if !strings.HasSuffix(line, ":\n") { // those are for people
				script += strings.TrimPrefix(line, "  ")
			}
		}
		if !strings.Contains(script, dashboard) {
			t.Errorf("nobody is invited to look at the page: %s", script)
		}
		script = strings.Replace(script, dashboard, "kubectl rotation dashboard --help\n", 1) // it would stay
		script = strings.ReplaceAll(script, "wait --for", "wait --timeout 1m --for")
		// That user8 must not be deleted is an answer with an exit code of its own.
		script = strings.Replace(script, "rabbitmquser/user8 -n openstack\n", "rabbitmquser/user8 -n openstack || test $? = 3\n", 1)
		shown, err := exec.Command("/bin/sh", "-ec", script).CombinedOutput()
		for _, want := range []string{"CREDENTIAL          MAY GO", "compute-1  Updated", "NO: RabbitMQUser/user8", "/rotate-edpm-edpm-b-", "all 2 nodes updated", "RabbitMQUser/user8 may be deleted", "\"user8\" deleted", "kubectl rotation dashboard", "edpm-b   2       True", "edpm     2       2", "edpm-b   2       2", "edpm-c0", "kind: ConfigMap"} {
			if err != nil || !strings.Contains(string(shown), want) {
				t.Errorf("%s\n%v: no %q in\n%s", script, err, want, shown)
			}
		}
	}}
	if err := play(ctx, t, Options{Manager: program, Stay: true}, &out); err != nil {
		t.Fatal(err)
	}
	printed, rest, invited := strings.Cut(out.String(), "\nThe control plane is still up")
	if !invited || !strings.HasSuffix(rest, "\nStopping everything.\n") {
		t.Errorf("it ends with %q", rest)
	}
	if !strings.Contains(rest, "has run\n") {
		t.Errorf("what was deployed has not run: %q", rest)
	}
	compare(t, "testdata/scripted.txt", printed)
}

// An interruption in the middle ends everything as well.
func TestInterrupted(t *testing.T) {
	program := manager(t)
	t.Setenv("PATH", t.TempDir())
	for _, words := range []string{"starting ", "Stage 1", "Stage 4"} {
		ctx, interrupt := context.WithCancel(t.Context())
		out := terminal{words: words, then: func(string) { interrupt() }}
		if err := play(ctx, t, Options{Manager: program, Stay: true}, &out); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted at %q: %v", words, err)
		}
	}
}

// What keeps the demo from starting is said in one line.
func TestWhatIsWrong(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	for _, tt := range []struct {
		name    string
		options Options
		setting [2]string
		want    string
	}{
		{"port in use", Options{Manager: os.Args[0], Port: port}, [2]string{}, fmt.Sprintf("port %d of 127.0.0.1 cannot be used", port)},
		{"no operator", Options{Manager: "/nowhere/manager"}, [2]string{}, "the operator cannot be started"},
		{"no control plane", Options{Manager: os.Args[0]}, [2]string{"ROTATION_CONTROLPLANE", "/nowhere"}, "make controlplane"},
		{"no place to write", Options{Manager: os.Args[0]}, [2]string{"TMPDIR", "/nowhere"}, "no directory for nodes and logs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			if tt.setting[0] != "" {
				t.Setenv(tt.setting[0], tt.setting[1])
			}
			err := Run(t.Context(), tt.options, &terminal{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}
