package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

// An import is a tape under a name that no tape has until its last entry is there. So it takes as long as its reader likes, and holds
// neither a connection nor a transaction meanwhile.

const (
	importMark  = "~"       // begins the name of one
	importAge   = time.Hour // without anything new, after which it was left behind
	importBytes = 4 << 20   // that are written at once
)

// Import implements tape.Importer.
func (s *Store) Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[tape.Entry, error]) (err error) {
	if err := tape.CheckName(name); err != nil {
		return err
	}
	if tape.IsFork(name) {
		return fmt.Errorf("%w: expected a session to import; %.80q is the name of a fork", tape.ErrInvalid, name)
	}
	if i, err := s.Info(ctx, name); err == nil {
		return fmt.Errorf("%w: the tape has %d entries", tape.ErrNotEmpty, i.Entries)
	} else if !errors.Is(err, tape.ErrNotFound) {
		return err
	}
	if err := s.sweep(ctx); err != nil {
		return err
	}
	i := importing{s: s, name: name, info: tape.Info{Tape: name}}
	defer func() {
		if err != nil && i.tape != 0 {
			// What remains where this fails is swept away later.
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.db.Patience)
			defer cancel()
			_ = s.do(end, func(ctx context.Context, conn *pgx.Conn) error {
				return erase(ctx, conn, func(tx pgx.Tx) ([]int64, error) {
					return locked(ctx, tx, `SELECT id FROM tapes WHERE id = $1 AND name LIKE $2 FOR UPDATE`, i.tape, importMark+"%")
				})
			})
		}
	}()
	size := int64(0)
	for e, err := range entries {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			e, err = i.check(e)
		}
		if err != nil {
			return err
		}
		// What it is made of may be used again for the next one.
		e.Payload, e.Meta = append([]byte(nil), e.Payload...), append([]byte(nil), e.Meta...)
		if n := sizeOf(e); size > 0 && size+n > importBytes || len(i.waiting) == insertMost {
			if err := i.flush(ctx); err != nil {
				return err
			}
			size = 0
		}
		size += sizeOf(e)
		i.waiting = append(i.waiting, e)
	}
	if i.info.Entries == 0 {
		return fmt.Errorf("%w: expected at least one entry in an import", tape.ErrInvalid)
	}
	if err := i.flush(ctx); err != nil {
		return err
	}
	if session != "" {
		i.info.Session, i.info.Workspace = session, workspace
	}
	if err := i.finish(ctx); err != nil {
		return err
	}
	s.indexer.add(i.tape)
	return nil
}

// importing is a tape that is being imported.
type importing struct {
	s       *Store
	name    string
	tape    int64 // id of its row; 0 before there is one
	info    tape.Info
	waiting []tape.Entry
}

// check takes in an entry.
func (i *importing) check(e tape.Entry) (tape.Entry, error) {
	checked, err := tape.Batch{Entries: []tape.Entry{e}}.Check()
	if err != nil {
		return e, fmt.Errorf("entry %d: %w", e.ID, err)
	}
	if e = checked[0]; e.ID <= i.info.LastID {
		return e, fmt.Errorf("%w: id %d follows %d; expected rising ids", tape.ErrInvalid, e.ID, i.info.LastID)
	}
	if e.Date.IsZero() {
		e.Date = time.Now()
	}
	e.Date = e.Date.UTC().Truncate(time.Microsecond)
	i.info.Add(e)
	i.info.Bytes += sizeOf(e)
	return e, nil
}

// flush writes what waits. It may be done twice: what was written before the answer got lost is not written again.
func (i *importing) flush(ctx context.Context) error {
	if i.tape == 0 {
		random := make([]byte, 16)
		_, _ = rand.Read(random) // never fails
		err := i.s.do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
			i.tape, err = insertTape(ctx, conn, importMark+hex.EncodeToString(random), false, tape.Info{})
			if errors.Is(err, pgx.ErrNoRows) { // made by the try before
				err = conn.QueryRow(ctx, `SELECT id FROM tapes WHERE name = $1`, importMark+hex.EncodeToString(random)).Scan(&i.tape)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	last := i.waiting[len(i.waiting)-1].ID
	err := i.s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		var at int64
		err = tx.QueryRow(ctx, `UPDATE tapes SET touched = now() WHERE id = $1 RETURNING last_id`, i.tape).Scan(&at)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: the import took too long and was removed", tape.ErrDeleted)
		}
		if err != nil || at == last {
			return err
		}
		var b pgx.Batch
		queueEntries(&b, i.tape, i.waiting, nil)
		b.Queue(`UPDATE tapes SET last_id = $2 WHERE id = $1`, i.tape, last)
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	if err != nil {
		return err
	}
	i.waiting = i.waiting[:0]
	return nil
}

// finish gives the tape its name.
func (i *importing) finish(ctx context.Context) error {
	return i.s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var done bool
		err := conn.QueryRow(ctx, `UPDATE tapes SET (`+infoColumns+`, loose, name, listed) =
				($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $7, $15, true)
			WHERE id = $1 AND (name = $15 OR NOT EXISTS (SELECT FROM tapes WHERE name = $15)) RETURNING true`,
			append(append([]any{i.tape}, values(i.info)...), i.name)...).Scan(&done)
		if errors.Is(err, pgx.ErrNoRows) || database.Duplicate(err) {
			return fmt.Errorf("%w: another process created the tape", tape.ErrNotEmpty)
		}
		return err
	})
}

// sweep removes imports that were left behind.
func (s *Store) sweep(ctx context.Context) error {
	return s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return erase(ctx, conn, func(tx pgx.Tx) ([]int64, error) {
			return locked(ctx, tx, `SELECT id FROM tapes WHERE name >= $1 AND name < $2 AND touched < now() - make_interval(secs => $3)
				ORDER BY name FOR UPDATE SKIP LOCKED`, importMark, "\x7f", importAge.Seconds())
		})
	})
}
