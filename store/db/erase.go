package db

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// Delete implements [tape.Store]. When the tape of a session is erased, its text is in no file of SQLite when Delete returns.
func (t *Tapes) Delete(ctx context.Context, name string) error {
	if err := tape.CheckName(name); err != nil {
		return err
	}
	err := t.db.Update(ctx, func(tx *Tx) { tx.erase(name) })
	if err == nil {
		// The tape is invisible already, so the end of ctx must not leave its text.
		err = t.db.finishErasing(context.WithoutCancel(ctx), true)
	}
	return err
}

// erase makes a tape and the ended runs of its session invisible. [DB.purge] removes what they have.
func (tx *Tx) erase(name string) {
	var i incarnation
	var session string
	if tx.scanOne([]any{&i.tape, &i.number, &session}, "DELETE FROM sessions WHERE tape = $1 RETURNING tape, incarnation, session", name) {
		tx.scheduleRemoval(i, time.UnixMicro(0))
		tx.eraseRuns(session)
	}
}

// scheduleRemoval lets the entries and blobs of an invisible tape be removed at a time.
func (tx *Tx) scheduleRemoval(i incarnation, due time.Time) {
	tx.exec("INSERT INTO removals (tape, incarnation, due) VALUES ($1, $2, $3) ON CONFLICT (tape, incarnation) DO UPDATE SET due = excluded.due",
		i.tape, i.number, due.UnixMicro())
}

func (tx *Tx) cancelRemoval(i incarnation) {
	tx.exec("DELETE FROM removals WHERE tape = $1 AND incarnation = $2", i.tape, i.number)
}

// finishErasing removes what is due, and with wipe its text from the files.
func (db *DB) finishErasing(ctx context.Context, wipe bool) error {
	if err := db.purge(ctx); err != nil {
		return err
	}
	if db.checkpoint == "" {
		return nil
	}
	if wipe {
		db.unwiped.Store(true) // until it succeeds: Sweep tries again
	}
	if !db.unwiped.Swap(false) {
		return nil
	}
	err := db.enqueue(&write{ctx: ctx, bare: true, fn: func(tx *Tx) {
		var busy, frames, copied int
		if tx.scanOne([]any{&busy, &frames, &copied}, db.checkpoint); busy != 0 {
			tx.fail(newError(store.ErrAway, errors.New("a reader keeps the erased text in the WAL")))
		}
	}})
	if err != nil {
		db.unwiped.Store(true)
	}
	return err
}

// purge removes the entries, blobs and events that are due, in steps that other writes can share.
func (db *DB) purge(ctx context.Context) error {
	for {
		tx := db.reader(ctx)
		var next incarnation
		found := tx.scanOne([]any{&next.tape, &next.number}, "SELECT tape, incarnation FROM removals WHERE due <= $1 LIMIT 1", db.clock().UnixMicro())
		switch {
		case tx.err != nil:
			return tx.err
		case !found:
			return db.purgeRuns(ctx)
		}
		if err := db.Update(ctx, func(tx *Tx) { tx.removeSome(next) }); err != nil {
			return err
		}
	}
}

// removeSome removes some of the entries and blobs of an invisible tape, the last entry first: see readEntries.
func (tx *Tx) removeSome(i incarnation) {
	entries := tx.exec(`DELETE FROM entries WHERE tape = $1 AND incarnation = $2 AND id IN
	(SELECT id FROM entries WHERE tape = $1 AND incarnation = $2 ORDER BY id DESC LIMIT $3)`, i.tape, i.number, removeRows)
	if entries == removeRows {
		return
	}
	parts := tx.exec(`DELETE FROM blobs WHERE tape = $1 AND incarnation = $2 AND (hash, part) IN
	(SELECT hash, part FROM blobs WHERE tape = $1 AND incarnation = $2 LIMIT $3)`, i.tape, i.number, removeParts)
	if parts < removeParts {
		tx.cancelRemoval(i)
	}
}

// Bounds of a transaction of an import, and the time after which an import that has not gone on is removed.
const (
	importBytes = 1 << 20
	importRows  = 500
	importTime  = time.Hour
)

// Import implements [tape.Store].
func (t *Tapes) Import(ctx context.Context, name, sessionID, workspace string, entries iter.Seq2[tape.Entry, error]) error {
	if err := tape.CheckName(name); err != nil {
		return err
	}
	s := session{Info: tape.Info{Tape: name}, incarnation: newID()}
	err := t.db.importEntries(ctx, &s, tape.Batch{KeepIDs: true, Session: sessionID, Workspace: workspace}, entries)
	if err != nil && s.Entries > 0 { // some may be written
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.db.callTime)
		defer cancel()
		cleaning := t.db.Update(ctx, func(tx *Tx) { tx.scheduleRemoval(s.key(), time.UnixMicro(0)) })
		if cleaning == nil {
			cleaning = t.db.finishErasing(ctx, true)
		}
		if cleaning != nil {
			t.db.log.WarnContext(ctx, "the entries of a failed import are removed later", "tape", name, "error", cleaning)
		}
	}
	return err
}

// importEntries writes entries in chunks and publishes them with the last.
func (db *DB) importEntries(ctx context.Context, s *session, b tape.Batch, entries iter.Seq2[tape.Entry, error]) error {
	var chunk []entryRow
	written := int64(0) // bytes
	for e, err := range entries {
		b.Create, b.Entries = s.Entries == 0, []tape.Entry{e}
		if err == nil {
			b.Entries, err = b.Check()
		}
		if err == nil {
			err = b.Number(b.Entries, s.Info, db.clock())
		}
		if err != nil {
			return err
		}
		next, rows := s.after(b, b.Entries)
		*s, chunk = next, append(chunk, rows...)
		if s.Bytes-written >= importBytes || len(chunk) == importRows {
			err := db.Update(ctx, func(tx *Tx) {
				tx.insertEntries(s.key(), chunk)
				tx.scheduleRemoval(s.key(), db.clock().Add(importTime))
			})
			if err != nil {
				return err
			}
			written, chunk = s.Bytes, nil
		}
	}
	if s.Entries == 0 {
		return fmt.Errorf("%w: the import has no entries", tape.ErrInvalid)
	}
	s.unnamed = 0
	return db.Update(ctx, func(tx *Tx) {
		tx.insertEntries(s.key(), chunk)
		if !tx.saveSession(s, 0) {
			tx.fail(fmt.Errorf("%w: the tape exists", tape.ErrNotEmpty))
		}
		tx.cancelRemoval(s.key())
	})
}
