//go:build unix

package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

// startWait is how long a NATS server may take to listen; it takes some ten milliseconds.
const startWait = time.Minute

// Node is a NATS server. Its methods may be called from any goroutine.
type Node struct {
	settings settings
	by       []string // a command that starts it

	mu    sync.Mutex
	cmd   *exec.Cmd // nil before its first start, and behind Kill and Stop
	stdin io.Closer
	ended chan struct{} // closed when the process has ended
}

// Name is what the server is called, for people and in what NATS says of leaders.
func (n *Node) Name() string { return n.settings.Name }

// Address is where it takes clients, host and port.
func (n *Node) Address() string { return n.settings.Listen }

// LogFile is where it writes its log, each life behind the one before.
func (n *Node) LogFile() string { return filepath.Join(n.settings.Dir, logFile) }

// Start starts the server and returns when it takes connections, which is before it is one of a cluster. One that runs is left as it is.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.alive() {
		return nil
	}
	n.bury()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(n.settings)
	if err != nil {
		return err
	}
	command := append(append([]string{}, n.by...), self)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(program.Environment(n.settings.Dir), variable+"="+string(text))
	cmd.SysProcAttr = program.Apart()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	log, err := appendTo(n.LogFile())
	if err != nil {
		return err
	}
	says := new(program.Log)
	cmd.Stderr = io.MultiWriter(says, log)
	if err := cmd.Start(); err != nil {
		_ = log.Close() // nothing was written to it
		return fmt.Errorf("start %s: %w", n.settings.Name, err)
	}
	late := time.AfterFunc(startWait, func() { _ = cmd.Process.Kill() }) // which fails where it is gone
	defer late.Stop()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != ready+"\n" {
		_ = cmd.Process.Kill()
		_ = stdin.Close()
		_ = cmd.Wait() // it was killed
		_ = log.Close()
		return fmt.Errorf("start %s: it does not say that it is ready: %s", n.settings.Name, strings.TrimSpace(says.Tail()))
	}
	ended := make(chan struct{})
	go func() { // ends with the process
		_ = cmd.Wait() // how it has ended is for whoever has ended it
		_ = log.Close()
		close(ended)
	}()
	n.cmd, n.stdin, n.ended = cmd, stdin, ended
	return nil
}

// alive says whether the process is there; n.mu is held, as for bury.
func (n *Node) alive() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// bury forgets a process that has ended.
func (n *Node) bury() {
	if n.cmd != nil {
		_ = n.stdin.Close()
		n.cmd = nil
	}
}

// Kill ends the server as a machine does that fails, and waits until it is gone.
func (n *Node) Kill() { n.end(syscall.SIGKILL) }

// Stop ends the server as a system does: its leaderships go to others first.
func (n *Node) Stop() { n.end(syscall.SIGTERM) }

func (n *Node) end(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(syscall.SIGCONT) // or it could not end; all these fail where it is gone
	_ = n.cmd.Process.Signal(s)
	late := time.AfterFunc(startWait, func() { _ = n.cmd.Process.Kill() })
	defer late.Stop()
	<-n.ended
	n.bury()
}

// Pause stops the server where it is; Resume lets it go on.
func (n *Node) Pause() error  { return n.signal(syscall.SIGSTOP) }
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

func (n *Node) signal(s syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return os.ErrProcessDone
	}
	return n.cmd.Process.Signal(s)
}

// Up says whether the server runs.
func (n *Node) Up() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.alive()
}

// Pid is the number of the process, 0 where it does not run.
func (n *Node) Pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.alive() {
		return 0
	}
	return n.cmd.Process.Pid
}

// Ended is closed when the process has ended that was started last, whoever has ended it.
func (n *Node) Ended() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}
