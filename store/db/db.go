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
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
	// Readers is the number of connections that read; 0: 4. One more connection writes.
	Readers int
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
	callTime    time.Duration // with a network: of a transaction, or a page of rows
	beside      bool          // another process may have the SQLite file open

	read       *sql.DB
	statements sync.Map // of read

	write   *sql.DB
	writer  writer        // owned by commitWrites
	stopped chan struct{} // closed when commitWrites has ended

	unwiped   atomic.Bool  // erased text may still be in the files
	exclusive sync.RWMutex // with inMemory: a transaction that writes waits for reads, and they for it

	end      context.Context // ends when the database closes
	stop     context.CancelFunc
	sweeping sync.WaitGroup

	mu      sync.Mutex
	arrived sync.Cond // a write was queued, or the database closes
	queue   []*write
	closed  bool
	reads   sync.WaitGroup
	leases  leases // of those who use the database in this process alone
}

// dialect is what differs between the two databases.
type dialect struct {
	begin        string // starts a transaction that writes
	share        string // ends a SELECT whose row no other transaction may change until the end of this one
	lock         string // likewise, of a row that this transaction changes
	blob         string // type of bytes
	inList       string // condition that a text is in the JSON array %s
	byteOrder    string // follows a text that is compared byte by byte
	prepare      bool   // statements are prepared once for each connection
	network      bool   // statements have a deadline, are retried, and the outcome of a commit can be unknown
	inMemory     bool   // SQLite without a WAL
	explain      func(error) error
	sharedClock  string // query of the microseconds since 1970; "": the time is that of Options.Clock
	createSchema string // of a new database
	checkpoint   string // removes erased text from the files; "": nothing to do
	maxReaders   int    // connections that read, if the URL says so
	unlock       func() error
}

// Open opens a database and brings its schema up to date. The url is sqlite:PATH, postgres://…, or memory, which keeps nothing. A SQLite
// file that another process has open is [store.ErrInUse].
func Open(ctx context.Context, url string, o *Options) (*DB, error) {
	if o == nil {
		o = &Options{}
	}
	db := &DB{clock: o.Clock, log: o.Log, maxRunBytes: o.MaxRunBytes, beside: o.Beside, callTime: cmp.Or(o.callTime, callTime), stopped: make(chan struct{})}
	db.leases.leaser = new(tape.Leases)
	db.arrived.L = &db.mu
	db.end, db.stop = context.WithCancel(context.Background())
	if db.clock == nil {
		db.clock = time.Now
	}
	if db.log == nil {
		db.log = slog.Default()
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
		return nil, err
	}
	readers := cmp.Or(o.Readers, db.maxReaders, 4)
	db.read.SetMaxOpenConns(readers)
	db.read.SetMaxIdleConns(readers)
	db.read.SetConnMaxIdleTime(10 * time.Second) // what a burst has opened is closed again
	db.write.SetMaxOpenConns(1)
	if err := db.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.closeConnections())
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
	closed := db.closed
	db.closed = true
	db.arrived.Signal()
	db.mu.Unlock()
	<-db.stopped
	if closed {
		return nil
	}
	db.reads.Wait()
	return db.closeConnections()
}

func (db *DB) closeConnections() error {
	err := db.read.Close()
	err = errors.Join(err, db.writer.close(), db.write.Close())
	if db.unlock != nil {
		err = errors.Join(err, db.unlock())
	}
	return err
}

// querier runs statements: on the pool that reads, or in a transaction.
type querier struct {
	ctx context.Context
	db  *DB
	on  interface {
		PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}
	statements *sync.Map // *sql.Stmt by query
	changed    *bool     // set by a statement that writes, and by one that fails, which ends a transaction of PostgreSQL; nil outside a transaction
}

// view calls fn with a querier that reads. Each statement is a transaction, and must end before fn returns. Errors: see [explain].
func (db *DB) view(ctx context.Context, fn func(q querier) error) error {
	return explain(db.viewRaw(ctx, fn))
}

