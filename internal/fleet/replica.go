//go:build unix

package fleet

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/lingserve/lingserve/internal/program"
)

// Replica is the program. Its methods may be called from any goroutine.
type Replica struct {
	Name string
	URL  string // scheme, host and port, the same after each start

	path string // of the program
	dir  string
	args []string
	env  []string
	by   []string // a command that starts it

	mu      sync.Mutex
	process *program.Process // nil before its first start, and behind Kill and Stop
	ended   <-chan struct{}  // closed when the process has ended that was started last
	file    io.Closer        // where it writes its log
	said    []string         // logs of those that have ended
}

// Start starts the program and returns when it takes requests. One that runs is left as it is.
func (r *Replica) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil && r.process.Alive() {
		return nil
	}
	r.bury()
	file, err := appendTo(r.LogFile())
	if err != nil {
		return err
	}
	p, err := program.Start(ctx, r.path, r.dir, &program.Options{Args: r.args, Env: r.env, By: r.by, Apart: true, Says: file})
	if err != nil {
		_ = file.Close() // what stands in it is in the error
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	r.process, r.ended, r.file = p, p.Ended(), file
	return nil
}

// bury keeps what a process has said that is not there any more.
func (r *Replica) bury() {
	const most = 8 // that are remembered
	if r.process == nil {
		return
	}
	if r.said = append(r.said, r.process.Log.String()); len(r.said) > most {
		r.said = r.said[1:]
	}
	_ = r.file.Close()
	r.process = nil
}

// Kill ends the program as a machine does that fails, and waits until it is gone.
func (r *Replica) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil {
		r.process.Kill()
		r.bury()
	}
}

// Stop ends the program as a system does, and waits until it has ended: what it does not end with success is an error.
func (r *Replica) Stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return nil
	}
	_ = r.process.Signal(syscall.SIGCONT) // or it could not end; it fails where it is gone
	err := r.process.Stop()
	if err != nil {
		err = fmt.Errorf("%s has ended: %w\n%s", r.Name, err, r.process.Log.Tail())
	}
	r.bury()
	return err
}

// Pause stops the program where it is; Resume lets it go on.
func (r *Replica) Pause() error  { return r.signal(syscall.SIGSTOP) }
func (r *Replica) Resume() error { return r.signal(syscall.SIGCONT) }

func (r *Replica) signal(s syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return fmt.Errorf("%s does not run", r.Name)
	}
	return r.process.Signal(s)
}

// Up says whether the program runs.
func (r *Replica) Up() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process != nil && r.process.Alive()
}

// Pid is the number of the process, 0 where it does not run.
func (r *Replica) Pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil || !r.process.Alive() {
		return 0
	}
	return r.process.Pid()
}

// Ended is closed when the process has ended that was started last, whoever has ended it.
func (r *Replica) Ended() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// LogFile is where it writes its log, each life behind the one before.
func (r *Replica) LogFile() string { return filepath.Join(r.dir, logFile) }

// Log is what it has said, in all its lives that are remembered.
func (r *Replica) Log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := strings.Join(r.said, "")
	if r.process != nil {
		all += r.process.Log.String()
	}
	return all
}

// Addr is the host and port where it takes requests.
func (r *Replica) Addr() string { return strings.TrimPrefix(r.URL, "http://") }

// logFile is what the file of a process's log is called, in its folder.
const logFile = "log"

func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}
