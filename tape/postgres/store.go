package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lingserve/lingserve/tape"
)

// Options of a store. URL is required.
type Options struct {
	// URL says where the database is, in either form that PostgreSQL's programs know: postgres://user:password@host/database or
	// host=… user=…. What it leaves out, the variables PGHOST, PGUSER and so on say.
	URL string

	Schema      string        // that the tables are in, and that is made where it is not there; "" is "lingserve"
	Connections int           // to the database at once; 0 is 16, 2 is the least. One more listens while somebody waits for a lease.
	Log         *slog.Logger  // what is wrong with the database; nil is nowhere
	Observer    tape.Observer // is told what is appended, to count it; nil is nobody

	patience time.Duration // in tests; 0 is patienceTime
}

const (
	defaultSchema      = "lingserve"
	defaultConnections = 16
	leastConnections   = 2
)

// These bound what waits for what. A statement that takes longer than statementTime is broken off by the server, and one whose answer
// does not come is given up a little later: its connection is dead.
const (
	statementTime = 30 * time.Second
	lockTime      = 10 * time.Second // another transaction on a tape takes milliseconds
	idleTime      = 10 * time.Second // of a transaction of ours whose connection broke: until then the server keeps its locks
	answerTime    = statementTime + 5*time.Second
	connectTime   = 5 * time.Second
	acquireTime   = 5 * time.Second  // for one of the connections
	patienceTime  = 10 * time.Second // that calls wait for a database that is away: a restart takes less
	doubtTime     = 30 * time.Second // to find out what became of a commit; more than idleTime
	probePause    = time.Second      // between two probes of the database
	eraseTime     = 10 * time.Minute // a long tape has many rows
	migrateTime   = time.Hour
)

// Store is a tape.Store. It is also a tape.Blobs, a tape.Leaser and a tape.Importer. It is no tape.Syncer: a commit is as durable as the
// database makes it.
type Store struct {
	pool     *pgxpool.Pool
	config   *pgx.ConnConfig // for the connection that listens
	schema   string
	log      *slog.Logger
	observer tape.Observer // nil is nobody
	acquire  time.Duration // acquireTime, but in tests
	patience time.Duration // with a database that is away

	closing context.Context // ends when the store closes
	close   context.CancelFunc
	closed  atomic.Bool

	away    away
	probing sync.WaitGroup // the goroutine that probes
	indexer indexer
	keeper  keeper
}

var _ tape.Whole = (*Store)(nil)

// Open connects to the database, and brings its tables up to date.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.patience == 0 {
		o.patience = patienceTime
	}
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("database: %s", reason(err))
	}
	s := &Store{pool: pool, config: config.ConnConfig, schema: o.Schema, log: o.Log, observer: o.Observer, acquire: acquireTime, patience: o.patience}
	s.closing, s.close = context.WithCancel(context.Background())
	if err := s.prepare(ctx); err != nil {
		s.close()
		pool.Close()
		return nil, err
	}
	s.indexer.start(s)
	s.keeper.start(s)
	s.probing.Go(s.probe) // ends when the store closes
	return s, nil
}

// config is the configuration of the pool. What the URL says of times is taken.
func (o *Options) config() (*pgxpool.Config, error) {
	if len(o.Schema) > 63 || o.Schema != pack(o.Schema) {
		return nil, fmt.Errorf("database: the name of a schema has 1–63 bytes of UTF-8, %.80q has not", o.Schema)
	}
	config, err := pgxpool.ParseConfig(o.URL)
	if file, ok := errors.AsType[*fs.PathError](err); ok { // of certificates
		return nil, fmt.Errorf("database: a file that its address names cannot be read: %w", file)
	}
	if err != nil {
		// What it is said to be wrong for may have the password in it.
		return nil, errors.New("database: that is no address of a PostgreSQL database (as postgres://user:password@host:5432/database)")
	}
	config.MaxConns = max(int32(min(o.Connections, 10_000)), leastConnections)
	if o.Connections == 0 {
		config.MaxConns = defaultConnections
	}
	config.MinConns, config.MinIdleConns = 0, 0
	config.PingTimeout = connectTime
	c := config.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTime
	}
	if c.RuntimeParams == nil {
		c.RuntimeParams = map[string]string{}
	}
	for name, value := range map[string]string{
		"application_name":                    "lingserve",
		"statement_timeout":                   milliseconds(statementTime),
		"lock_timeout":                        milliseconds(lockTime),
		"idle_in_transaction_session_timeout": milliseconds(idleTime),
		"default_transaction_read_only":       "off",
		"default_transaction_isolation":       "read committed",
	} {
		if _, said := c.RuntimeParams[name]; !said {
			c.RuntimeParams[name] = value
		}
	}
	c.RuntimeParams["search_path"] = pgx.Identifier{o.Schema}.Sanitize()
	return config, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// prepare looks whether the database will do, and brings its tables up to date.
