package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/channel/kernel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/gate"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// Channel is the channel of envelopes that come from here.
const Channel = webchannel.Name

// Agents answer in sessions: plugins of [Options].Turns, which take an envelope by its agent.
type Agents interface {
	// Names are those that a run can ask for, the default one first.
	Names() []string
	// Workflow is the name of the workflow that answers for this agent; "" for none.
	Workflow(agent string) string
	// Answer decides a call that waits for approval; see [agent.Agent.Answer].
	Answer(context.Context, agent.Answer) error
	// Questions are the calls of a session that wait for approval, the oldest first.
	Questions(session string) []agent.Question
	// Remembered are the tools of this agent that people approved for the session of a tape.
	Remembered(_ context.Context, agent string, session *tape.Tape) ([]string, error)
}

// Options are the settings of a service. Workflows, Models, Log, Ledger, Pressure, Files and Observer are needed, and Kernel with Turns.
type Options struct {
	Workflows *flow.Registry
	Models    *adapter.Registry
	Log       *slog.Logger
	Store     Store   // of runs
	Members   Members // the replicas that share the store; nil: there are none
	// Holder says which replica has the turns of a tape now, by its name; "" is none. It is needed with Members.
	Holder func(ctx context.Context, tape string) (replica string, err error)

	Tapes        tape.Store // of sessions; nil is a service without sessions
	Workspace    string     // folder that sessions work in
	Turns        *turn.Framework
	Agents       Agents
	Timezones    map[string]*time.Location // of the dates that agents read, by their names; others read UTC
	Kernel       *kernel.Kernel
	ChannelNames []string // of all channels, this one included: a session whose id begins with one of them is not a caller's own

	Bot             bot.Config // defaults of every bot
	Retention       time.Duration
	KeyRetention    time.Duration
	MaxRuns         int // that run at once
	MaxLog          int // bytes of a run's log in memory
	MaxResult       int // bytes of a run's result
	MaxBots         int // of a run
	MaxTasks        int // of a run
	Input           int // characters of a request that models read
	Images          int // and files, of a request
	RunTimeout      time.Duration
	MemoryOfEnded   int64 // bytes of ended runs in memory
	InlineWorkflows bool  // a request may carry a workflow
	ListedModels    bool  // a request may name only the models that are listed, see [Service.ListModels]

	Ledger   *adapter.Ledger
	Limits   *access.Limits // of callers; nil is none
	Pressure Pressure
	Files    Files
	Observer Observer
	Tracer   trace.TracerProvider // nil makes no spans
	// Detach is called once by Drain and Close before they end runs: it returns when nothing reads runs any more. It waits for readers as
	// long as ctx goes on.
	Detach func(ctx context.Context)
}

// Pressure says what the machine runs out of.
type Pressure interface {
	LowMemory() bool
	LowDisk() bool
	DiskBroken() bool // it has failed, and cannot be written since
	DiskFailed()      // reports that the disk could not store something
}

// Files are what callers have uploaded, and what models make.
type Files interface {
	// Open puts the data of uploaded files in the place of their ids. at is where the list is in the request. Errors are of this package.
	Open(who access.Principal, at string, list []adapter.Part) ([]adapter.Part, error)
	// Size returns the bytes of a file of a caller, by its id; 0 if it does not exist.
	Size(who access.Principal, id string) int64
	// Keep keeps what a model made, and returns its address; "" where it is not kept.
	Keep(ctx context.Context, owner, kind string, data []byte) (url string, err error)
}

// Observer observes runs.
type Observer interface {
	// Run is called when a run of a workflow or of an agent begins.
	Run(workflow, agent string) RunObserver
}

// RunObserver observes a run. First is called at its first delta, at most once, from any goroutine. End is called once, after it.
type RunObserver interface {
	First()
	// End has the status of the run's last event, and the code of the error that it has failed of; "" for none. "moved" is the status of a
	// run that continues at another replica, whose observer gets its end.
	End(status, code string)
}

