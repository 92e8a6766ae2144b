package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// patience is how long the server may take to listen, or to end. It is long, since it only matters when something is wrong.
const patience = 2 * time.Minute

// Options say how a server is run.
type Options struct {
	// Args follow "serve --addr 127.0.0.1:0". One that says another address is the one that counts.
	Args []string
	// Env are more variables, as NAME=value, than [Environment] has.
	Env []string
	// By is a command that starts the program, whose path and arguments are put behind it; it must become the program (exec).
	By []string
	// Apart keeps a terminal's ctrl-C from it, which otherwise ends it as it does the one that starts it.
	Apart bool
	// Says gets what it says, too; nil for nothing.
	Says io.Writer
}

// Process is a server in a process of its own.
type Process struct {
	URL string // where it listens, as it says itself: scheme, host and port
	Dir string // the folder that it runs in
	Log *Log   // what it says on standard output and standard error

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it has ended; behind ended
}

// Environment is that of a server in a folder: only what every program needs, so that nothing configures it that is set for this
// process.
func Environment(dir string) []string {
	env := []string{"HOME=" + dir}
	for _, name := range []string{"PATH", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "GORACE", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// listening is the line that says where the server listens, in the log as JSON and in what people are told.
var listening = regexp.MustCompile(`^\{.*"msg":"listening".*"url":"([^"]+)"|^lingserve .* listens on (\S+)$`)

// Start starts the program at path in the folder dir on a port that is free, and returns when it says that it listens, which it does
// when it takes requests. ctx ends the waiting, not the process: that is ended by [Process.Stop] or [Process.Kill].
func Start(ctx context.Context, path, dir string, o *Options) (*Process, error) {
	if o == nil {
		o = &Options{}
	}
	command := append(append(append([]string{}, o.By...), path, "serve", "--addr", "127.0.0.1:0"), o.Args...)
	p := &Process{Dir: dir, Log: new(Log), ended: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Dir = dir
	p.cmd.Env = append(Environment(dir), o.Env...)
	var says io.Writer = p.Log
	if o.Says != nil {
		says = io.MultiWriter(p.Log, o.Says)
	}
	p.cmd.Stdout, p.cmd.Stderr = says, says // the same value, so that it has one writer
	if o.Apart {
		p.cmd.SysProcAttr = Apart()
	}
	p.cmd.WaitDelay = 10 * time.Second // where somebody that it has started still holds its output
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() { // ends with the process
		p.err = p.cmd.Wait()
		p.Log.end()
		close(p.ended)
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it does not say where it listens"))
	defer cancel()
	m, err := p.Log.Find(ctx, listening)
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("start the server: %w\n%s", err, p.Log.Tail())
	}
	p.URL = m[1] + m[2]
	return p, nil
}

// Addr is the host and port where it listens.
func (p *Process) Addr() string {
	_, addr, _ := strings.Cut(p.URL, "://")
	return addr
}

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended and all that it has said is in the log.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Alive says whether the process still runs.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Signal sends the process a signal. Where it has ended, the error is [os.ErrProcessDone].
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process as a machine does that fails, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // which fails where it is gone
	<-p.ended
}

// Wait waits until the process ends, and says how: nil is with success. One that does not end within some time is killed, which is an
// error, too.
func (p *Process) Wait() error {
	patient := time.NewTimer(patience)
	defer patient.Stop()
	select {
	case <-p.ended:
		return p.err
	case <-patient.C:
		p.Kill()
		return errors.New("the server does not end")
	}
}

// Drain asks the process to end, as a system does, and does not wait for that. That it has ended already is no error.
func (p *Process) Drain() error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Stop ends the process as a system does, and waits until it has ended. An end before is no error where it was with success. Where
// there is no such signal, on Windows, it is killed.
func (p *Process) Stop() error {
	if runtime.GOOS == "windows" {
		p.Kill()
		return nil
	}
	if err := p.Drain(); err != nil {
		return err
	}
	return p.Wait()
}
