package tape

import (
	"context"
	"fmt"
	"sync"
)

// Leases are leases of tapes among the callers of one process. The zero value has none.
type Leases struct {
	mu   sync.Mutex
	held map[string]chan struct{} // by tape; closed on release
}

// Lease implements [Store].
func (l *Leases) Lease(ctx context.Context, name string, wait bool) (Lease, error) {
	for {
		l.mu.Lock()
		held := l.held[name]
		if held == nil {
			defer l.mu.Unlock()
			if l.held == nil {
				l.held = map[string]chan struct{}{}
			}
			l.held[name] = make(chan struct{})
			return localLease(sync.OnceFunc(func() { l.release(name) })), nil
		}
		l.mu.Unlock()
		if !wait {
			return nil, fmt.Errorf("%w: %s", ErrLeased, name)
		}
		select {
		case <-held:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (l *Leases) release(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[name])
	delete(l.held, name)
}

type localLease func()

// Lost implements [Lease]: a lease of this process is never lost.
func (localLease) Lost() <-chan struct{} { return nil }

// Release implements [Lease].
func (release localLease) Release() { release() }