func (s *Store) prepare(ctx context.Context) error {
	// A migration of a large database takes its time.
	err := s.do(long(ctx, migrateTime), func(ctx context.Context, conn *pgx.Conn) error {
		var encoding string
		var version int
		if err := conn.QueryRow(ctx, `SELECT current_setting('server_encoding'), current_setting('server_version_num')::integer`).Scan(&encoding, &version); err != nil {
			return err
		}
		if encoding != "UTF8" {
			return fmt.Errorf("its encoding is %s: it must be UTF8", encoding)
		}
		if version < 130000 {
			return fmt.Errorf("it is PostgreSQL %d: 13 or newer is wanted", version/10000)
		}
		return migrate(ctx, conn, s.schema, migrations())
	})
	if e, ok := errors.AsType[*Error](err); ok {
		return fmt.Errorf("database: %s", reason(e))
	}
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	return nil
}

// Close implements tape.Store.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.close()
	s.probing.Wait()
	s.indexer.wait()
	s.keeper.wait()
	s.pool.Close() // waits for the calls that go on
	return nil
}

// token is a random number that nobody else has.
func token() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.NativeEndian.Uint64(b[:]))
}

// away remembers since when the database cannot be reached.
type away struct {
	mu    sync.Mutex
	since time.Time // zero while it can
	cause error     // of the last try
}

// lost says that the database did not answer, and for how long that has been so.
func (s *Store) lost(err error) time.Duration {
	s.away.mu.Lock()
	defer s.away.mu.Unlock()
	if s.away.since.IsZero() {
		s.away.since = time.Now()
		s.log.Warn("PostgreSQL is away", "reason", reason(err))
	}
	s.away.cause = err
	return time.Since(s.away.since)
}

// found says that the database has answered.
func (s *Store) found() {
	s.away.mu.Lock()
	defer s.away.mu.Unlock()
	if !s.away.since.IsZero() {
		s.log.Info("PostgreSQL is back", "away", time.Since(s.away.since).Round(time.Millisecond))
		s.away.since, s.away.cause = time.Time{}, nil
	}
}

// Away reports whether the database has not answered for longer than calls wait for it, so that they fail at once.
func (s *Store) Away() bool {
	s.away.mu.Lock()
	defer s.away.mu.Unlock()
	return !s.away.since.IsZero() && time.Since(s.away.since) >= s.patience
}

// refuse returns an error where a call need not try to reach the database: the probe finds it when it is back.
func (s *Store) refuse() error {
	if s.closed.Load() || !s.Away() {
		return nil
	}
	s.away.mu.Lock()
	defer s.away.mu.Unlock()
	if s.away.cause == nil { // it has just answered
		return nil
	}
	return &Error{textAway, fmt.Errorf("%w: %w", errNotTried, s.away.cause)}
}

// probe asks the database again and again whether it is there, so that the store knows without a call that waits for it.
func (s *Store) probe() {
	for sleep(s.closing, s.closing, probePause) {
		ctx, cancel := context.WithTimeout(s.closing, connectTime)
		err := s.pool.Ping(ctx)
		cancel()
		switch {
		case s.closing.Err() != nil:
			return
		case err == nil:
			s.found()
		case s.pool.Stat().AcquiredConns() >= s.pool.Config().MaxConns: // they are in use
		case broken(err):
			s.lost(err)
		}
	}
}

// errNoConnection is the cause where all connections were in use for too long.
var errNoConnection = errors.New("all connections are in use")

// errNotTried is the cause where a call has not tried to reach the database, which has been away for longer than calls wait.
var errNotTried = errors.New("it has been away for some time")

// once runs do on a connection of the pool.
func (s *Store) once(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	if s.closed.Load() {
		return tape.ErrClosed
	}
	wait, cancel := context.WithTimeoutCause(ctx, s.acquire, errNoConnection)
	defer cancel()
	conn, err := s.pool.Acquire(wait)
	if err != nil {
		switch {
		case s.closed.Load():
			return tape.ErrClosed
		case ctx.Err() == nil && wait.Err() != nil && s.pool.Stat().AcquiredConns() >= s.pool.Config().MaxConns:
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

func long(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, longKey{}, d)
}

func maxTime(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(longKey{}).(time.Duration); ok {
		return d
	}
	return answerTime
}

// do runs what may be done twice, and does it again while the database is away or another transaction was in the way.
func (s *Store) do(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := s.refuse(); err != nil {
			return err
		}
		err := s.once(ctx, do)
		if !s.again(ctx, err, pause) {
			return explain(ctx, err)
		}
	}
}

// again says whether what ended with err is worth another try, after a pause.
func (s *Store) again(ctx context.Context, err error, pause time.Duration) bool {
	switch {
	case ctx.Err() != nil || s.closed.Load():
		return false
	case collided(err):
		pause /= 4
	case broken(err):
		if s.lost(err) >= s.patience {
			return false
		}
	default:
		if err == nil || !errors.Is(err, errNoConnection) {
			s.found()
		}
		return false
	}
	return sleep(ctx, s.closing, pause)
}

// sleep pauses; false says that the call, or the store, ended meanwhile.
func sleep(ctx, closing context.Context, d time.Duration) bool {
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
