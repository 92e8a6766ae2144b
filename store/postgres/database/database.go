// Package database connects stores to a PostgreSQL database: it keeps a pool of connections, retries what may be retried, notices when the
// database is away and when it is back, and migrates the tables of a schema. No error that it makes has a statement or a password in it.
//
// It needs PostgreSQL 13 or newer and a database in UTF-8.
package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lingserve/lingserve/internal/backoff"
)

// Options of a database. URL, Migrations, Versions and Closed are required.
type Options struct {
	// URL is the address of the database, in either form that PostgreSQL's programs know: postgres://user:password@host/database or
	// host=… user=…. The variables PGHOST, PGUSER and so on give what it leaves out.
	URL string

	Schema      string       // of the tables; it is created if it does not exist; "" is "lingserve"
	Connections int          // to the database at once; 0 is 16, 2 is the least
	Log         *slog.Logger // nil: nothing is logged

	Migrations []Migration
	Versions   string        // table that records the migrations
	Closed     error         // that calls get after Close
	Patience   time.Duration // how long calls wait for a database that is away
	Primary    bool          // connect to no server that only reads: what a standby has may be old
}

const (
	defaultSchema      = "lingserve"
	defaultConnections = 16
	leastConnections   = 2
)

// These bound what waits for what. The server cancels a statement that takes longer than StatementTime. A connection that does not answer
// a little later is dead.
const (
	StatementTime = 30 * time.Second
	LockTime      = 10 * time.Second // another transaction takes milliseconds
	idleTime      = 10 * time.Second // of a transaction whose connection broke: until then the server keeps its locks
	AnswerTime    = StatementTime + 5*time.Second
	ConnectTime   = 5 * time.Second
	acquireTime   = 5 * time.Second // for one of the connections
	probePause    = time.Second     // between two probes of the database
	migrateTime   = time.Hour
)

// DB is a database. Its fields do not change, but tests set Acquire and Patience.
type DB struct {
	Pool     *pgxpool.Pool
	Schema   string
	Log      *slog.Logger
	Closing  context.Context // ends when the database closes
	Acquire  time.Duration   // how long a call waits for a connection of the pool
	Patience time.Duration   // with a database that is away

	config     *pgx.ConnConfig // for connections beside the pool
	migrations []Migration
	versions   string
	errClosed  error

	close   context.CancelFunc
	closed  atomic.Bool
	away    away
	probing sync.WaitGroup // the goroutine that probes
}

// Open connects to the database, and brings its tables up to date.
func Open(ctx context.Context, o Options) (*DB, error) {
	config, err := o.Config()
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if hosts := HostsWithoutTLS(config.ConnConfig); len(hosts) > 0 {
		o.Log.WarnContext(ctx, "PostgreSQL connection may have no TLS; add sslmode=verify-full to the address of the database", "hosts", strings.Join(hosts, ","))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("database: %s", Reason(err))
	}
	db := &DB{
		Pool: pool, Schema: o.schema(), Log: o.Log, Acquire: acquireTime, Patience: o.Patience,
		config: config.ConnConfig, migrations: o.Migrations, versions: o.Versions, errClosed: o.Closed,
	}
	db.Closing, db.close = context.WithCancel(context.Background())
	if err := db.prepare(ctx); err != nil {
		db.close()
		pool.Close()
		return nil, err
	}
	db.probing.Go(db.probe) // ends when the database closes
	return db, nil
}

func (o *Options) schema() string {
	if o.Schema == "" {
		return defaultSchema
	}
	return o.Schema
}

// Config returns the configuration of the pool. Times that the URL has go before those of this package.
func (o *Options) Config() (*pgxpool.Config, error) {
	if len(o.Schema) > 63 || !utf8.ValidString(o.Schema) || strings.ContainsAny(o.Schema, "\x00\\") {
		return nil, fmt.Errorf("database: invalid schema name %.80q; expected 1–63 bytes of UTF-8", o.Schema)
	}
	config, err := pgxpool.ParseConfig(o.URL)
	if file, ok := errors.AsType[*fs.PathError](err); ok { // of certificates
		return nil, fmt.Errorf("database: cannot read a file of its address: %w", file)
	}
	if err != nil {
		// The error may have the password in it.
		return nil, errors.New("database: invalid address; expected one such as postgres://user:password@host:5432/database")
	}
	if !strings.Contains(o.URL, "pool_max_conns") || o.Connections != 0 {
		config.MaxConns = int32(min(cmp.Or(o.Connections, defaultConnections), 10_000))
	}
	config.MaxConns = max(config.MaxConns, leastConnections)
	config.MinConns, config.MinIdleConns = 0, 0
	config.PingTimeout = ConnectTime
	c := config.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = ConnectTime
	}
	if o.Primary && c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if c.RuntimeParams == nil {
		c.RuntimeParams = map[string]string{}
	}
	for name, value := range map[string]string{
		"application_name":                    "lingserve",
		"statement_timeout":                   Milliseconds(StatementTime),
		"lock_timeout":                        Milliseconds(LockTime),
		"idle_in_transaction_session_timeout": Milliseconds(idleTime),
		"default_transaction_read_only":       "off",
		"default_transaction_isolation":       "read committed",
	} {
		if _, said := c.RuntimeParams[name]; !said {
			c.RuntimeParams[name] = value
		}
	}
	c.RuntimeParams["search_path"] = pgx.Identifier{o.schema()}.Sanitize()
	return config, nil
}