// Service starts runs, and knows them: those that go on, and those that have ended and can still be attached to. Started runs belong to it
// and not to the request that started them. Its methods are safe for concurrent use.
type Service struct {
	o        Options
	log      *slog.Logger
	store    Store
	replica  string // that this process is in the store
	recorder *recorder

	working  context.Context // of all runs; no end of a run is waited for after it
	stopWork context.CancelCauseFunc
	runs     gate.Gate // one for each run that goes on
	starts   gate.Gate // one for each run that is being stored or suspended
	turns    gate.Gate // one for each turn

	ctx    context.Context // of the service's own goroutines
	cancel context.CancelFunc
	wg     sync.WaitGroup

	slots       chan struct{} // of workflows that are resumed; one element for each that goes on
	lastResumed chan struct{} // closed when the last of them has begun; under mu

	mu        sync.Mutex
	inMemory  map[string]*Run          // running, and ended ones that are kept here
	inSession map[string]*Run          // the one that was started last in a session, by its lane, while it is in memory
	kept      []*Run                   // the ended ones of inMemory, the least recently touched first
	keptBytes int64                    // of kept
	moving    map[string]chan struct{} // being read back now, suspended, woken or, by owner and key, started; closed when that is over
	draining  bool

	closeOnce sync.Once
}

// Times and sizes that need no setting.
const (
	// KeepInMemory is how long an ended run stays in memory: long enough for those who reconnect at once, short enough that a burst of runs
	// does not leave its memory behind.
	KeepInMemory = 15 * time.Second
	SweepEvery   = 5 * time.Second
)

// errClosing is why runs end when the server does.
var errClosing = fmt.Errorf("the server is shutting down: %w", ling.ErrInterrupted)

// Open returns a service. Errors: those of the store.
func Open(o Options) (*Service, error) {
	if o.Turns != nil {
		if err := o.Turns.Register("http", plugin{}); err != nil {
			return nil, err
		}
	}
	s := newService(o)
	s.wg.Go(func() { s.recorder.loop(s.ctx) })
	if err := s.recoverLeft(s.ctx, false); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.wg.Go(s.sweepLoop)
	if o.Members != nil || o.Turns != nil {
		s.wg.Go(s.watchLeft)
	}
	return s, nil
}

func newService(o Options) *Service {
	if o.Detach == nil {
		o.Detach = func(context.Context) {}
	}
	s := &Service{
		o: o, log: o.Log, store: o.Store, replica: NewID(),
		inMemory: map[string]*Run{}, inSession: map[string]*Run{}, moving: map[string]chan struct{}{},
	}
	if o.Members != nil {
		s.replica = o.Members.ID()
	}
	s.recorder = &recorder{s: s, wake: make(chan struct{}, 1), runs: map[*Run]struct{}{}}
	s.working, s.stopWork = context.WithCancelCause(context.Background())
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.slots, s.lastResumed = make(chan struct{}, min(RestartsAtOnce, max(1, o.MaxRuns))), make(chan struct{})
	close(s.lastResumed)
	return s
}

// sweepLoop drops ended runs from memory as their time comes. It ends with Close.
func (s *Service) sweepLoop() {
	for backoff.Sleep(s.ctx, SweepEvery) == nil {
		s.mu.Lock()
		s.trimLocked(time.Now())
		if len(s.inMemory) == 0 { // a map does not get smaller by itself
			s.inMemory, s.inSession = map[string]*Run{}, map[string]*Run{}
		}
		s.mu.Unlock()
	}
}

// Drain refuses new runs, waits for running ones until ctx ends, has their readers detached, and ends what still runs as interrupted, or
// hands it over to other replicas. What has ended is kept. It returns at most 5 s after ctx has ended, and the log names the runs that ignore
// their cancellation.
func (s *Service) Drain(ctx context.Context) error {
	began := time.Now()
	s.log.InfoContext(ctx, "draining")
	count := s.shutDown(ctx)
	s.log.InfoContext(ctx, "runs drained", "interrupted", count, "took", time.Since(began))
	return nil
}

// Close frees what the service holds; after Drain. Without one, runs that go on are ended.
func (s *Service) Close() error {
	s.closeOnce.Do(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		s.shutDown(now)
		s.cancel()
		s.wg.Wait()
	})
	return nil
}

