package clustertest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/lingserve/lingserve/cluster"
)

// A process that can be killed is the test's own program, started again with a role.
const (
	roleVariable = "CLUSTERTEST_ROLE"
	argVariable  = "CLUSTERTEST_ARG"

	serverRole = "nats"
	ready      = "ready"
)

// Main is for a package whose tests start processes: func TestMain(m *testing.M) { clustertest.Main(m, roles) }.
func Main(m *testing.M, roles map[string]func(arg string) error) {
	Role(roles)
	m.Run() // what calls TestMain exits with its result
}

// Role comes first in the TestMain of a package whose tests start processes, and returns in the test itself. A process has one of the
// roles, or is a server of [Three]; what it writes to stdout is for its test, line by line, and it should end when its stdin does.
func Role(roles map[string]func(arg string) error) {
	name := os.Getenv(roleVariable)
	if name == "" {
		return
	}
	run := roles[name]
	if name == serverRole {
		run = runServer
	}
	if run == nil {
		fmt.Fprintf(os.Stderr, "clustertest: there is no role %q: the package's TestMain calls clustertest.Main with its roles\n", name)
		os.Exit(2)
	}
	if err := run(os.Getenv(argVariable)); err != nil {
		fmt.Fprintln(os.Stderr, "clustertest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runServer is a process that is a server.
func runServer(arg string) error {
	var o cluster.Options
	if err := json.Unmarshal([]byte(arg), &o); err != nil {
		return err
	}
	s, err := cluster.StartServer(o)
	if err != nil {
		return err
	}
	fmt.Println(ready)
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, s.Stop())
}

// Process is a process of a test.
type Process struct {
	t     testing.TB
	role  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
	dead  bool
}

// Start starts a process with a role, which is killed when the test ends if it runs then.
func Start(t testing.TB, role, arg string) *Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, argVariable+"="+arg)
	if role == serverRole {
		cmd.Env = append(cmd.Env, "GORACE=exitcode=0") // a race within the NATS server is not what these tests are about
	}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, role: role, cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	t.Cleanup(p.Kill)
	return p
}

// Line is the next line that the process writes.
func (p *Process) Line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the process %s has ended: %v", p.role, p.lines.Err())
	}
	return p.lines.Text()
}

// Expect waits for a line, and fails the test where it is another one.
func (p *Process) Expect(want string) {
	p.t.Helper()
	if got := p.Line(); got != want && !strings.HasPrefix(got, want+" ") {
		p.t.Fatalf("the process %s says %q, want %q", p.role, got, want)
	}
}

// Signal sends a signal: syscall.SIGSTOP stops it where it is.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Kill ends the process at once, as `kill -9` does, and waits for its end.
func (p *Process) Kill() {
	if p.dead {
		return
	}
	p.dead = true
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended by itself
	_ = p.stdin.Close()
	_ = p.cmd.Wait() // killed
}

// Close ends the stdin of the process, and waits until it has ended well.
func (p *Process) Close() {
	p.t.Helper()
	p.dead = true
	if err := errors.Join(p.stdin.Close(), p.cmd.Wait()); err != nil {
		p.t.Errorf("the process %s: %v", p.role, err)
	}
}

// Say writes a line to the stdin of the process.
func (p *Process) Say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}
