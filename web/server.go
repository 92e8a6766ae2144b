// Package web is the HTTP door: routes, handlers, framing, and the runs that it has started.
//
// A run that was started belongs to the server and not to the request: a client that goes away leaves it running, and
// comes back with the id of the last event that it has seen. Runs end by themselves, by being canceled, by RunTimeout, or
// with the server.
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// Options are the settings of a server; zero means the default.
type Options struct {
	Workflows *flow.Registry
	Models    *adapter.Registry
	Log       *slog.Logger
	Data      string // folder for what must survive a restart; "" keeps nothing

	Tapes     tape.Store // of sessions; nil is a server without sessions. It is not closed by the server.
	Workspace string     // folder that sessions work in; "" is the current one

	// Turns are where the messages to agents go, with Agents as plugins; nil is a server without agents. Its store is Tapes, its
	// workspace Workspace. It is drained after the server.
	Turns  *turn.Framework
	Agents Agents

	// Kernel makes the turns of what is said in sessions, as the channel "web"; nil is one that lets everybody talk.
	Kernel   *channel.Kernel
	Channels Channels // that platforms send events to; nil is none

	// ChannelNames are the names of all channels, "web" included. A session whose id begins with one of them is not a caller's own.
	ChannelNames []string

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
	MemoryOfEnded   int64         // bytes of ended runs kept in memory, 8 MiB; older ones go to Data, or are forgotten
	InlineWorkflows bool          // a request may carry a workflow
	Version         string

	Engine Engine  // that is shared with other servers; nil is none
	Shared *Shared // with replicas of the server; nil for one that is alone. Then Data keeps no runs and no keys.

	Files   Files
	Limits  Limits
	Ledger  *adapter.Ledger // that runs pay for their memory, and turns beside them; nil is one for Limits.Memory
	MaxDisk int64           // bytes that ended runs may take in Data, 4 GiB

	Access  Access         // who may ask, and how much; zero lets everybody in
	Proxies access.Proxies // are believed when they say whom they speak for

	Observer  Observer             // is told what happens, to count it; nil is nobody
	Tracer    trace.TracerProvider // makes the spans of runs, and of all below them; nil makes none
	AccessLog string               // which requests have a line in the log: "off", "runs" or "all"; "" is "runs"
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
	o.Retention = cmp.Or(o.Retention, 5*time.Minute)
	o.KeyRetention = cmp.Or(o.KeyRetention, 24*time.Hour)
	o.KeepAlive = cmp.Or(o.KeepAlive, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.MaxBody = cmp.Or(o.MaxBody, 1<<20)
	o.MaxRuns = cmp.Or(o.MaxRuns, 10_000)
	o.MaxLog = cmp.Or(o.MaxLog, 8<<20)
	o.MaxResult = cmp.Or(o.MaxResult, 16<<20)
	o.MaxBots = cmp.Or(o.MaxBots, 256)
	o.MaxTasks = cmp.Or(o.MaxTasks, 1024)
	o.RunTimeout = cmp.Or(o.RunTimeout, 30*time.Minute)
	o.MemoryOfEnded = cmp.Or(o.MemoryOfEnded, 8<<20)
	o.MaxDisk = cmp.Or(o.MaxDisk, 4<<30)
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
	o        Options
	log      *slog.Logger
	observer Observer
	listener atomic.Pointer[listener] // that was made last; nil is none
	runs     *runs
	shed     *shed
	disk     *disk        // nil keeps nothing
	handler  http.Handler // router, and what stands around it
	router   chi.Routes
	guard    *http.CrossOriginProtection
	tickets  *access.Tickets // those of the door, where it has some
	keyed    sync.Mutex      // one start of an agent at a time that has an Idempotency-Key
	began    time.Time

	lingering atomic.Int32 // connections whose refused bodies are taken in

	draining atomic.Bool     // those who come had better come to another server
	stopping context.Context // ends when streams must be broken off
	stop     context.CancelFunc
	streams  gate // requests that follow a run
	granted  granted

	ctx    context.Context // of the sweeper
	cancel context.CancelFunc
	wg     sync.WaitGroup

	beginning beginning     // runs that are about to begin; of a server that shares them
	handWait  time.Duration // see the constant; for tests
	cutWait   time.Duration // 0 is the constant; for tests
	slots     chan struct{} // of runs that were taken over from other replicas; one element for each that goes on
	unserve   func()        // answers other replicas no more; nil for a server that is alone

	closeOnce sync.Once
	closeErr  error

	beginWait time.Duration // 0 is the constant; for tests
}

// New returns a server. Errors: a data folder that cannot be written.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{o: o, log: o.Log, observer: o.Observer, guard: http.NewCrossOriginProtection(), began: time.Now(), handWait: handWait}
	if err := o.Access.CORS.Trust(s.guard); err != nil {
		return nil, err
	}
	if d := o.Access.Door; d != nil {
		s.tickets = d.Tickets
	}
	if s.tickets == nil { // good for nothing, but a client need not know that
		s.tickets = access.NewTickets(access.TicketsOptions{})
	}
	if o.Turns != nil {
		if s.o.Kernel == nil {
			s.o.Kernel = webchannel.NewKernel(o.Log)
		}
		if err := o.Turns.Register("http", door{}); err != nil {
			return nil, err
		}
	}
	// Last of what can fail, since nobody would close it.
	if o.Data != "" && o.Shared == nil {
		d, err := openDisk(o.Data)
		if err != nil {
			return nil, err
		}
		s.disk = d
	}
	s.runs = newRuns(&s.o, s.disk)
	s.shed = newShed(o.Limits, o.Log, o.Data)
	s.shed.ledger, s.shed.memory.changed = o.Ledger, s.tight
	s.runs.diskFailed = s.shed.diskFailed
	s.runs.keepMedia = s.keepMedia
	if s.o.Kernel != nil {
		s.o.Kernel.DiskFailed = s.shed.diskFailed
	}
	if s.disk != nil {
		if err := s.runs.restore(time.Now()); err != nil {
			err = errors.Join(err, s.runs.closeJournal(), s.disk.close())
			return nil, fmt.Errorf("data folder %s: %w", o.Data, err)
		}
	}
	s.handler = s.routes()
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.sweep)
	if o.Tapes != nil {
		s.wg.Go(s.sweepFiles)
	}
	if !o.Access.Door.Open() {
		s.wg.Go(s.watchGrants)
	}
	if s.shed.watches() {
		s.wg.Go(func() { s.shed.watch(s.ctx) })
	}
	s.startAgain()
	if o.Shared != nil {
		s.slots = make(chan struct{}, min(againAtOnce, max(1, o.MaxRuns)))
		unserve, err := o.Shared.Control.Serve(s.serve)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.unserve = unserve
		s.wg.Go(s.watchReplicas)
	}
	return s, nil
}

