package file

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/lingserve/lingserve/store"
)

// pollEvery is how often followers look for what other processes have appended.
const pollEvery = time.Second

// Read implements [store.Log].
func (s *Space) Read(ctx context.Context, name string, r store.Range) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		l, src, err := s.hold(ctx, name)
		if err == nil {
			defer s.release(l)
			if src.state.trimmed && r.From != 0 && r.From < src.state.first {
				err = store.ErrExpired
			}
		}
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		n := 0
		for e, err := range src.entries(r) {
			if ctx.Err() != nil {
				e, err = store.Entry{}, context.Cause(ctx)
			}
			if !yield(e, err) || err != nil && !errors.Is(err, store.ErrDamaged) {
				return
			}
			if n++; n == r.Limit {
				return
			}
		}
	}
}

// Follow implements [store.Log].
func (s *Space) Follow(ctx context.Context, name string, from uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		life, begun := uint64(0), false
		for {
			l, src, err := s.hold(ctx, name)
			switch {
			case begun && errors.Is(err, store.ErrNotFound), err == nil && begun && src.state.life != life:
				err = store.ErrDeleted
			case err == nil && src.state.trimmed && from != 0 && from < src.state.first:
				err = store.ErrExpired
			}
			if l != nil {
				if err == nil {
					life, begun = src.state.life, true
					err = s.followOn(ctx, l, src, &from, yield)
				}
				s.release(l)
			}
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
		}
	}
}

var errStopped = errors.New("the reader has stopped")

// followOn yields what a log has, and waits for more.
func (s *Space) followOn(ctx context.Context, l *log, src *source, from *uint64, yield func(store.Entry, error) bool) error {
	l.mu.Lock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	changed := l.changed
	if l.state.count != src.state.count || l.state.first != src.state.first || l.finished {
		changed = nil // more is there already
	}
	l.mu.Unlock()
	for e, err := range src.entries(store.Range{From: max(*from, src.state.first)}) {
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return err
		}
		*from = e.N + 1
		if !yield(e, err) {
			return errStopped
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	if changed == nil {
		return nil
	}
	var poll <-chan time.Time
	if s.shared {
		timer := time.NewTimer(pollEvery)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-changed:
	case <-poll:
	case <-s.ending.Done():
		return store.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
