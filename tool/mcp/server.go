package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tool"
)

// server is one server and the connection to it, which one goroutine makes, watches and makes again.
type server struct {
	Server
	opts   Options
	client *sdk.Client

	changed chan struct{} // the server says that its list of tools changed
	doubt   chan struct{} // a call failed in a way that makes one doubt that the server still works
	calls   atomic.Int64  // that are running

	mu      sync.Mutex
	current *connection   // nil while not connected
	next    chan struct{} // is closed when current or state changes
	tools   []*tool.Tool
	state   string
	since   time.Time
	reason  string
	modern  bool // the server refused the handshake that all others know
}

// connection is a session that works. Its context ends with it.
type connection struct {
	*sdk.ClientSession
	ctx context.Context
}

func newServer(config Server, opts Options) *server {
	config.times = cmp.Or(config.times, usual)
	s := &server{
		Server: config, opts: opts, state: Connecting, since: time.Now(),
		changed: make(chan struct{}, 1), doubt: make(chan struct{}, 1), next: make(chan struct{}),
	}
	s.client = sdk.NewClient(&sdk.Implementation{Name: "lingserve", Version: cmp.Or(opts.Version, "dev")}, &sdk.ClientOptions{
		// A server gets nothing of us: no models, no files, no people.
		Capabilities:           &sdk.ClientCapabilities{},
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { raise(s.changed) },
	})
	return s
}

// raise sets a flag.
func raise(flag chan struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}

func (s *server) list() []*tool.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{s.Name, s.state, len(s.tools), s.since, s.reason}
}

func (s *server) set(c *connection, state, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.next)
	s.next = make(chan struct{})
	s.current = c
	if s.state != state {
		s.since = time.Now()
	}
	s.state, s.reason = state, reason
}

// run keeps the connection until ctx ends.
func (s *server) run(ctx context.Context) {
	pauses := backoff.New(s.times.first, s.times.longest)
	for ctx.Err() == nil {
		begun := time.Now()
		err := s.serve(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(begun) >= s.times.stable {
			pauses.Reset()
		}
		s.set(nil, Away, reason(err))
		wait := pauses.NextBackOff()
		s.opts.Log.WarnContext(ctx, "MCP server is away", slog.String("server", s.Name), slog.String("error", s.opts.Redact(err.Error())),
			slog.Duration("again_in", wait))
		_ = backoff.Sleep(ctx, wait)
	}
	s.set(nil, Closed, "")
}

var (
	errEnded = errors.New("the connection ended")
	errHangs = errors.New("it no longer answers")
)

// reason says in safe words why a server is away: what it wrote, addresses and paths are for the log.
func reason(err error) string {
	switch e, refused := refusal(err); {
	case errors.Is(err, errHangs):
		return errHangs.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in time"
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "its program is not installed"
	case refused:
		return fmt.Sprintf("it refused with the error %d", e.Code)
	case errors.Is(err, errEnded):
		return errEnded.Error()
	}
	return "it is unreachable"
}

// refusal is the error that a server answered with. The SDK has its own errors of the same type.
func refusal(err error) (*jsonrpc.Error, bool) {
	const clientCloses, serverCloses, rejected = -32003, -32004, -32005
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return e, ok && e.Code != clientCloses && e.Code != serverCloses && e.Code != rejected
}

// carrier is a way to a server.
type carrier interface {
	sdk.Transport
	// end ends it at once, and returns when nothing of it is left.
	end()
}

func (s *server) carrier() carrier {
	if s.Command != "" {
		return &process{server: s, meter: newMeter()}
	}
	return newHTTP(s)
}

// serve connects, and returns when the connection has ended, with the reason; nothing of it is left then.
func (s *server) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errEnded)
	carrier := s.carrier()
	defer carrier.end()

	connecting, done := context.WithTimeout(ctx, s.times.connect)
	defer done()
	version := "2025-11-25" // every server knows this handshake; to ask for a newer one first makes some wait for ever
	if s.modern {
		version = ""
	}
	session, err := s.client.Connect(connecting, carrier, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		if _, refused := refusal(err); refused {
			s.modern = !s.modern
		}
		return fmt.Errorf("connecting: %w", err)
	}
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- session.Wait() })
	defer wg.Wait()
	defer func() {
		// Calls end first, since the SDK waits for them; then there is a moment to take leave.
		cancel(errEnded)
		timer := time.AfterFunc(s.times.leave, carrier.end)
		defer timer.Stop()
		_ = session.Close() // it ends anyway
	}()

	if err := s.reread(ctx, session); err != nil {
		return fmt.Errorf("reading the list of tools: %w", err)
	}
	s.set(&connection{session, ctx}, Ready, "")
	defer s.set(nil, Away, "") // before anything is closed
	s.opts.Log.InfoContext(ctx, "MCP server is ready", slog.String("server", s.Name), slog.Int("tools", len(s.list())))

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("%w: %w", errEnded, err)
			}
			return errEnded
		case <-s.changed:
			if err := s.reread(ctx, session); err != nil && ctx.Err() == nil {
				s.opts.Log.WarnContext(ctx, "cannot list an MCP server's tools", slog.String("server", s.Name),
					slog.String("error", s.opts.Redact(err.Error())))
			}
			// A server that changes all the time is not read all the time.
			_ = backoff.Sleep(ctx, min(time.Second, s.times.first))
		case <-s.doubt:
			if err := s.ping(ctx, session); err != nil {
				return err
			}
		}
	}
}

