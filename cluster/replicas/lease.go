package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

const (
	// A caller that waits for a lease is woken by its release; this is for those that are not: beyond mostNews callers.
	lookAgain = 5 * time.Second
	mostNews  = 100

	longestPause = time.Second // between attempts while the store is away

	// A lease that is held for long is stored again before its record expires: at most so many at a time, one after the other.
	refreshEvery = time.Minute
	refreshAfter = leaseLife / 3
	refreshBatch = 5000
)

// Leases keep several replicas, and several callers in one, from doing one thing at once. They implement [tape.Leaser].
//
// The record of a lease has its holder and the holder's life, and the lease is held as long as that life goes on; see [Members]. So it
// costs nothing to hold it, and the leases of a replica that died are free [TTL] after its last beat, all at once. While the store is away
// nobody can take a lease, and those that are held stay so for Options.Grace. A lease is for liveness; see the package's comment on
// fencing.
//
// Callers of one replica get a lease in the order in which they came. Among replicas it is a race.
type Leases struct {
	m    *Members
	kind string

	mu        sync.Mutex // taken after Members.mu, where both are
	all       map[string]*lease
	returning []*lease // that could not be given back yet
	busy      bool     // they are being given back, or old ones stored again
	refreshed time.Time
}

// state is where a lease is between its first and its last request.
type state uint8

const (
	taking state = iota
	held
	giving
	gone
)

// lease implements [tape.Lease]. There may be 100 000 of it.
type lease struct {
	of       *Leases
	name     string
	life     *life
	revision uint64
	stored   int64 // Unix s
	line     *line // who waits for it in this process
	state    state
}

// line are callers that wait, each with the channel on which it gets its lease, to be taken.
type line struct{ waiting []chan *lease }

var _ tape.Leaser = (*Leases)(nil)

// leaseRecord is the meta of a lease's record. One without meta is free.
type leaseRecord struct {
	Replica string `json:"replica"`
	Life    uint64 `json:"life"`
	Since   int64  `json:"since"` // ms
}

// Leases returns the leases of one kind of things.
func (m *Members) Leases(kind string) (*Leases, error) {
	if store.KeyPart(kind) != kind || kind == replicaKind {
		return nil, fmt.Errorf("replicas: %.80q is not a name for leases; expected letters, digits, '_' and '-', and not %q",
			kind, replicaKind)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leases[kind] == nil {
		m.leases[kind] = &Leases{m: m, kind: kind, all: map[string]*lease{}, refreshed: time.Now()}
	}
	return m.leases[kind], nil
}

// Lease implements [tape.Leaser]. Without wait, and while the store is away, it is [ErrAway].
func (l *Leases) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	e, err := l.enter(ctx, name, wait)
	if err != nil {
		return nil, err
	}
	if doubt, err := l.take(ctx, e, wait); err != nil {
		if doubt {
			l.giveLater(e)
		} else {
			l.exit(e)
		}
		return nil, err
	}
	return e, nil
}

// Held returns how many leases this replica holds, or is taking or giving back.
func (l *Leases) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// Holder returns which replica holds a lease, and since when. It is not ok if nobody does. What it says may be a moment old: a replica that
// takes the lease finds out.
func (l *Leases) Holder(ctx context.Context, name string) (replica string, since time.Time, ok bool, err error) {
	if l.m.table == nil {
		return l.holderHere(name)
	}
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	r, err := l.m.table.Peek(ctx, l.key(name))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", time.Time{}, false, fmt.Errorf("replicas: the holder of the lease %.80q: %w", name, err)
	}
	var h leaseRecord
	if err != nil || json.Unmarshal(r.Meta, &h) != nil {
		return "", time.Time{}, false, nil
	}
	alive, err := l.m.inLife(ctx, h.Replica, h.Life)
	if err != nil {
		return "", time.Time{}, false, fmt.Errorf("replicas: the holder of the lease %.80q: %w", name, err)
	}
	if !alive {
		return "", time.Time{}, false, nil
	}
	return h.Replica, time.UnixMilli(h.Since), true, nil
}

