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

	local tape.Leases
	held  sync.Map // tape.Lease of among, by tape
}

// lease implements [tape.Lease]: a lease of among, and that of this process.
type lease struct {
	tape.Lease
	release func()
}

// Release implements [tape.Lease].
func (l *lease) Release() { l.release() }

// Lease implements [tape.Store]: among the users of t, and if t is of several processes among them. A process that has lost a lease and
// does not know it cannot append once another one has taken it.
func (t *Tapes) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	if err := t.check(name); err != nil {
		return nil, err
	}
	l := t.leases
	local, err := l.local.Lease(ctx, name, wait)
	if err != nil || l.among == nil {
		return local, err
	}
	// While the database is away, the call fails. It may wait for another holder.
	shared, err := l.among.Lease(ctx, name, false)
	if wait && errors.Is(err, tape.ErrLeased) {
		shared, err = l.among.Lease(ctx, name, true)
	}
	if err != nil {
		local.Release()
		return nil, err
	}
	l.held.Store(name, shared)
	release := sync.OnceFunc(func() {
		l.held.Delete(name)
		shared.Release()
		local.Release()
	})
	if err := t.db.claimTape(ctx, name, l.holder); err != nil {
		release()
		return nil, err
	}
	return &lease{shared, release}, nil
}

// claimTape makes a process the one that appends to a tape, if the tape exists.
func (db *DB) claimTape(ctx context.Context, name string, holder int64) error {
	var now int64
	found, err := db.viewOne(ctx, []any{&now}, "SELECT holder FROM sessions WHERE tape = $1", name)
	if err != nil || !found || now == holder {
		return err
	}
	_, err = db.exec(ctx, "UPDATE sessions SET holder = $1 WHERE tape = $2", holder, name)
	return err
}

// holderOf returns what an append expects in the row of a session, and what it writes there: 0 for an append that needs no lease. The error
// says that the lease of this process was lost.
func (l *leases) holderOf(name string) (int64, error) {
	shared, held := l.held.Load(name)
	if !held {
		return 0, nil
	}
	select {
	case <-shared.(tape.Lease).Lost():
		return 0, errLeaseLost
	default:
		return l.holder, nil
	}
}

var errLeaseLost = fmt.Errorf("%w: the lease of the session was lost", tape.ErrLeased)