// ping finds out whether the server still answers. While calls run it may be too busy to.
func (s *server) ping(ctx context.Context, session *sdk.ClientSession) error {
	if s.calls.Load() > 0 {
		return nil // the last call to end pings again if it fails
	}
	ctx, cancel := context.WithTimeout(ctx, s.times.ping)
	defer cancel()
	err := session.Ping(ctx, nil)
	if _, answered := refusal(err); err == nil || answered {
		return nil
	}
	return fmt.Errorf("%w: %w", errHangs, err)
}

// reread reads the list of tools.
func (s *server) reread(ctx context.Context, session *sdk.ClientSession) error {
	ctx, cancel := context.WithTimeout(ctx, s.times.list)
	defer cancel()
	var found []*sdk.Tool
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		if len(found) > 0 && t.Name == found[0].Name {
			break // the server repeats its pages
		}
		if len(found) == maxTools {
			s.opts.Log.WarnContext(ctx, "MCP server has too many tools", slog.String("server", s.Name), slog.Int("kept", maxTools))
			break
		}
		found = append(found, t)
	}
	tools := s.adopt(found)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
	return nil
}

// adopt makes tools of what a server lists. One that cannot be used is left out.
func (s *server) adopt(found []*sdk.Tool) (out []*tool.Tool) {
	slices.SortStableFunc(found, func(a, b *sdk.Tool) int { return cmp.Compare(a.Name, b.Name) })
	found = slices.CompactFunc(found, func(a, b *sdk.Tool) bool { return a.Name == b.Name })
	used := map[string]bool{}
	for _, f := range found {
		t, err := s.tool(f)
		if err == nil && used[t.Wire()] {
			t.Name = hashedName(s.Name, f.Name)
		}
		if err == nil {
			err = t.Check()
		}
		if err != nil {
			s.opts.Log.Warn("MCP tool left out", slog.String("server", s.Name), slog.String("tool", s.opts.Redact(wording.ClipTo(f.Name, 128))),
				slog.Any("error", err))
			continue
		}
		if left := t.Unchecked(); left != nil {
			s.opts.Log.Warn("some of the schema of an MCP tool's arguments cannot be checked; the tool gets them as the model writes them",
				slog.String("server", s.Name), slog.String("tool", t.Name), slog.String("unchecked", s.opts.Redact(strings.Join(left, "; "))))
		}
		used[t.Wire()] = true
		out = append(out, t)
	}
	return out
}

// call makes one call of the tool that the server calls name. A server that has forgotten the session has not run it, and is called again.
func (s *server) call(ctx context.Context, name string, c tool.Call) (tool.Result, error) {
	s.mu.Lock()
	conn, why := s.current, s.reason
	s.mu.Unlock()
	if conn == nil {
		return tool.Result{}, s.unavailable(cmp.Or(why, "it is not connected yet"))
	}
	result, err := s.callOn(ctx, conn, name, c)
	if !errors.Is(err, sdk.ErrSessionMissing) {
		return result, err
	}
	if conn = s.connectionAfter(ctx, conn); conn == nil {
		return tool.Result{}, s.unavailable("it was restarted and is not connected again yet")
	}
	if result, err = s.callOn(ctx, conn, name, c); errors.Is(err, sdk.ErrSessionMissing) {
		err = s.unavailable("it forgets its sessions")
	}
	return result, err
}

// connectionAfter waits for the connection that follows an ended one; nil is that there was none in time.
func (s *server) connectionAfter(ctx context.Context, ended *connection) (conn *connection) {
	ctx, cancel := context.WithTimeout(ctx, s.times.again)
	defer cancel()
	if !s.wait(ctx, func() bool { conn = s.current; return conn != nil && conn != ended }) {
		return nil
	}
	return conn
}

// wait waits until a condition holds, or ctx ends. It reports whether the condition holds. mu is held in holds.
func (s *server) wait(ctx context.Context, holds func() bool) bool {
	for {
		s.mu.Lock()
		ok, next := holds(), s.next
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-next:
		case <-ctx.Done():
			return false
		}
	}
}

// callOn makes a call on a connection.
func (s *server) callOn(ctx context.Context, conn *connection, name string, c tool.Call) (tool.Result, error) {
	s.calls.Add(1)
	// The context must end, for the SDK reads on until it does.
	var forgotten atomic.Bool
	asked, cancel := context.WithCancelCause(context.WithValue(ctx, forgottenKey{}, &forgotten))
	defer cancel(nil)
	defer context.AfterFunc(conn.ctx, func() { cancel(errEnded) })()
	result, err := conn.CallTool(asked, &sdk.CallToolParams{Name: name, Arguments: c.Arguments, Meta: s.meta(ctx)})
	s.calls.Add(-1)
	if err == nil {
		return resultOf(result), nil
	}
	if e, ok := refusal(err); ok {
		return tool.Result{}, &tool.Error{Kind: tool.KindFailed, Message: fmt.Sprintf("the server %s refused the call: %s", s.Name, e.Message)}
	}
	raise(s.doubt)
	if ctx.Err() != nil {
		return tool.Result{}, ctx.Err()
	}
	if forgotten.Load() {
		return tool.Result{}, sdk.ErrSessionMissing
	}
	s.opts.Log.WarnContext(ctx, "MCP call failed", slog.String("server", s.Name), slog.String("tool", c.Name),
		slog.String("error", s.opts.Redact(err.Error())))
	return tool.Result{}, s.unavailable("the connection broke during the call, so its result is unknown")
}

func (s *server) unavailable(why string) error {
	return &tool.Error{Kind: tool.KindUnavailable, Message: fmt.Sprintf("the server %s of this tool is not available: %s", s.Name, why)}
}
