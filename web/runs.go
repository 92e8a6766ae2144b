package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/access"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

// runs knows the runs of a server: those that go on, and those that have ended and can still be attached to. Started runs
// belong to it and not to the request that started them.
type runs struct {
	o    *Options
	log  *slog.Logger
	disk *disk // nil keeps nothing
	// diskFailed is called when the disk could not keep something; nil in tests.
	diskFailed func()
	keepMedia  func(ctx context.Context, owner, kind string, data []byte) (string, error)

	journal runlog.Log  // of those that go on; nil without a disk
	cutOff  []*replayed // that are to be run again; until the server has started

	ctx    context.Context // of all runs
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // one for each running run that is no turn
	turns  gate           // one for each turn

	moving     sync.WaitGroup // of what is done with what replicas share
	leaving    chan struct{}  // closed when nothing more is waited for
	storedWait time.Duration  // the constant, but in tests

	leaveOnce sync.Once

	trimming sync.Mutex // one goroutine at a time moves ended runs out of memory

	mu        sync.Mutex
	inMemory  map[string]*run          // running, and ended ones that are kept here
	inSession map[string]*run          // the one that was started last in a session, by its lane, while it is in memory
	kept      []*run                   // the ended ones of inMemory, the least recently touched first
	keptBytes int64                    // of kept
	onDisk    map[string]stored        // ended ones that can be read back
	loading   map[string]chan struct{} // being read back now; closed when that is over
	expired   expired                  // ids that were known once
	keys      *keys
	running   int
	draining  bool
	quiet     chan struct{} // closed once draining and nothing runs
	freed     int64         // bytes that have left memory since it was last given back to the system
}

// Times and sizes that need no setting.
const (
	// keepInMemory is how long an ended run stays in memory where there is a disk: long enough for those who reconnect at
	// once, short enough that a burst of runs does not leave its memory behind.
	keepInMemory = 15 * time.Second
	sweepEvery   = 5 * time.Second
	// giveBack is how much memory must have become free before the system gets it back, which costs a garbage collection.
	giveBack = 1 << 20
)

// errClosing is why runs end when the server does.
var errClosing = fmt.Errorf("the server is shutting down: %w", ling.ErrInterrupted)

func newRuns(o *Options, d *disk) *runs {
	ctx, cancel := context.WithCancelCause(context.Background())
	rs := &runs{
		o: o, log: o.Log, disk: d, ctx: ctx, cancel: cancel, leaving: make(chan struct{}), storedWait: storedWait,
		inMemory: map[string]*run{}, inSession: map[string]*run{}, onDisk: map[string]stored{}, loading: map[string]chan struct{}{},
		keys: newKeys(o.KeyRetention), quiet: make(chan struct{}),
	}
	if o.Shared != nil {
		rs.journal = o.Shared.Runs
	}
	return rs
}

// elsewhere says whether what leaves memory can be read back.
func (rs *runs) elsewhere() bool { return rs.disk != nil || rs.o.Shared != nil }

// spec is a run that has been checked and can be started.
type spec struct {
	id       string    // of the run; "" until it is started
	owner    string    // who starts it
	role     tool.Role // of who starts it
	caller   string    // whom it is counted for; "" is nobody
	workflow flow.Workflow
	agent    *agentRun // a run that is a turn; then workflow stands for it
	session  string
	input    map[string]any
	files    []adapter.Part // beside the input
	model    string         // named in the started event
	config   bot.Config
	params   map[string]any
	filters  []tube.Filter
	history  []adapter.Message // of a workflow's run that is in no session, which has its own
	key      string
	hash     [16]byte
	follows  bool              // its message was taken before, for another run
	anew     bool              // another replica was to begin it, under the same id
	trace    trace.SpanContext // of whoever asks; zero for none
	span     trace.Span        // of the run; nil until it is started, or where nobody traces
	again    *again            // how it is run again after a restart; nil for one that is not
	account  *adapter.Account  // that pays for its memory; nil until it is started, or where nobody counts
	asked    *adapter.Account  // that pays for the request, and then for the run; nil is a new one
	keeps    int64             // bytes of the request that the run keeps
}

// of is what the run is named after: of an agent's, the workflow only stands for it.
func (sp *spec) of() subject {
	if sp.agent != nil && sp.agent.answer == nil {
		return subject{Agent: sp.agent.name}
	}
	if sp.agent != nil && sp.agent.as != "" {
		return subject{Agent: sp.agent.as}
	}
	return subject{Workflow: sp.workflow.Info().Name}
}

