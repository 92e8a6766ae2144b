package logs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// epoch tells the leases of a tape apart, in the order in which they were taken: the head of a tape has that of the newest lease. Zero is
// none.
type epoch struct {
	number  uint64
	replica string
}

// lease implements [tape.Lease]: a lease of [Options.Leases], and its epoch.
type lease struct {
	s     *Store
	name  string
	inner tape.Lease
	epoch epoch

	lost chan struct{}
	over chan struct{} // closed by Release
	done sync.WaitGroup

	mu    sync.Mutex
	gone  bool // lost
	freed bool
}

// Lost implements [tape.Lease].
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Lease implements [tape.Leaser]. If the tape exists, its head has the epoch of the lease when Lease returns.
func (s *Store) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	ctx, done, err := s.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done()
	// While the store is away, a caller is told so and does not wait for its return. It may wait for another holder.
	inner, err := s.options.Leases.Lease(ctx, name, wait && s.options.Away == nil)
	if wait && s.options.Away != nil && errors.Is(err, tape.ErrLeased) {
		inner, err = s.options.Leases.Lease(ctx, name, true)
	}
	if errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrClosed) {
		err = s.explain(name, err)
	}
	if err != nil || s.options.Replica == "" {
		return inner, err
	}
	l := &lease{s: s, name: name, inner: inner, lost: make(chan struct{}), over: make(chan struct{})}
	if err := l.begin(ctx); err != nil {
		inner.Release()
		return nil, err
	}
	s.mu.Lock()
	s.held[name] = l
	s.mu.Unlock()
	l.done.Go(func() { // until it is released
		select {
		case <-inner.Lost():
			l.lose("it was not renewed in time")
		case <-l.over:
		}
	})
	return l, nil
}

// begin gives the lease its epoch. If this store had the lease before and gave it back, and nobody has had it since, the epoch stays.
func (l *lease) begin(ctx context.Context) error {
	s := l.s
	sl, err := s.take(ctx, l.name)
	if err != nil {
		return err
	}
	defer s.give(l.name, sl)
	began := time.Now()
	now, err := s.look(ctx, l.name)
	for err == nil {
		if now.exists() && now.epoch == sl.released && now.epoch.number > 0 {
			l.epoch = now.epoch
			sl.state.Store(now)
			return nil
		}
		// The time makes it higher than that of a tape of this name that was erased.
		l.epoch = epoch{max(now.epoch.number+1, uint64(time.Now().UnixMilli())), s.options.Replica}
		if !now.exists() {
			return nil // the first batch will have it
		}
		next := *now
		next.epoch = l.epoch
		if err = s.store(ctx, l.name, &next, nil); err == nil {
			sl.state.Store(&next)
			return nil
		}
		moved, ok := errors.AsType[*store.MovedLog](err)
		if !ok {
			return s.explain(l.name, err)
		}
		if time.Since(began) > patience {
			return &Error{textBusy, err}
		}
		now, err = s.stateOf(ctx, l.name, moved.Info)
	}
	return err
}

// holding is the lease that callers of this store have; nil: none.
func (s *Store) holding(name string) *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[name]
}

// fenced returns the epoch of the next batch, or why the holder of a lease must not append. An append without a lease keeps the epoch.
func (s *Store) fenced(l *lease, now *state) (epoch, error) {
	if l == nil {
		return now.epoch, nil
	}
	if h, ok := l.inner.(interface{ Held() bool }); ok && !h.Held() {
		l.lose("it was not renewed in time")
	}
	if l.behind(now) {
		l.lose("another replica has taken it")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return epoch{}, fmt.Errorf("%w: the session's lease was lost", tape.ErrLeased)
	}
	return l.epoch, nil
}

// behind reports whether there was another lease after this one.
func (l *lease) behind(now *state) bool {
	last := now.epoch
	return last.number > l.epoch.number || last.number == l.epoch.number && last.replica != l.epoch.replica
}

// lose ends the lease for its holder. Until it is released, nothing is appended to the tape through this store.
func (l *lease) lose(why string) {
	l.mu.Lock()
	gone := l.gone
	l.gone = true
	l.mu.Unlock()
	if gone {
		return
	}
	close(l.lost)
	l.s.options.Log.Warn("lost a lease", "tape", l.name, "reason", why)
}

// Release implements [tape.Lease].
func (l *lease) Release() {
	l.mu.Lock()
	freed, gone := l.freed, l.gone
	l.freed = true
	l.mu.Unlock()
	if freed {
		return
	}
	close(l.over)
	l.done.Wait()
	s := l.s
	if !gone {
		// If the turn is busy for longer, the epoch is not remembered, and the next lease appends a fence.
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		if sl, err := s.take(ctx, l.name); err == nil {
			sl.released = l.epoch
			s.give(l.name, sl)
		}
		cancel()
	}
	s.mu.Lock()
	if s.held[l.name] == l {
		delete(s.held, l.name)
	}
	s.mu.Unlock()
	l.inner.Release()
}

const releaseTime = 2 * time.Second
