// Package postgres takes in what earlier versions kept in PostgreSQL. All replicas of an earlier version have stopped by then.
package postgres

import (
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

//go:embed migrations/*.sql
var files embed.FS

const (
	moveTime  = time.Hour // of a tape and its forks
	movePause = time.Second
	moveAhead = 100 // tapes that the background knows of at once
	pageRows  = 1000
	pageBytes = 1 << 20
)

// Tapes is a [store.LogEngine] whose logs of tapes have those that are in the tables of an earlier version, too. A tape is moved at its first
// use, in a transaction that locks its row; the others are moved in the background. Then the tables are dropped.
type Tapes struct {
	*postgres.Engine
	db     *database.DB
	schema string // quoted, with a dot
	log    *slog.Logger
	none   atomic.Bool // all tapes were moved

	end     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	opened *tapeLog
	closed bool
}

// Open looks for tables of an earlier version, and brings them to their last version.
func Open(ctx context.Context, e *postgres.Engine, log *slog.Logger) (*Tapes, error) {
	db := e.Database()
	t := &Tapes{Engine: e, db: db, schema: pgx.Identifier{db.Schema}.Sanitize() + ".", log: log}
	t.end, t.stop = context.WithCancel(context.Background())
	err := t.do(database.Long(ctx, moveTime), func(ctx context.Context, conn *pgx.Conn) error {
		there, err := t.exists(ctx, conn)
		if err != nil || !there {
			t.none.Store(!there && err == nil)
			return err
		}
		return database.Upgrade(ctx, conn, db.Schema, "migrations", database.Migrations(files, "migrations"))
	})
	return t, err
}

// Close ends the moving of tapes. It goes on when they are opened again.
func (t *Tapes) Close() {
	t.stop()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.running.Wait()
}

// Log implements [store.LogEngine].
func (t *Tapes) Log(ctx context.Context, o store.LogOptions) (store.Log, error) {
	l, err := t.Engine.Log(ctx, o)
	if err != nil || o.Space != logs.Space || t.none.Load() {
		return l, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opened == nil {
		t.opened = &tapeLog{Log: l.(*postgres.Log), t: t}
		if !t.closed {
			t.running.Go(t.moveAll) // ends when there are none left
		}
	}
	return t.opened, nil
}

// exists reports whether there are tables of tapes.
func (t *Tapes) exists(ctx context.Context, conn *pgx.Conn) (there bool, err error) {
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'tapes')`, t.db.Schema).Scan(&there)
	return there, err
}

// do runs what may be done twice.
func (t *Tapes) do(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	err := t.db.Do(ctx, do)
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil, errors.Is(err, store.ErrClosed):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ok && pg.Code == "42P01": // another process has moved the last one
		t.none.Store(true)
		return nil
	case ok && strings.HasPrefix(pg.Code, "2"): // what is there does not fit
		return fmt.Errorf("the database refuses it (SQLSTATE %s)", pg.Code)
	case ok || database.Broken(err) || database.Exhausted(err) || errors.Is(err, database.ErrNotTried) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s", store.ErrAway, database.Reason(err))
	}
	return err
}

// move moves a session's tape, its forks and its blobs, if they are still in the tables. root is the name of its log.
func (t *Tapes) move(ctx context.Context, l *postgres.Log, root string) error {
	if t.none.Load() {
		return nil
	}
	if strings.HasPrefix(root, "~") {
		var err error
		if root, err = t.longName(ctx, root); err != nil || root == "" {
			return err
		}
	}
	there := false
	err := t.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+t.schema+`tapes WHERE name = $1 OR name > $2 AND name < $3)`, root, root+".", root+"/").Scan(&there)
	})
	if err != nil || !there {
		return err
	}
	return t.do(database.Long(ctx, moveTime), func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
		if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', '0', true)`, database.Milliseconds(moveTime)); err != nil {
			return err
		}
		// The session's tape first: only one process goes on with it.
		rows, err := tx.Query(ctx, `SELECT `+columns+` FROM `+t.schema+`tapes WHERE name = $1 OR name > $2 AND name < $3 ORDER BY name FOR UPDATE`, root, root+".", root+"/")
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, scan)
		if err != nil {
			return err
		}
		for _, r := range all {
			if err := t.moveOne(ctx, tx, l, r); err != nil {
				return err
			}
		}
		return tx.Commit(ctx)
	})
}

