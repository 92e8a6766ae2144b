// Package postgres is a [store.Engine] on a PostgreSQL database. Several servers share one database; several installations do, too, each
// in a schema of its own.
//
// # Guarantees
//   - All puts of a process that wait for a table share one transaction, which is one function call: one way to the server and back.
//   - The database's clock decides when a record expires. Revisions rise with that clock, so none is given twice, even if a crash loses
//     the last changes of an Async table.
//   - A put whose answer was lost is sent again for up to 15 s. The server recognizes it by its ID, and writes it once.
//   - [store.ErrAway] means that no server can have written the put. [store.ErrUnsure] means that its answer was lost.
//   - A deletion that is sent again within some minutes succeeds again. A put that has created a record since deleted gets
//     [store.ErrMoved].
//   - Watchers learn of changes by NOTIFY, on one connection for the whole process, and by reading each second. A Synced put's notice follows
//     its commit. So they work through a
//     pooler that shares connections between transactions, which drops notices, settings and prepared statements: then the URL has
//     default_query_exec_mode=exec, and PgBouncer's ignore_startup_parameters names what README.md lists. After a restart of the database, or an outage
//     longer than removals are kept, they compare all records.
//   - A read holds neither a connection nor a transaction while its caller works, and about a megabyte at a time.
//
// It needs PostgreSQL 13 or newer and a database in UTF-8.
package postgres

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres/database"
)

// Options of an engine. URL is required.
type Options struct {
	// URL is the address of the database, in either form that PostgreSQL's programs know: postgres://user:password@host/database or
	// host=… user=…. The variables PGHOST, PGUSER and so on give what it leaves out.
	URL         string
	Schema      string       // of the tables; it is created if it does not exist; "" is "lingserve"
	Connections int          // to the database at once; 0 is 16, 2 is the least. One more listens while something is watched.
	Log         *slog.Logger // nil: nothing is logged

	wait     time.Duration // in tests; 0 is callTime
	patience time.Duration // in tests; 0 is patienceTime
	sweep    time.Duration // in tests; 0 is sweepEvery
}

const (
	callTime     = 15 * time.Second // that a call waits for an answer
	patienceTime = 5 * time.Second  // that a call waits for a connection
	flushTime    = 5 * time.Second  // that Close waits for lazy puts to be durable
)

//go:embed migrations/*.sql
var files embed.FS

const versions = "store_migrations" // the table that records them

// Engine is a [store.Engine].
type Engine struct {
	db      *database.DB
	log     *slog.Logger
	channel string // of notices
	sql     statements
	wait    time.Duration // that a call waits for an answer
	sweep   time.Duration // between two sweeps

	end     context.Context // ends with ErrClosed when the engine closes
	stop    context.CancelCauseFunc
	running sync.WaitGroup
	epoch   atomic.Int64 // rises when notices and changes may have been lost with a server

	notices notices

	mu        sync.Mutex
	tables    map[string]*Table
	byID      map[int32]*Table
	logs      map[string]*Log
	bus       *Bus // nil until it is opened
	listening bool
	closed    bool
}

var _ store.Engine = (*Engine)(nil)

// Open connects to the database, and brings its tables up to date.
func Open(ctx context.Context, o Options) (*Engine, error) {
	db, err := database.Open(ctx, o.database())
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(db.Schema)) // never fails
	e := &Engine{
		db: db, log: db.Log, channel: fmt.Sprintf("lingserve_store_%x", h.Sum64()), sql: statementsOf(db.Schema), wait: cmp.Or(o.wait, callTime), sweep: cmp.Or(o.sweep, sweepEvery),
		tables: map[string]*Table{}, byID: map[int32]*Table{}, logs: map[string]*Log{},
	}
	e.end, e.stop = context.WithCancelCause(context.Background())
	e.running.Go(e.keep) // ends when the engine closes
	return e, nil
}

func (o *Options) database() database.Options {
	return database.Options{
		URL: o.URL, Schema: o.Schema, Connections: o.Connections, Log: o.Log, Primary: true,
		Migrations: database.Migrations(files, "migrations"), Versions: versions, Closed: store.ErrClosed, Patience: cmp.Or(o.patience, patienceTime),
	}
}

// Database is what the engine uses, for others who keep something in it. It is closed with the engine.
func (e *Engine) Database() *database.DB { return e.db }

// Away reports whether the database has not answered for longer than calls wait for it, so that they fail at once.
func (e *Engine) Away() bool { return e.db.Away() }

// Table implements [store.Engine].
func (e *Engine) Table(ctx context.Context, o store.TableOptions) (store.Table, error) {
	if err := store.CheckKey(o.Name); err != nil {
		return nil, err
	}
	if t, err := e.opened(o.Name); t != nil || err != nil {
		return t, err
	}
	var id int32
	err := e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, e.sql.find, o.Name).Scan(&id)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if _, err := conn.Exec(ctx, e.sql.create, o.Name); err != nil {
			return err
		}
		return conn.QueryRow(ctx, e.sql.find, o.Name).Scan(&id)
	})
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", o.Name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, store.ErrClosed
	}
	if t := e.tables[o.Name]; t != nil { // opened meanwhile
		return t, nil
	}
	t := &Table{e: e, o: o, id: id, nudged: make(chan struct{}, 1)}
	t.puts = queue[*store.Put, answer]{writers: 1, e: e, name: o.Name, send: t.send, committed: t.committed}
	e.tables[o.Name], e.byID[id] = t, t
	return t, nil
}

// opened returns a table that was opened before, nil if it was not, or ErrClosed.
func (e *Engine) opened(name string) (store.Table, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, store.ErrClosed
	}
	if t := e.tables[name]; t != nil {
		return t, nil
	}
	return nil, nil
}

// Close implements [store.Engine].
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.mu.Unlock()
	e.stop(store.ErrClosed)
	e.running.Wait()
	err := e.flush()
	e.db.Close()
	return err
}

// flush makes lazy puts durable: a durable commit is written behind all before it.
func (e *Engine) flush() error {
	var lazy []int32
	for _, t := range e.tables {
		if t.lazy.Load() {
			lazy = append(lazy, t.id)
		}
	}
	if len(lazy) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	err := e.db.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, e.sql.flush, lazy)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: the last lazy changes may be lost if the database's machine fails now: %s", store.ErrUnsure, database.Reason(err))
	}
	return nil
}

// do runs what may be done twice, and does it again while the database is away, but not for longer than a call waits.
func (e *Engine) do(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	if err := context.Cause(e.end); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, e.wait)
	defer cancel()
	stop := context.AfterFunc(e.end, cancel)
	defer stop()
	err := e.db.Do(wait, do)
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound):
		return err
	case e.end.Err() != nil:
		return context.Cause(e.end)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %s", store.ErrAway, database.Reason(err))
}
