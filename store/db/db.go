// Package db stores everything that outlasts a process in one SQL database: SQLite in a file, or PostgreSQL.
//
// # Guarantees
//   - A write is acknowledged when its transaction is committed. It then survives the end of the process, and with PostgreSQL or
//     [Options.Durable] the end of the machine.
//   - A write that fails leaves nothing, and does not make others fail.
//   - Writes that wait while a commit is under way share the next one.
//   - No read holds a connection or a transaction while its caller works.
//   - A call fails within 5 s with [store.ErrAway] if the database cannot be reached, and with [store.ErrFull] if the disk is full. Later
//     calls succeed when the database is back.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// Options are the settings of a database. The zero value has the defaults.
type Options struct {
	// Durable makes each commit on SQLite wait for the disk. Without it, a crash of the machine, but not of the process, can lose the last
	// commits.
	Durable bool
	// Beside opens a SQLite file that another process has open, too. Leases are of each process alone.
	Beside bool
	// MaxRunBytes bounds the events of ended runs. Beyond it those of the runs that ended first are removed. 0: no bound.
	MaxRunBytes int64
	// Clock is the time of entries without a date; nil: time.Now.
	Clock func() time.Time
	// Log gets warnings; nil: slog.Default().
	Log *slog.Logger

	maxPages int           // of the SQLite file, for tests of a full disk; 0: no limit
	callTime time.Duration // for tests on slow machines; 0: callTime
}

// callTime bounds how long a statement or a transaction waits for the database. Calls must fail within 5 s.
const callTime = 4 * time.Second

// DB is an open database. It is safe for concurrent use.
type DB struct {
	dialect
	clock       func() time.Time
	log         *slog.Logger
	maxRunBytes int64
	callTime    time.Duration // with a network: of a transaction, or a query

	readers *sql.DB
	reads   conn         // of readers
	reading sync.RWMutex // a read has it until its rows are read; excludes the end of Close, and writes if the database is in memory

	writers *sql.DB
	writer  writer        // owned by commitWrites
	stopped chan struct{} // closed when commitWrites has ended

	unwiped atomic.Bool // erased text may still be in the files

	end      context.Context // ends when the database closes
	stop     context.CancelFunc
	sweeping sync.WaitGroup
	close    func() error // closes the connections, once
	unlock   func() error // of the SQLite file

	mu      sync.Mutex
	arrived sync.Cond // a write was queued, or the database closes
	queue   []*write
	leases  tape.Leases // of those who use the database in this process alone
}

// dialect is what differs between the two databases.
type dialect struct {
	begin        string // starts a transaction that writes
	lock         string // ends a SELECT whose row no other transaction may change until the end of this one
	blob         string // type of bytes
	inList       string // condition that a text is in the JSON array %s
	network      bool   // statements have a deadline, are retried, and the outcome of a commit can be unknown
	inMemory     bool   // SQLite without a WAL
	explain      func(error) error
	sharedClock  string // query of the microseconds since 1970; "": the time is that of Options.Clock
	createSchema string // of a new database
	checkpoint   string // removes erased text from the files; "": nothing to do
	maxReaders   int    // connections that read, if the URL says so
}

