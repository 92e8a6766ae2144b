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
	for _, table := range valueTables {
		err := db.sweepTable(ctx, "DELETE FROM "+table+" WHERE key IN (SELECT key FROM "+table+" WHERE expires <= $1 LIMIT $2)", db.clock(), &removed)
		if err != nil {
			return err
		}
	}
	if db.network {
		if err := db.sweepTable(ctx, "DELETE FROM commits WHERE id IN (SELECT id FROM commits WHERE date <= $1 LIMIT $2)", db.clock().Add(-commitLife), &removed); err != nil {
			return err
		}
	}
	if _, err := db.exec(ctx, "DELETE FROM usage WHERE day < $1", db.clock().Add(-usageLife).UTC().Format(time.DateOnly)); err != nil {
		return err
	}
	files, err := db.expireFiles(ctx)
	if err == nil {
		err = db.sweepRuns(ctx, &removed)
	}
	if err == nil {
		err = db.sweepEvents(ctx, &removed)
	}
	if err == nil {
		err = db.finishErasing(ctx, removed+files > 0)
	}
	return err
}

// sweepTable runs a statement that deletes at most removeRows rows, until none are left, and counts them.
func (db *DB) sweepTable(ctx context.Context, query string, before time.Time, removed *int64) error {
	for {
		n, err := db.exec(ctx, query, before.UnixMicro(), removeRows)
		*removed += n
		if err != nil || n < removeRows {
			return err
		}
	}
}
