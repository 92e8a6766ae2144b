package db

import (
	"context"
	"sync"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// Lease implements [tape.Leaser] among the users of one DB. Only one process has a SQLite file open, so there it holds for everyone; with
// PostgreSQL other processes have leases of their own.
func (t *Tapes) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	if err := t.check(name); err != nil {
		return nil, err
	}
	db := t.db
	for {
		db.mu.Lock()
		released, taken := db.leases[name]
		closed := db.closed
		if !taken && !closed {
			db.leases[name] = make(chan struct{})
		}
		db.mu.Unlock()
		switch {
		case closed:
			return nil, explain(name, store.ErrClosed)
		case !taken:
			return &lease{db: db, tape: name}, nil
		case !wait:
			return nil, tape.ErrLeased
		}
		select {
		case <-released:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lease implements [tape.Lease].
type lease struct {
	db   *DB
	tape string
	once sync.Once
}

// Lost implements [tape.Lease]: the lease cannot be lost before its process ends.
func (*lease) Lost() <-chan struct{} { return nil }

// Release implements [tape.Lease].
func (l *lease) Release() {
	l.once.Do(func() {
		l.db.mu.Lock()
		defer l.db.mu.Unlock()
		close(l.db.leases[l.tape])
		delete(l.db.leases, l.tape)
	})
}
