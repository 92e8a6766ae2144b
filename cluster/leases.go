package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// LeaseStore is the part of the database that leases need.
type LeaseStore interface {
	// TakeLease gives a lease to a replica if it is free, or if its holder is neither in alive nor a replica that has joined within the last
	// seconds. It returns the holder.
	TakeLease(ctx context.Context, name, replica string, alive []string) (holder string, err error)
	FreeLease(ctx context.Context, name, replica string) error // does nothing if another replica has the lease
	LeaseHolder(ctx context.Context, name string) (replica string, err error)
	LeasesOf(ctx context.Context, replica string) (names []string, err error)
}

const (
	firstPause, maxPause = 20 * time.Millisecond, time.Second // between attempts; each is shortened by up to half at random

	freeTimeout = 2 * time.Second // of one attempt to free a lease
	maxFrees    = 300             // attempts, in about 4 minutes
)

// Leases keep several replicas, and several callers in one replica, from doing the same thing at once.
//
// A lease is good as long as its replica is alive. A replica that was stopped and goes on learns with its next heartbeat which leases it has
// lost. What must never happen twice needs a check in the database as well. Callers of one replica get a lease in the order of their calls.
type Leases struct {
	c      *Cluster
	prefix string
	store  LeaseStore

	mu     sync.Mutex // guards the following fields, and those of all slots
	slots  map[string]*slot
	checks int // calls of check
}

// slot is a lease that callers of this replica have or want.
type slot struct {
	name    string
	turn    chan struct{} // full while a caller has the slot; the others wait in line to send
	users   int           // callers that have the slot or wait for it
	freeing bool          // the caller that has the slot frees the lease
	held    bool          // this replica has the lease, as far as it knows
	lost    chan struct{} // new each time the replica gets the lease
}

// lease implements [tape.Lease].
type lease struct {
	l    *Leases
	slot *slot
	lost chan struct{}
	once sync.Once
}

var _ tape.Leaser = (*Leases)(nil)

// Leases returns the leases of a kind of things. Later calls with the same kind return the same leases.
func (c *Cluster) Leases(kind string, s LeaseStore) *Leases {
	if kind == "" || strings.Contains(kind, "/") {
		panic("cluster: a kind of leases is a word without a slash")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases[kind] == nil {
		c.leases[kind] = &Leases{c: c, prefix: kind + "/", store: s, slots: map[string]*slot{}}
	}
	return c.leases[kind]
}

// Lease implements [tape.Leaser]. It returns errors of the store, such as [store.ErrAway], at once. It fails after Close.
func (l *Leases) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	if err := context.Cause(l.c.base); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.c.base, func() { cancel(context.Cause(l.c.base)) })()
	s, err := l.enter(ctx, name, wait, false)
	for pauses := backoff.New(firstPause, maxPause); err == nil; {
		l.mu.Lock()
		held, lost, checks := s.held, s.lost, l.checks
		l.mu.Unlock()
		if held {
			return &lease{l: l, slot: s, lost: lost}, nil
		}
		var holder string
		holder, err = l.store.TakeLease(ctx, l.prefix+name, l.c.ID(), l.c.Alive())
		switch {
		case err != nil:
			l.exit(s, true)
			if !errors.Is(err, store.ErrAway) { // it may have been written
				l.c.start(func() { l.free(name, maxFrees) })
			}
			return nil, err
		case holder == l.c.ID():
			l.mu.Lock()
			if l.checks == checks { // else it may have been lost during a gap in the heartbeats
				s.held, s.lost = true, make(chan struct{})
			}
			l.mu.Unlock()
			continue
		case wait:
			err = backoff.Sleep(ctx, pauses.NextBackOff())
		default:
			err = tape.ErrLeased
		}
		if err != nil {
			l.exit(s, true)
		}
	}
	return nil, err
}

// enter waits for the callers of this replica that came earlier. Without wait, it waits only for one that frees the lease.
func (l *Leases) enter(ctx context.Context, name string, wait, freeing bool) (*slot, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	s := l.slots[name]
	if s == nil {
		s = &slot{name: name, turn: make(chan struct{}, 1), freeing: freeing}
		l.slots[name] = s
	} else if !wait && (freeing || !s.freeing || s.users > 1) {
		l.mu.Unlock()
		return nil, tape.ErrLeased
	}
	s.users++
	l.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		if l.exit(s, false) {
			l.c.start(func() { l.free(name, maxFrees) })
		}
		return nil, context.Cause(ctx)
	}
}

// exit gives up a slot, or waiting for it. It reports whether this replica has the lease for no caller any more.
func (l *Leases) exit(s *slot, hasTurn bool) (unused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if hasTurn {
		<-s.turn
		s.freeing = false
	}
	if s.users--; s.users > 0 {
		return false
	}
	delete(l.slots, s.name)
	unused, s.held = s.held, false
	return unused
}

// Lost implements [tape.Lease]. It is closed when this replica learns that another one may have the lease.
func (e *lease) Lost() <-chan struct{} { return e.lost }

// Release implements [tape.Lease]. If the database is away, the lease is freed later.
func (e *lease) Release() {
	e.once.Do(func() {
		if e.l.exit(e.slot, true) && !e.l.free(e.slot.name, 1) {
			e.l.c.start(func() { e.l.free(e.slot.name, maxFrees) })
		}
	})
}

// free frees a lease in the database. While a caller of this replica has or takes it, an attempt fails: that caller may not get it, and then does
// not free it. If all attempts fail, the lease is free when this replica is gone or a caller of it has released the lease again.
func (l *Leases) free(name string, attempts int) (done bool) {
	for pauses := backoff.New(firstPause, maxPause); attempts > 0; attempts-- {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.c.base), freeTimeout)
		s, err := l.enter(ctx, name, false, true)
		if err == nil {
			err = l.store.FreeLease(ctx, l.prefix+name, l.c.ID())
			l.exit(s, true)
		}
		cancel()
		if err == nil || attempts > 1 && backoff.Sleep(l.c.base, pauses.NextBackOff()) != nil {
			return true // Sleep fails in Close, where this replica leaves
		}
	}
	return false
}

// check closes Lost of the leases that are not this replica's any more. The cluster calls it after a gap in the heartbeats.
func (l *Leases) check(ctx context.Context) error {
	held := map[*slot]chan struct{}{}
	l.mu.Lock()
	l.checks++
	for _, s := range l.slots {
		if s.held {
			held[s] = s.lost
		}
	}
	l.mu.Unlock()
	if len(held) == 0 {
		return nil
	}
	names, err := l.store.LeasesOf(ctx, l.c.ID())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		if name, found := strings.CutPrefix(name, l.prefix); found {
			delete(held, l.slots[name])
		}
	}
	for s, lost := range held {
		if s.held && s.lost == lost {
			s.held = false
			close(lost)
		}
	}
	return nil
}

// Holder returns the replica that has a lease; "" if there is none, or if it is not alive.
func (l *Leases) Holder(ctx context.Context, name string) (replica string, err error) {
	holder, err := l.store.LeaseHolder(ctx, l.prefix+name)
	if err == nil && holder != "" && !l.c.isMember(holder) { // it may have joined within the last second
		err = l.c.refresh(ctx)
	}
	if _, lifetime := l.c.route(holder); err != nil || lifetime == nil {
		return "", err
	}
	return holder, nil
}
