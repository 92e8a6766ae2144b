package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/tape"
	"github.com/nats-io/nats.go"
)

const (
	// Who waits for a lease is woken by its release; this is for news that was lost.
	lookAgain = 5 * time.Second

	longestPause = time.Second // between attempts while the servers are away

	// A lease that is held for long is stored anew, so that it does not go away: at most so many at a time, one after the other.
	refreshEvery = time.Minute
	refreshAfter = leaseLife / 3
	refreshBatch = 5000
)

// Leases keep several replicas, and several callers in one, from doing one thing at once. They implement [tape.Leaser].
//
// A lease is a key with its holder and the holder's life in it, and is held as long as that life goes on: see [Presence]. So it
// costs nothing to hold it, and the leases of a replica that died are free [TTL] after its last beat, all at once. While the servers are away
// nobody can take a lease, and those that are held stay so for Options.Grace: whoever has one goes on, and stores
// nothing. A lease is for liveness. That a writer who has lost it, and does not know it yet, writes nothing is for the
// sequence that it expects with each append.
//
// Callers of one replica get a lease in the order in which they came. Among replicas it is a race.
type Leases struct {
	p     *Presence
	space string

	mu        sync.Mutex // taken after Presence.mu, where both are
	all       map[string]*lease
	returning []*lease // that could not be given back yet
	busy      bool     // they are being given back, or old ones stored anew
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

// Leases are the leases of one kind of things, which has a name: a–z, A–Z, 0–9, '_', '-'. It joins the other replicas.
func (c *Cluster) Leases(ctx context.Context, bucket string) (*Leases, error) {
	if !valid(bucket) || bucket == replicaSpace {
		return nil, fmt.Errorf("cluster: %.80q is not a name for leases; expected a–z, A–Z, 0–9, '_' and '-', and not %q", bucket, replicaSpace)
	}
	p, err := c.Presence(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.leases {
		if l.space == bucket {
			return l, nil
		}
	}
	l := &Leases{p: p, space: bucket, all: map[string]*lease{}, refreshed: time.Now()}
	p.leases = append(p.leases, l)
	return l, nil
}

// Lease implements [tape.Leaser]. Without wait, and while the servers are away, it is [ErrAway].
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

// Held is how many leases this replica holds, or is taking or giving back.
func (l *Leases) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// Holder says which replica holds a lease, and since when. It is not ok where nobody does, and where it was asked of a server that led
// once and has not learnt better: who takes the lease then, finds out.
func (l *Leases) Holder(ctx context.Context, name string) (replica string, since time.Time, ok bool, err error) {
	r, err := l.p.glance(ctx, l.key(name))
	if err != nil && !errors.Is(err, errNoKey) {
		return "", time.Time{}, false, fmt.Errorf("cluster: the holder of the lease %.80q: %w", name, err)
	}
	var h leaseRecord
	if err != nil || r.marker || json.Unmarshal(r.value, &h) != nil {
		return "", time.Time{}, false, nil
	}
	alive, err := l.p.inLife(ctx, h.Replica, h.Life)
	if err != nil {
		return "", time.Time{}, false, fmt.Errorf("cluster: the holder of the lease %.80q: %w", name, err)
	}
	if !alive {
		return "", time.Time{}, false, nil
	}
	return h.Replica, time.UnixMilli(h.Since), true, nil
}

func (l *Leases) key(name string) string { return l.p.key(l.space, Token(name)) }

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
	case <-l.p.c.end.Done():
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

// take takes the lease among replicas. doubt says that it may have been stored as this replica's although there is an error.
func (l *Leases) take(ctx context.Context, e *lease, wait bool) (doubt bool, err error) {
	p, key := l.p, l.key(e.name)
	var news *news
	defer func() { news.stop() }()
	var expected uint64
	for pause := beatAgain / 2; ; {
		ending := p.ending()
		alive, err := p.nowOrLater(ctx, wait)
		if err != nil {
			return doubt, err
		}
		l.attempt(e, alive, expected)
		now := time.Now()
		revision, err := p.put(ctx, key, leaseRecord{p.c.replica, alive.number, now.UnixMilli()}, leaseLife, &expected)
		if err == nil {
			if l.taken(e, alive, revision, now) {
				return false, nil
			}
			expected = revision // of a life that has ended meanwhile
			continue
		}
		if !WrongSequence(err) {
			doubt = doubt || !Unstored(err)
			if err := l.away(ctx, err, wait, &pause); err != nil {
				return doubt, err
			}
			continue
		}
		r, err := p.get(ctx, key)
		switch {
		case errors.Is(err, errNoKey):
			expected = 0
			continue
		case err != nil:
			if err := l.away(ctx, err, wait, &pause); err != nil {
				return doubt, err
			}
			continue
		}
		expected, doubt = r.revision, false // what was stored, if anything, is seen or refused
		free, mine, err := l.free(ctx, r, alive)
		switch {
		case err != nil:
			if err := l.away(ctx, err, wait, &pause); err != nil {
				return doubt, err
			}
			continue
		case mine: // of an attempt that had no answer
			if l.taken(e, alive, r.revision, now) {
				return false, nil
			}
			continue
		case free:
			continue
		case !wait:
			return false, tape.ErrLeased
		case news == nil:
			if news, err = p.listen(l.space, Token(e.name)); err != nil {
				return false, fmt.Errorf("cluster: wait for the lease %.80q: %w", e.name, err)
			}
			expected = 0 // look again, now that nothing is missed
			continue
		}
		if expected, err = news.wait(ctx, ending); err != nil {
			return false, err
		}
	}
}

// free says whether a record of a key leaves the lease to whoever comes, or is what this life has stored.
func (l *Leases) free(ctx context.Context, r record, alive *life) (free, mine bool, err error) {
	var h leaseRecord
	if r.marker || json.Unmarshal(r.value, &h) != nil {
		return true, false, nil
	}
	if h.Replica == l.p.c.replica && h.Life == alive.number {
		return false, true, nil
	}
	held, err := l.p.inLife(ctx, h.Replica, h.Life)
	return !held, false, err
}

// away waits before the next attempt, if there is one.
func (l *Leases) away(ctx context.Context, err error, wait bool, pause *time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case l.p.c.end.Err() != nil:
		return ErrClosed
	case !wait:
		return fmt.Errorf("%w: %s", ErrAway, l.p.c.reason(err))
	}
	select {
	case <-time.After(*pause/2 + rand.N(*pause/2+1)):
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.p.c.end.Done():
		return ErrClosed
	}
	*pause = min(2**pause, longestPause)
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
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.check(time.Now())
	if l.p.life != alive {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.life, e.revision, e.stored, e.state = alive, revision, now.Unix(), held
	return true
}

// Lost implements [tape.Lease].
func (e *lease) Lost() <-chan struct{} {
	e.of.p.holds(e.life) // closes it for a process that was stopped
	return e.life.lost
}

// Held says whether the lease is held, as far as this replica can know without asking the servers. It is at once false in a
// process that was stopped for longer than [TTL] and goes on.
func (e *lease) Held() bool {
	e.of.mu.Lock()
	life, is := e.life, e.state == held
	e.of.mu.Unlock()
	return is && e.of.p.holds(life)
}

// Release implements [tape.Lease]. Where the servers are away it is given back when they are back.
func (e *lease) Release() {
	l := e.of
	l.mu.Lock()
	if e.state != held {
		l.mu.Unlock()
		return
	}
	e.state = giving
	l.mu.Unlock()
	if l.p.c.conn.IsConnected() && l.give(e) {
		l.exit(e)
		return
	}
	l.giveLater(e)
}

// give takes the lease's key away, if it is this life's. It is false where that is not known.
func (l *Leases) give(e *lease) bool {
	l.mu.Lock()
	life, revision, over := e.life, e.revision, e.state == gone
	l.mu.Unlock()
	key := l.key(e.name)
	for !over {
		_, err := l.p.mark(l.p.c.end, key, nil, markerLife, revision)
		if err == nil {
			return true
		}
		if !WrongSequence(err) {
			return false
		}
		r, err := l.p.get(l.p.c.end, key)
		if errors.Is(err, errNoKey) {
			return true
		}
		if err != nil {
			return false
		}
		if _, mine, _ := l.free(l.p.c.end, r, life); !mine {
			return true
		}
		revision = r.revision
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

// drop forgets the leases of a life that has ended. The caller has Presence.mu.
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

// tend gives back what could not be given back, and stores anew what is held for long. The caller has Presence.mu.
func (l *Leases) tend(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy || l.p.life == nil || l.p.life.doubt || l.p.closing {
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
	l.p.calls.Go(func() {
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

// refresh stores a lease anew. It is false where the servers are away.
func (l *Leases) refresh(e *lease) bool {
	l.mu.Lock()
	life, revision, is := e.life, e.revision, e.state == held
	l.mu.Unlock()
	if !is {
		return true
	}
	key, now := l.key(e.name), time.Now()
	revision, err := l.p.put(l.p.c.end, key, leaseRecord{l.p.c.replica, life.number, now.UnixMilli()}, leaseLife, &revision)
	mine := true
	if WrongSequence(err) {
		var r record
		if r, err = l.p.get(l.p.c.end, key); errors.Is(err, errNoKey) {
			mine, err = false, nil
		} else if err == nil {
			_, mine, err = l.free(l.p.c.end, r, life)
			revision = r.revision
		}
	}
	if err != nil {
		return false
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.mu.Lock()
	is = e.state == held && e.life == life
	if is && mine {
		e.revision, e.stored = revision, now.Unix()
	}
	l.mu.Unlock()
	if is && !mine && l.p.life == life {
		l.p.lose(errErased)
	}
	return true
}

var errErased = errors.New("a lease was deleted from the bucket")

// news wakes a caller that waits for a key.
type news struct {
	p    *Presence
	sub  *nats.Subscription
	last chan *nats.Msg
}

// listen subscribes to a key. What is asked for on the same connection afterwards is not older.
func (p *Presence) listen(space, token string) (*news, error) {
	n := &news{p: p, last: make(chan *nats.Msg, 1)}
	var err error
	n.sub, err = p.c.conn.Subscribe(p.news(space, token), func(m *nats.Msg) {
		select {
		case <-n.last: // only the newest matters
		default:
		}
		n.last <- m // the callback is alone in sending
	})
	return n, err
}

func (n *news) stop() {
	if n != nil {
		_ = n.sub.Unsubscribe() // fails where the connection is closed
	}
}

// wait waits until the key may have changed, and returns the sequence to expect for it.
func (n *news) wait(ctx context.Context, ending <-chan struct{}) (expected uint64, err error) {
	again := time.NewTimer(lookAgain/2 + rand.N(lookAgain/2))
	defer again.Stop()
	select {
	case m := <-n.last:
		if r, err := published(m); err == nil && r.marker {
			return r.revision, nil
		}
		return 0, nil // 0 is refused, and what is there is read
	case <-ending:
	case <-again.C:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-n.p.c.end.Done():
		return 0, ErrClosed
	}
	return 0, nil
}

// nowOrLater is this replica's life, waited for if need be.
func (p *Presence) nowOrLater(ctx context.Context, wait bool) (*life, error) {
	if wait {
		return p.alive(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.check(time.Now())
	if p.c.end.Err() != nil {
		return nil, ErrClosed
	}
	if p.life == nil {
		return nil, ErrAway
	}
	return p.life, nil
}