// longName returns the name of a tape that is too long to be that of its log; "": there is none.
func (t *Tapes) longName(ctx context.Context, key string) (name string, err error) {
	var names []string
	err = t.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT name FROM `+t.schema+`tapes WHERE listed AND length(name) > 128`)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	for _, n := range names {
		if store.KeyPart(n) == key {
			return n, err
		}
	}
	return "", err
}

// moveOne moves a tape and its blobs in a transaction.
func (t *Tapes) moveOne(ctx context.Context, tx pgx.Tx, l *postgres.Log, r row) error {
	w, err := logs.WholeOf(r.info)
	if err != nil {
		return fmt.Errorf("tape %s: %w", r.info.Tape, err)
	}
	whole := postgres.Whole{Name: w.Name, Label: w.Label, Head: w.Head, Created: r.info.Created, Updated: r.info.Updated}
	if _, err := l.Import(ctx, tx, whole, t.entries(ctx, tx, r.id)); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `SELECT handle, length(data) FROM `+t.schema+`blobs WHERE tape = $1`, r.id)
	if err != nil {
		return err
	}
	type blob struct {
		handle []byte
		size   int
	}
	blobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b blob, err error) { return b, row.Scan(&b.handle, &b.size) })
	if err != nil {
		return err
	}
	for _, b := range blobs {
		whole := postgres.Whole{Name: logs.BlobOf(r.info.Tape, hex.EncodeToString(b.handle)), Created: r.info.Created, Updated: r.info.Updated}
		if _, err := l.Import(ctx, tx, whole, t.blob(ctx, tx, r.id, b.handle, b.size)); err != nil {
			return err
		}
	}
	for _, table := range []string{"entries", "blocks", "blobs"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+t.schema+table+` WHERE tape = $1`, r.id); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `DELETE FROM `+t.schema+`tapes WHERE id = $1`, r.id)
	return err
}

// entries yields the entries of a tape, in pages: nothing else can be done in a transaction while a query is read.
func (t *Tapes) entries(ctx context.Context, tx pgx.Tx, id int64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for after := int64(0); ; {
			rows, err := tx.Query(ctx, `SELECT id, kind, payload, meta, date FROM (
					SELECT *, sum(octet_length(payload)::bigint + octet_length(meta)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING)
						- octet_length(payload) - octet_length(meta) AS ahead
					FROM `+t.schema+`entries WHERE tape = $1 AND id > $2 ORDER BY id LIMIT $3) page
				WHERE ahead < $4 ORDER BY id`, id, after, pageRows, pageBytes)
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			page, err := pgx.CollectRows(rows, scanEntry)
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
			for _, e := range page {
				if after = e.ID; !yield(logs.EntryOf(e), nil) {
					return
				}
			}
		}
	}
}

// blob yields the parts of a blob.
func (t *Tapes) blob(ctx context.Context, tx pgx.Tx, id int64, handle []byte, size int) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for at := 0; at == 0 || at < size; at += logs.BlobBytes {
			var e store.Entry
			err := tx.QueryRow(ctx, `SELECT substring(data FROM $3::integer FOR $4::integer) FROM `+t.schema+`blobs WHERE tape = $1 AND handle = $2`,
				id, handle, at+1, logs.BlobBytes).Scan(&e.Data)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// moveAll moves all tapes, one after another, and drops the tables.
func (t *Tapes) moveAll() {
	stuck := []string{} // tapes that cannot be moved
	for t.end.Err() == nil && !t.none.Load() {
		var names []string
		err := t.do(t.end, func(ctx context.Context, conn *pgx.Conn) error {
			rows, err := conn.Query(ctx, `SELECT name FROM `+t.schema+`tapes WHERE listed AND NOT name = ANY ($1) ORDER BY updated DESC LIMIT $2`, stuck, moveAhead)
			if err != nil {
				return err
			}
			names, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		if err == nil && len(names) == 0 {
			if len(stuck) > 0 {
				return
			}
			err = t.drop()
		}
		for i := 0; err == nil && i < len(names); i++ {
			if err = t.move(t.end, t.opened.Log, store.KeyPart(names[i])); err != nil && !errors.Is(err, store.ErrAway) && t.end.Err() == nil {
				t.log.ErrorContext(t.end, "cannot move a session to the new tables", "tape", names[i], "reason", err.Error())
				stuck, err = append(stuck, names[i]), nil
			}
		}
		if err != nil && !database.Sleep(t.end, t.end, movePause) {
			return
		}
	}
}

// drop drops the tables, unless there are tapes. Imports that were left behind go with them.
func (t *Tapes) drop() error {
	return t.do(t.end, func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
		var left bool
		if _, err := tx.Exec(ctx, `LOCK TABLE `+t.schema+`tapes IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+t.schema+`tapes WHERE listed)`).Scan(&left); err != nil || left {
			return err
		}
		for _, table := range []string{"tapes", "entries", "blobs", "blocks", "leases", "migrations"} {
			if _, err := tx.Exec(ctx, `DROP TABLE IF EXISTS `+t.schema+table); err != nil {
				return err
			}
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		t.none.Store(true)
		t.log.InfoContext(ctx, "all sessions were moved to the new tables")
		return nil
	})
}

// row is a tape as its row says.
type row struct {
	id   int64
	info tape.Info
}

const columns = `id, name, session, workspace, title, created, updated, entries, last_id, anchors, anchor_id, anchor_name, anchor_date, bytes, agent`

func scan(from pgx.CollectableRow) (r row, err error) {
	i := &r.info
	err = from.Scan(&r.id, &i.Tape, &i.Session, &i.Workspace, &i.Title, &i.Created, &i.Updated, &i.Entries, &i.LastID, &i.Anchors,
		&i.LastAnchor.ID, &i.LastAnchor.Name, &i.LastAnchor.Date, &i.Bytes, &i.Agent)
	if err != nil {
		return row{}, err
	}
	i.Session, i.Workspace, i.Title, i.Agent = unpack(i.Session), unpack(i.Workspace), unpack(i.Title), unpack(i.Agent)
	i.Created, i.Updated = i.Created.UTC(), i.Updated.UTC()
	if i.LastAnchor.ID == 0 {
		i.LastAnchor = tape.AnchorRef{}
	} else {
		i.LastAnchor.Name, i.LastAnchor.Date = unpack(i.LastAnchor.Name), i.LastAnchor.Date.UTC()
	}
	return r, nil
}

func scanEntry(from pgx.CollectableRow) (e tape.Entry, err error) {
	var kind string
	var payload, meta []byte
	if err := from.Scan(&e.ID, &kind, &payload, &meta, &e.Date); err != nil {
		return e, err
	}
	e.Kind, e.Payload, e.Date = tape.Kind(unpack(kind)), payload, e.Date.UTC()
	if len(meta) > 0 {
		e.Meta = meta
	}
	return e, nil
}
