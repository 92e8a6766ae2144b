package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// epoch tells the leases of a tape apart, in the order in which they were taken: that of a tape's last message is the one of the newest
// lease. Zero is none.
type epoch struct {
	number  uint64
	replica string
}

// lease implements tape.Lease: one of the cluster's, and its epoch.
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

// Lost implements tape.Lease.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Lease implements tape.Leaser. Where there is a tape, its last message is one with the lease's epoch when it returns: whoever
// had the lease before and does not know that it is lost, cannot append any more.
func (s *Store) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	if err := tape.CheckName(name); err != nil {
		return nil, err
	}
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	inner, err := s.leases.Lease(ctx, name, wait)
	if err != nil {
		return nil, err
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

// begin gives the lease its epoch. Where the one before it was this store's and was given back, they may share it: nobody has
// had another one in between.
func (l *lease) begin(ctx context.Context) error {
	s := l.s
	sl, err := s.take(ctx, l.name)
	if err != nil {
		return err
	}
	defer s.give(l.name, sl)
	began := time.Now()
	for {
		h, err := s.head(ctx, l.name)
		if err != nil {
			return err
		}
		last := h.epoch()
		if h.there() && last == sl.released && last.number > 0 {
			l.epoch = last
			sl.keep(h)
			return nil
		}
		// The time makes it higher than that of a tape of this name of which nothing is left.
		l.epoch = epoch{max(last.number+1, uint64(time.Now().UnixMilli())), s.cluster.Replica()}
		if !h.there() {
			return nil // the first batch will have it
		}
		r := h.fence()
		r.Epoch, r.By = l.epoch.number, l.epoch.replica
		seq, err := s.commit(ctx, l.name, h.seq, r, nil)
		switch {
		case err == nil:
			sl.keep(&head{seq: seq, record: r})
			return nil
		case !errors.Is(err, errMoved):
			return err
		case time.Since(began) > s.waits.patience:
			return &Error{textBusy, err}
		}
	}
}

// holding is the lease that callers of this store have, nil where they have none.
func (s *Store) holding(name string) *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[name]
}

// fenced says why nobody may append under a lease behind h, and else the epoch that the next batch has. Who appends without a lease
// leaves it as it is.
func (s *Store) fenced(l *lease, h *head) (epoch, error) {
	last := h.epoch()
	if l == nil {
		return last, nil
	}
	if h, ok := l.inner.(interface{ Held() bool }); ok && !h.Held() {
		l.lose("it was not renewed in time")
	}
	if l.behind(h) {
		l.lose("another replica has taken it")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return epoch{}, fmt.Errorf("%w: the session's lease was lost", tape.ErrLeased)
	}
	return l.epoch, nil
}

// behind says whether there was another lease after this one when h was appended.
func (l *lease) behind(h *head) bool {
	last := h.epoch()
	return last.number > l.epoch.number || last.number == l.epoch.number && last.replica != l.epoch.replica
}

// lose ends the lease for who has it. Until it is released, nothing is appended to the tape through this store.
func (l *lease) lose(why string) {
	l.mu.Lock()
	gone := l.gone
	l.gone = true
	l.mu.Unlock()
	if gone {
		return
	}
	close(l.lost)
	l.s.log.Warn("lost a lease", "tape", l.name, "reason", why)
}

// Release implements tape.Lease.
func (l *lease) Release() {
	l.mu.Lock()
	freed := l.freed
	l.freed = true
	gone := l.gone
	l.mu.Unlock()
	if freed {
		return
	}
	close(l.over)
	l.done.Wait()
	s := l.s
	if !gone {
		// The turn is nobody's for long; where it is, the epoch is not remembered, which costs a message.
		ctx, cancel := context.WithTimeout(context.Background(), s.waits.answer)
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
