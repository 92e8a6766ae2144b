package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
)

// maxGroup bounds the writes of one transaction, so that it ends well within callTime.
const maxGroup = 256

// errConflict is the error of a transaction that the database ended in favor of another one. It can be tried again.
var errConflict = errors.New("another transaction was in the way")

// write is a write that waits for its commit.
type write struct {
	ctx  context.Context
	fn   func(tx *Tx) error
	bare bool // fn runs alone and outside a transaction
	err  error
	done chan struct{} // closed when err is set
}

// Tx is a transaction. It is valid until the function that got it returns.
type Tx struct {
	querier
}

// writer is the connection that writes.
type writer struct {
	conn       *sql.Conn // nil until it is needed
	statements sync.Map
	commit     int64 // id of the last commit, see [DB.claimCommit]

	sessions map[string]session // as the last appends have left them, by tape; empty after a rollback
}

const maxRemembered = 1024 // sessions

func (w *writer) remember(s session) {
	if w.sessions == nil || len(w.sessions) >= maxRemembered {
		w.sessions = map[string]session{}
	}
	w.sessions[s.Tape] = s
}

// Update calls fn in a transaction that others may share, and returns when it is committed. If fn returns an error, nothing is written,
// and Update returns that error. fn may be called more than once, so it must not change what it reads, and it must be quick. When ctx ends
// before fn is called, nothing is written.
//
// Errors: [store.ErrAway], [store.ErrFull], [store.ErrClosed]; [store.ErrUnsure] if the answer to a commit was lost and the database has
// been away since.
func (db *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return db.enqueue(&write{ctx: ctx, fn: fn})
}

// exec runs one statement in a transaction, and returns the number of rows that it changed.
func (db *DB) exec(ctx context.Context, query string, args ...any) (rows int64, err error) {
	err = db.Update(ctx, func(tx *Tx) (err error) {
		rows, err = tx.exec(query, args...)
		return err
	})
	return rows, err
}

// change is exec of a statement that changes one row. If the row is not as the statement expects, change returns missing.
func (db *DB) change(ctx context.Context, missing error, query string, args ...any) error {
	n, err := db.exec(ctx, query, args...)
	if err == nil && n == 0 {
		err = missing
	}
	return err
}

func (db *DB) enqueue(w *write) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	w.done = make(chan struct{})
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return explain(store.ErrClosed)
	}
	db.queue = append(db.queue, w)
	db.arrived.Signal()
	db.mu.Unlock()
	<-w.done // canceled writes end here, too: commitWrites sees their contexts
	return explain(w.err)
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
		if db.closed {
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
			w.err = fmt.Errorf("%w: an earlier write failed", store.ErrAway)
			close(w.done)
		}
	}
	for _, w := range group {
		if w.err == nil {
			w.err = err
		}
		close(w.done)
	}
}

// tryGroup runs a group in a transaction. With a network it tries again while there is time.
func (db *DB) tryGroup(group []*write) error {
	ctx := context.Background()
	if db.network {
		limited, cancel := context.WithTimeout(ctx, db.callTime)
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
		retry := db.network && (lost || errors.Is(err, store.ErrAway) || errors.Is(err, errConflict))
		switch {
		case retry && backoff.Sleep(ctx, pauses.NextBackOff()) == nil:
		case lost:
			return fmt.Errorf("%w: %v", store.ErrUnsure, err)
		case errors.Is(err, errConflict):
			return fmt.Errorf("%w: %v", store.ErrAway, err)
		default:
			return err
		}
	}
}

// runGroup runs the writes of a group in one transaction and sets their errors. An error of runGroup concerns all of them.
func (db *DB) runGroup(ctx context.Context, group []*write, id int64, lost *bool) error {
	if db.inMemory {
		db.exclusive.Lock()
		defer db.exclusive.Unlock()
	}
	tx, err := db.connect(ctx)
	if err != nil {
		return err
	}
	if group[0].bare {
		return group[0].fn(tx)
	}
	if _, err := tx.exec(db.begin); err != nil {
		return err
	}
	if db.network {
		committed, err := tx.claimCommit(id)
		if err != nil {
			return err
		}
		if committed { // by the attempt whose answer was lost
			*lost, db.writer.commit = false, id
			db.writer.reset(ctx, true)
			return nil
		}
		*lost = false
	}
	for _, w := range group {
		w.err = nil // of an earlier attempt
	}
	writes := 0
	for _, w := range group {
		var err error
		if w.err, err = tx.runWrite(w); err != nil {
			return err
		}
		if w.err == nil {
			writes++
		} else if len(group) > 1 && *tx.changed {
			return w.err
		}
	}
	if writes == 0 {
		clear(db.writer.sessions)
		_, err := tx.exec("ROLLBACK")
		return err
	}
	if _, err := tx.exec("COMMIT"); err != nil {
		*lost = db.network && errors.Is(err, store.ErrAway)
		return err
	}
	db.writer.commit = id
	return nil
}

// runWrite calls a write's function, which may refuse. An err concerns the whole transaction.
func (tx *Tx) runWrite(w *write) (refused, err error) {
	*tx.changed = false
	if cause := context.Cause(w.ctx); cause != nil {
		return cause, nil
	}
	refused = w.fn(tx)
	if errors.Is(refused, store.ErrAway) || errors.Is(refused, errConflict) {
		return nil, refused
	}
	return refused, nil
}

// connect returns a transaction on the connection that writes. It has not begun.
func (db *DB) connect(ctx context.Context) (*Tx, error) {
	if db.writer.conn == nil {
		conn, err := db.write.Conn(ctx)
		if err != nil {
			return nil, db.explain(err)
		}
		db.writer.conn = conn
	}
	return &Tx{querier: querier{ctx, db, db.writer.conn, &db.writer.statements, new(bool)}}, nil
}

// reset ends the transaction that failed. A connection over a network is given up if that is in vain.
func (w *writer) reset(ctx context.Context, network bool) {
	clear(w.sessions)
	if w.conn == nil {
		return
	}
	_, err := w.conn.ExecContext(ctx, "ROLLBACK") // SQLite may have rolled back by itself: an error then
	if err != nil && network {
		_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // so that the pool does not get it back
		_ = w.conn.Close()
		w.conn = nil
	}
}

func (w *writer) close() error {
	if w.conn == nil {
		return nil
	}
	w.statements.Range(func(_, stmt any) bool {
		_ = stmt.(*sql.Stmt).Close()
		return true
	})
	return w.conn.Close()
}
