package db

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lingserve/lingserve/tape"
)

// leases are those of the tapes that a process uses.
type leases struct {
	among  tape.Leaser // several processes; nil: in this one alone
	holder int64       // this process in sessions.holder, if there are several

	mu   sync.Mutex
	held map[string]*lease
}

// lease implements [tape.Lease].
type lease struct {
	of    *leases
	tape  string
	inner tape.Lease    // of leases.among, or nil
	freed chan struct{} // closed on release
	once  sync.Once
}

// Lease implements [tape.Leaser]: among the users of t, and if t is of several processes among them. A process that has lost a lease and
// does not know it cannot append once another one has taken it.
func (t *Tapes) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	if err := t.check(name); err != nil {
		return nil, err
	}
	l, err := t.leases.enter(ctx, name, wait)
	if err != nil || t.leases.among == nil {
		return l, err
	}
	// While the database is away a caller is told so. It may wait for another holder.
	l.inner, err = t.leases.among.Lease(ctx, name, false)
	if wait && errors.Is(err, tape.ErrLeased) {
		l.inner, err = t.leases.among.Lease(ctx, name, true)
	}
	if err == nil {
		err = t.db.takeOver(ctx, name, t.leases.holder)
	}
	if err != nil {
		l.Release()
		return nil, explain(name, err)
	}
	return l, nil
}

// enter waits until no other user of this process has the lease.
func (l *leases) enter(ctx context.Context, name string, wait bool) (*lease, error) {
	for {
		l.mu.Lock()
		other := l.held[name]
		if other == nil {
			mine := &lease{of: l, tape: name, freed: make(chan struct{})}
			if l.held == nil {
				l.held = map[string]*lease{}
			}
			l.held[name] = mine
			l.mu.Unlock()
			return mine, nil
		}
		l.mu.Unlock()
		if !wait {
			return nil, tape.ErrLeased
		}
		select {
		case <-other.freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// takeOver makes a process the one that appends to a tape, if the tape exists.
func (db *DB) takeOver(ctx context.Context, name string, holder int64) error {
	var now int64
	err := db.view(ctx, func(q querier) error {
		found, err := q.scanOne([]any{&now}, "SELECT holder FROM sessions WHERE tape = $1", name)
		if !found {
			now = holder // nothing to do
		}
		return err
	})
	if err != nil || now == holder {
		return err
	}
	return db.Update(ctx, func(tx *Tx) error {
		_, err := tx.exec("UPDATE sessions SET holder = $1 WHERE tape = $2", holder, name)
		return err
	})
}

// holderOf returns what an append expects in the row of a session, and what it writes there: 0 for an append that needs no lease. The error
// says that the lease of this process was lost.
func (l *leases) holderOf(name string) (int64, error) {
	if l.among == nil {
		return 0, nil
	}
	l.mu.Lock()
	mine := l.held[name]
	l.mu.Unlock()
	if mine == nil || mine.inner == nil {
		return 0, nil
	}
	select {
	case <-mine.inner.Lost():
		return 0, errLeaseLost
	default:
		return l.holder, nil
	}
}

var errLeaseLost = fmt.Errorf("%w: the lease of the session was lost", tape.ErrLeased)

// Lost implements [tape.Lease].
func (l *lease) Lost() <-chan struct{} {
	if l.inner == nil {
		return nil
	}
	return l.inner.Lost()
}

// Release implements [tape.Lease].
func (l *lease) Release() {
	l.once.Do(func() {
		if l.inner != nil {
			l.inner.Release()
		}
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		close(l.freed)
		delete(l.of.held, l.tape)
	})
}