// Open opens a database and brings its schema up to date. The url is sqlite:PATH, postgres://…, or memory, which keeps nothing. A SQLite
// file that another process has open is [store.ErrInUse].
func Open(ctx context.Context, url string, o *Options) (*DB, error) {
	if o == nil {
		o = &Options{}
	}
	db := &DB{
		clock: o.Clock, log: cmp.Or(o.Log, slog.Default()), maxRunBytes: o.MaxRunBytes, callTime: cmp.Or(o.callTime, callTime),
		stopped: make(chan struct{}), unlock: func() error { return nil },
	}
	db.arrived.L = &db.mu
	db.end, db.stop = context.WithCancel(context.Background())
	db.close = sync.OnceValue(db.closeConnections)
	if db.clock == nil {
		db.clock = time.Now
	}
	var err error
	path, isFile := strings.CutPrefix(url, "sqlite:")
	switch {
	case isFile && path != "":
		err = db.openFile(path, o)
	case url == "memory":
		err = db.openMemory()
	case strings.HasPrefix(url, "postgres://"), strings.HasPrefix(url, "postgresql://"):
		err = db.openPostgres(url)
	default:
		scheme, _, _ := strings.Cut(url, ":") // the rest may hold a password
		return nil, fmt.Errorf("%w database %.40q: expected sqlite:PATH, postgres://…, or memory", store.ErrInvalid, scheme)
	}
	if err != nil {
		return nil, errors.Join(err, db.unlock())
	}
	connections := cmp.Or(db.maxReaders, 4)
	db.readers.SetMaxOpenConns(connections)
	db.readers.SetMaxIdleConns(connections)
	db.readers.SetConnMaxIdleTime(10 * time.Second) // what a burst has opened is closed again
	db.reads.on = db.readers
	db.writers.SetMaxOpenConns(1)
	if err := db.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.close())
	}
	go db.commitWrites() // until Close
	if err := db.purge(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if !o.Beside {
		db.sweeping.Go(db.sweepLoop) // until Close
	}
	return db, nil
}

// Close waits for the writes and reads under way and closes the database. Later calls fail with [store.ErrClosed].
func (db *DB) Close() error {
	db.stop()
	db.sweeping.Wait()
	db.mu.Lock()
	db.arrived.Signal()
	db.mu.Unlock()
	<-db.stopped
	return db.close()
}

func (db *DB) closeConnections() error {
	db.reading.Lock()
	defer db.reading.Unlock()
	return errors.Join(db.readers.Close(), db.writer.close(), db.writers.Close(), db.unlock())
}

// Tx runs statements: those of a write in its transaction, others each alone. It keeps the first error: the statements behind it do nothing, and
// find nothing. So it is enough to look at err at the end, and before something is concluded from what was not found.
type Tx struct {
	ctx context.Context
	db  *DB
	*conn
	err     error
	changed bool // a statement may have written, or has failed, which ends a transaction of PostgreSQL
}

// fail keeps an error, unless there is an earlier one.
func (tx *Tx) fail(err error) { tx.err = cmp.Or(tx.err, err) }

// conn is a connection, or a pool of them, and its prepared statements.
type conn struct {
	on interface {
		PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}
	statements sync.Map // *sql.Stmt by query
}

// reader returns what reads. Each of its queries is a transaction.
func (db *DB) reader(ctx context.Context) *Tx { return &Tx{ctx: ctx, db: db, conn: &db.reads} }

// statement returns the prepared statement of a query, or nil with a network: poolers give each transaction another connection.
func (tx *Tx) statement(query string) (*sql.Stmt, error) {
	if tx.db.network {
		return nil, nil
	}
	if stmt, ok := tx.statements.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := tx.on.PrepareContext(context.WithoutCancel(tx.ctx), query)
	if err != nil {
		return nil, err
	}
	if first, loaded := tx.statements.LoadOrStore(query, stmt); loaded {
		return first.(*sql.Stmt), stmt.Close()
	}
	return stmt, nil
}

// exec runs a statement and returns the number of rows that it changed.
func (tx *Tx) exec(query string, args ...any) (rows int64) {
	if tx.err != nil {
		return 0
	}
	tx.changed = true
	var result sql.Result
	stmt, err := tx.statement(query)
	if stmt != nil {
		result, err = stmt.ExecContext(tx.ctx, args...)
	} else if err == nil {
		result, err = tx.on.ExecContext(tx.ctx, query, args...)
	}
	if err == nil {
		rows, err = result.RowsAffected()
	}
	tx.fail(tx.db.explain(err))
	return rows
}

// row reads the columns of one row.
type row func(columns ...any)