// Milliseconds is a duration as a setting of PostgreSQL.
func Milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// prepare checks the database, and brings its tables up to date.
func (db *DB) prepare(ctx context.Context) error {
	// A migration of a large database takes its time.
	err := db.Do(Long(ctx, migrateTime), func(ctx context.Context, conn *pgx.Conn) error {
		var encoding string
		var version int
		if err := conn.QueryRow(ctx, `SELECT current_setting('server_encoding'), current_setting('server_version_num')::integer`).Scan(&encoding, &version); err != nil {
			return err
		}
		if encoding != "UTF8" {
			return fmt.Errorf("its encoding is %s; expected UTF8", encoding)
		}
		if version < 130000 {
			return fmt.Errorf("it is PostgreSQL %d; expected 13 or newer", version/10000)
		}
		return Migrate(ctx, conn, db.Schema, db.versions, db.migrations)
	})
	_, pg := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("database: %w", context.Cause(ctx))
	case pg, Broken(err), Exhausted(err), Collided(err), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("database: %s", Reason(err))
	}
	return fmt.Errorf("database: %w", err)
}

// Close refuses further calls, and waits for the present ones. Call Stop before, if goroutines that use the database have to end first.
func (db *DB) Close() {
	db.Stop()
	db.probing.Wait()
	db.Pool.Close() // waits for the calls that go on
}

// Stop ends Closing, and has further calls refused. It reports whether this call was the first.
func (db *DB) Stop() bool {
	first := !db.closed.Swap(true)
	db.close()
	return first
}

// Closed reports whether the database has been closed.
func (db *DB) Closed() bool { return db.closed.Load() }

// Connect opens a connection beside the pool, for its caller to close.
func (db *DB) Connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, db.config.Copy())
}

// away remembers since when the database cannot be reached.
type away struct {
	mu    sync.Mutex
	since time.Time // zero while it can
	cause error     // of the last try
}

// Lost records that the database did not answer, and returns for how long that has been so.
func (db *DB) Lost(err error) time.Duration {
	db.away.mu.Lock()
	defer db.away.mu.Unlock()
	if db.away.since.IsZero() {
		db.away.since = time.Now()
		db.Log.Warn("PostgreSQL is away", "reason", Reason(err))
	}
	db.away.cause = err
	return time.Since(db.away.since)
}

// Found records that the database has answered.
func (db *DB) Found() {
	db.away.mu.Lock()
	defer db.away.mu.Unlock()
	if !db.away.since.IsZero() {
		db.Log.Info("PostgreSQL is back", "away", time.Since(db.away.since).Round(time.Millisecond))
		db.away.since, db.away.cause = time.Time{}, nil
	}
}

// Away reports whether the database has not answered for longer than calls wait for it, so that they fail at once.
func (db *DB) Away() bool {
	db.away.mu.Lock()
	defer db.away.mu.Unlock()
	return !db.away.since.IsZero() && time.Since(db.away.since) >= db.Patience
}

// Refuse returns an error, an [ErrNotTried], while Away. The probe notices when the database is back.
func (db *DB) Refuse() error {
	if db.closed.Load() || !db.Away() {
		return nil
	}
	db.away.mu.Lock()
	defer db.away.mu.Unlock()
	if db.away.cause == nil { // it has just answered
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotTried, db.away.cause)
}

// probe asks the database again and again whether it is there, so that the store knows without a call that waits for it.
func (db *DB) probe() {
	for Sleep(db.Closing, db.Closing, probePause) {
		ctx, cancel := context.WithTimeout(db.Closing, ConnectTime)
		err := db.Pool.Ping(ctx)
		cancel()
		switch {
		case db.Closing.Err() != nil:
			return
		case err == nil:
			db.Found()
		case db.Pool.Stat().AcquiredConns() >= db.Pool.Config().MaxConns: // they are in use
		case Broken(err):
			db.Lost(err)
		}
	}
}

// Once runs do on a connection of the pool.
func (db *DB) Once(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	if db.closed.Load() {
		return db.errClosed
	}
	wait, cancel := context.WithTimeoutCause(ctx, db.Acquire, errNoConnection)
	defer cancel()
	conn, err := db.Pool.Acquire(wait)
	if err != nil {
		switch {
		case db.closed.Load():
			return db.errClosed
		case ctx.Err() == nil && wait.Err() != nil && db.Pool.Stat().AcquiredConns() >= db.Pool.Config().MaxConns:
			return errNoConnection
		}
		return err
	}
	defer conn.Release()                                // closes it where a transaction is open still
	work, end := context.WithTimeout(ctx, maxTime(ctx)) // a connection that went dead without a word says nothing
	defer end()
	return do(work, conn.Conn())
}

// longKey marks the context of work that may take longer than a statement.
type longKey struct{}

// Long lets work with the context take longer than a statement.
func Long(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, longKey{}, d)
}

func maxTime(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(longKey{}).(time.Duration); ok {
		return d
	}
	return AnswerTime
}

// NewPauses returns the pauses between tries.
func NewPauses() *backoff.Pauses { return backoff.New(20*time.Millisecond, time.Second) }

// Do runs what may be done twice, and does it again while the database is away or another transaction was in the way.
func (db *DB) Do(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	for pauses := NewPauses(); ; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := db.Refuse(); err != nil {
			return err
		}
		err := db.Once(ctx, do)
		if !db.Again(ctx, err, pauses.NextBackOff()) {
			return err
		}
	}
}

// Again reports whether what ended with err is worth another try, after a pause.
func (db *DB) Again(ctx context.Context, err error, pause time.Duration) bool {
	switch {
	case ctx.Err() != nil || db.closed.Load():
		return false
	case Collided(err):
		pause /= 4
	case Broken(err):
		if db.Lost(err) >= db.Patience {
			return false
		}
	default:
		if err == nil || !errors.Is(err, errNoConnection) {
			db.Found()
		}
		return false
	}
	return Sleep(ctx, db.Closing, pause)
}

// Sleep pauses. It returns false if the call, or the database, ended meanwhile.
func Sleep(ctx, closing context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-closing.Done():
	}
	return false
}