// sweep forgets ended runs and keys as their time comes, and gives memory back to the system after a burst of runs. It ends
// with Close.
func (s *Server) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			if s.runs.sweep(time.Now()) {
				debug.FreeOSMemory()
			}
		}
	}
}

// tight holds back what takes memory while there is too little of it: large answers, and turns that wait in their lanes.
func (s *Server) tight(is bool) {
	s.o.Ledger.Tight(is)
	if s.o.Turns != nil {
		s.o.Turns.Hold(is)
	}
}

// Handler returns the routes.
func (s *Server) Handler() http.Handler { return s.handler }

// Drain refuses new runs, waits for running ones until ctx ends, then breaks the streams off without a clean end and ends
// what still runs as interrupted. /readyz answers 503 from its beginning. What has ended is kept in the data folder, where
// clients that come back to the next server find it.
func (s *Server) Drain(ctx context.Context) error {
	began := time.Now()
	s.draining.Store(true)
	quiet := s.runs.drain()
	s.log.InfoContext(ctx, "draining")
	s.runs.dropFollowed()
	select {
	case <-quiet:
		s.runs.dropFollowed()
		// Those who read the last events get the time to do so.
		s.streams.wait(ctx.Done())
	case <-ctx.Done():
	}
	s.breakStreams()
	if s.o.Shared != nil {
		handed, left := s.handOver()
		if handed > 0 {
			s.log.InfoContext(ctx, "runs continue at other replicas", "runs", handed)
		}
		if left > 0 {
			s.log.InfoContext(ctx, "runs wait for another replica", "runs", left)
		}
	}
	count := s.runs.interrupt()
	s.runs.saveAll()
	s.log.InfoContext(ctx, "runs drained", "interrupted", count, "took", time.Since(began))
	return nil
}

// breakTime is how long Drain waits for streams to notice that they are broken off. They do so at once, but for those that
// are stuck in a write.
const breakTime = time.Second

// breakStreams ends all streams without a clean end. It must happen before runs are ended, so that no client takes the
// server's end for its run's.
func (s *Server) breakStreams() {
	s.stop()
	timeout := make(chan struct{})
	timer := time.AfterFunc(breakTime, func() { close(timeout) })
	defer timer.Stop()
	s.streams.wait(timeout)
}

// Close frees what the server holds; after Drain. Without one, runs that go on are ended.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.runs.drain()
		s.breakStreams()
		s.runs.interrupt()
		s.runs.saveAll()
		s.closeErr = s.runs.closeJournal()
		s.cancel()
		if s.unserve != nil {
			s.unserve()
		}
		s.wg.Wait()
		s.runs.moving.Wait()
		if s.disk != nil {
			s.closeErr = errors.Join(s.closeErr, s.disk.close())
		}
	})
	return s.closeErr
}

// gate counts what is inside, and lets others wait until nothing is. Unlike a sync.WaitGroup it can be entered while somebody
// waits, and waiting can be given up.
type gate struct {
	mu    sync.Mutex
	count int
	empty chan struct{} // closed at zero; nil when nobody waits
}

func (g *gate) enter() {
	g.mu.Lock()
	g.count++
	g.mu.Unlock()
}

func (g *gate) leave() {
	g.mu.Lock()
	if g.count--; g.count == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
	g.mu.Unlock()
}

// wait returns when nothing is inside, or give is closed.
func (g *gate) wait(giveUp <-chan struct{}) {
	g.mu.Lock()
	if g.count == 0 {
		g.mu.Unlock()
		return
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
	case <-giveUp:
	}
}
