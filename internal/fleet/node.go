//go:build unix

package fleet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	cmd   *exec.Cmd // nil while it does not run
	stdin io.Closer
	says  bytes.Buffer
}

// Name is what the server is called, for people and in what NATS says of leaders.
func (n *Node) Name() string { return n.settings.Name }

// Address is where it takes clients, host and port.
func (n *Node) Address() string { return n.settings.Listen }

// Start starts the server and returns when it takes connections, which is before it is one of a cluster.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		return nil
	}
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
	cmd.Stderr = &n.says // which nobody reads before it has ended
	n.says.Reset()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.settings.Name, err)
	}
	late := time.AfterFunc(startWait, func() { _ = cmd.Process.Kill() }) // which fails where it is gone
	defer late.Stop()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != ready+"\n" {
		_ = cmd.Process.Kill()
		_ = stdin.Close()
		_ = cmd.Wait() // it was killed
		return fmt.Errorf("start %s: it does not say that it is ready: %s", n.settings.Name, bytes.TrimSpace(n.says.Bytes()))
	}
	n.cmd, n.stdin = cmd, stdin
	return nil
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
	_ = n.cmd.Wait() // how it has ended is what was asked for
	_ = n.stdin.Close()
	n.cmd = nil
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

// Up says whether the server was started, and neither killed nor stopped since.
func (n *Node) Up() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd != nil
}
