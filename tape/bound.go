package tape

import (
	"context"
	"iter"
	"sync"
	"time"
)

// ErrTooMany is the error of a session that would be one more than a [Bounded] store may have, ErrTooManyOfOwner one more than its owner may.
var (
	ErrTooMany        error = &codedError{"overloaded", "tape: the limit of sessions is reached"}
	ErrTooManyOfOwner error = &codedError{"overloaded", "tape: the caller's limit of sessions is reached"}
)

// Bounded is a store that refuses new sessions beyond a bound. Existing sessions go on.
type Bounded struct {
	Store
	max, maxOfOwner int

	mu      sync.Mutex
	count   int       // sessions
	counted time.Time // when the store was asked; zero asks it at the next use
}

// recountEvery is how often the sessions are counted in the store: other processes begin and erase some.
const recountEvery = time.Minute

// Bound bounds the sessions of a store: all to max, those of each owner to maxOfOwner; 0 is no bound.
func Bound(ctx context.Context, s Store, max, maxOfOwner int) (*Bounded, error) {
	n, err := s.Count(ctx, "")
	return &Bounded{Store: s, max: max, maxOfOwner: maxOfOwner, count: n, counted: time.Now()}, err
}

// Room returns why a session that does not exist cannot begin: [ErrTooMany], [ErrTooManyOfOwner], or an error of the store.
func (b *Bounded) Room(ctx context.Context, session string) error { return b.reserve(ctx, session, 0) }

// reserve counts n more sessions, 0 or 1, unless the bound is reached. Sessions of one owner that begin at the same time may
// exceed their bound.
func (b *Bounded) reserve(ctx context.Context, session string, n int) error {
	if owner := OwnerOf(session); owner != "" && b.maxOfOwner > 0 {
		if n, err := b.Count(ctx, owner); err != nil {
			return err
		} else if n >= b.maxOfOwner {
			return ErrTooManyOfOwner
		}
	}
	if b.max <= 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.counted) >= recountEvery {
		if total, err := b.Count(ctx, ""); err == nil {
			b.count, b.counted = total, time.Now()
		} else if b.count >= b.max {
			return err
		}
	}
	if b.count >= b.max {
		return ErrTooMany
	}
	b.count += n
	return nil
}

// Append implements [Store].
func (b *Bounded) Append(ctx context.Context, name string, batch Batch) (first int64, err error) {
	if !batch.Create {
		return b.Store.Append(ctx, name, batch)
	}
	var created Info
	created.AddBatch(batch, batch.Entries)
	err = b.create(ctx, name, created.Session, func() error {
		first, err = b.Store.Append(ctx, name, batch)
		return err
	})
	return first, err
}

// Import implements [Store].
func (b *Bounded) Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[Entry, error]) error {
	return b.create(ctx, name, session, func() error { return b.Store.Import(ctx, name, session, workspace, entries) })
}

// create calls do, which creates a session, unless the bound is reached. If the session exists, do returns the error.
func (b *Bounded) create(ctx context.Context, name, session string, do func() error) error {
	if refused := b.reserve(ctx, session, 1); refused != nil {
		if _, missing := b.Info(ctx, name); missing == nil {
			return do()
		}
		return refused
	}
	err := do()
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.count--
	}
	return err
}

// Delete implements [Store].
func (b *Bounded) Delete(ctx context.Context, name string) error {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.counted = time.Time{}
	}()
	return b.Store.Delete(ctx, name)
}
