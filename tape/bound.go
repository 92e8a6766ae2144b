package tape

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"
)

// ErrTooMany is the error of a session that would be one more than a [Bounded] store may have, ErrTooManyOfOwner one more than its owner may.
var (
	ErrTooMany        error = tooMany{"tape: the limit of sessions is reached"}
	ErrTooManyOfOwner error = tooMany{"tape: the caller's limit of sessions is reached"}
)

type tooMany struct{ text string }

func (t tooMany) Error() string { return t.text }

// ErrorCode says to those who sort errors by codes that it is nobody's mistake.
func (tooMany) ErrorCode() string { return "overloaded" }

// Whole is a store with all that it may be beside, but that it need not be a [Syncer].
type Whole interface {
	Store
	Blobs
	Leaser
	Importer
	Counter
}

// Counter is a store that counts sessions.
type Counter interface {
	// Count is how many sessions there are.
	Count(ctx context.Context) (int, error)
	// CountOf is how many sessions the owner of a session has.
	CountOf(ctx context.Context, session string) (int, error)
}

// Expirer is a store that knows which sessions were not used for long.
type Expirer interface {
	// Unused lists at most limit sessions whose last entry is from before a date, the oldest first: all, or only those that no request has named.
	Unused(ctx context.Context, before time.Time, unnamed bool, limit int) ([]Info, error)
}

// Bounded is a store in which no sessions begin when there are as many as there may be. Those that are there go on.
type Bounded struct {
	Whole
	most, share int

	mu      sync.Mutex
	there   int
	coming  int       // that are being made
	counted time.Time // when there was counted in the store

	erasing sync.Mutex // one at a time, so that none is taken for two
}

// recount is how often the sessions are counted anew: another process may have begun or erased some.
const recount = time.Minute

// Bound counts the sessions of a store and bounds them: all to most, those of one owner to share; 0 is no bound of one's own.
func Bound(ctx context.Context, s Whole, most, share int) (*Bounded, error) {
	b := &Bounded{Whole: s, most: most, share: share}
	if err := b.count(ctx); err != nil {
		return nil, err
	}
	return b, nil
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

// Room returns why a session that does not exist cannot begin: [ErrTooMany], [ErrTooManyOfOwner], or an error of the store.
func (b *Bounded) Room(ctx context.Context, session string) error {
	err := b.checkShare(ctx, session)
	if err == nil {
		err = b.take(ctx, 0)
	}
	return err
}

// take takes n places, 0 or 1, if there is room for one more session.
func (b *Bounded) take(ctx context.Context, n int) error {
	if b.most == 0 {
		return nil
	}
	room, err := b.reserve(ctx, n)
	if err == nil && !room {
		err = ErrTooMany
	}
	return err
}

// reserve reports whether there is room for one more session, and takes n places if so: 0 or 1.
func (b *Bounded) reserve(ctx context.Context, n int) (bool, error) {
	for {
		b.mu.Lock()
		room := b.there+b.coming < b.most
		stale := time.Since(b.counted) >= recount
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
	session := batch.Session
	if session == "" && len(batch.Entries) > 0 {
		session = MetaOf(batch.Entries[0]).Session
	}
	err = b.making(ctx, name, session, func() error {
		first, err = b.Whole.Append(ctx, name, batch)
		return err
	})
	return first, err
}

// Import implements [Importer].
func (b *Bounded) Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[Entry, error]) error {
	return b.making(ctx, name, session, func() error { return b.Whole.Import(ctx, name, session, workspace, entries) })
}

// making makes a session. Where there is no room for one more, whoever would make one that is there already is told that all the same.
func (b *Bounded) making(ctx context.Context, name, session string, do func() error) error {
	err := b.checkShare(ctx, session)
	if err == nil {
		err = b.take(ctx, 1)
	}
	if err != nil {
		if _, missing := b.Info(ctx, name); missing == nil {
			return do()
		}
		return err
	}
	err = errors.New("tape: a store has panicked")
	defer func() { b.began(err) }()
	err = do()
	return err
}

// checkShare refuses one more session of the owner of a session. Of several that begin at once, some may be too many.
func (b *Bounded) checkShare(ctx context.Context, session string) error {
	if owner, _, owned := strings.Cut(session, "#"); b.share == 0 || !owned || owner == "" {
		return nil
	}
	n, err := b.CountOf(ctx, session)
	if err == nil && n >= b.share {
		err = ErrTooManyOfOwner
	}
	return err
}

// Unused implements [Expirer].
func (b *Bounded) Unused(ctx context.Context, before time.Time, unnamed bool, limit int) ([]Info, error) {
	e, ok := b.Whole.(Expirer)
	if !ok {
		return nil, nil
	}
	return e.Unused(ctx, before, unnamed, limit)
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
