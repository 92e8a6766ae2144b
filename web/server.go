// Package web is the HTTP door: routes, handlers, framing, and the runs that it has started.
package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
)

// Options are the settings of a server; zero means the default.
type Options struct {
	Workflows *flow.Registry
	Models    *adapter.Registry
	Log       *slog.Logger
	Data      string // folder for what must survive a restart; "" keeps nothing

	Bot             bot.Config    // defaults of every bot: the model when a workflow names none, options
	Retention       time.Duration // how long an ended run can be attached to, 5 min
	KeyRetention    time.Duration // how long an Idempotency-Key is known, 24 h
	KeepAlive       time.Duration // 10 s
	WriteTimeout    time.Duration // of one write to a client, 30 s
	MaxBody         int64         // 1 MiB
	MaxRuns         int           // running at once, 10000
	MaxLog          int           // bytes of a run's log in memory, 8 MiB
	MaxResult       int           // bytes of a run's result, 16 MiB
	MaxBots         int           // of a run, 256
	MaxTasks        int           // of a run, 1024
	RunTimeout      time.Duration // of a whole run, 30 min
	MemoryOfEnded   int64         // bytes of ended runs kept in memory; older ones go to Data, or are forgotten
	InlineWorkflows bool          // a request may carry a workflow
	Version         string
}

// Server serves the API. Its methods are safe for concurrent use.
type Server struct{}

// New returns a server. Errors: a data folder that cannot be written.
func New(o Options) (*Server, error) { panic("web: not built yet") }

// Handler returns the routes.
func (s *Server) Handler() http.Handler { panic("web: not built yet") }

// HTTPServer returns an http.Server for the handler with the timeouts and connection settings that streams need.
func (s *Server) HTTPServer() *http.Server { panic("web: not built yet") }

// Listen listens on addr with the socket settings that streams need.
func (s *Server) Listen(ctx context.Context, addr string) (net.Listener, error) {
	panic("web: not built yet")
}

// Drain refuses new runs, waits for running ones until ctx ends, then breaks the streams off without a clean end and cancels what
// still runs. /readyz answers 503 from its beginning.
func (s *Server) Drain(ctx context.Context) error { panic("web: not built yet") }

// Close frees what the server holds; after Drain.
func (s *Server) Close() error { panic("web: not built yet") }
