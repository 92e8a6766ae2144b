package logs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

const (
	// The store is read at such intervals while the owner of a run does not answer, or the run is silent: at first soon, then less often.
	firstPoll, lastPoll   = 100 * time.Millisecond, 4 * time.Second
	firstCheck, lastCheck = time.Second, 8 * time.Second
	// readWait is for what is read of a run at once.
	readWait = 20 * time.Second
	// tailGrace is how long a run is followed that nobody reads: a client that reconnects finds it there.
	tailGrace = 5 * time.Second
)

// tail is a run that is followed, by one goroutine for all who read it here.
type tail struct {
	log   *Log
	a     *applied // the goroutine's, but for what is atomic; there when ready is closed and err nil
	ready chan struct{}
	err   error
	gone  chan struct{}
	more  chan struct{} // holds one word that there is something in the queue, or lost
	left  chan struct{} // holds one word that readers have left

	// The goroutine's.
	link   *link
	run    uint64 // in the link
	synced bool   // the owner sends what is stored

	// These are guarded by the log's lock.
	readers int
	waiting []chan struct{} // of readers who have come late: closed when all is taken that was stored then
	queue   [][]byte        // records that the owner has sent
	queued  int             // bytes of them
	lost    bool            // what the owner has sent may be lost
}

// reading is a caller's tail.
type reading struct {
	*tail
	once sync.Once
}

func (r *reading) Tube() *tube.Tube      { return r.a.follower.Tube() }
func (r *reading) Opening() []byte       { return load(&r.a.opening) }
func (r *reading) Head() []byte          { return load(&r.a.end) }
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

// Follow is that of [runlog.Shared].
func (l *Log) Follow(ctx context.Context, id string) (runlog.Tail, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, runlog.ErrClosed
	}
	t := l.tails[id]
	fresh := make(chan struct{})
	if t != nil {
		t.waiting = append(t.waiting, fresh)
		t.lose()
	} else {
		close(fresh)
		t = &tail{
			log: l, a: l.newApplied(id), ready: make(chan struct{}), gone: make(chan struct{}),
			more: make(chan struct{}, 1), left: make(chan struct{}, 1),
		}
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
	select {
	case <-fresh:
	case <-t.gone:
	case <-ctx.Done():
		l.leave(t)
		return nil, context.Cause(ctx)
	}
	return &reading{tail: t}, nil
}

// follow is the goroutine.
func (t *tail) follow() {
	l := t.log
	defer func() { l.part(t, t.link, t.run) }()
	t.err = t.sync()
	pauses := backoff.New(firstRetry, lastRetry)
	for errors.Is(t.err, runlog.ErrAway) && t.wanted() && backoff.Sleep(l.ctx, pauses.NextBackOff()) == nil {
		t.err = t.sync() // it may take its time: who reads waits as long as it wants
	}
	if t.err != nil {
		t.forget(true)
		close(t.ready)
		return
	}
	close(t.ready)
	wait := t.interval(0)
	check := time.NewTimer(wait)
	defer check.Stop()
	grace := time.NewTimer(tailGrace)
	defer grace.Stop()
	heard := false // since the last check
	for {
		if t.a.ended() {
			check.Stop()
		}
		var err error
		select {
		case <-t.more:
			was := t.synced
			err, heard = t.drain(), true
			if was && !t.synced {
				wait = t.interval(0)
				check.Reset(wait)
			}
		case <-check.C:
			if !heard || !t.synced {
				err = t.check()
				wait = t.interval(wait)
			}
			heard = false
			check.Reset(wait)
		case <-t.left:
			grace.Reset(tailGrace)
		case <-grace.C:
			if t.forget(false) {
				return
			}
		case <-l.ctx.Done():
			err = runlog.ErrClosed
		}
		if err != nil && t.failed(err) {
			t.forget(true)
			close(t.gone)
			return
		}
	}
}

