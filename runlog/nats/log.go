package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// Options are the settings of a log.
type Options struct {
	Keep time.Duration        // how long a message is kept; default a day
	Tube func() *tube.Options // of the tubes that are made of what is stored; required
	// Async has messages acknowledged before they are written, where there is one copy of them. It is always so with an embedded server,
	// which syncs each message that it writes: it ends together with the runs of its replica. With a server of its own a run whose
	// messages are lost with that is given up with [runlog.ErrLost].
	Async bool
	Log   *slog.Logger
}

const (
	defaultKeep = 24 * time.Hour
	// ackWait is when it is not known whether a message was stored: a graceful change of leader takes 0.4 s.
	ackWait = time.Second
	// After a failure a message is sent again, at first soon, then less often.
	firstRetry, lastRetry = 50 * time.Millisecond, 2 * time.Second
	// awayAfter is when a run is told that it is not stored.
	awayAfter = 5 * time.Second
	// closeWait is for what is not stored yet when the log is closed.
	closeWait = 3 * time.Second
	// inbox is how many acknowledgements may wait for the goroutine; what is beyond is lost, and asked for again.
	inbox = 16 << 10
	// maxBatch is when no more pieces are put into a batch. Less than a message may have: a piece is one block.
	maxBatch = 256 << 10
	// headRoom is what a message has beside records.
	headRoom = 1 << 10
	// markerLife is how long it stays noted that a replica does not run a run any more.
	markerLife = time.Minute

	streamName = "RUNS"
	pagesName  = "PAGES"
	goingName  = "RUNNING"
	runsToken  = "runs"
	pagesToken = "pages"
	tailsToken = "tails"
	goingToken = "running"
)

// stream is one whose subjects have a last message that matters.
type stream struct {
	name    string
	barrier *cluster.Barrier
}

// Log is a log of runs that replicas have in common.
type Log struct {
	cluster *cluster.Cluster
	conn    *client.Conn
	options Options
	log     *slog.Logger
	runs    stream
	pages   stream
	going   string // the stream of who runs what
	largest int    // bytes of records in a message
	handles atomic.Uint64
	unwatch func()
	ctx     context.Context // of all that the log has started
	stop    context.CancelFunc
	running sync.WaitGroup

	// For tests: what lose says true of is not seen; and how long an answer may take.
	lose    func(*client.Msg) bool
	ackWait time.Duration

	pump pump

	mu      sync.Mutex
	closed  bool
	tails   map[string]*tail
	adopted map[string]*position // of runs that Keep goes on with
	sealed  map[string]*sealed   // by their subjects
}

var _ runlog.Shared = (*Log)(nil)

// Open makes the streams where they are not there, and begins to write.
func Open(ctx context.Context, c *cluster.Cluster, o Options) (*Log, error) {
	if o.Tube == nil {
		panic("runlog/nats: Options.Tube is required")
	}
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{cluster: c, conn: c.Conn(), options: o, log: o.Log, going: c.Name(goingName), ackWait: ackWait, tails: map[string]*tail{}, adopted: map[string]*position{}, sealed: map[string]*sealed{}}
	for s, names := range map[*stream][2]string{&l.runs: {streamName, runsToken}, &l.pages: {pagesName, pagesToken}} {
		s.name = c.Name(names[0])
		s.barrier = c.Barrier(s.name, c.Subject(names[1], cluster.BarrierToken))
	}
	l.largest = int(min(l.conn.MaxPayload(), 1<<20)) - headRoom
	if l.largest < headRoom {
		return nil, fmt.Errorf("runlog: the servers accept messages of up to %d bytes; expected at least %d", l.conn.MaxPayload(), 2*headRoom)
	}
	mode := jetstream.DefaultPersistMode
	if o.Async || c.Server() != nil {
		mode = jetstream.AsyncPersistMode
	}
	if _, err := c.Stream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{c.Subject(runsToken, "*")}, MaxAge: o.Keep, AllowDirect: true, AllowRollup: true,
		Duplicates:  min(o.Keep, time.Second), // no message has an id of that kind
		PersistMode: mode,
		RePublish:   &jetstream.RePublish{Source: c.Subject(runsToken, "*"), Destination: c.Subject(tailsToken) + ".{{wildcard(1)}}"},
	}); err != nil {
		return nil, err
	}
	if _, err := c.Stream(ctx, jetstream.StreamConfig{
		Name: pagesName, Subjects: []string{c.Subject(pagesToken, "*")}, MaxAge: o.Keep, AllowDirect: true, AllowRollup: true,
		Duplicates: min(o.Keep, time.Second), PersistMode: mode,
	}); err != nil {
		return nil, err
	}
	if _, err := c.Stream(ctx, jetstream.StreamConfig{
		Name: goingName, Subjects: []string{c.Subject(goingToken, "*", "*")}, MaxAge: o.Keep, MaxMsgsPerSubject: 1, AllowDirect: true,
		AllowRollup: true, AllowMsgTTL: true, Duplicates: min(o.Keep, time.Second), PersistMode: mode,
	}); err != nil {
		return nil, err
	}
	l.ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := l.pump.start(l); err != nil {
		l.stop()
		return nil, fmt.Errorf("runlog: %w", err)
	}
	l.unwatch = c.Watch(func(s cluster.State) {
		if s.Connected {
			l.back()
		}
	})
	return l, nil
}

func (l *Log) subject(run string) string { return l.cluster.Subject(runsToken, cluster.Token(run)) }

func (l *Log) tailSubject(run string) string {
	return l.cluster.Subject(tailsToken, cluster.Token(run))
}

// Holds is true: what is stored is shown.
func (l *Log) Holds() bool { return true }

// Keep is that of [runlog.Log].
func (l *Log) Keep(r runlog.Run) runlog.Entry {
	if !r.Tube.Held() {
		panic("runlog/nats: the tube of a run must be held")
	}
	e := &entry{log: l, run: r, subject: l.subject(r.ID), handle: l.handles.Add(1)}
	l.mu.Lock()
	p := l.adopted[r.ID]
	delete(l.adopted, r.ID)
	l.mu.Unlock()
	if p != nil {
		e.last, e.begin, e.noted = p.last, p.begin, true
		if p.tube == r.Tube {
			e.opened, e.other, e.at = true, p.other, p.at
			if n := r.Tube.Len(); n > p.next {
				e.leap, e.at = n, r.Tube.Behind()
			}
		} else if r.Tube.Len() <= p.next {
			panic("runlog/nats: a run that is run once more must begin with a higher event")
		}
	}
	r.Tube.WhenSent(func() { l.pump.look(e) })
	l.pump.look(e)
	return e
}

// position is where a run that was taken over is gone on with.
type position struct {
	tube        *tube.Tube
	next        uint64     // number of the next event
	at          tube.Place // behind what is stored: what follows begins a block, since whoever follows the run elsewhere may have others
	last, begin uint64
	other       bool // see flagOther
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
	l.unwatch()
	l.stop()
	l.running.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: some of what runs have sent is not", runlog.ErrAway)
	}
	return err
}

// back has everything that waits for the servers tried at once.
func (l *Log) back() {
	l.pump.do(l.pump.retryAll)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tails {
		t.kick()
	}
}

// Stats are figures of what a replica writes.
type Stats struct {
	Runs   int           // that are not stored to their end
	Behind int           // of them, those that wait for the servers longer than usual
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
	case <-l.ctx.Done():
		return Stats{}
	}
	return s
}
