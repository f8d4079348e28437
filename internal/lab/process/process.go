// Package process runs children that die with us, even when we are killed.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a child in a process group of its own.
type Process struct {
	command *exec.Cmd
	done    chan struct{}
	err     error
}

// Start runs a program; what it prints is appended to the file log.
func Start(log, program string, args ...string) (*Process, error) {
	const private = 0o600
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, private)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", program, err)
	}
	defer out.Close()
	p := &Process{command: exec.Command(program, args...), done: make(chan struct{})}
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
			p.err = p.command.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	return p, nil
}

// PID is the process ID.
func (p *Process) PID() int { return p.command.Process.Pid }

// Done closes when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended, nil for exit code 0. It is for after Done.
func (p *Process) Err() error { return p.err }

// Stop asks the process to end (SIGTERM), waits, and kills it if it takes longer than patience.
func (p *Process) Stop(patience time.Duration) {
	_ = p.command.Process.Signal(syscall.SIGTERM) // fails only where it has ended
	select {
	case <-p.done:
	case <-time.After(patience):
		p.Kill()
	}
}

// Kill ends the process at once (SIGKILL), with its whole group.
func (p *Process) Kill() {
	select {
	case <-p.done:
		return // the number may be somebody else's by now
	default:
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // fails only where it has ended
	<-p.done
}

// LastWords are the last lines of a log.
func LastWords(log string, lines int) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
