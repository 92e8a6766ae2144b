package postgres

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres/database"
)

// Log is a [store.Log]: the logs of a space.
type Log struct {
	e       *Engine
	o       store.LogOptions
	id      int32
	parted  bool // batches are dropped by parts
	sql     logStatements
	appends queue[*addition, appended]
}

// syncedWriters is how many groups of a space are written at once if each waits for the disk: the server syncs them together. Else one
// group after another takes the least of the processors.
const syncedWriters = 4

var _ store.LogEngine = (*Engine)(nil)

// Log implements [store.LogEngine].
func (e *Engine) Log(ctx context.Context, o store.LogOptions) (store.Log, error) {
	if err := store.CheckKey(o.Space); err != nil {
		return nil, err
	}
	e.mu.Lock()
	l, closed := e.logs[o.Space], e.closed
	e.mu.Unlock()
	if closed {
		return nil, store.ErrClosed
	}
	if l != nil {
		return l, nil
	}
	l = &Log{e: e, o: o}
	err := e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, e.sql.openSpace, o.Space, o.Keep.Microseconds(), o.MaxBytes > 0).Scan(&l.id, &l.parted)
	})
	if err != nil {
		return nil, fmt.Errorf("logs %s: %w", o.Space, err)
	}
	l.sql = logStatementsOf(e.db.Schema, l.parted)
	l.appends = queue[*addition, appended]{writers: 1, e: e, name: o.Space, send: l.send}
	if o.Durability == store.Synced {
		l.appends.writers = syncedWriters
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, store.ErrClosed
	}
	if opened := e.logs[o.Space]; opened != nil { // meanwhile
		return opened, nil
	}
	e.logs[o.Space] = l
	return l, nil
}

// revision is a [store.Rev] as the server has it.
type revision struct {
	number int64
	batch  [16]byte
}

func (r revision) rev() store.Rev {
	b := strconv.AppendInt(make([]byte, 0, 48), r.number, 10)
	return store.Rev(hex.AppendEncode(append(b, '-'), r.batch[:]))
}

// parseRev reads what rev returned. ok is false of anything else.
func parseRev(rev store.Rev) (r revision, ok bool) {
	number, batch, found := strings.Cut(string(rev), "-")
	if !found || len(batch) != 2*len(r.batch) {
		return r, false
	}
	_, err := hex.Decode(r.batch[:], []byte(batch))
	if err == nil {
		r.number, err = strconv.ParseInt(number, 10, 64)
	}
	return r, err == nil
}

// infoRow is what the server says of a log.
type infoRow struct {
	rev               revision
	first, last, mark uint64
	entries, bytes    int64
	created, updated  time.Time
	label, head       []byte
}

func (r *infoRow) info(name string) store.Info {
	return store.Info{
		Name: name, Label: string(r.label), Rev: r.rev.rev(), First: r.first, Last: r.last, LastMark: r.mark, Entries: r.entries, Bytes: r.bytes,
		Head: bytes.Clone(r.head), Created: r.created, Updated: r.updated,
	}
}

func (r *infoRow) fields() []any {
	return []any{
		&r.rev.number, &r.rev.batch, &r.first, &r.last, &r.mark, &r.entries, &r.bytes, &r.created, &r.updated, &r.label, &r.head,
	}
}

const infoColumns = `l.rev, l.batch, l.first, l.last, l.last_mark, l.entries, l.bytes, l.created, l.updated, l.label, l.head`

// Info implements [store.Log].
func (l *Log) Info(ctx context.Context, name string) (info store.Info, err error) {
	if err := store.CheckKey(name); err != nil {
		return info, err
	}
	err = l.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var r infoRow
		err := conn.QueryRow(ctx, l.sql.info, l.id, name).Scan(r.fields()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return noLog(name)
		}
		info = r.info(name)
		return err
	})
	if err != nil {
		return store.Info{}, err
	}
	return info, nil
}

func noLog(name string) error { return fmt.Errorf("log %q: %w", name, store.ErrNotFound) }

// Trim implements [store.Log].
func (l *Log) Trim(ctx context.Context, name string, below uint64) error {
	return l.change(ctx, name, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, l.sql.trim, l.id, name, min(below, math.MaxInt64))
		return err
	})
}

// deleteTime is how long the server may take to delete: a long log has many rows.
const deleteTime = 10 * time.Minute

// Delete implements [store.Log].
func (l *Log) Delete(ctx context.Context, name string) error {
	return l.change(database.Long(ctx, deleteTime), name, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := queryWith(ctx, conn, "statement_timeout", database.Milliseconds(deleteTime), pgx.RowTo[string],
			l.sql.delete, l.id, l.o.Durability == store.Synced, name, name+"/", name+"0") // "0" is behind "/"
		return err
	})
}

// change runs what changes a log and may be done twice. It waits for longer than other calls if the context is [database.Long].
func (l *Log) change(ctx context.Context, name string, do func(context.Context, *pgx.Conn) error) error {
	if err := store.CheckKey(name); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	err := l.e.commit(ctx, l.o.Space, do)
	if err != nil && ctx.Err() != nil {
		if errors.Is(err, store.ErrUnsure) {
			return fmt.Errorf("%w: %w", store.ErrUnsure, context.Cause(ctx))
		}
		return context.Cause(ctx)
	}
	return err
}

// Sync implements [store.Log]: a durable commit is written behind all before it.
func (l *Log) Sync(ctx context.Context, _ ...string) error {
	return l.change(ctx, "all", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, l.sql.sync, l.id)
		return err
	})
}