// rows yields the rows of a query.
func (tx *Tx) rows(query string, args ...any) iter.Seq[row] {
	return func(yield func(row) bool) {
		if tx.conn != &tx.db.reads {
			tx.query(tx.ctx, yield, query, args)
			return
		}
		tx.db.reading.RLock()
		defer tx.db.reading.RUnlock()
		if tx.db.end.Err() != nil {
			tx.fail(store.ErrClosed)
		}
		tx.fail(context.Cause(tx.ctx))
		if !tx.db.network { // a page takes milliseconds, and a context that can be canceled costs a goroutine for each statement
			tx.query(context.WithoutCancel(tx.ctx), yield, query, args)
			return
		}
		limited, cancel := context.WithTimeout(tx.ctx, tx.db.callTime)
		defer cancel()
		tx.query(limited, yield, query, args)
		if tx.err != nil && tx.ctx.Err() != nil {
			tx.err = context.Cause(tx.ctx)
		}
	}
}

func (tx *Tx) query(ctx context.Context, yield func(row) bool, query string, args []any) {
	if tx.err != nil {
		return
	}
	var rows *sql.Rows
	stmt, err := tx.statement(query)
	if stmt != nil {
		rows, err = stmt.QueryContext(ctx, args...)
	} else if err == nil {
		rows, err = tx.on.QueryContext(ctx, query, args...)
	}
	if err == nil {
		read := func(columns ...any) { tx.fail(tx.db.explain(rows.Scan(columns...))) }
		for more := true; more && tx.err == nil && rows.Next(); {
			more = yield(read)
		}
		err = cmp.Or(rows.Err(), rows.Close())
	}
	tx.fail(tx.db.explain(err))
	tx.changed = tx.changed || tx.err != nil || !strings.HasPrefix(query, "SELECT")
}

// scanOne reads the only row of a query, and reports whether there is one.
func (tx *Tx) scanOne(columns []any, query string, args ...any) (found bool) {
	for read := range tx.rows(query, args...) {
		read(columns...)
		found = true
	}
	return found && tx.err == nil
}

// exists reports whether a query has a row.
func (tx *Tx) exists(query string, args ...any) (found bool) {
	return tx.scanOne([]any{new(any)}, query, args...)
}

// in returns the condition that a text is one of the list that a parameter has, such as "$1"; see [list].
func (d dialect) in(parameter string) string {
	return strings.Replace(d.inList, "%s", parameter, 1)
}

// list returns texts as the value of one parameter, so that the number of texts does not change the statement.
func list(texts []string) string {
	plain := make([]string, len(texts))
	for i, text := range texts {
		plain[i] = plainText(text)
	}
	value, _ := json.Marshal(plain) // texts always have a JSON text
	return string(value)
}

// rowsOf returns what read makes of the rows of a query.
func rowsOf[T any](tx *Tx, read func(row) T, query string, args ...any) (all []T) {
	for row := range tx.rows(query, args...) {
		all = append(all, read(row))
	}
	return all
}

// texts returns the rows of a query that have one text each.
func (tx *Tx) texts(query string, args ...any) []string {
	return rowsOf(tx, func(read row) (text string) {
		read(&text)
		return text
	}, query, args...)
}

// readPage reads rows of a query whose last parameter is their maximum number: at most limit, and about pageBytes by the sizes that read returns.
// more reports whether there may be more rows.
func readPage[T any](tx *Tx, limit int, read func(row) (v T, size int), query string, args ...any) (page []T, more bool) {
	bytes := 0
	for row := range tx.rows(query, append(args, limit)...) {
		v, size := read(row)
		page = append(page, v)
		bytes += size
		if more = len(page) == limit || bytes >= pageBytes; more {
			break
		}
	}
	return page, more
}

// eachPage calls read with the rows of a query, in pages: $1 is the key of the last row, which read returns, and $2 the number of rows.
func (tx *Tx) eachPage(size int, read func(row) (key string), query string, args ...any) {
	for last, more := "", true; more && tx.err == nil; {
		keys := rowsOf(tx, read, query, append([]any{last, size}, args...)...)
		if more = len(keys) == size; more {
			last = keys[len(keys)-1]
		}
	}
}

// newID returns a random number above 0.
func newID() int64 { return rand.Int64N(math.MaxInt64) + 1 }
