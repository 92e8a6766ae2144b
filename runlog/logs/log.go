package logs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
)

// Options are the settings of a log. Those without a default are required.
type Options struct {
	Logs    store.LogEngine
	Tables  store.Engine
	Bus     replicas.Bus         // between the replicas; this log is the only one that serves it
	Replica string               // the id of this one, which no other replica has or had
	Tube    func() *tube.Options // of the tubes that are made of what is stored
	Keep    time.Duration        // how long an entry is kept; default a day
	Collect time.Duration        // how long a page is collected while many runs write; default 5 ms
	Push    time.Duration        // the least time between two messages to a replica that follows runs; default 20 ms
	Log     *slog.Logger
}

const (
	defaultKeep    = 24 * time.Hour
	defaultCollect = 5 * time.Millisecond
	defaultPush    = 20 * time.Millisecond

	// Between two attempts, at first and at last.
	firstRetry, lastRetry = 50 * time.Millisecond, 2 * time.Second
	awayAfter             = 5 * time.Second // then a run is told that it is not stored
	behindAfter           = time.Second     // then a run counts as one that waits for the store
	closeWait             = 3 * time.Second // for what is not stored yet when the log is closed

	runsSpace    = "runs"
	pagesSpace   = "pages"
	runningTable = "running"
)

// Log is a log of runs that replicas have in common.
type Log struct {
	options Options
	log     *slog.Logger
	runs    store.Log
	pages   store.Log
	going   store.Table // who runs what
	handles atomic.Uint64
	unserve func()
	ctx     context.Context // of all that the log has started
	stop    context.CancelFunc
	running sync.WaitGroup
	pump    pump

	mu      sync.Mutex
	closed  bool
	answers int // on their way to other replicas
	tails   map[string]*tail
	links   map[string]*link
	adopted map[string]*position // of runs that Keep goes on with
	sealed  map[string]*sealed   // by the names of page logs
}

var _ runlog.Shared = (*Log)(nil)

// Open opens the spaces and the table, and begins to write.
func Open(ctx context.Context, o Options) (*Log, error) {
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	if o.Collect <= 0 {
		o.Collect = defaultCollect
	}
	if o.Push <= 0 {
		o.Push = defaultPush
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{
		options: o, log: o.Log, tails: map[string]*tail{}, links: map[string]*link{}, adopted: map[string]*position{},
		sealed: map[string]*sealed{},
	}
	// A database that is killed loses its last Async commits. The beginning and the end of a run must outlast that. Pages need not, since the
	// owner of a run has what is in them.
	var err error
	if l.runs, err = o.Logs.Log(ctx, store.LogOptions{Space: runsSpace, Durability: store.Synced, Keep: o.Keep}); err != nil {
		return nil, err
	}
	if l.pages, err = o.Logs.Log(ctx, store.LogOptions{Space: pagesSpace, Keep: o.Keep}); err != nil {
		return nil, err
	}
	if l.going, err = o.Tables.Table(ctx, store.TableOptions{Name: runningTable}); err != nil {
		return nil, err
	}
	l.ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.pump.start(l)
	if l.unserve, err = o.Bus.Serve(l.serve); err != nil {
		l.stop()
		l.running.Wait()
		return nil, fmt.Errorf("runlog: %w", err)
	}
	return l, nil
}

// runName is the name of a run's log.
func runName(run string) string { return store.KeyPart(run) }

// pageName is the name of a page log.
func pageName(replica string, life uint64) string {
	return store.KeyPart(replica) + "/" + strconv.FormatUint(life, 36)
}

func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// Holds is true: what is stored is shown.
func (l *Log) Holds() bool { return true }

// Keep is that of [runlog.Log].
func (l *Log) Keep(r runlog.Run) runlog.Entry {
	if !r.Tube.Held() {
		panic("runlog/logs: the tube of a run must be held")
	}
	e := &entry{log: l, run: r, name: runName(r.ID), handle: l.handles.Add(1), from: r.Tube.Len(), whole: true}
	l.mu.Lock()
	p := l.adopted[r.ID]
	delete(l.adopted, r.ID)
	l.mu.Unlock()
	if p != nil {
		e.whole = false // it may leap, and its beginning may be another replica's
		e.handle, e.rev, e.last, e.head, e.note = p.head.run, p.rev, p.last, p.head, p.note
		if p.tube == r.Tube {
			e.opened, e.at = true, p.at
			if n := r.Tube.Len(); n > p.next {
				e.leap, e.at = n, r.Tube.Behind()
			}
		} else if r.Tube.Len() <= p.next {
			panic("runlog/logs: a run that is run once more must begin with a higher event")
		}
	}
	r.Tube.WhenSent(func() { l.pump.look(e) })
	l.pump.look(e)
	return e
}

// position is where an adopted run goes on.
type position struct {
	tube *tube.Tube
	next uint64     // number of the next event
	at   tube.Place // behind what is stored: what follows begins a block, since followers elsewhere may have other blocks
	rev  store.Rev
	last uint64
	head head
	note uint64 // the revision of its record in the table running
}

// Flush is that of [runlog.Log].
func (l *Log) Flush(ctx context.Context) error {
	done := make(chan struct{})
	if !l.pump.do(func() { l.pump.flush(done) }) {
		return runlog.ErrClosed
	}
	select {
	case <-done:
		return nil
	case <-l.ctx.Done():
		return runlog.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close is that of [runlog.Log].
func (l *Log) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	err := l.Flush(ctx)
	l.end()
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: some of what runs have sent is not", runlog.ErrAway)
	}
	return err
}

// end ends all that the log has started.
func (l *Log) end() {
	l.unserve()
	l.stop()
	l.running.Wait()
}

// Stats are figures of what a replica writes.
type Stats struct {
	Runs   int           // that are not stored to their end
	Behind int           // of them, those that wait for the store longer than usual
	Oldest time.Duration // since when the one that waits longest does; 0 where none does
}

// Stats returns the figures of now.
func (l *Log) Stats() Stats {
	var s Stats
	done := make(chan struct{})
	if !l.pump.do(func() { s = l.pump.stats(time.Now()); close(done) }) {
		return s
	}
	select {
	case <-done:
		return s
	case <-l.ctx.Done():
		return Stats{}
	}
}

// away marks errors of a store that cannot be used now.
func away(err error) error {
	switch {
	case err == nil, errors.Is(err, runlog.ErrAway), errors.Is(err, runlog.ErrUnknown):
		return err
	case errors.Is(err, store.ErrClosed):
		return runlog.ErrClosed
	case errors.Is(err, store.ErrAway), errors.Is(err, store.ErrUnsure), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", runlog.ErrAway, err)
	}
	return err
}
