package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// process is the transport to a program: it is started in a new process group, messages are lines of its standard input and output,
// and when it ends, or shall, nothing of the group is left.
//
// The SDK's own transport is not used since it waits for ever for a program that reads nothing, gives up at the first line that is no
// message, and does not know of what a program started in turn.
type process struct {
	server *server
	cmd    *exec.Cmd
	in     *os.File // its standard input
	out    *os.File // its standard output
	lines  *bufio.Reader
	writes chan struct{} // held by who writes
	meter  meter
	asked  atomic.Int64 // questions of the server that are not answered
	stderr tail
	left   atomic.Bool // it closed its input or its output by itself

	ctx   context.Context // ends when the program shall
	close context.CancelFunc
	done  chan struct{} // nothing is left
}

// basics are the variables that programs get without being named: what most need, and nothing that is secret.
var basics = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR",
	// On Windows.
	"APPDATA", "LOCALAPPDATA", "USERPROFILE", "SYSTEMROOT", "SYSTEMDRIVE", "TEMP", "TMP", "PATHEXT", "COMSPEC", "PROGRAMFILES",
}

func environment(names []string) []string {
	var env []string
	for _, name := range append(basics, names...) {
		if strings.Contains(name, "=") {
			env = append(env, name)
		} else if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Connect starts the program.
func (p *process) Connect(context.Context) (_ sdk.Connection, err error) {
	config := p.server.Server
	p.ctx, p.close = context.WithCancel(context.Background())
	p.writes, p.done = make(chan struct{}, 1), make(chan struct{})
	defer func() {
		if err != nil {
			close(p.done)
		}
	}()
	p.cmd = exec.Command(config.Command, config.Args...)
	p.cmd.Dir, p.cmd.Env = config.Dir, environment(config.Env)
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = time.Second // for a process that left the group and still holds the standard error
	ownGroup(p.cmd)
	// Pipes of our own: they know deadlines, and waiting for the program does not close them.
	in, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), ours.Close())
	}
	p.cmd.Stdin, p.cmd.Stdout = in, out
	p.in, p.out, p.lines = ours, theirs, bufio.NewReaderSize(theirs, 64<<10)
	err = p.cmd.Start()
	in.Close()
	out.Close()
	if err != nil {
		return nil, errors.Join(err, p.in.Close(), p.out.Close())
	}
	go p.supervise()
	return p, nil
}

// supervise sees the program to its end.
func (p *process) supervise() {
	defer close(p.done)
	exited := make(chan struct{})
	var status error
	go func() {
		defer close(exited)
		status = p.cmd.Wait()
	}()
	exits := func(within time.Duration) bool {
		select {
		case <-exited:
			return true
		case <-time.After(within):
			return false
		}
	}
	select {
	case <-p.ctx.Done():
	case <-exited:
	}
	if !exits(p.server.times.exit) {
		terminate(p.cmd.Process)
		exits(p.server.times.exit)
	}
	kill(p.cmd.Process) // the group: also what the program left behind
	<-exited
	if p.left.Load() || p.ctx.Err() == nil {
		p.server.opts.Log.Warn("MCP program ended; restarting it", slog.String("server", p.server.Name), slog.Any("status", status),
			slog.String("stderr", p.server.opts.Redact(p.stderr.String())))
		// The rest of its output is read. A process that left the group may hold the other end, and is not waited for.
		p.out.SetReadDeadline(time.Now().Add(time.Second))
		<-p.ctx.Done() // by the reader, at the end
	}
	p.in.Close()
	p.out.Close()
}

// end ends the program and waits for it.
func (p *process) end() {
	if p.cmd == nil {
		return // it was never started
	}
	p.Close()
	<-p.done
}

// Close asks the program to end. It does not wait, for the SDK holds a lock meanwhile.
func (p *process) Close() error {
	p.close()
	p.in.Close()
	p.out.SetReadDeadline(time.Now())
	return nil
}

// SessionID is for servers that know several.
func (p *process) SessionID() string { return "" }

// Read returns the next message; it ends when the connection is closed. Lines that are no message are skipped: many programs write a
// greeting or a warning to the wrong place. So are notices that are not handled here.
func (p *process) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, err := readLine(p.lines)
		if err != nil {
			if p.ctx.Err() != nil {
				return nil, io.EOF
			}
			if errors.Is(err, io.EOF) {
				p.left.Store(true)
			}
			return nil, err
		}
		if err := p.meter.count(len(line), 1); err != nil {
			return nil, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] != '{' {
			continue
		}
		msg, err := jsonrpc.DecodeMessage(exact(line))
		if err != nil {
			continue
		}
		if req, ok := msg.(*jsonrpc.Request); ok {
			switch {
			case req.IsCall():
				if p.asked.Add(1) > maxQuestions {
					return nil, errFlood
				}
			case req.Method != "notifications/tools/list_changed":
				continue
			}
		}
		return msg, nil
	}
}

// Write sends a message. The connection ends if the program does not read it in time, or has read a part of it.
func (p *process) Write(ctx context.Context, msg jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("writing a message: %w", err)
	}
	if _, ok := msg.(*jsonrpc.Response); ok {
		p.asked.Add(-1)
	}
	select {
	case p.writes <- struct{}{}:
		defer func() { <-p.writes }()
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ctx.Done():
		return io.ErrClosedPipe
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.in.SetWriteDeadline(time.Now().Add(p.server.times.write))
	hurried := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(hurried)
		p.in.SetWriteDeadline(time.Now())
	})
	defer func() {
		if !stop() {
			<-hurried // the deadline is that of no other message
		}
	}()
	n, err := p.in.Write(append(text, '\n'))
	if err != nil && (n > 0 || ctx.Err() == nil) {
		// Neither late nor closed here: the program ended, and this is seen before its output ends.
		if !errors.Is(err, os.ErrDeadlineExceeded) && p.ctx.Err() == nil {
			p.left.Store(true)
		}
		p.Close()
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-maxErrorOutput):]...)
	if over := len(t.text) - maxErrorOutput; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "\uFFFD")
}
