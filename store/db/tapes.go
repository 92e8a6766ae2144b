package db

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/internal/disk"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// Tapes is a [tape.Store] in the database. Closing it leaves the database open.
type Tapes struct {
	db       *DB
	observer tape.Observer // or nil
	leases   *leases
	closed   atomic.Bool
}

var _ tape.Store = (*Tapes)(nil)

// Tapes returns the store of tapes of a process that has the database alone. The observer may be nil.
func (db *DB) Tapes(observer tape.Observer) *Tapes {
	return &Tapes{db: db, observer: observer, leases: &db.leases}
}

// SharedTapes returns the store of tapes of one of several processes. Leases are among them.
func (db *DB) SharedTapes(among tape.Leaser, observer tape.Observer) *Tapes {
	return &Tapes{db: db, observer: observer, leases: &leases{leaser: among, holder: newID()}}
}

// Close implements [tape.Store].
func (t *Tapes) Close() error {
	t.closed.Store(true)
	return nil
}

// check returns why a call about a tape cannot be made.
func (t *Tapes) check(name string) error {
	if t.closed.Load() {
		return tape.ErrClosed
	}
	return tape.CheckName(name)
}

// Append implements [tape.Store].
func (t *Tapes) Append(ctx context.Context, name string, b tape.Batch) (first int64, err error) {
	var bytes int64
	if t.observer != nil {
		defer func() { t.observer.Appended(len(b.Entries), bytes, err) }()
	}
	if err := t.check(name); err != nil {
		return 0, err
	}
	entries, err := b.Check()
	if err != nil {
		return 0, err
	}
	err = t.db.Update(ctx, func(tx *Tx) error {
		holder, err := t.leases.holderOf(name)
		if err == nil {
			first, bytes, err = tx.append(name, b, entries, holder)
		}
		return err
	})
	return first, err
}

// Info implements [tape.Store].
func (t *Tapes) Info(ctx context.Context, name string) (tape.Info, error) {
	s, err := t.load(ctx, name)
	return s.Info, err
}

// load reads the session of a tape, which must exist.
func (t *Tapes) load(ctx context.Context, name string) (s session, err error) {
	if err := t.check(name); err != nil {
		return s, err
	}
	found := false
	err = t.db.view(ctx, func(q querier) (err error) {
		s, found, err = findSession(q, name)
		return err
	})
	if err == nil && !found {
		err = missingTape()
	}
	return s, err
}

func missingTape() error { return fmt.Errorf("%w: the tape does not exist", tape.ErrNotFound) }

// Read implements [tape.Store].
func (t *Tapes) Read(ctx context.Context, name string, q tape.Query) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		s, err := t.load(ctx, name)
		if err != nil {
			yield(tape.Entry{}, err)
			return
		}
		for e, err := range tape.Select(ctx, source{t.db, ctx, &s}, q) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Sessions implements [tape.Store]. It reads pages: a session that is appended to during the listing may be missing or listed twice.
func (t *Tapes) Sessions(ctx context.Context, q tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) {
		last, err := q.Last()
		if t.closed.Load() {
			err = tape.ErrClosed
		}
		for n := 0; err == nil; {
			limit := sessionRows
			if q.Limit > 0 {
				limit = min(limit, q.Limit-n)
			}
			var page []tape.Info
			if page, err = t.db.listSessions(ctx, q, last, limit); err != nil {
				break
			}
			for _, last = range page {
				if !yield(last, nil) {
					return
				}
			}
			if n += len(page); len(page) < limit || n == q.Limit {
				return
			}
		}
		yield(tape.Info{}, err)
	}
}

// Count implements [tape.Store].
func (t *Tapes) Count(ctx context.Context, owner string) (n int, err error) {
	if t.closed.Load() {
		return 0, tape.ErrClosed
	}
	var where conditions
	if owner != "" {
		where.add("owner = ?", plainText(owner))
	}
	_, err = t.db.viewOne(ctx, []any{&n}, "SELECT count(*) FROM sessions WHERE parent = ''"+where.sql.String(), where.args...)
	return n, err
}

// Unused implements [tape.Store].
func (t *Tapes) Unused(ctx context.Context, before time.Time, unnamed bool, limit int) (found []tape.Info, err error) {
	if t.closed.Load() {
		return nil, tape.ErrClosed
	}
	condition := ""
	if unnamed {
		condition = " AND unnamed = 1"
	}
	return viewAll(ctx, t.db, scanInfo, "SELECT "+sessionColumns+" FROM sessions WHERE parent = ''"+condition+" AND updated < $1 ORDER BY updated LIMIT $2",
		before.UnixMicro(), limit)
}

// Error says why the database did not do what it was asked to. The reason may pass. The text can be shown to anybody.
type Error struct {
	text  string
	cause error
}

func (e *Error) Error() string { return e.text }

// ErrorCode returns the code that says that a later retry can succeed.
func (*Error) ErrorCode() string { return "overloaded" }

// Is reports [tape.ErrAway] and [tape.ErrUnsure].
func (e *Error) Is(target error) bool {
	return target == tape.ErrAway && errors.Is(e.cause, store.ErrAway) || target == tape.ErrUnsure && errors.Is(e.cause, store.ErrUnsure)
}

// Unwrap returns the cause, which may name the database's address.
func (e *Error) Unwrap() error { return e.cause }

// explain makes of an error of the database what callers of a tape.Store expect. It changes nothing if it is called again.
func explain(err error) error {
	if _, explained := errors.AsType[*Error](err); err == nil || explained || disk.Failed(err) || tape.Refused(err) || errors.Is(err, tape.ErrDamaged) {
		return err
	}
	switch {
	case errors.Is(err, store.ErrClosed):
		return fmt.Errorf("%w: %w", tape.ErrClosed, err)
	case errors.Is(err, store.ErrAway):
		return &Error{"the database is unreachable; retry later", err}
	case errors.Is(err, store.ErrUnsure):
		return &Error{"the database did not answer a write, so it may or may not be stored; check before you retry", err}
	case errors.Is(err, store.ErrFull):
		return &Error{"the database has no space; retry later", err}
	case errors.Is(err, store.ErrDamaged):
		return fmt.Errorf("%w: %w", tape.ErrDamaged, err)
	case errors.Is(err, store.ErrTooLarge):
		return fmt.Errorf("%w: %w", tape.ErrTooLarge, err)
	}
	return err
}
