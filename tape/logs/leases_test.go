package logs_test

import (
	"context"
	"sync"

	"github.com/lingserve/lingserve/tape"
)

// leases are leases that stores of one test share.
type leases struct {
	mu   sync.Mutex
	held map[string]*lease
}

func (l *leases) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	for {
		l.mu.Lock()
		busy := l.held[name]
		if busy == nil {
			if l.held == nil {
				l.held = map[string]*lease{}
			}
			now := &lease{of: l, name: name, lost: make(chan struct{}), free: make(chan struct{})}
			l.held[name] = now
			l.mu.Unlock()
			return now, nil
		}
		l.mu.Unlock()
		if !wait {
			return nil, tape.ErrLeased
		}
		select {
		case <-busy.free:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take frees a lease without telling its holder, as if its time were over.
func (l *leases) take(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, name)
}

// lose tells the holder of a lease that it is lost.
func (l *leases) lose(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[name].lost)
	delete(l.held, name)
}

type lease struct {
	of         *leases
	name       string
	lost, free chan struct{}
	once       sync.Once
}

func (l *lease) Lost() <-chan struct{} { return l.lost }

func (l *lease) Release() {
	l.once.Do(func() {
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		if l.of.held[l.name] == l {
			delete(l.of.held, l.name)
		}
		close(l.free)
	})
}
