package db

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
)

// maxGroup bounds the writes of one transaction, so that it ends well within callTime.
const maxGroup = 256

// write is a write that waits for its commit.
type write struct {
	ctx  context.Context
	fn   func(tx *Tx)
	bare bool // fn runs alone and outside a transaction
	err  error
	done chan struct{} // closed when err is set
}

// writer is the connection that writes.
type writer struct {
	conn
	single   *sql.Conn          // nil until it is needed
	commit   int64              // id of the last commit, see [Tx.claimCommit]
	sessions map[string]session // as the last appends have left them, by tape; empty after a rollback
}

const maxRemembered = 1024 // sessions

func (w *writer) remember(s session) {
	if w.sessions == nil || len(w.sessions) >= maxRemembered {
		w.sessions = map[string]session{}
	}
	w.sessions[s.Tape] = s
}

// Update calls fn in a transaction that others may share, and returns when it is committed. If tx has an error then, nothing is written,
// and Update returns that error. fn may be called more than once, so it must not change what it reads, and it must be quick. tx is
// valid until fn returns. When ctx ends before fn is called, nothing is written.
//
// Errors: [store.ErrAway], [store.ErrFull], [store.ErrClosed]; [store.ErrUnsure] if the answer to a commit was lost and the database has
// been away since.
func (db *DB) Update(ctx context.Context, fn func(tx *Tx)) error {
	return db.enqueue(&write{ctx: ctx, fn: fn})
}

func (db *DB) enqueue(w *write) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	w.done = make(chan struct{})
	db.mu.Lock()
	if db.end.Err() != nil {
		db.mu.Unlock()
		return store.ErrClosed
	}
	db.queue = append(db.queue, w)
	db.arrived.Signal()
	db.mu.Unlock()
	<-w.done // canceled writes end here, too: commitWrites sees their contexts
	return w.err
}

// exec runs one statement in a transaction, and returns the number of rows that it changed.
func (db *DB) exec(ctx context.Context, query string, args ...any) (rows int64, err error) {
	err = db.Update(ctx, func(tx *Tx) { rows = tx.exec(query, args...) })
	return rows, err
}

// change is exec of a statement that changes some rows. If it changes none, change returns missing, which may be nil.
func (db *DB) change(ctx context.Context, missing error, query string, args ...any) error {
	n, err := db.exec(ctx, query, args...)
	if err == nil && n == 0 {
		err = missing
	}
	return err
}

// commitWrites commits what is queued, until the database is closed.
func (db *DB) commitWrites() {
	defer close(db.stopped)
	for group := db.nextGroup(); group != nil; group = db.nextGroup() {
		db.commitGroup(group)
	}
}

// nextGroup waits for writes and returns those that share the next transaction; nil when the database is closed.
func (db *DB) nextGroup() []*write {
	db.mu.Lock()
	defer db.mu.Unlock()
	for len(db.queue) == 0 {
		if db.end.Err() != nil {
			return nil
		}
		db.arrived.Wait()
	}
	n := 1
	for n < min(len(db.queue), maxGroup) && !db.queue[0].bare && !db.queue[n].bare {
		n++
	}
	group := db.queue[:n:n]
	db.queue = db.queue[n:]
	return group
}

func (db *DB) commitGroup(group []*write) {
	err := db.tryGroup(group)
	away := errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrUnsure)
	if err != nil && !away && len(group) > 1 { // one of them may be the reason; savepoints would cost each two statements
		for _, w := range group {
			db.commitGroup([]*write{w})
		}
		return
	}
	if away { // those that came meanwhile have waited long enough
		db.mu.Lock()
		waiting := db.queue
		db.queue = nil
		db.mu.Unlock()
		for _, w := range waiting {
			w.err = newError(store.ErrAway, errors.New("an earlier write failed"))
			close(w.done)
		}
	}
	for _, w := range group {
		w.err = cmp.Or(w.err, err)
		close(w.done)
	}
}

// tryGroup runs a group in a transaction. It tries again while there is time if another transaction was in the way, or the network.
func (db *DB) tryGroup(group []*write) error {
	ctx, deadline := context.Background(), time.Now().Add(db.callTime)
	if db.network {
		limited, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		ctx = limited
	}
	id := newID()
	lost := false // whether the answer to a commit was lost
	for pauses := backoff.New(10*time.Millisecond, 200*time.Millisecond); ; {
		err := db.runGroup(ctx, group, id, &lost)
		if err == nil {
			return nil
		}
		db.writer.reset(ctx, db.network)
		conflict := errors.Is(err, errConflict)
		retry := conflict || db.network && (lost || errors.Is(err, store.ErrAway))
		switch {
		case retry && time.Now().Before(deadline) && backoff.Sleep(ctx, pauses.NextBackOff()) == nil:
		case lost:
			return newError(store.ErrUnsure, err)
		case conflict:
			return newError(store.ErrAway, err)
		default:
			return err
		}
	}
}

// runGroup runs the writes of a group in one transaction. Those whose context has ended are left out, and so are those that refuse before
// they write: that is no reason to run the others again.
func (db *DB) runGroup(ctx context.Context, group []*write, id int64, lost *bool) error {
	if db.inMemory {
		db.reading.Lock()
		defer db.reading.Unlock()
	}
	tx, err := db.connect(ctx)
	if err != nil {
		return err
	}
	if group[0].bare {
		group[0].fn(tx)
		return tx.err
	}
	tx.exec(db.begin)
	if db.network {
		committed := tx.claimCommit(id)
		*lost = *lost && tx.err != nil
		if committed { // by the attempt whose answer was lost
			db.writer.commit = id
			db.writer.reset(ctx, true)
			return nil
		}
	}
	if tx.err != nil {
		return tx.err
	}
	for _, w := range group {
		if w.err = context.Cause(w.ctx); w.err != nil {
			continue
		}
		tx.changed = false
		w.fn(tx)
		if tx.err != nil && (tx.changed || len(group) == 1) {
			return tx.err
		}
		w.err, tx.err = tx.err, nil
	}
	if tx.exec("COMMIT"); tx.err != nil {
		*lost = db.network && errors.Is(tx.err, store.ErrAway)
		return tx.err
	}
	db.writer.commit = id
	return nil
}

// connect returns a transaction on the connection that writes. It has not begun.
func (db *DB) connect(ctx context.Context) (*Tx, error) {
	if db.writer.single == nil {
		single, err := db.writers.Conn(ctx)
		if err != nil {
			return nil, db.explain(err)
		}
		db.writer.single, db.writer.on = single, single
	}
	return &Tx{ctx: ctx, db: db, conn: &db.writer.conn}, nil
}

// reset ends the transaction that failed. A connection over a network is given up if that is in vain.
func (w *writer) reset(ctx context.Context, network bool) {
	clear(w.sessions)
	if w.single == nil {
		return
	}
	_, err := w.single.ExecContext(ctx, "ROLLBACK") // SQLite may have rolled back by itself: an error then
	if err != nil && network {
		_ = w.single.Raw(func(any) error { return driver.ErrBadConn }) // so that the pool does not get it back
		_ = w.close()
		w.single = nil
	}
}

func (w *writer) close() error {
	if w.single == nil {
		return nil
	}
	w.statements.Range(func(_, stmt any) bool {
		_ = stmt.(*sql.Stmt).Close()
		return true
	})
	return w.single.Close()
}
