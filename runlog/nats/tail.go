package nats

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

const (
	// tailMessages may wait for a tail's goroutine; what is beyond is lost, and read again.
	tailMessages = 256
	// A run that is silent is asked for its last message, at first soon, then less often.
	firstCheck, lastCheck = time.Second, 8 * time.Second
	// tailGrace is how long a run is followed that nobody reads: a client that reconnects finds it there.
	tailGrace = 5 * time.Second
)

// tail is a run that is followed, by one goroutine for all who read it here.
type tail struct {
	log     *Log
	run     string
	applied *applied // the goroutine's, but for what is atomic; there when ready is closed and err nil
	ready   chan struct{}
	err     error
	gone    chan struct{}
	checks  chan struct{} // holds one wish for a check
	left    chan struct{} // holds one word that readers have left

	readers int // guarded by the log's lock
}

// reading is a caller's tail.
type reading struct {
	*tail
	once sync.Once
}

func (r *reading) Tube() *tube.Tube      { return r.applied.follower.Tube() }
func (r *reading) Opening() []byte       { return load(&r.applied.opening) }
func (r *reading) Head() []byte          { return load(&r.applied.head) }
func (r *reading) Gone() <-chan struct{} { return r.gone }

func (r *reading) Leave() {
	r.once.Do(func() { r.log.leave(r.tail) })
}

func (l *Log) leave(t *tail) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.readers--; t.readers == 0 {
		signal(t.left)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (t *tail) kick() { signal(t.checks) }

// Follow is that of [runlog.Shared].
func (l *Log) Follow(ctx context.Context, id string) (runlog.Tail, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, runlog.ErrClosed
	}
	t := l.tails[id]
	if t == nil {
		t = &tail{log: l, run: id, ready: make(chan struct{}), gone: make(chan struct{}), checks: make(chan struct{}, 1), left: make(chan struct{}, 1)}
		l.tails[id] = t
		l.running.Go(t.follow)
	}
	t.readers++
	l.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
		l.leave(t)
		return nil, context.Cause(ctx)
	}
	if t.err != nil {
		l.leave(t)
		if l.ctx.Err() != nil {
			return nil, runlog.ErrClosed
		}
		return nil, t.err
	}
	return &reading{tail: t}, nil
}

// follow is the goroutine.
func (t *tail) follow() {
	l := t.log
	messages := make(chan *client.Msg, tailMessages)
	sub, err := t.begin(messages)
	t.err = err
	if err != nil {
		t.forget(true)
		close(t.ready)
		return
	}
	close(t.ready)
	unsubscribe := func() {
		if sub != nil {
			_ = sub.Unsubscribe() // an error says that the connection is gone
			sub = nil
		}
	}
	defer unsubscribe()
	wait := firstCheck
	check := time.NewTimer(wait)
	defer check.Stop()
	grace := time.NewTimer(tailGrace)
	defer grace.Stop()
	follow := time.NewTicker(followEvery)
	defer follow.Stop()
	told := t.applied.wrote
	for {
		if t.applied.ended() {
			unsubscribe() // nothing comes any more
			check.Stop()
			follow.Stop()
		} else if w := t.applied.wrote; w != told { // another replica has it, or the same one has other pages
			told = w
			_ = l.tell(t.applied) // it is told again
		}
		var err error
		select {
		case m := <-messages:
			wait = firstCheck
			check.Reset(wait)
			err = t.message(m)
		case <-t.checks:
			err = t.check()
		case <-check.C:
			err = t.check()
			wait = min(2*wait, lastCheck)
			check.Reset(wait)
		case <-follow.C:
			err = l.tell(t.applied)
		case <-t.left:
			grace.Reset(tailGrace)
		case <-grace.C:
			if t.forget(false) {
				return
			}
		case <-l.ctx.Done():
			t.forget(true)
			close(t.gone)
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, runlog.ErrUnknown) || errors.Is(err, errMessage) || errors.Is(err, tube.ErrArchive):
			if !errors.Is(err, runlog.ErrUnknown) {
				l.log.Error("cannot follow a run", slog.String("run", t.run), slog.Any("error", err))
			}
			t.forget(true)
			close(t.gone)
			return
		case l.ctx.Err() == nil:
			l.log.Debug("will read a stored run again later", slog.String("run", t.run), slog.Any("error", err))
		}
	}
}

// begin subscribes, and takes what is stored.
func (t *tail) begin(messages chan *client.Msg) (*client.Subscription, error) {
	l := t.log
	sub, err := l.conn.ChanSubscribe(l.tailSubject(t.run), messages)
	if err != nil {
		return nil, err
	}
	// The question for the last message goes the way of the subscription, behind it: what is not in the answer is republished to us.
	a, err := l.join(l.ctx, t.run)
	for errors.Is(err, runlog.ErrAway) && t.wanted() { // it may take its time: who reads waits as long as it wants
		a, err = l.join(l.ctx, t.run)
	}
	if err != nil {
		_ = sub.Unsubscribe()
		return nil, err
	}
	t.applied = a
	return sub, nil
}

// join takes all that is stored of a run, and has its owner know that it is followed.
func (l *Log) join(ctx context.Context, run string) (a *applied, err error) {
	err = l.again(ctx, func() error {
		if a, err = l.replayOnce(ctx, run); err != nil || a.ended() || a.wrote.life == 0 {
			return err
		}
		if ok, err := l.ask(ctx, a); ok || err != nil {
			return err
		}
		// The owner is gone, or stands still. Should it go on after all, what was in pages may be in a message meanwhile.
		if err := l.readPages(ctx, a); err != nil {
			return err
		}
		seq, _, err := l.last(ctx, run)
		if err != nil || seq <= a.last {
			return err
		}
		return l.readUpTo(ctx, a, seq)
	})
	return a, err
}

// wanted says whether somebody reads it, or waits for it.
func (t *tail) wanted() bool {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	return t.readers > 0
}

// forget takes the tail out of those that are shared: where nobody reads it, or anyway.
func (t *tail) forget(anyway bool) bool {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	if t.readers > 0 && !anyway {
		return false
	}
	if t.log.tails[t.run] == t {
		delete(t.log.tails, t.run)
	}
	return true
}

// message takes one that was republished.
func (t *tail) message(m *client.Msg) error {
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil || seq <= t.applied.last {
		return nil // not of our stream, or there already
	}
	if lose := t.log.lose; lose != nil && lose(m) {
		return nil
	}
	h, _, err := parse(m.Data)
	if err != nil {
		return err
	}
	if h.before == t.applied.last {
		return t.applied.take(seq, m.Data)
	}
	return t.log.readUpTo(t.log.ctx, t.applied, seq)
}

// check sees whether something was missed.
func (t *tail) check() error {
	if t.applied.ended() {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.log.ctx, 2*answerWait)
	defer cancel()
	seq, err := t.log.lastHere(ctx, t.run)
	if errors.Is(err, runlog.ErrUnknown) {
		seq, _, err = t.log.last(ctx, t.run) // the leader knows
	}
	if err != nil || seq <= t.applied.last {
		return err
	}
	return t.log.readUpTo(ctx, t.applied, seq)
}