// holderHere is Holder of a replica that is alone.
func (l *Leases) holderHere(name string) (replica string, since time.Time, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.all[name]; e != nil && e.state == held {
		return l.m.o.ID, time.Unix(e.stored, 0), true, nil
	}
	return "", time.Time{}, false, nil
}

// key is the key of a lease. Its last part lets a watcher of one lease name a prefix that no other lease has.
func (l *Leases) key(name string) string { return l.prefix(name) + "holder" }

func (l *Leases) prefix(name string) string { return l.kind + "/" + store.KeyPart(name) + "/" }

// enter waits until no other caller of this process has the lease or takes it.
func (l *Leases) enter(ctx context.Context, name string, wait bool) (*lease, error) {
	l.mu.Lock()
	first := l.all[name]
	if first == nil {
		e := &lease{of: l, name: name}
		l.all[name] = e
		l.mu.Unlock()
		return e, nil
	}
	if !wait {
		l.mu.Unlock()
		return nil, tape.ErrLeased
	}
	if first.line == nil {
		first.line = &line{}
	}
	q, mine := first.line, make(chan *lease, 1)
	q.waiting = append(q.waiting, mine)
	l.mu.Unlock()
	select {
	case e := <-mine:
		return e, nil
	case <-ctx.Done():
	case <-l.m.end.Done():
	}
	l.mu.Lock()
	i := slices.Index(q.waiting, mine)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 {
		l.exit(<-mine) // it was given to us meanwhile
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return nil, ErrClosed
}

// exit lets the next caller of this process have the lease.
func (l *Leases) exit(e *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exitLocked(e)
}

func (l *Leases) exitLocked(e *lease) {
	if l.all[e.name] != e {
		return
	}
	e.state = gone
	q := e.line
	if q == nil || len(q.waiting) == 0 {
		delete(l.all, e.name)
		return
	}
	next := &lease{of: l, name: e.name, line: q}
	l.all[e.name] = next
	q.waiting[0] <- next
	q.waiting = q.waiting[1:]
}

// take takes the lease among replicas. doubt means that it may have been stored as this replica's although there is an error.
func (l *Leases) take(ctx context.Context, e *lease, wait bool) (doubt bool, err error) {
	m := l.m
	var news *news
	defer func() { news.stop() }()
	var expected uint64
	for pauses := backoff.New(beatAgain/2, longestPause); ; {
		ending := m.ending()
		alive, err := m.nowOrLater(ctx, wait)
		if err != nil {
			return doubt, err
		}
		l.attempt(e, alive, expected)
		now := time.Now()
		r, err := l.store(ctx, e.name, alive, now, expected)
		if err == nil {
			if l.taken(e, alive, r.Rev, now) {
				return false, nil
			}
			expected = r.Rev // of a life that has ended meanwhile
			continue
		}
		moved, isMoved := errors.AsType[*store.Moved](err)
		if !isMoved {
			doubt = doubt || errors.Is(err, store.ErrUnsure)
			if err := l.away(ctx, err, wait, pauses); err != nil {
				return doubt, err
			}
			continue
		}
		expected, doubt = moved.Rev, false // what was stored, if anything, is seen or refused
		free, mine, err := l.free(ctx, moved.Record, alive)
		switch {
		case err != nil:
			if err := l.away(ctx, err, wait, pauses); err != nil {
				return doubt, err
			}
			continue
		case mine: // of an attempt that had no answer
			if l.taken(e, alive, moved.Rev, now) {
				return false, nil
			}
			continue
		case free:
			continue
		case !wait:
			return false, tape.ErrLeased
		case news == nil:
			news = m.listen(l.prefix(e.name))
		}
		if expected, err = news.wait(ctx, m, ending); err != nil {
			return false, err
		}
	}
}

// store stores the lease as this replica's.
func (l *Leases) store(ctx context.Context, name string, alive *life, now time.Time, after uint64) (store.Record, error) {
	if l.m.table == nil {
		return store.Record{}, nil
	}
	meta, err := json.Marshal(leaseRecord{l.m.o.ID, alive.number, now.UnixMilli()})
	if err != nil {
		return store.Record{}, err
	}
	return l.m.change(ctx, store.Put{Key: l.key(name), After: after, Meta: meta, Life: leaseLife})
}

// free reports whether a record leaves the lease to any caller, or is what this life has stored.
func (l *Leases) free(ctx context.Context, r store.Record, alive *life) (free, mine bool, err error) {
	var h leaseRecord
	if r.Rev == 0 || json.Unmarshal(r.Meta, &h) != nil {
		return true, false, nil
	}
	if h.Replica == l.m.o.ID && h.Life == alive.number {
		return false, true, nil
	}
	held, err := l.m.inLife(ctx, h.Replica, h.Life)
	return !held, false, err
}

// away waits before the next attempt, if there is one.
func (l *Leases) away(ctx context.Context, err error, wait bool, pauses *backoff.Pauses) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case l.m.end.Err() != nil:
		return ErrClosed
	case !wait:
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	select {
	case <-time.After(pauses.NextBackOff()):
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.m.end.Done():
		return ErrClosed
	}
	return nil
}

