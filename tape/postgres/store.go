package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/binary"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store/postgres/database"
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
	answerTime   = database.AnswerTime
	connectTime  = database.ConnectTime
	patienceTime = 10 * time.Second // that calls wait for a database that is away: a restart takes less
	doubtTime    = 30 * time.Second // to find out what became of a commit: more than the server keeps a transaction whose connection broke
	eraseTime    = 10 * time.Minute // a long tape has many rows
)

//go:embed migrations/*.sql
var files embed.FS

const versions = "migrations" // the table that records them

// Store is a tape.Store. It is also a tape.Blobs, a tape.Leaser and a tape.Importer. It is no tape.Syncer: a commit is as durable as the
// database makes it.
type Store struct {
	db       *database.DB
	observer tape.Observer // nil is nobody
	indexer  indexer
	keeper   keeper
}

var _ tape.Whole = (*Store)(nil)

// Open connects to the database, and brings its tables up to date.
func Open(ctx context.Context, o Options) (*Store, error) {
	db, err := database.Open(ctx, o.database())
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, observer: o.Observer}
	s.indexer.start(s)
	s.keeper.start(s)
	return s, nil
}

func (o *Options) database() database.Options {
	return database.Options{
		URL: o.URL, Schema: o.Schema, Connections: o.Connections, Log: o.Log,
		Migrations: database.Migrations(files, "migrations"), Versions: versions, Closed: tape.ErrClosed, Patience: cmp.Or(o.patience, patienceTime),
	}
}

// Close implements tape.Store.
func (s *Store) Close() error {
	if s.db.Stop() {
		s.indexer.wait()
		s.keeper.wait()
		s.db.Close()
	}
	return nil
}

// Away reports whether the database has not answered for longer than calls wait for it, so that they fail at once.
func (s *Store) Away() bool { return s.db.Away() }

// do runs what may be done twice, and does it again while the database is away or another transaction was in the way.
func (s *Store) do(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	return explain(ctx, s.db.Do(ctx, do))
}

// token is a random number that nobody else has.
func token() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.NativeEndian.Uint64(b[:]))
}
