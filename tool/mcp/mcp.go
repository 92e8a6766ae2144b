// Package mcp gives agents the tools of MCP servers: programs that are started and talked to over their standard input and output,
// and servers that are reached over streamable HTTP.
//
// # Guarantees
//   - Which servers there are is configuration; nothing that a model or a server says starts a program or opens a connection.
//   - No server delays anything: each connects in the background, again and again with growing pauses, and until it has, a call of one
//     of its tools is an error that the model reads.
//   - What a server sends is bounded: a message, its messages in a minute, its tools, and what is kept of its error output.
//   - [Client.Close] returns when every program has ended, with all that it started in its process group.
//   - A call of a tool asks for approval unless the configuration says otherwise. The hints of a server only decide whether a
//     call runs again after a crash (idempotentHint, readOnlyHint).
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/tool"
)

// Bounds of what a server may send.
const (
	maxMessage     = 16 << 20  // bytes of one message
	maxPerMinute   = 256 << 20 // bytes of all messages: eight calls at once with the largest results
	maxMessages    = 50_000    // in a minute; the SDK queues what it does not handle at once
	maxTools       = 512
	maxDescription = 8 << 10  // bytes
	maxSchema      = 64 << 10 // bytes
	maxErrorOutput = 2 << 10  // bytes of what a program wrote to its standard error, for the log when it ends
)

// times say how long things may take.
type times struct {
	connect time.Duration // many programs are installed when they are first started
	list    time.Duration // to read the list of tools
	ping    time.Duration // to answer when a server is in doubt
	listen  time.Duration // to open the stream of notices, which the SDK waits for
	write   time.Duration // to take a message from us
	exit    time.Duration // to end, after its input was closed and again after it was told to
	leave   time.Duration // to take leave of a server
	again   time.Duration // for a call to wait until the server that forgot its session is connected again
	first   time.Duration // the first pause before the next attempt to connect, and between two readings of the list of tools
	longest time.Duration // pause
	stable  time.Duration // a connection that lasted so long ends the growth of the pauses
}

var usual = times{
	connect: time.Minute, list: 30 * time.Second, ping: 10 * time.Second, listen: 10 * time.Second, write: 10 * time.Second,
	exit: 2 * time.Second, leave: 3 * time.Second, again: 15 * time.Second, first: time.Second, longest: time.Minute, stable: time.Minute,
}

// Server is one server: a command, or the address of one.
type Server struct {
	// Name is the second segment of the tools' names: lower-case letters, digits and `-`, 32 bytes at most.
	Name string

	// Command is a program, looked up as a shell does, and Args are its arguments. It is not run by a shell.
	Command string
	Args    []string
	// Env names variables of our environment that the program gets beside the few that every program needs (PATH, HOME, …);
	// NAME=value sets one.
	Env []string
	// Dir is where the program is started; "" is where we are.
	Dir string

	// URL is the address of a streamable HTTP server, and Header goes with every request to it.
	URL    string
	Header map[string]string

	// Free names tools, as the server calls them, that ask for no approval; "*" is all.
	Free []string
	// Role is who may approve.
	Role tool.Role
	// Timeout bounds one call; 0 is what the agent says.
	Timeout time.Duration
	// Traced sends the trace of a call to the server, as traceparent and tracestate in _meta.
	Traced bool

	times times // usual, unless a test says otherwise
}

// Check says what is wrong with the configuration of a server.
func (s *Server) Check() error {
	if s.Name == "" || len(s.Name) > 32 || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("MCP server %q: expected a name of at most 32 lower-case letters, digits and -", s.Name)
	}
	switch {
	case s.Command == "" && s.URL == "":
		return fmt.Errorf("MCP server %s: expected a command or a url", s.Name)
	case s.Command != "" && s.URL != "":
		return fmt.Errorf("MCP server %s: expected a command or a url, not both", s.Name)
	case s.Command == "":
		if u, err := url.Parse(s.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("MCP server %s: expected a url that begins with http:// or https://", s.Name)
		}
	}
	for _, e := range s.Env {
		if name, _, _ := strings.Cut(e, "="); name == "" || strings.ContainsRune(e, 0) {
			return fmt.Errorf("MCP server %s: expected the name of a variable, or NAME=value, in env", s.Name)
		}
	}
	return nil
}

// Options are what may be left out.
type Options struct {
	// Log gets what happens to servers; nil means none.
	Log *slog.Logger
	// Redact takes secrets out of what a server or its program wrote before it is logged. Nil leaves it as it is.
	Redact func(string) string
	// Version is ours, as servers get to know it.
	Version string
	// ProxyEnv has servers with an address reached through the proxy that the environment names.
	ProxyEnv bool
}

// Client is connected to servers, as far as they can be reached. It is a [tool.Source], for any number of agents.
type Client struct {
	servers []*server
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup
}

var errClosed = errors.New("mcp: closed")

// Start begins to connect to the servers, and returns at once. The error is that of a configuration.
func Start(servers []Server, opts *Options) (*Client, error) {
	o := withDefaults(opts)
	ctx, stop := context.WithCancelCause(context.Background())
	c := &Client{stop: stop}
	for i := range servers {
		if err := servers[i].Check(); err != nil {
			stop(err)
			return nil, err
		}
		if slices.ContainsFunc(c.servers, func(s *server) bool { return s.Name == servers[i].Name }) {
			stop(nil)
			return nil, fmt.Errorf("MCP server %s: the name is already used", servers[i].Name)
		}
		c.servers = append(c.servers, newServer(servers[i], o))
	}
	for _, s := range c.servers {
		c.wg.Go(func() { s.run(ctx) })
	}
	return c, nil
}

func withDefaults(opts *Options) Options {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	return o
}

// Tools lists the tools of all servers. Those of a server that is away stay, as they were.
func (c *Client) Tools() []*tool.Tool {
	var out []*tool.Tool
	for _, s := range c.servers {
		out = append(out, s.list()...)
	}
	return out
}

// Wait returns when no server is connecting for the first time any more, or ctx ends. It returns the names of those that still are.
func (c *Client) Wait(ctx context.Context) (connecting []string) {
	for _, s := range c.servers {
		if !s.wait(ctx, func() bool { return s.state != Connecting }) {
			connecting = append(connecting, s.Name)
		}
	}
	return connecting
}

// Status says how each server is, in the order of the configuration.
func (c *Client) Status() []Status {
	out := make([]Status, len(c.servers))
	for i, s := range c.servers {
		out[i] = s.status()
	}
	return out
}

// Close takes leave of the servers. It returns when all programs have ended.
func (c *Client) Close() error {
	c.stop(errClosed)
	c.wg.Wait()
	return nil
}

// States of a server.
const (
	Connecting = "connecting" // for the first time
	Ready      = "ready"
	Away       = "away" // it could not be reached, or left; it is tried again
	Closed     = "closed"
)

// Status says how a server is.
type Status struct {
	Name  string    `json:"name"`
	State string    `json:"state"`
	Tools int       `json:"tools"`
	Since time.Time `json:"since"`
	// Reason says in a few safe words why it is away.
	Reason string `json:"reason,omitempty"`
}