// attempt notes what is being stored, for giveLater.
func (l *Leases) attempt(e *lease, alive *life, expected uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.life, e.revision = alive, expected
}

// taken makes the lease held, unless its life has ended.
func (l *Leases) taken(e *lease, alive *life, revision uint64, now time.Time) bool {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.m.check(time.Now())
	if l.m.life != alive {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.life, e.revision, e.stored, e.state = alive, revision, now.Unix(), held
	return true
}

// Lost implements [tape.Lease].
func (e *lease) Lost() <-chan struct{} {
	e.of.m.holds(e.life) // closes it in a process that was stopped
	return e.life.lost
}

// Held reports whether the lease is held, as far as this replica can know without asking the store. It is false at once in a process that
// was stopped for longer than [TTL] and goes on.
func (e *lease) Held() bool {
	e.of.mu.Lock()
	life, is := e.life, e.state == held
	e.of.mu.Unlock()
	return is && e.of.m.holds(life)
}

// Release implements [tape.Lease]. If the store is away it is given back when the store is back.
func (e *lease) Release() {
	l := e.of
	l.mu.Lock()
	if e.state != held {
		l.mu.Unlock()
		return
	}
	e.state = giving
	l.mu.Unlock()
	if l.m.FailingSince().IsZero() && l.give(e) {
		l.exit(e)
		return
	}
	l.giveLater(e)
}

// give makes the lease's record free, if it is this life's. It returns false if that is not known. A free record ends by itself, and until
// then costs the next caller one request more. A deletion would cost that for the minutes for which engines remember it.
func (l *Leases) give(e *lease) bool {
	l.mu.Lock()
	life, revision, over := e.life, e.revision, e.state == gone
	l.mu.Unlock()
	for !over && l.m.table != nil {
		_, err := l.m.change(l.m.end, store.Put{Key: l.key(e.name), After: revision, Life: freeLife})
		moved, isMoved := errors.AsType[*store.Moved](err)
		switch {
		case err == nil:
			return true
		case !isMoved:
			return false
		}
		if _, mine, _ := l.free(l.m.end, moved.Record, life); !mine {
			return true
		}
		revision = moved.Rev
	}
	return true
}

// giveLater leaves it to the loop. Until then nobody in this process takes the lease.
func (l *Leases) giveLater(e *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[e.name] == e {
		e.state = giving
		l.returning = append(l.returning, e)
	}
}

// drop forgets the leases of a life that has ended. The caller has Members.mu.
func (l *Leases) drop(ended *life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if e.life == ended && e.state != taking {
			l.exitLocked(e)
		}
	}
	l.returning = slices.DeleteFunc(l.returning, func(e *lease) bool { return e.state == gone })
}

