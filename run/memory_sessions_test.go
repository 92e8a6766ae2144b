package run

import (
	"context"
	"iter"
	"sync"

	"github.com/lingserve/lingserve/store"
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

// memoryTapes are the logs of tapes as one replica has them. They implement store.LogEngine.
type memoryTapes struct {
	store.LogEngine
	log *memoryLog
}

func (e memoryTapes) Log(ctx context.Context, o store.LogOptions) (store.Log, error) {
	l, err := e.LogEngine.Log(ctx, o)
	return memorySpace{l, e.log}, err
}

type memorySpace struct {
	store.Log
	log *memoryLog
}

func (s memorySpace) cut() error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.log.isCut() {
		return store.ErrAway
	}
	return nil
}

func (s memorySpace) Append(ctx context.Context, name string, b store.Batch) (store.Info, error) {
	if err := s.cut(); err != nil {
		return store.Info{}, err
	}
	return s.Log.Append(ctx, name, b)
}

func (s memorySpace) Info(ctx context.Context, name string) (store.Info, error) {
	if err := s.cut(); err != nil {
		return store.Info{}, err
	}
	return s.Log.Info(ctx, name)
}

func (s memorySpace) Read(ctx context.Context, name string, r store.Range) iter.Seq2[store.Entry, error] {
	if err := s.cut(); err != nil {
		return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, err) }
	}
	return s.Log.Read(ctx, name, r)
}
