// Package process runs child processes of the local environment: each has a log file, a readiness check and a bounded stop, and dies with its parent.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	Name string   // appears in errors and names the log file
	Path string   // the binary
	Args []string // without the program name
	Env  []string // added to a minimal environment (PATH, HOME)
	Dir  string   // working folder and place of the log; must exist
	// Ready is called every 50 ms until it returns nil. Nil means ready as soon as the process runs.
	Ready func(ctx context.Context) error
	// StartTimeout bounds the wait for Ready; 0 means one minute.
	StartTimeout time.Duration
}

// Process is a running child.
type Process struct {
	spec    Spec
	logPath string
	cmd     *exec.Cmd
	done    chan struct{}
	err     error
}

// ErrExited is wrapped by the error of Start when the child ended before it was ready.
var ErrExited = errors.New("the process ended")

// Start runs the child and waits until it is ready. On failure the child is gone and the error carries the end of its log.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if spec.StartTimeout == 0 {
		spec.StartTimeout = time.Minute
	}
	p := &Process{spec: spec, logPath: filepath.Join(spec.Dir, spec.Name+".log"), done: make(chan struct{})}
	if err := p.launch(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	if spec.Ready == nil {
		return p, nil
	}
	if err := p.awaitReady(ctx); err != nil {
		p.Kill()
		return nil, fmt.Errorf("start %s: %w; the end of its log (%s):\n%s", spec.Name, err, p.logPath, p.LogTail(4096))
	}
	return p, nil
}

// launch starts the child on a thread of its own that lives as long as the child: the kernel ties Pdeathsig to the thread that forked, not to the process.
func (p *Process) launch() error {
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(p.spec.Path, p.spec.Args...)
	p.cmd.Dir = p.spec.Dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.spec.Dir}, p.spec.Env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = log.Close() }()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return <-started
}

func (p *Process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.spec.StartTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.spec.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%w: %w", ErrExited, p.err)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-tick.C:
		}
	}
}

// Stop asks the child to end, and kills it after grace. It is safe to call more than once.
func (p *Process) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill ends the child at once, as a crash would.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Done is closed when the child has ended for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err tells how the child ended; valid after Done.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// PID is the child's process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogTail returns at most n bytes of the end of the child's log.
func (p *Process) LogTail(n int) string {
	b, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(bytes.TrimSpace(b))
}
