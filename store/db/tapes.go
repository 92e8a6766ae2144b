package db

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// Tapes is a [tape.Store] in the database.
type Tapes struct {
	db       *DB
	observer tape.Observer // or nil
	leaser   tape.Leaser   // of this process, or of several
	holder   int64         // this process in sessions.holder; 0: it has the database alone
	leases   sync.Map      // tape.Lease by tape, unless the process is alone
}

var _ tape.Store = (*Tapes)(nil)

// Tapes returns the store of tapes of a process that has the database alone. The observer may be nil.
func (db *DB) Tapes(observer tape.Observer) *Tapes {
	return &Tapes{db: db, observer: observer, leaser: &db.leases}
}

// SharedTapes returns the store of tapes of one of several processes. Leases are among them.
func (db *DB) SharedTapes(among tape.Leaser, observer tape.Observer) *Tapes {
	return &Tapes{db: db, observer: observer, leaser: among, holder: newID()}
}

// Close implements [tape.Store]. It does nothing: [DB.Close] closes the database.
func (t *Tapes) Close() error { return nil }

// Append implements [tape.Store].
func (t *Tapes) Append(ctx context.Context, name string, b tape.Batch) (first int64, err error) {
	var bytes int64
	if t.observer != nil {
		defer func() { t.observer.Appended(len(b.Entries), bytes, err) }()
	}
	if err := tape.CheckName(name); err != nil {
		return 0, err
	}
	entries, err := b.Check()
	if err != nil {
		return 0, err
	}
	err = t.db.Update(ctx, func(tx *Tx) {
		holder, err := t.holderOf(name)
		if err != nil {
			tx.fail(err)
			return
		}
		first, bytes = tx.append(name, b, entries, holder)
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
	if err := tape.CheckName(name); err != nil {
		return s, err
	}
	tx := t.db.reader(ctx)
	s, found := tx.findSession(name)
	if !found {
		tx.fail(missingTape())
	}
	return s, tx.err
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
		for rest := cmp.Or(q.Limit, math.MaxInt); err == nil && rest > 0; {
			var page []tape.Info
			limit := min(rest, sessionRows)
			page, err = t.db.listSessions(ctx, q, last, limit)
			for _, last = range page {
				if !yield(last, nil) {
					return
				}
			}
			if rest -= len(page); err == nil && len(page) < limit {
				return
			}
		}
		if err != nil {
			yield(tape.Info{}, err)
		}
	}
}

// Count implements [tape.Store].
func (t *Tapes) Count(ctx context.Context, owner string) (n int, err error) {
	var where conditions
	if owner != "" {
		where.add("owner = ?", plainText(owner))
	}
	tx := t.db.reader(ctx)
	tx.scanOne([]any{&n}, "SELECT count(*) FROM sessions WHERE parent = ''"+where.sql.String(), where.args...)
	return n, tx.err
}

// Unused implements [tape.Store].
func (t *Tapes) Unused(ctx context.Context, before time.Time, unnamed bool, limit int) (found []tape.Info, err error) {
	condition := ""
	if unnamed {
		condition = " AND unnamed = 1"
	}
	return t.db.reader(ctx).infosOf("SELECT "+sessionColumns+" FROM sessions WHERE parent = ''"+condition+" AND updated < $1 ORDER BY updated LIMIT $2",
		before.UnixMicro(), limit)
}
