package db

import (
	"context"
	"database/sql"
	"time"
)

const (
	removeRuns    = 64             // in one transaction
	removeBatches = 256            // likewise; each has at most 256 KiB
	expiredLife   = 24 * time.Hour // of the row of an expired run
	lateTime      = time.Minute    // after which no process inserts a batch of a run that has ended
)

// scheduleEvents lets [DB.purgeRuns] remove the events of runs.
func (tx *Tx) scheduleEvents(ids []string) error {
	return tx.execIn(ids, "INSERT INTO run_removals (run, due) SELECT id, 0 FROM runs WHERE id"+tx.db.in("$1")+" ON CONFLICT (run) DO UPDATE SET due = 0")
}

// eraseRuns removes the ended runs of a session and makes their events invisible.
func (tx *Tx) eraseRuns(session string) error {
	ids, err := tx.readIDs("SELECT id FROM runs WHERE session = $1 AND session <> '' AND ended > 0", plainText(session))
	if err != nil {
		return err
	}
	if err := tx.scheduleEvents(ids); err != nil {
		return err
	}
	return tx.execIn(ids, "DELETE FROM idempotency_keys WHERE run"+tx.db.in("$1"), "DELETE FROM runs WHERE id"+tx.db.in("$1"))
}

func (tx *Tx) readIDs(query string, args ...any) ([]string, error) {
	return rowsOf(tx, scanText, query, args...)
}

// purgeRuns removes events that are due, in steps that other writes can share.
func (db *DB) purgeRuns(ctx context.Context) error {
	for {
		now := db.clock()
		ids, err := db.reader(ctx).readIDs("SELECT run FROM run_removals WHERE due <= $1 ORDER BY due LIMIT $2", now.UnixMicro(), removeRuns)
		if err != nil || len(ids) == 0 {
			return err
		}
		err = db.Update(ctx, func(tx *Tx) error {
			n, err := tx.exec("DELETE FROM run_batches WHERE (run, attempt, seq) IN (SELECT run, attempt, seq FROM run_batches WHERE run"+tx.db.in("$1")+" LIMIT $2)",
				list(ids), removeBatches)
			if err != nil || n == removeBatches {
				return err
			}
			if !db.network {
				return tx.execIn(ids, "DELETE FROM run_removals WHERE run"+tx.db.in("$1"))
			}
			// Another process may insert a batch of the run as it ends: check again later.
			if err := tx.execIn(ids, "DELETE FROM run_removals WHERE due > 0 AND run"+tx.db.in("$1")); err != nil {
				return err
			}
			_, err = tx.exec("UPDATE run_removals SET due = $1 WHERE due = 0 AND run"+tx.db.in("$2"), now.Add(lateTime).UnixMicro(), list(ids))
			return err
		})
		if err != nil {
			return err
		}
	}
}

// expireRuns removes what expired runs have, and counts them.
func (db *DB) expireRuns(ctx context.Context) (removed int64, err error) {
	for n := maxChunk; n == maxChunk && err == nil; removed += int64(n) {
		err = db.Update(ctx, func(tx *Tx) error {
			ids, err := tx.readIDs("SELECT id FROM runs WHERE ended > 0 AND removed < 2 AND expires <= $1 LIMIT $2", db.clock().UnixMicro(), maxChunk)
			if n = len(ids); err != nil {
				return err
			}
			if err := tx.scheduleEvents(ids); err != nil {
				return err
			}
			return tx.execIn(ids, "UPDATE runs SET removed = 2, bytes = 0, request = '', result = '' WHERE id"+tx.db.in("$1"))
		})
	}
	return removed, err
}

// boundEvents removes the events of the runs that ended first, beyond maxRunBytes.
func (db *DB) boundEvents(ctx context.Context) (removed int64, err error) {
	if db.maxRunBytes == 0 {
		return 0, nil
	}
	var total, bytes int64
	_, err = db.reader(ctx).scanOne([]any{&total}, "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM runs WHERE bytes > 0")
	for n := 1; err == nil && n > 0 && total-bytes > db.maxRunBytes; {
		var size int64
		err = db.Update(ctx, func(tx *Tx) error {
			var ids []string
			size = 0
			err := tx.collect(func(rows *sql.Rows) (bool, error) {
				var id string
				var events int64
				err := rows.Scan(&id, &events)
				ids, size = append(ids, id), size+events
				return total-bytes-size > db.maxRunBytes, err
			}, "SELECT id, bytes FROM runs WHERE bytes > 0 ORDER BY ended, id LIMIT $1", maxChunk)
			if n = len(ids); err != nil {
				return err
			}
			if err := tx.scheduleEvents(ids); err != nil {
				return err
			}
			return tx.execIn(ids, "UPDATE runs SET removed = 1, bytes = 0 WHERE bytes > 0 AND id"+tx.db.in("$1"))
		})
		removed, bytes = removed+int64(n), bytes+size
	}
	if removed > 0 {
		db.log.WarnContext(ctx, "removed the events of the oldest ended runs, beyond their bound", "runs", removed, "bytes", bytes, "bound", db.maxRunBytes)
	}
	return removed, err
}
