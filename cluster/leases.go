package cluster

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
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

	freeTimeout = 2 * time.Second // of the attempt to free a lease
)

// Leases keep several replicas, and several callers in one replica, from doing the same thing at once.
//
// A lease is good as long as its replica is alive. A replica that was stopped and goes on learns with its next heartbeat which leases it has
// lost. What must never happen twice needs a check in the database as well.
type Leases struct {
	c      *Cluster
	prefix string
	store  LeaseStore
	local  tape.Leases // of the callers of this replica: one at a time has a lease, tries to get it, or frees it

	mu     sync.Mutex        // guards the following fields
	held   map[string]*lease // that this replica has, as far as it knows, by name
	checks int               // calls of check
}

// lease implements [tape.Lease].
type lease struct {
	lost    context.Context // ends when the lease is lost
	lose    context.CancelFunc
	release func()
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
		c.leases[kind] = &Leases{c: c, prefix: kind + "/", store: s, held: map[string]*lease{}}
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
	local, err := l.local.Lease(ctx, name, wait)
	if err != nil {
		return nil, err
	}
	e := &lease{}
	e.lost, e.lose = context.WithCancel(context.Background())
	e.release = sync.OnceFunc(func() {
		l.free(name)
		local.Release()
	})
	if err := l.acquire(ctx, name, wait, e); err != nil {
		local.Release()
		return nil, err
	}
	return e, nil
}

// acquire gets a lease in the database.
func (l *Leases) acquire(ctx context.Context, name string, wait bool, e *lease) error {
	for pauses := backoff.New(firstPause, maxPause); ; {
		l.mu.Lock()
		checks := l.checks
		l.mu.Unlock()
		holder, err := l.store.TakeLease(ctx, l.prefix+name, l.c.ID(), l.c.Alive())
		switch {
		case err != nil:
			l.c.leasesDue.Store(true) // it may have been written
			return err
		case holder == l.c.ID():
			l.mu.Lock()
			acquired := l.checks == checks // else it may have been lost during a gap in the heartbeats
			if acquired {
				l.held[name] = e
			}
			l.mu.Unlock()
			if acquired {
				return nil
			}
		case !wait:
			return tape.ErrLeased
		default:
			if err := backoff.Sleep(ctx, pauses.NextBackOff()); err != nil {
				return err
			}
		}
	}
}

// Lost implements [tape.Lease]. It is closed when this replica learns that another one may have the lease.
func (e *lease) Lost() <-chan struct{} { return e.lost.Done() }

// Release implements [tape.Lease]. If the database is away, the lease is freed when it is back.
func (e *lease) Release() { e.release() }

// free frees a lease in the database.
func (l *Leases) free(name string) {
	l.mu.Lock()
	delete(l.held, name)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.c.base), freeTimeout)
	defer cancel()
	if l.store.FreeLease(ctx, l.prefix+name, l.c.ID()) != nil {
		l.c.leasesDue.Store(true)
	}
}

// check closes Lost of the leases that are not this replica's any more, and frees those that no caller of this replica uses. The cluster calls it
// after a gap in the heartbeats, and if the outcome of a call of the store is unknown.
func (l *Leases) check(ctx context.Context) error {
	l.mu.Lock()
	l.checks++
	held := maps.Clone(l.held)
	l.mu.Unlock()
	names, err := l.store.LeasesOf(ctx, l.c.ID())
	if err != nil {
		return err
	}
	for _, name := range names {
		name, found := strings.CutPrefix(name, l.prefix)
		if !found {
			continue
		}
		if held[name] != nil {
			delete(held, name)
		} else if unused, err := l.local.Lease(ctx, name, false); err == nil { // else a caller uses it
			err = l.store.FreeLease(ctx, l.prefix+name, l.c.ID())
			unused.Release()
			if err != nil {
				return err
			}
		}
	}
	for _, e := range held {
		e.lose()
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
