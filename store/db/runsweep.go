package db

import (
	"context"
	"time"
)

const (
	removeRuns    = 64             // in one transaction
	removeBatches = 256            // likewise; each has at most 256 KiB
	expiredLife   = 24 * time.Hour // of the row of an expired run
	lateTime      = time.Minute    // after which no process inserts a batch of a run that has ended
)

// scheduleEvents lets [DB.purgeRuns] remove the events of runs.
func (tx *Tx) scheduleEvents(ids []string) {
	tx.execIn(ids, "INSERT INTO run_removals (run, due) SELECT id, 0 FROM runs WHERE id"+tx.db.in("$1")+" ON CONFLICT (run) DO UPDATE SET due = 0")
}

// eraseRuns removes the ended runs of a session and makes their events invisible.
func (tx *Tx) eraseRuns(session string) {
	ids := tx.texts("SELECT id FROM runs WHERE session = $1 AND session <> '' AND ended > 0", plainText(session))
	tx.scheduleEvents(ids)
	tx.execIn(ids, "DELETE FROM idempotency_keys WHERE run"+tx.db.in("$1"), "DELETE FROM runs WHERE id"+tx.db.in("$1"))
}

// purgeRuns removes events that are due, in steps that other writes can share.
func (db *DB) purgeRuns(ctx context.Context) error {
	for {
		now, reader := db.clock(), db.reader(ctx)
		ids := reader.texts("SELECT run FROM run_removals WHERE due <= $1 ORDER BY due LIMIT $2", now.UnixMicro(), removeRuns)
		if len(ids) == 0 || reader.err != nil {
			return reader.err
		}
		err := db.Update(ctx, func(tx *Tx) {
			n := tx.exec("DELETE FROM run_batches WHERE (run, attempt, seq) IN (SELECT run, attempt, seq FROM run_batches WHERE run"+tx.db.in("$1")+" LIMIT $2)",
				list(ids), removeBatches)
			switch {
			case n == removeBatches:
			case db.network: // another process may insert a batch of the run as it ends: check again later
				tx.execIn(ids, "DELETE FROM run_removals WHERE due > 0 AND run"+tx.db.in("$1"))
				tx.exec("UPDATE run_removals SET due = $1 WHERE due = 0 AND run"+tx.db.in("$2"), now.Add(lateTime).UnixMicro(), list(ids))
			default:
				tx.execIn(ids, "DELETE FROM run_removals WHERE run"+tx.db.in("$1"))
			}
		})
		if err != nil {
			return err
		}
	}
}

// expireRuns removes what expired runs have, and counts them.
func (db *DB) expireRuns(ctx context.Context) (removed int64, err error) {
	for n := maxChunk; n == maxChunk && err == nil; removed += int64(n) {
		err = db.Update(ctx, func(tx *Tx) {
			ids := tx.texts("SELECT id FROM runs WHERE ended > 0 AND removed < 2 AND expires <= $1 LIMIT $2", db.clock().UnixMicro(), maxChunk)
			n = len(ids)
			tx.scheduleEvents(ids)
			tx.execIn(ids, "UPDATE runs SET removed = 2, bytes = 0, request = '', result = '' WHERE id"+tx.db.in("$1"))
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
	tx := db.reader(ctx)
	tx.scanOne([]any{&total}, "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM runs WHERE bytes > 0")
	err = tx.err
	for n := 1; err == nil && n > 0 && total-bytes > db.maxRunBytes; {
		var size int64
		err = db.Update(ctx, func(tx *Tx) {
			var ids []string
			size = 0
			for read := range tx.rows("SELECT id, bytes FROM runs WHERE bytes > 0 ORDER BY ended, id LIMIT $1", maxChunk) {
				var id string
				var events int64
				read(&id, &events)
				ids, size = append(ids, id), size+events
				if total-bytes-size <= db.maxRunBytes {
					break
				}
			}
			n = len(ids)
			tx.scheduleEvents(ids)
			tx.execIn(ids, "UPDATE runs SET removed = 1, bytes = 0 WHERE bytes > 0 AND id"+tx.db.in("$1"))
		})
		removed, bytes = removed+int64(n), bytes+size
	}
	if removed > 0 {
		db.log.WarnContext(ctx, "removed the events of the oldest ended runs, beyond their bound", "runs", removed, "bytes", bytes, "bound", db.maxRunBytes)
	}
	return removed, err
}
