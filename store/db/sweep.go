package db

import (
	"context"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
)

const (
	sweepAllEvery = time.Minute
	commitLife    = 24 * time.Hour // of the last commit of a process that has crashed
)

// sweepLoop removes what has expired, until the database is closed. Several processes may do it side by side.
func (db *DB) sweepLoop() {
	for backoff.Sleep(db.end, sweepAllEvery) == nil {
		if err := db.Sweep(db.end); err != nil && db.end.Err() == nil {
			db.log.Warn("cannot remove expired rows; retrying", "error", err)
		}
	}
}

// Sweep removes what has expired: files, values, runs, and what imports and uploads have left.
func (db *DB) Sweep(ctx context.Context) error {
	removed := int64(0)
	for _, sweep := range []func(ctx context.Context, removed *int64) error{
		db.sweepValues, db.expireFiles, db.sweepRuns, db.boundEvents, db.sweepReplicas, db.sweepEvents,
	} {
		if err := sweep(ctx, &removed); err != nil {
			return err
		}
	}
	return db.finishErasing(ctx, removed > 0)
}

// sweepValues removes small rows: values, usage, and commits.
func (db *DB) sweepValues(ctx context.Context, removed *int64) error {
	var list []expired
	for _, table := range valueTables {
		list = append(list, expired{"DELETE FROM " + table + " WHERE key IN (SELECT key FROM " + table + " WHERE expires <= $1 LIMIT $2)", 0})
	}
	if db.network {
		list = append(list, expired{"DELETE FROM commits WHERE id IN (SELECT id FROM commits WHERE date <= $1 LIMIT $2)", commitLife})
	}
	err := db.sweepTables(ctx, removed, list...)
	if err == nil {
		_, err = db.exec(ctx, "DELETE FROM usage WHERE day < $1", db.clock().Add(-usageLife).UTC().Format(time.DateOnly))
	}
	return err
}

// expired are rows that are deleted once they are older than life: $1 is a time, $2 the maximum number of rows.
type expired struct {
	query string
	life  time.Duration
}

// sweepTables deletes rows, in steps that other writes can share, and counts them.
func (db *DB) sweepTables(ctx context.Context, removed *int64, list ...expired) error {
	for _, e := range list {
		for n := int64(removeRows); n == removeRows; {
			var err error
			if n, err = db.exec(ctx, e.query, db.clock().Add(-e.life).UnixMicro(), removeRows); err != nil {
				return err
			}
			*removed += n
		}
	}
	return nil
}
