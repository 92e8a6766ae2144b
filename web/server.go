// Package web is the HTTP server: routes, middleware, access, limits, sessions and files. Package web/wire and those below it answer the
// requests that start and follow runs, and package run has the runs.
//
// A run belongs to the server and not to the request: a client that goes away leaves it running, and comes back with the id of the last
// event that it has seen. Runs end by themselves, by being canceled, by RunTimeout, or with the server.
package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/wire"
)

// Options are the settings of a server; zero means the default.
type Options struct {
	// Options are those of the runs. What is needed there has a default here: bots ask the model that Models names first, runs end after 30
	// minutes, ended ones and their keys are kept for 24 hours. Without Tapes there are no sessions, and without Turns no agents; the server
	// closes neither. Store, Members, Input, Images, Pressure and Detach are set by New, and Files, Limits and Observer stand below.
	run.Options
	Data string // folder whose disk is watched; "" is none

	Runs run.Store // of runs; nil: they are in memory. It is not closed by the server.

	FileStore FileStore // nil is a server without files
	Channels  Channels  // that platforms send events to; nil is none

	KeepSessions time.Duration            // how long a session is kept after its last use; 0: for ever
	KeepUnnamed  time.Duration            // likewise of sessions that no request has named
	KeepAlive    time.Duration            // 10 s
	WriteTimeout time.Duration            // of one write to a client, 30 s
	MaxBody      int64                    // of a request, without the file that may be in it, 1 MiB; a lower limit is one for all of the request
	Servers      func() map[string]string // the MCP servers that are not ready, and why; nil is none
	Version      string

	Cluster *cluster.Cluster // the replicas that share Runs; nil is none. It serves the server's Handler, and is closed after the server.
	Away    func() bool      // the database cannot be reached; nil: it always can

	Files  Files
	Limits Limits

	Access  Access         // who may ask, and how much; zero lets everybody in
	Proxies access.Proxies // whose headers about the client count

	Observer Observer // counts what happens; it may be nil

	AccessLog string // which requests have a line in the log: "off", "runs" or "all"; "" is "runs"
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.Workflows == nil {
		o.Workflows = new(flow.Registry)
	}
	if o.Models == nil {
		o.Models = new(adapter.Registry)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	// Resolved once: the names of tapes are made of it.
	o.Workspace = tape.ResolveWorkspace(o.Workspace)
	o.Retention = cmp.Or(o.Retention, 24*time.Hour)
	o.KeyRetention = cmp.Or(o.KeyRetention, 24*time.Hour)
	o.KeepAlive = cmp.Or(o.KeepAlive, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxBody)
	o.MaxRuns = cmp.Or(o.MaxRuns, 10_000)
	o.MaxLog = cmp.Or(o.MaxLog, 8<<20)
	o.MaxResult = cmp.Or(o.MaxResult, 16<<20)
	o.MaxBots = cmp.Or(o.MaxBots, 256)
	o.MaxTasks = cmp.Or(o.MaxTasks, 1024)
	o.RunTimeout = cmp.Or(o.RunTimeout, 30*time.Minute)
	o.MemoryOfEnded = cmp.Or(o.MemoryOfEnded, 8<<20)
	o.Limits = o.Limits.withDefaults(o.MaxBody)
	o.Files = o.Files.withDefaults()
	o.Files.MaxSize = min(o.Files.MaxSize, max(o.Limits.Bodies/2-uploadBeside, 1)) // what the bodies of one caller may have
	if o.Ledger == nil {
		o.Ledger = adapter.NewLedger(o.Limits.Memory)
	}
	o.Version = cmp.Or(o.Version, "dev")
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	return o
}

// Server serves the API. Its methods are safe for concurrent use.
type Server struct {
	o       Options
	log     *slog.Logger
	runs    *run.Service
	memory  *db.DB // of runs, where the options name no store
	shed    *shed
	handler http.Handler // router, and what stands around it
	router  chi.Routes
	guard   *http.CrossOriginProtection
	tickets *access.Tickets // those of the door, where it has some

	connections connections

	draining atomic.Bool  // those who come had better come to another server
	wire     *wire.Server // what the handlers of the wires use
	granted  granted
	refusals *trail.LineLimiter // of the lines of refused requests

	ctx    context.Context // of the sweeper
	cancel context.CancelFunc
	wg     sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// New returns a server. Errors: those of the store of runs.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{o: o, log: o.Log, guard: http.NewCrossOriginProtection(), refusals: trail.NewLineLimiter()}
	if err := o.Access.CORS.Trust(s.guard); err != nil {
		return nil, err
	}
	if d := o.Access.Door; d != nil {
		s.tickets = d.Tickets
	}
	if s.tickets == nil { // good for nothing, but a client need not know that
		s.tickets = access.NewTickets(access.TicketsOptions{})
	}
	if o.Turns != nil && o.Kernel == nil {
		s.o.Kernel = webchannel.NewKernel(o.Log)
	}
	s.shed = newShed(o.Limits, o.Log, o.Data)
	if o.Turns != nil {
		s.shed.memory.changed = o.Turns.Hold // turns wait in their lanes
	}
	if s.o.Kernel != nil {
		s.o.Kernel.DiskFailed = s.shed.DiskFailed
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wire = wire.New(wire.Options{
		Options: s.o.Options, Began: time.Now(), KeepAlive: o.KeepAlive, WriteTimeout: o.WriteTimeout, Observer: o.Observer,
		ReadBody: s.readBody, ReadJSON: s.readJSON, Sign: s.sign, Hold: s.granted.add,
	})
	if o.Runs == nil {
		d, err := db.Open(s.ctx, "memory", &db.Options{Log: o.Log})
		if err != nil {
			return nil, err
		}
		s.memory, s.o.Runs = d, d.Runs()
	}
	// Last of what can fail, since it has to be closed.
	runs, err := run.Open(s.runOptions())
	if err != nil {
		return nil, errors.Join(err, s.closeMemory())
	}
	s.runs, s.wire.Runs = runs, runs
	s.handler = s.routes()
	if o.Tapes != nil {
		s.wg.Go(s.sweepSessions)
	}
	if !o.Access.Door.Open() {
		s.wg.Go(s.watchGrants)
	}
	if s.shed.memory.read != nil || s.shed.disk.read != nil {
		s.wg.Go(func() { s.shed.watch(s.ctx) })
	}
	return s, nil
}

// runOptions are the settings of the runs.
func (s *Server) runOptions() run.Options {
	o := s.o.Options
	o.Store, o.Limits, o.Input, o.Images = s.o.Runs, s.o.Access.Limits, s.o.Limits.Input, s.o.Limits.Images
	o.Pressure, o.Files, o.Observer, o.Detach = s.shed, runFiles{s}, s.o.Observer, s.wire.Detach
	if s.o.Cluster != nil {
		o.Members = s.o.Cluster
	}
	return o
}

// Handler returns the routes.
func (s *Server) Handler() http.Handler { return s.handler }

// Drain refuses new runs, waits for running ones until ctx ends, then breaks the streams off without a clean end and ends
// what still runs as interrupted. /readyz answers 503 from its beginning.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	return s.runs.Drain(ctx)
}

func (s *Server) closeMemory() error {
	if s.memory == nil {
		return nil
	}
	return s.memory.Close()
}

// Close frees what the server holds; after Drain. Without one, runs that go on are ended.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.closeErr = s.runs.Close()
		s.cancel()
		s.wg.Wait()
		s.closeErr = errors.Join(s.closeErr, s.closeMemory())
	})
	return s.closeErr
}