// interval is how long to wait for the next check, behind one that waited so long.
func (t *tail) interval(before time.Duration) time.Duration {
	if t.synced {
		return min(max(2*before, firstCheck), lastCheck)
	}
	return min(max(2*before, firstPoll), lastPoll)
}

// failed reports whether the run cannot be followed any more.
func (t *tail) failed(err error) bool {
	l := t.log
	switch {
	case l.ctx.Err() != nil, errors.Is(err, runlog.ErrUnknown):
		return true
	case errors.Is(err, errRecord), errors.Is(err, tube.ErrArchive):
		l.log.Error("cannot follow a run", slog.String("run", t.a.run), slog.Any("error", err))
		return true
	}
	l.log.Debug("will read a stored run again later", slog.String("run", t.a.run), slog.Any("error", err))
	return false
}

// sync takes all that is stored, and has the owner send what follows. If the owner does not answer, pages are read, too.
func (t *tail) sync() error {
	l, a := t.log, t.a
	ctx, cancel := context.WithTimeout(l.ctx, readWait)
	defer cancel()
	t.synced = false
	return again(ctx, func() error {
		if err := l.readOwn(ctx, a); err != nil || a.ended() {
			l.part(t, t.link, t.run)
			return err
		}
		if t.link == nil || t.link.replica != a.head.replica || t.run != a.head.run {
			l.part(t, t.link, t.run)
		}
		if t.link, t.run = l.join(t, &a.head), a.head.run; t.link == nil {
			return runlog.ErrClosed
		}
		last, records, ok := t.link.watch(a)
		if !ok {
			if err := l.readPages(ctx, a); err != nil {
				return err
			}
			return l.unchanged(ctx, a)
		}
		if last > a.last {
			if err := l.readOwn(ctx, a); err != nil {
				return err
			}
		}
		if err := stale(a.take(records)); err != nil {
			return err
		}
		t.synced = true
		return nil
	})
}

// check sees whether something was missed.
func (t *tail) check() error {
	if t.a.ended() {
		return nil
	}
	if !t.synced {
		return t.sync()
	}
	ctx, cancel := context.WithTimeout(t.log.ctx, readWait)
	defer cancel()
	_, h, err := t.log.info(ctx, t.a.run)
	if err == nil && (h.end > 0 || !h.sameOwner(&t.a.head)) {
		return t.sync()
	}
	return err
}

// push takes records that the owner has sent; none: the run is to be read. It is called with the log's lock.
func (t *tail) push(records []byte) {
	if len(records) == 0 || t.queued+len(records) > maxQueue {
		t.lost, t.queue, t.queued = true, nil, 0
	} else {
		t.queue, t.queued = append(t.queue, records), t.queued+len(records)
	}
	signal(t.more)
}

// lose has the run read again. It is called with the log's lock.
func (t *tail) lose() {
	t.lost = true
	signal(t.more)
}

// drain takes what the owner has sent.
func (t *tail) drain() error {
	t.log.mu.Lock()
	queue, lost, waiting := t.queue, t.lost, t.waiting
	t.queue, t.queued, t.lost, t.waiting = nil, 0, false, nil
	t.log.mu.Unlock()
	if lost {
		queue = nil // it is stored, and will be read. A run's end would hide that something before it is missing.
	}
	defer func() {
		for _, fresh := range waiting {
			close(fresh)
		}
	}()
	for _, records := range queue {
		if err := stale(t.a.take(records)); errors.Is(err, errStale) {
			lost = true
			break
		} else if err != nil {
			return err
		}
	}
	if t.a.ended() {
		t.log.part(t, t.link, t.run)
		return nil
	}
	if lost {
		return t.sync()
	}
	return nil
}

// wanted reports whether somebody reads it, or waits for it.
func (t *tail) wanted() bool {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	return t.readers > 0
}

// forget takes the tail out of those that are shared: if nobody reads it, or anyway.
func (t *tail) forget(anyway bool) bool {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	if t.readers > 0 && !anyway {
		return false
	}
	if t.log.tails[t.a.run] == t {
		delete(t.log.tails, t.a.run)
	}
	return true
}
