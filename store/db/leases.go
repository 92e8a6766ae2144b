package db

import (
	"context"
	"fmt"
	"sync"

	"github.com/lingserve/lingserve/tape"
)

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
	held, err := t.leaser.Lease(ctx, name, wait)
	if err != nil || t.holder == 0 {
		return held, err
	}
	t.leases.Store(name, held)
	release := sync.OnceFunc(func() {
		t.leases.Delete(name)
		held.Release()
	})
	// If the tape does not exist yet, its first append says who has it.
	if _, err := t.db.exec(ctx, "UPDATE sessions SET holder = $1 WHERE tape = $2 AND holder <> $1", t.holder, name); err != nil {
		release()
		return nil, err
	}
	return &lease{held, release}, nil
}

// holderOf returns what an append expects in the row of a session, and what it writes there: 0 for an append that needs no lease. The error
// says that the lease of this process was lost.
func (t *Tapes) holderOf(name string) (int64, error) {
	shared, held := t.leases.Load(name)
	if !held {
		return 0, nil
	}
	select {
	case <-shared.(tape.Lease).Lost():
		return 0, errLeaseLost
	default:
		return t.holder, nil
	}
}

var errLeaseLost = fmt.Errorf("%w: the lease of the session was lost", tape.ErrLeased)
