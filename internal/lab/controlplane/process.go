package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a child that dies with us, even when we are killed.
type process struct {
	command *exec.Cmd
	log     string
	done    chan struct{}
}

// spawn starts one of the programs; its output goes to a file.
func (c *ControlPlane) spawn(name string, args ...string) (*process, error) {
	p := &process{log: filepath.Join(c.dir, name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer out.Close()
	p.command = exec.Command(filepath.Join(c.binaryPath, name), args...)
	p.command.Stdout, p.command.Stderr = out, out
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that started the child ends, so it must not end before.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			_ = p.command.Wait() // how it ended is in its log
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// stop asks the process to end, then makes it.
func (p *process) stop() {
	const patience = 5 * time.Second
	_ = p.command.Process.Signal(syscall.SIGTERM) // fails only where it has ended
	select {
	case <-p.done:
	case <-time.After(patience):
		_ = p.command.Process.Kill()
		<-p.done
	}
}

// lastWords are the last lines of the process's output.
func (p *process) lastWords() string {
	const lines = 8
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