// newRunID makes a run's id: 130 random bits in lower-case base32, fit for urls and for file names of any system.
func newRunID() string { return strings.ToLower(rand.Text()) }

// errGone says that a run was known once.
var errGone = errors.New("web: the run has expired")

// errDamaged says that what is kept of a run cannot be read.
var errDamaged = errors.New("web: the record of the run is damaged")

// errUnknown says that a run is not known.
var errUnknown = errors.New("web: unknown run")

// attach finds the run that the same principal has started with this key, if there is one. A problem says that it was another
// request.
func (rs *runs) attach(owner, key string, hash [16]byte) (id string, p *problem) {
	if key == "" {
		return "", nil
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.attachLocked(owner, key, hash)
}

func (rs *runs) attachLocked(owner, key string, hash [16]byte) (string, *problem) {
	e, ok := rs.keys.get(owner, key)
	if !ok {
		return "", nil
	}
	if e.hash != hash {
		return "", otherRequest()
	}
	return e.id(), nil
}

// otherRequest is the problem of a key that was used before, for something else.
func otherRequest() *problem {
	p := newProblem(codeInvalid, "the Idempotency-Key belongs to another request; use a new one")
	p.Status = 422
	p.Errors = []misfit{{Header: "Idempotency-Key", Detail: "belongs to another request; use a new one"}}
	return p
}

// start starts a run, or finds the one that was started with the same key; then its id is returned alone.
func (rs *runs) start(sp spec) (r *run, id string, p *problem) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if sp.key != "" && !sp.follows && rs.o.Shared == nil { // whose key has led to the other run until now
		// Looked up and set under one lock, so that requests that come together start one run.
		if id, p := rs.attachLocked(sp.owner, sp.key, sp.hash); id != "" || p != nil {
			return nil, id, p
		}
	}
	if rs.draining {
		p := newProblem(codeDraining, "the server is shutting down and starts no new runs; retry on another server, or later")
		p.retryAfter = 2 * time.Second
		return nil, "", p
	}
	// What was taken is not refused any more; there is no more of it than an inbox holds.
	if rs.running >= rs.o.MaxRuns && !sp.follows {
		return nil, "", tooManyRuns(rs.running)
	}
	release, p := rs.admit(&sp)
	if p != nil {
		return nil, "", p
	}
	if sp.id == "" {
		sp.id = newRunID()
	}
	r = &run{
		id: sp.id, of: sp.of(), owner: sp.owner, session: sp.session, keyed: sp.key != "",
		began: time.Now(), done: make(chan struct{}),
	}
	r.caller, r.release, r.again = sp.caller, release, sp.again
	if a := sp.again; a != nil && a.from > 0 {
		r.began, r.keyed = a.began, a.keyed
	}
	r.observer = rs.o.Observer.Run(r.of.Workflow, r.of.Agent)
	m := rs.manager(rs.within(&sp), &sp, r.observer.First)
	r.span, r.traced = sp.span, contextOf(sp.span)
	r.tube = m.Tube()
	r.account = sp.account
	r.account.Measure(func() int64 { return int64(r.tube.Measure()) })
	r.manager.Store(m)
	for _, f := range sp.filters {
		r.tube.AddFilter(f)
	}
	sp.again.reset(r.tube)
	if rs.o.Shared != nil {
		r.place = newPlaced(nil)
	}
	if rs.o.Shared == nil || sp.follows {
		rs.keepKeyLocked(sp, r.id)
	}
	rs.keepGoing(r)
	rs.inMemory[r.id] = r
	if lane := r.lane(); lane != "" {
		rs.inSession[lane] = r
	}
	rs.running++
	// As a task, so that an error or a panic of the workflow itself is the run's.
	if err := m.Go(func(ctx context.Context) error {
		if sp.again != nil {
			if err := sp.again.place.wait(ctx); err != nil {
				return err
			}
			r.reopen()
		}
		if sp.again != nil || sp.anew {
			rs.flush(ctx) // an attempt that makes the server crash must be known, and one of two has it
			if ctx.Err() != nil {
				if sp.agent != nil {
					sp.agent.cancel(context.Cause(ctx))
				}
				return context.Cause(ctx)
			}
		}
		return sp.workflow.Run(ctx, m, sp.input)
	}); err != nil {
		m.Report("", err)
	}
	if sp.agent != nil {
		sp.agent.supervise = func() { rs.supervise(r, m) } // by its turn
	} else {
		rs.wg.Go(func() { rs.supervise(r, m) })
	}
	return r, r.id, nil
}

