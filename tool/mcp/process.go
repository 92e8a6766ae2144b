package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// process is the transport to a program: it is started in a new process group, messages are lines of its standard input and output,
// and when it ends, or shall, nothing of the group is left.
//
// The SDK's own command transport is not used since it waits for ever for a program that reads nothing, gives up at the first line that is no
// message, and does not know of what a program started in turn.
type process struct {
	server *server
	cmd    *exec.Cmd
	in     *os.File // its standard input
	out    *os.File // its standard output
	lines  *bufio.Scanner
	line   []byte // the rest of a message that is being read
	meter  meter
	stderr tail
	late   *time.Timer // tells the program to end that has not ended though its input was closed
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
func (p *process) Connect(ctx context.Context) (_ sdk.Connection, err error) {
	config := p.server.Server
	p.ctx, p.close = context.WithCancel(context.Background())
	p.done = make(chan struct{})
	defer func() {
		if err != nil {
			close(p.done)
		}
	}()
	p.cmd = exec.CommandContext(p.ctx, config.Command, config.Args...)
	p.cmd.Cancel = func() error {
		p.late = time.AfterFunc(p.server.times.exit, func() { terminate(p.cmd.Process) })
		return nil
	}
	p.cmd.Dir, p.cmd.Env = config.Dir, environment(config.Env)
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = 2 * p.server.times.exit // also for a process that left the group and still holds the standard error
	setProcessGroup(p.cmd)
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
	p.in, p.out, p.lines = ours, theirs, bufio.NewScanner(theirs)
	p.lines.Buffer(nil, maxMessage)
	err = p.cmd.Start()
	in.Close()
	out.Close()
	if err != nil {
		return nil, errors.Join(err, p.in.Close(), p.out.Close())
	}
	go p.supervise()
	return (&sdk.IOTransport{Reader: p, Writer: p, MaxLineLength: maxMessage}).Connect(ctx)
}

// supervise sees the program to its end.
func (p *process) supervise() {
	defer close(p.done)
	status := p.cmd.Wait()
	if p.late != nil {
		p.late.Stop()
	}
	kill(p.cmd.Process) // the group: also what the program left behind
	if p.left.Load() || p.ctx.Err() == nil {
		p.server.opts.Log.Warn("MCP program ended; restarting it", slog.String("server", p.server.Name), slog.Any("status", status),
			slog.String("stderr", p.server.opts.Redact(strings.ToValidUTF8(string(p.stderr), "\uFFFD"))))
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

// Read reads messages, a line each; it ends when the connection is closed. Lines that are no message are skipped: many programs write a
// greeting or a warning to the wrong place.
func (p *process) Read(b []byte) (int, error) {
	for len(p.line) == 0 {
		if !p.lines.Scan() {
			if err := p.lines.Err(); err != nil {
				return 0, err
			}
			if p.ctx.Err() == nil {
				p.left.Store(true)
			}
			return 0, io.EOF
		}
		line := bytes.TrimSpace(p.lines.Bytes())
		if err := p.meter.count(len(p.lines.Bytes()), 1); err != nil {
			return 0, err
		}
		if _, err := jsonrpc.DecodeMessage(line); err == nil && line[0] == '{' {
			p.line = append(bytes.Clone(line), '\n')
		}
	}
	n := copy(b, p.line)
	p.line = p.line[n:]
	return n, nil
}

// Write sends a message. The connection ends if the program does not read it in time.
func (p *process) Write(message []byte) (int, error) {
	p.in.SetWriteDeadline(time.Now().Add(p.server.times.write))
	n, err := p.in.Write(message)
	if err != nil {
		// Neither late nor closed here: the program ended, and this is seen before its output ends.
		if !errors.Is(err, os.ErrDeadlineExceeded) && p.ctx.Err() == nil {
			p.left.Store(true)
		}
		p.Close()
	}
	return n, err
}

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	text := append(*t, p[max(0, len(p)-maxErrorOutput):]...)
	*t = slices.Delete(text, 0, max(0, len(text)-maxErrorOutput))
	return len(p), nil
}
