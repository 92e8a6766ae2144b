package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// conversation is lingserve chat at a pseudo-terminal, as a process of its own.
type conversation struct {
	t    *testing.T
	cmd  *exec.Cmd
	keys *os.File
	read sync.WaitGroup

	mu    sync.Mutex
	said  strings.Builder // all that the terminal was sent
	moved chan struct{}
}

func converse(t *testing.T, args ...string) *conversation {
	t.Helper()
	c := &conversation{t: t, moved: make(chan struct{}, 1)}
	c.cmd = exec.Command("lingserve", append([]string{"chat"}, args...)...)
	c.cmd.Dir = t.TempDir()
	c.cmd.Env = append(cleanEnvironment(), "TERM=xterm")
	var err error
	if c.keys, err = pty.StartWithSize(c.cmd, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	c.read.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := c.keys.Read(buf)
			c.mu.Lock()
			c.said.Write(buf[:n])
			c.mu.Unlock()
			select {
			case c.moved <- struct{}{}:
			default:
			}
			if err != nil { // the program has ended
				return
			}
		}
	})
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.read.Wait()
		c.keys.Close()
	})
	return c
}

func (c *conversation) types(text string) {
	c.t.Helper()
	if _, err := c.keys.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// sees waits until the terminal was sent a text.
func (c *conversation) sees(text string) {
	c.t.Helper()
	late := time.NewTimer(patient) // nothing takes that long where it comes at all
	defer late.Stop()
	for {
		c.mu.Lock()
		said := c.said.String()
		c.mu.Unlock()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-c.moved:
		case <-late.C:
			c.t.Fatalf("%q has not come; the terminal was sent %q", text, said)
		}
	}
}

// ends waits for the program to end with a status.
func (c *conversation) ends(status int) {
	c.t.Helper()
	err := c.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if got := c.cmd.ProcessState.ExitCode(); got != status {
		c.t.Errorf("the status is %d, expected %d", got, status)
	}
}

func TestChatAtATerminal(t *testing.T) {
	c := converse(t, "--model", "demo:demo", "--session", "holidays", "--demo-pace", "5") // so that it is still on its way when it is canceled
	c.sees("lingserve chat: agent assistant, model demo:demo, session holidays")
	c.types("Why is the sky blue?\r")
	c.sees("This") // and the rest comes piece by piece
	c.types("\x03")
	c.sees("Canceled.")
	c.types(",tape.in\t\r")
	c.sees("session: cli:holidays")
	c.types(" and more\r\x03,quit\r")
	c.ends(exitOK)
}

func TestChatEndsWhenItIsTold(t *testing.T) {
	c := converse(t, "--model", "demo:demo", "--grace", "10ms")
	c.types("Why is the sky blue?\r")
	c.sees("This") // and the rest comes piece by piece
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.sees("\x1b[?2004l") // the terminal is as it was
	c.ends(exitFailed)
}