// manager makes what a run works with.
func (rs *runs) manager(ctx context.Context, sp *spec, first func()) *ling.Manager {
	of := sp.of()
	m := ling.New(ctx, sp.config, &ling.Options{
		Run: sp.id, Models: rs.o.Models, Log: rs.log, MaxBots: rs.o.MaxBots, MaxTasks: rs.o.MaxTasks,
		MaxResult: rs.o.MaxResult, MaxLog: rs.o.MaxLog, Workflow: of.Workflow, Agent: of.Agent, Model: sp.model, Session: sp.session,
		Keep: func(ctx context.Context, kind string, data []byte) (string, error) {
			return rs.keepMedia(ctx, sp.owner, kind, data)
		},
		First: first, From: sp.again.first(), Held: rs.journal != nil && rs.journal.Holds(),
	})
	if sp.params != nil {
		m.SetCustomParams(sp.params)
	}
	if len(sp.history) > 0 {
		m.SetHistory(sp.history...)
	}
	m.SetMedia(sp.files...)
	return m
}

// keepKey notes which run a request with a key has led to, where that was there before.
func (rs *runs) keepKey(sp spec, run string) {
	if rs.o.Shared != nil {
		if sp.key != "" {
			rs.moveKeyNow(sp, run)
		}
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.keepKeyLocked(sp, run)
}

func (rs *runs) keepKeyLocked(sp spec, run string) {
	if sp.key == "" {
		return
	}
	if rs.o.Shared != nil {
		rs.moveKey(sp, run)
		return
	}
	e := rs.keys.put(sp.owner, sp.key, sp.hash, run)
	if rs.disk != nil {
		if err := rs.disk.addKey(e, lineage{sp.of(), sp.owner}); err != nil {
			// The run goes on: the key holds until a restart, and whoever runs the server can read why.
			rs.log.Error("cannot store an idempotency key", "run", run, "error", err)
			rs.notKept(err)
		}
	}
}

// notKept tells the server of a disk that has failed.
func (rs *runs) notKept(err error) {
	if rs.diskFailed != nil && vfs.Failed(vfs.Explain(err)) {
		rs.diskFailed()
	}
}

// supervise waits for a run's end, on a stack that is kept small: there is one for each run.
func (rs *runs) supervise(r *run, m *ling.Manager) {
	if r.again != nil {
		if r.again.place.wait(m.Context()) == nil { // its time begins when it does
			defer r.again.place.leave()
		}
	}
	late := time.AfterFunc(rs.o.RunTimeout, func() { m.Stop(fmt.Errorf("the run took longer than %s", rs.o.RunTimeout)) })
	err := m.Close()
	late.Stop()
	rs.awaitStored(r)
	rs.ended(r, m, err)
}

// statusMoved is what observers are told of a run that goes on at another replica, or has ended there: no client is told that.
const statusMoved = "moved"

// ended keeps what is kept of a run. closeErr is what it has failed of.
func (rs *runs) ended(r *run, m *ling.Manager, closeErr error) {
	o := outcomeOf(m.Outcome())
	o.Truncated = o.Truncated || r.cut.Load()
	r.outcome = o
	close(r.done)
	r.manager.Store(nil)

	away := r.isGone() || rs.o.Shared != nil && r.comesAgain() // its end is not here
	status := o.Status
	if away {
		status = statusMoved
	}
	code, level := "", slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("run", r.id), r.of.attr(), slog.String("status", status),
		slog.Duration("took", time.Since(r.began)), slog.Uint64("events", r.tube.Len()%epoch),
	}
	if cause, ok := o.cause(); ok && !away && o.Status != statusCompleted {
		code = cause.Code
		attrs = append(attrs, slog.String("code", code))
		if r.session == "" && code != codeInternal && o.Status == statusFailed { // else there is a line of the turn, or of what is internal
			level = trail.Level(code)
		}
		if closeErr != nil {
			attrs = append(attrs, slog.Any("error", closeErr))
		}
	}
	if away {
		rs.log.LogAttrs(m.Context(), slog.LevelInfo, "run continues at another replica", attrs...)
	} else {
		rs.log.LogAttrs(m.Context(), level, "run ended", attrs...)
	}
	r.endSpan(code)
	r.observer.End(status, code)
	rs.release(r)

	if !away {
		r.keepEnd()
	}
	if r.keyed && rs.disk != nil && !r.comesAgain() { // saved at once where there is a key, whose promise holds across a crash
		rs.save(r)
		rs.disk.settler.keepUp()
	}
	now := time.Now()
	rs.mu.Lock()
	rs.running--
	if away {
		rs.leaveLocked(r)
	} else {
		r.expires, r.saved = now.Add(rs.retention(r.keyed)), r.saved || rs.o.Shared != nil
		rs.keepLocked(r, now)
	}
	if rs.draining && rs.running == 0 {
		close(rs.quiet)
	}
	rs.mu.Unlock()
	rs.trim(now)
}

