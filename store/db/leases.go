package db

import (
	"context"
	"fmt"
	"sync"

	"github.com/lingserve/lingserve/tape"
)

// leases are those of the tapes that a process uses.
type leases struct {
	leaser tape.Leaser // of this process, or of several
	holder int64       // this process in sessions.holder; 0: it is alone
	held   sync.Map    // tape.Lease by tape, unless it is alone
}

// lease implements [tape.Lease].
type lease struct {
	tape.Lease
	release func()
}

// Release implements [tape.Lease].
func (l *lease) Release() { l.release() }

// Lease implements [tape.Store]: among the users of t, in this process or in several. A process that has lost a lease and does not know it cannot
// append once another one has taken it.
func (t *Tapes) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	if err := tape.CheckName(name); err != nil {
		return nil, err
	}
	l := t.leases
	held, err := l.leaser.Lease(ctx, name, wait)
	if err != nil || l.holder == 0 {
		return held, err
	}
	l.held.Store(name, held)
	release := sync.OnceFunc(func() {
		l.held.Delete(name)
		held.Release()
	})
	// If the tape does not exist yet, its first append says who has it.
	if _, err := t.db.exec(ctx, "UPDATE sessions SET holder = $1 WHERE tape = $2 AND holder <> $1", l.holder, name); err != nil {
		release()
		return nil, err
	}
	return &lease{held, release}, nil
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
