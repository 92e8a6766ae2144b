package tape

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// ErrTooMany is the error of a session that would be one more than a [Bounded] store may have.
var ErrTooMany error = tooMany{}

type tooMany struct{}

func (tooMany) Error() string { return "tape: the limit of sessions is reached" }

// ErrorCode says to those who sort errors by codes that it is nobody's mistake.
func (tooMany) ErrorCode() string { return "overloaded" }

// Whole is a store with all that it may be beside, but that it need not be a [Syncer].
type Whole interface {
	Store
	Blobs
	Leaser
	Importer
}

// Counter is a store that knows how many sessions it has without listing them.
type Counter interface {
	// Count is how many sessions there are.
	Count(ctx context.Context) (int, error)
}

// Bounded is a store in which no sessions begin when there are as many as there may be. Those that are there go on.
type Bounded struct {
	Whole
	most int

	mu      sync.Mutex
	there   int
	coming  int       // that are being made
	counted time.Time // when there was counted in the store

	erasing sync.Mutex // one at a time, so that none is taken for two
}

// recount is how often the sessions are counted anew: another process may have begun or erased some. A store that would have to list them is
// asked only while there are too many.
const recount = time.Minute

// Bound counts the sessions of a store and bounds them.
func Bound(ctx context.Context, s Whole, most int) (*Bounded, error) {
	b := &Bounded{Whole: s, most: most}
	if err := b.count(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// Count implements [Counter], with what the store says now.
func (b *Bounded) Count(ctx context.Context) (int, error) {
	if c, ok := b.Whole.(Counter); ok {
		return c.Count(ctx)
	}
	n := 0
	for _, err := range b.Sessions(ctx, SessionQuery{}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// count counts the sessions in the store.
func (b *Bounded) count(ctx context.Context) error {
	n, err := b.Count(ctx)
	if err != nil {
		return fmt.Errorf("count sessions: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.there, b.counted = n, time.Now()
	return nil
}

// Full reports whether no session can begin.
func (b *Bounded) Full(ctx context.Context) (bool, error) {
	room, err := b.reserve(ctx, 0)
	return !room, err
}

// reserve reports whether there is room for one more session, and takes n places if so: 0 or 1.
func (b *Bounded) reserve(ctx context.Context, n int) (bool, error) {
	_, counts := b.Whole.(Counter)
	for {
		b.mu.Lock()
		room := b.there+b.coming < b.most
		stale := (!room || counts) && time.Since(b.counted) >= recount
		switch {
		case stale:
			b.counted = time.Now() // by one at a time
		case room:
			b.coming += n
		}
		b.mu.Unlock()
		if !stale {
			return room, nil
		}
		if err := b.count(ctx); err != nil && !room {
			return false, err // else what was known serves for another while
		}
	}
}

// began says whether the session that was to be made was.
func (b *Bounded) began(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming--
	if err == nil {
		b.there++
	}
}

// Append implements [Store].
func (b *Bounded) Append(ctx context.Context, name string, batch Batch) (first int64, err error) {
	if !batch.Create || IsFork(name) {
		return b.Whole.Append(ctx, name, batch)
	}
	err = b.making(ctx, name, func() error {
		first, err = b.Whole.Append(ctx, name, batch)
		return err
	})
	return first, err
}

// Import implements [Importer].
func (b *Bounded) Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[Entry, error]) error {
	return b.making(ctx, name, func() error { return b.Whole.Import(ctx, name, session, workspace, entries) })
}

// making makes a session. Where there is no room for one more, whoever would make one that is there already is told that all the same.
func (b *Bounded) making(ctx context.Context, name string, do func() error) error {
	room, err := b.reserve(ctx, 1)
	if err != nil {
		return err
	}
	if !room {
		if _, err := b.Info(ctx, name); err == nil {
			return do()
		}
		return ErrTooMany
	}
	err = errors.New("tape: a store has panicked")
	defer func() { b.began(err) }()
	err = do()
	return err
}

// Delete implements [Store].
func (b *Bounded) Delete(ctx context.Context, name string) error {
	if IsFork(name) {
		return b.Whole.Delete(ctx, name)
	}
	b.erasing.Lock()
	defer b.erasing.Unlock()
	_, there := b.Info(ctx, name)
	err := b.Whole.Delete(ctx, name)
	if err == nil && there == nil {
		b.mu.Lock()
		b.there--
		b.mu.Unlock()
	}
	return err
}

// TurnEnded implements [Syncer] where the store does.
func (b *Bounded) TurnEnded(ctx context.Context, name string) error {
	if s, ok := b.Whole.(Syncer); ok {
		return s.TurnEnded(ctx, name)
	}
	return nil
}