// leaveLocked forgets a run that goes on elsewhere.
func (rs *runs) leaveLocked(r *run) {
	r.place.leave()
	if rs.inMemory[r.id] == r {
		delete(rs.inMemory, r.id)
	}
	if lane := r.lane(); lane != "" && rs.inSession[lane] == r {
		delete(rs.inSession, lane)
	}
	r.account.Release()
}

// retention is how long an ended run can be attached to.
func (rs *runs) retention(keyed bool) time.Duration {
	if keyed {
		return max(rs.o.Retention, rs.o.KeyRetention)
	}
	return rs.o.Retention
}

// keepLocked counts an ended run as kept in memory.
func (rs *runs) keepLocked(r *run, now time.Time) {
	r.touched = now
	r.size = int64(r.tube.Bytes()) + sizeOfRun
	rs.kept = append(rs.kept, r)
	rs.keptBytes += r.size
	r.account.Settle(r.size, 2*r.size) // the document, as it is sent
}

// sizeOfRun is what an ended run takes beside its log, about.
const sizeOfRun = 4 << 10

// cancelRun ends a run that goes on; false when it has ended already, though its readers may not have seen that yet. It does not wait.
func cancelRun(r *run, cause error) bool {
	m := r.manager.Load()
	return m != nil && m.Stop(cause)
}

// isKeptLocked says whether a run has been counted as ended.
func (rs *runs) isKeptLocked(r *run) bool { return !r.touched.IsZero() }

// get finds a run by its id for somebody, reading it back where it has left memory. A run that is not theirs to see is one that there
// is not, and is found to be so as soon. Errors: errUnknown, errGone, errDamaged, the cause of ctx, and an *[adapter.Error] where there is no memory
// to read it back.
func (rs *runs) get(ctx context.Context, who access.Principal, id string) (*run, error) {
	if !wellFormed(id) {
		return nil, errUnknown
	}
	for {
		rs.mu.Lock()
		if r := rs.inMemory[id]; r != nil && !r.isGone() {
			if r.followed() {
				r.place.asked.Store(time.Now().UnixNano())
			}
			rs.mu.Unlock()
			if !who.Sees(r.owner) {
				return nil, errUnknown
			}
			return r, nil
		}
		if rs.o.Shared != nil {
			rs.mu.Unlock()
			r, err := rs.getElsewhere(ctx, who, id)
			if r != nil || err != nil {
				return r, err
			}
			continue
		}
		st, ok := rs.onDisk[id]
		if ok && !who.Sees(st.owner) {
			rs.mu.Unlock()
			return nil, errUnknown
		}
		if wait := rs.loading[id]; wait != nil {
			rs.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if !ok {
			owner, gone := rs.expired.owner(id)
			rs.mu.Unlock()
			if gone && who.Sees(owner) {
				return nil, errGone
			}
			return nil, errUnknown
		}
		over := make(chan struct{})
		rs.loading[id] = over
		rs.mu.Unlock()

		account := rs.o.Ledger.Open()
		full := account.Reserve(ctx, st.size)
		var r *run
		var err error
		if full == nil {
			r, err = rs.disk.load(id, rs.o.MaxLog)
		}
		now := time.Now()
		rs.mu.Lock()
		delete(rs.loading, id)
		close(over)
		if full != nil {
			rs.mu.Unlock()
			account.Release()
			return nil, full
		}
		if err == nil {
			r.expires, r.saved, r.account = st.expires, true, account
			rs.inMemory[id] = r
			rs.keepLocked(r, now)
		}
		rs.mu.Unlock()
		if err != nil {
			account.Release()
			rs.log.ErrorContext(ctx, "cannot read an ended run", "run", id, "error", err)
			if err := vfs.Explain(err); vfs.Failed(err) {
				return nil, err
			}
			return nil, errDamaged
		}
		rs.trim(now)
		return r, nil
	}
}

// inLane finds the run that was started last in a session, by its lane: nil where none is in memory.
func (rs *runs) inLane(lane string) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.inSession[lane]
}

