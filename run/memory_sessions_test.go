package run

import (
	"context"
	"iter"
	"sync"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
)

// memoryLeases are the leases of sessions as one replica has them. They implement tape.Leaser. The leases of a replica
// are free when it is not there any more.
type memoryLeases struct{ *memoryLog }

type memoryLease struct {
	of   memoryLeases
	name string
	lost chan struct{}
	once sync.Once
}

func (l memoryLeases) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	for {
		l.mu.Lock()
		changed, held := l.changed, l.leases[name]
		cut := l.isCut()
		if held == nil && !cut {
			k := &memoryLease{of: l, name: name, lost: make(chan struct{})}
			l.leases[name] = k
			l.mu.Unlock()
			return k, nil
		}
		l.mu.Unlock()
		switch {
		case cut:
			return nil, store.ErrAway
		case !wait:
			return nil, tape.ErrLeased
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (k *memoryLease) Lost() <-chan struct{} { return k.lost }

// Release frees the lease. A replica that cannot reach the others cannot free it.
func (k *memoryLease) Release() {
	k.once.Do(func() {
		k.of.change(func() {
			if k.of.leases[k.name] == k && !k.of.isDead() {
				delete(k.of.leases, k.name)
			}
		})
	})
}

// free frees the leases of a replica that is gone. One that goes on learns that only if it is told.
func (m *memory) free(replica string, told bool) {
	m.change(func() {
		for name, k := range m.leases {
			if k.of.replica != replica {
				continue
			}
			delete(m.leases, name)
			if told {
				close(k.lost)
			}
		}
	})
}

// holder is that of [Shared].
func (l *memoryLog) holder(_ context.Context, name string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut() {
		return "", store.ErrAway
	}
	if k := l.leases[name]; k != nil {
		return k.of.replica, nil
	}
	return "", nil
}

// isCut reports whether the replica cannot reach what is shared. The lock is held.
func (l *memoryLog) isCut() bool { return l.away || l.paused || l.isDead() }

// memoryTapes are tapes as one replica has them.
type memoryTapes struct {
	*db.Tapes
	log *memoryLog
}

// tapesAway is the error of a database that cannot be reached.
type tapesAway struct{}

func (tapesAway) Error() string        { return "away" }
func (tapesAway) ErrorCode() string    { return "overloaded" }
func (tapesAway) Is(target error) bool { return target == tape.ErrAway }

func (t memoryTapes) cut() error {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	if t.log.isCut() {
		return tapesAway{}
	}
	return nil
}

func (t memoryTapes) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	if err := t.cut(); err != nil {
		return 0, err
	}
	return t.Tapes.Append(ctx, name, b)
}

func (t memoryTapes) Info(ctx context.Context, name string) (tape.Info, error) {
	if err := t.cut(); err != nil {
		return tape.Info{}, err
	}
	return t.Tapes.Info(ctx, name)
}

func (t memoryTapes) Read(ctx context.Context, name string, q tape.Query) iter.Seq2[tape.Entry, error] {
	if err := t.cut(); err != nil {
		return func(yield func(tape.Entry, error) bool) { yield(tape.Entry{}, err) }
	}
	return t.Tapes.Read(ctx, name, q)
}
