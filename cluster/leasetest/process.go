package leasetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that can be killed is the test's own program, started again with a role.
const (
	roleVariable = "LEASETEST_ROLE"
	argVariable  = "LEASETEST_ARG"
)

// Role comes first in the TestMain of a package whose tests start processes, and returns in the test itself. A started process runs its role
// instead of the tests. It writes lines for its test to stdout, and ends when its stdin does.
func Role(roles map[string]func(arg string) error) {
	name := os.Getenv(roleVariable)
	if name == "" {
		return
	}
	run := roles[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "leasetest: there is no role %q: the package's TestMain calls leasetest.Role with its roles\n", name)
		os.Exit(2)
	}
	if err := run(os.Getenv(argVariable)); err != nil {
		fmt.Fprintln(os.Stderr, "leasetest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Eventually waits until done returns true. It fails the test after [Soon].
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(Soon); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", Soon, what)
		}
	}
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