// save writes an ended run to disk; false where that failed.
func (rs *runs) save(r *run) bool {
	size, err := rs.disk.save(r)
	if err != nil {
		rs.log.ErrorContext(r.context(), "cannot write an ended run", "run", r.id, "error", err)
		rs.notKept(err)
		return false
	}
	rs.mu.Lock()
	r.saved = true
	expires := r.expires
	if expires.IsZero() {
		expires = time.Now().Add(rs.retention(r.keyed))
	}
	rs.onDisk[r.id] = stored{owner: r.owner, expires: expires, size: size}
	rs.mu.Unlock()
	rs.settle(r, 1)
	return true
}

// trim moves ended runs out of memory: the least recently touched first, while there are too many bytes of them, and where
// there is a disk those that have been there for long. Without a disk they are forgotten.
func (rs *runs) trim(now time.Time) {
	if !rs.trimming.TryLock() {
		return // the one that is at it sees to this run, too, or the next sweep does
	}
	defer rs.trimming.Unlock()
	for {
		rs.mu.Lock()
		// Without a disk the last run to end is kept however large it is: somebody may be about to come back to it.
		full := rs.keptBytes > rs.o.MemoryOfEnded && (rs.elsewhere() || len(rs.kept) > 1)
		if len(rs.kept) == 0 || !full && (!rs.elsewhere() || now.Sub(rs.kept[0].touched) < keepInMemory) {
			rs.mu.Unlock()
			return
		}
		r := rs.kept[0]
		saved := r.saved
		rs.mu.Unlock()
		if !saved && rs.disk != nil && !r.comesAgain() {
			if rs.disk.settler.behind() {
				return // it harms less in memory
			}
			saved = rs.save(r)
		}
		rs.mu.Lock()
		rs.dropLocked(r)
		if !saved {
			rs.expired.add(r.id, r.owner)
		}
		rs.mu.Unlock()
	}
}

// dropLocked takes an ended run out of memory. It is one of kept.
func (rs *runs) dropLocked(r *run) {
	for i, k := range rs.kept {
		if k != r {
			continue
		}
		copy(rs.kept[i:], rs.kept[i+1:])
		rs.kept[len(rs.kept)-1] = nil
		rs.kept = rs.kept[:len(rs.kept)-1]
		rs.keptBytes -= r.size
		if !r.comesAgain() && !r.saved { // else when its file is safe
			r.unkeep()
		}
		rs.freed += r.size
		delete(rs.inMemory, r.id)
		r.account.Release()
		if lane := r.lane(); lane != "" && rs.inSession[lane] == r {
			delete(rs.inSession, lane)
		}
		return
	}
}

// sweep forgets what has expired. It says whether much memory has become free while nothing runs.
func (rs *runs) sweep(now time.Time) (idle bool) {
	rs.trim(now)
	var remove []string
	rs.mu.Lock()
	for i := 0; i < len(rs.kept); {
		r := rs.kept[i]
		if now.Before(r.expires) {
			i++
			continue
		}
		rs.dropLocked(r)
		if _, also := rs.onDisk[r.id]; !also {
			rs.expired.add(r.id, r.owner)
		}
	}
	for id, st := range rs.onDisk {
		if now.Before(st.expires) {
			continue
		}
		rs.forgetLocked(id)
		remove = append(remove, id)
	}
	remove = append(remove, rs.surplusLocked()...)
	compact := rs.keys.sweep(now)
	if len(rs.onDisk) == 0 && len(rs.inMemory) == 0 {
		// A map does not get smaller by itself.
		rs.onDisk, rs.inMemory, rs.inSession = map[string]stored{}, map[string]*run{}, map[string]*run{}
	}
	idle = rs.running == 0 && rs.freed >= giveBack
	if idle {
		rs.freed = 0
	}
	if rs.disk != nil && compact {
		if err := rs.disk.shortenKeys(rs.keys); err != nil {
			rs.log.Error("cannot write idempotency keys", "error", err)
		}
	}
	rs.mu.Unlock()
	for _, id := range remove {
		if err := rs.disk.remove(id); err != nil {
			rs.log.Warn("cannot remove an expired run", "run", id, "error", err)
		}
	}
	return idle
}

