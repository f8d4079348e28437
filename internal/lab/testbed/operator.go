package testbed

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/lab/process"
)

// operator is the operator's process, which comes and goes.
type operator struct {
	program, kubeconfig, namespace, log string
	// process is nil while the operator is meant to be down.
	process *process.Process
}

// patience is how long the operator may take to be ready, or to end when it is asked to.
const patience = 30 * time.Second

// FindManager looks for the operator's program: at the path, or without one next to the running program.
func FindManager(path string) (string, error) {
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("finding the operator: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), "manager")
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("the operator cannot be started: %w; build it with `make build` or name it with --manager", err)
	}
	return path, nil
}

func (o *operator) isUp() bool { return o.process != nil }

// start runs the operator and waits until it has caught up with the API server. A port that somebody took in the
// meantime is another try.
func (o *operator) start(ctx context.Context) error {
	if o.isUp() {
		return nil
	}
	const tries = 3
	var err error
	for range tries {
		if err = o.startOnce(ctx); err == nil || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
	return err
}

func (o *operator) startOnce(ctx context.Context) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	o.process, err = process.Start(o.log, o.program,
		"--kubeconfig", o.kubeconfig, "--namespace", o.namespace, "--margin", "0s", "--leader-elect=false",
		"--health-probe-bind-address", address, "--metrics-bind-address", "0")
	if err != nil {
		return err
	}
	if err := o.waitReady(ctx, "http://"+address+"/readyz"); err != nil {
		o.kill()
		return err
	}
	return nil
}

func (o *operator) waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took longer than %s", patience))
	defer cancel()
	const pause = 10 * time.Millisecond
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("asking the operator: %w", err)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close() // only the status counts
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the operator is not ready: %w\n%s", context.Cause(ctx), o.lastWords())
		case <-o.process.Done():
			return o.died()
		case <-time.After(pause):
		}
	}
}

// died says how the operator ended by itself.
func (o *operator) died() error {
	how := "exit status 0"
	if err := o.process.Err(); err != nil {
		how = err.Error()
	}
	return fmt.Errorf("the operator has ended by itself (%s); its last words:\n%s", how, o.lastWords())
}

// lastWords are the last lines that any of the operator's processes has logged.
func (o *operator) lastWords() string {
	const lines = 20
	return process.LastWords(o.log, lines)
}

// done closes when the operator ends by itself, never while it is meant to be down.
func (o *operator) done() <-chan struct{} {
	if !o.isUp() {
		return nil
	}
	return o.process.Done()
}

func (o *operator) stop() {
	if o.isUp() {
		o.process.Stop(patience)
		o.process = nil
	}
}

func (o *operator) kill() {
	if o.isUp() {
		o.process.Kill()
		o.process = nil
	}
}

// freeAddress is an address on loopback where nobody listens.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("no free port on loopback: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