// tend gives back what could not be given back, and stores again what is held for long. The caller has Members.mu.
func (l *Leases) tend(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy || l.m.life == nil || l.m.life.doubt || l.m.closing {
		return
	}
	var old []*lease
	if now.Sub(l.refreshed) >= refreshEvery {
		l.refreshed = now
		for _, e := range l.all {
			if e.state == held && now.Unix()-e.stored >= int64(refreshAfter/time.Second) {
				if old = append(old, e); len(old) == refreshBatch {
					break
				}
			}
		}
	}
	give := l.returning
	if len(give)+len(old) == 0 {
		return
	}
	l.returning, l.busy = nil, true
	l.m.calls.Go(func() {
		for i, e := range give {
			if !l.give(e) {
				l.mu.Lock()
				l.returning = append(l.returning, give[i:]...)
				l.mu.Unlock()
				break
			}
			l.exit(e)
		}
		for _, e := range old {
			if !l.refresh(e) {
				break
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.busy = false
	})
}

// refresh stores a lease again. It returns false if the store is away.
func (l *Leases) refresh(e *lease) bool {
	l.mu.Lock()
	life, revision, is := e.life, e.revision, e.state == held
	l.mu.Unlock()
	if !is {
		return true
	}
	now := time.Now()
	r, err := l.store(l.m.end, e.name, life, now, revision)
	mine := true
	if moved, isMoved := errors.AsType[*store.Moved](err); isMoved {
		r = moved.Record
		_, mine, err = l.free(l.m.end, r, life)
	}
	if err != nil {
		return false
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.mu.Lock()
	is = e.state == held && e.life == life
	if is && mine {
		e.revision, e.stored = r.Rev, now.Unix()
	}
	l.mu.Unlock()
	if is && !mine && l.m.life == life {
		l.m.lose(errErased)
	}
	return true
}

var errErased = errors.New("a lease was deleted from the store")

// news wakes a caller that waits for a lease. A nil one wakes it from time to time.
type news struct {
	free  chan uint64 // has the revision of a record that is free, or 0 if there is no record
	close func()
}

// listen watches a lease. It returns nil if too many callers watch one.
func (m *Members) listen(prefix string) *news {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.news >= mostNews || m.closing {
		return nil
	}
	m.news++
	ctx, cancel := context.WithCancel(m.end)
	n := &news{free: make(chan uint64, 1)}
	var watching sync.WaitGroup
	watching.Go(func() { n.watch(m.table.Watch(ctx, prefix)) })
	n.close = func() {
		cancel()
		watching.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.news--
	}
	return n
}

func (n *news) stop() {
	if n != nil {
		n.close()
	}
}

// watch wakes the caller when the lease is free. What is stored already counts, too: it may have changed since the caller's last attempt.
func (n *news) watch(changes iter.Seq2[store.Change, error]) {
	there := false
	for c, err := range changes {
		switch {
		case err != nil:
			return
		case c.Live:
			if there {
				continue // it was told
			}
		case c.Gone:
			there = false
		default:
			if there = true; len(c.Meta) > 0 {
				continue // it is held
			}
		}
		select {
		case <-n.free: // only the newest matters
		default:
		}
		rev := c.Rev
		if !there {
			rev = 0
		}
		n.free <- rev // this goroutine is the only one that sends
	}
}

// wait waits until the lease may be free, and returns the revision to expect of its record.
func (n *news) wait(ctx context.Context, m *Members, ending <-chan struct{}) (expected uint64, err error) {
	var free <-chan uint64
	if n != nil {
		free = n.free
	}
	again := time.NewTimer(lookAgain/2 + rand.N(lookAgain/2))
	defer again.Stop()
	select {
	case expected = <-free:
	case <-ending:
	case <-again.C:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-m.end.Done():
		return 0, ErrClosed
	}
	return expected, nil
}

// nowOrLater returns this replica's life, and waits for it if need be.
func (m *Members) nowOrLater(ctx context.Context, wait bool) (*life, error) {
	if wait {
		return m.alive(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.check(time.Now())
	if m.end.Err() != nil {
		return nil, ErrClosed
	}
	if m.life == nil {
		return nil, ErrAway
	}
	return m.life, nil
}