// forgetLocked forgets a run that is on disk.
func (rs *runs) forgetLocked(id string) {
	rs.expired.add(id, rs.onDisk[id].owner)
	delete(rs.onDisk, id)
	if r := rs.inMemory[id]; r != nil && rs.isKeptLocked(r) {
		rs.dropLocked(r)
	}
}

// drain refuses new runs from now on and returns a channel that is closed when nothing runs any more.
func (rs *runs) drain() <-chan struct{} {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if !rs.draining {
		rs.draining = true
		if rs.running == 0 {
			close(rs.quiet)
		}
	}
	return rs.quiet
}

func (rs *runs) isDraining() bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.draining
}

// closingMessage is what clients are told about a run that a server has broken off which was told to go.
const closingMessage = "the server shut down during this run; the run's events so far are kept"

// closing is why a run ends when the server does.
func (r *run) closing() error {
	message := closingMessage
	if r.keyed {
		message += "; start it again with another Idempotency-Key"
	}
	return &bot.Failure{Code: codeDraining, Message: message, Retryable: true, Cause: errClosing}
}

// interrupt ends all runs that go on, for the server ends, and waits for them. Their logs end with "interrupted", so that a
// client that comes back after a restart is told; of replicas, those that another one is to run again have no end.
func (rs *runs) interrupt() (count int) {
	var left []*run
	rs.mu.Lock()
	for _, r := range rs.inMemory {
		m := r.manager.Load()
		switch {
		case m == nil, r.ended(), r.isGone():
		case r.place != nil && r.again != nil:
			left = append(left, r)
		default:
			count++
			m.Stop(r.closing())
		}
	}
	rs.mu.Unlock()
	rs.leaveBehind(left)
	rs.leaveOnce.Do(func() { close(rs.leaving) })
	rs.wg.Wait()
	rs.turns.wait(nil)
	rs.cancel(errClosing)
	return count
}

// leaveBehind ends runs here that another replica runs again, whether it is asked to or finds them. Nothing is written to them any more when
// it returns; what was said until then is stored, and that to go is no crash of theirs.
func (rs *runs) leaveBehind(list []*run) {
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storedWait)
	defer cancel()
	for _, r := range list {
		r.left.Store(true)
		r.reopen()
	}
	rs.flush(ctx)
	for _, r := range list {
		if e, ok := r.entry.(runlog.Leaver); ok {
			e.Leave()
		}
		r.place.leave()
		if m := r.manager.Load(); m != nil {
			m.Stop(errElsewhere)
		}
	}
	rs.flush(ctx) // for what is on its way
}

// saveAll writes all ended runs to disk, so that clients find them after a restart.
func (rs *runs) saveAll() {
	if rs.disk == nil {
		return
	}
	rs.mu.Lock()
	var list []*run
	for _, r := range rs.kept {
		if !r.saved && !r.comesAgain() {
			list = append(list, r)
		}
	}
	rs.mu.Unlock()
	for _, r := range list {
		rs.save(r)
	}
	rs.disk.settler.pass()
}

// expired remembers ids that were known once, and to whom, as many as it can; the oldest make room.
type expired struct {
	ids  map[string]string // owners
	ring []string
	next int
}

const maxExpired = 8192

func (e *expired) add(id, owner string) {
	if e.ids == nil {
		e.ids = map[string]string{}
	}
	if _, ok := e.ids[id]; ok {
		return
	}
	if len(e.ring) < maxExpired {
		e.ring = append(e.ring, id)
	} else {
		delete(e.ids, e.ring[e.next])
		e.ring[e.next] = id
		e.next = (e.next + 1) % maxExpired
	}
	e.ids[id] = owner
}

// owner is who had a run; ok is false where it is not remembered.
func (e *expired) owner(id string) (owner string, ok bool) { owner, ok = e.ids[id]; return owner, ok }