func (db *DB) viewRaw(ctx context.Context, fn func(q querier) error) error {
	db.mu.Lock()
	closed := db.closed
	if !closed {
		db.reads.Add(1)
	}
	db.mu.Unlock()
	if closed {
		return store.ErrClosed
	}
	defer db.reads.Done()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if db.inMemory {
		db.exclusive.RLock()
		defer db.exclusive.RUnlock()
	}
	if !db.network { // a page takes milliseconds, and a context that can be canceled costs a goroutine for each statement
		return fn(querier{context.WithoutCancel(ctx), db, db.read, &db.statements, nil})
	}
	limited, cancel := context.WithTimeout(ctx, db.callTime)
	defer cancel()
	err := fn(querier{limited, db, db.read, nil, nil})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// statement returns the prepared statement of a query, or nil if the database does not want one.
func (q querier) statement(query string) (*sql.Stmt, error) {
	if !q.db.prepare {
		return nil, nil
	}
	if stmt, ok := q.statements.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := q.on.PrepareContext(q.ctx, query)
	if err != nil {
		return nil, err
	}
	if first, loaded := q.statements.LoadOrStore(query, stmt); loaded {
		return first.(*sql.Stmt), stmt.Close()
	}
	return stmt, nil
}

// exec runs a statement and returns the number of rows that it changed.
func (q querier) exec(query string, args ...any) (rows int64, err error) {
	q.markChanged()
	var result sql.Result
	stmt, err := q.statement(query)
	if stmt != nil {
		result, err = stmt.ExecContext(q.ctx, args...)
	} else if err == nil {
		result, err = q.on.ExecContext(q.ctx, query, args...)
	}
	if err == nil {
		rows, err = result.RowsAffected()
	}
	return rows, q.db.explain(err)
}

func (q querier) markChanged() {
	if q.changed != nil {
		*q.changed = true
	}
}

// collect reads the rows of a query. It stops when scan returns false.
func (q querier) collect(scan func(rows *sql.Rows) (more bool, err error), query string, args ...any) (err error) {
	var rows *sql.Rows
	stmt, err := q.statement(query)
	if stmt != nil {
		rows, err = stmt.QueryContext(q.ctx, args...)
	} else if err == nil {
		rows, err = q.on.QueryContext(q.ctx, query, args...)
	}
	for more := true; more && err == nil && rows.Next(); {
		more, err = scan(rows)
	}
	if rows != nil {
		err = cmp.Or(err, rows.Err(), rows.Close())
	}
	if err != nil {
		q.markChanged()
	}
	return q.db.explain(err)
}

// scanOne reads the first row of a query into dest; found is false if it has no rows.
func (q querier) scanOne(dest []any, query string, args ...any) (found bool, err error) {
	err = q.collect(func(rows *sql.Rows) (bool, error) {
		found = true
		return false, rows.Scan(dest...)
	}, query, args...)
	return found, err
}

// viewOne reads the first row of a query into dest; found is false if it has no rows.
func (db *DB) viewOne(ctx context.Context, dest []any, query string, args ...any) (found bool, err error) {
	err = db.view(ctx, func(q querier) (err error) {
		found, err = q.scanOne(dest, query, args...)
		return err
	})
	return found, err
}

// viewAll reads all rows of a query.
func viewAll[T any](ctx context.Context, db *DB, scan func(rows *sql.Rows) (T, error), query string, args ...any) (all []T, err error) {
	err = db.view(ctx, func(q querier) (err error) {
		all, err = rowsOf(q, scan, query, args...)
		return err
	})
	return all, err
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

// scanText reads a row of one text.
func scanText(rows *sql.Rows) (text string, err error) { return text, rows.Scan(&text) }

// rowsOf reads all rows of a query.
func rowsOf[T any](q querier, scan func(rows *sql.Rows) (T, error), query string, args ...any) (all []T, err error) {
	err = q.collect(func(rows *sql.Rows) (bool, error) {
		v, err := scan(rows)
		all = append(all, v)
		return true, err
	}, query, args...)
	return all, err
}

// readPage reads rows of a query whose last parameter is their maximum number: at most limit, and about pageBytes by the sizes that scan returns.
// more reports whether there may be more rows.
func readPage[T any](q querier, limit int, scan func(rows *sql.Rows) (v T, size int, err error), query string, args ...any) (page []T, more bool, err error) {
	bytes := 0
	err = q.collect(func(rows *sql.Rows) (bool, error) {
		v, size, err := scan(rows)
		page = append(page, v)
		bytes += size
		more = len(page) == limit || bytes >= pageBytes
		return bytes < pageBytes, err
	}, query, append(args, limit)...)
	return page, more, err
}

// newID returns a random number above 0.
func newID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.BigEndian.Uint64(b[:])>>1) | 1
}