// shutDown refuses new runs, waits for running ones until ctx ends, and ends them then. It returns how many it has interrupted.
func (s *Service) shutDown(ctx context.Context) (interrupted int) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.runs.Wait(ctx.Done())
	s.o.Detach(ctx) // before runs are ended, so that no client takes the server's end for its run's
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	return s.interrupt(stopping)
}

// Load is what a service has to do.
type Load struct {
	Draining    bool
	Running     int // runs
	InMemory    int // ended runs that can be attached to
	MemoryBytes int64
}

// Load says what goes on now.
func (s *Service) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{Draining: s.draining, Running: s.runs.Count(), InMemory: len(s.kept), MemoryBytes: s.keptBytes}
}

// handOver leaves the runs that can go on to other servers, or to the next one here. Their events are stored and their work has ended before
// others may take them over, and the end of this server does not count as a crash.
func (s *Service) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storedWait)
	defer cancel()
	s.mu.Lock()
	var queued, running []*Run
	for _, r := range s.inMemory {
		switch {
		case !r.goesOn || r.manager.Load() == nil:
		case r.machine.enterFrom(stateQueued, stateHandedOver):
			queued = append(queued, r)
		case r.machine.enterFrom(stateRunning, stateHandedOver):
			running = append(running, r)
		}
	}
	s.mu.Unlock()
	if len(queued)+len(running) == 0 {
		return
	}
	s.leave(ctx, queued, running) // the queued ones first, so that none of them gets its turn meanwhile
	var ids []string
	for _, r := range slices.Concat(queued, running) {
		ids = append(ids, r.ID)
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), storedWait)
	defer cancel()
	if err := s.store.Release(ctx, s.replica, ids); err != nil {
		s.log.WarnContext(ctx, "cannot hand runs over; they are taken as after a crash", "error", err)
	}
	s.log.InfoContext(ctx, "runs go on at another server, or after the restart", "runs", len(ids))
}

// leave stores the events of runs and ends their work here, one list after the other.
func (s *Service) leave(ctx context.Context, lists ...[]*Run) {
	for _, r := range slices.Concat(lists...) {
		r.leave() // its end counts no more, for some get the slots of others now
	}
	s.recorder.record(ctx)
	for _, list := range lists {
		for _, r := range list {
			s.breakOff(r)
		}
		for _, r := range list {
			_ = r.awaitDone(ctx)
		}
	}
}

// Draining reports whether the service refuses new runs because it is shutting down.
func (s *Service) Draining() bool { return s.Load().Draining }

// closing is why a run ends when the server does.
func (r *Run) closing() error {
	message := "the server shut down during this run; the run's events so far are kept"
	if r.Keyed {
		message += otherKey
	}
	return &bot.Failure{Code: codeDraining, Message: message, Retryable: true, Cause: errClosing}
}

// interrupt ends all active runs, because the server shuts down, and waits for them. Those that can continue are handed over; the others end as
// interrupted, so that clients learn it after the restart. It waits for work that ignores its cancellation until ctx ends.
func (s *Service) interrupt(ctx context.Context) (count int) {
	s.starts.Wait(ctx.Done()) // or a run that is stored meanwhile would not be handed over
	s.handOver(ctx)
	for _, r := range s.active() {
		if !r.Ended() && !r.Moved() && r.stop(r.closing()) {
			count++
		}
	}
	defer time.AfterFunc(storedWait, func() { s.stopWork(errClosing) }).Stop()
	s.runs.Wait(ctx.Done())
	s.turns.Wait(ctx.Done())
	if ctx.Err() != nil {
		for _, r := range s.active() {
			s.log.ErrorContext(r.Context(), "a run ignores its cancellation", "run", r.ID, r.Of.attr())
		}
	}
	s.stopWork(errClosing)
	return count
}

const (
	// storeWait is for an answer of the store.
	storeWait = 5 * time.Second
	// stopWait is how long Drain and Close wait for runs that they have canceled.
	stopWait = 5 * time.Second
	// storedWait is how long Close waits for the end of a run to be stored.
	storedWait = 3 * time.Second
	// graceWait is how long readers wait for the end of a run to be stored.
	graceWait = time.Minute
)
