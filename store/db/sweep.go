package db

import (
	"context"
	"fmt"
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
	for _, sweep := range []func(ctx context.Context) (removed int64, err error){db.sweepRows, db.expireFiles, db.expireRuns, db.boundEvents} {
		n, err := sweep(ctx)
		if removed += n; err != nil {
			return err
		}
	}
	if err := db.sweepReplicas(ctx); err != nil {
		return err
	}
	return db.finishErasing(ctx, removed > 0)
}

// expiring are the rows that are deleted once their date is older than life.
var expiring = []struct {
	table, key, date string
	life             time.Duration
	where            string
}{
	{Windows, "key", "expires", 0, ""},
	{Pairs, "key", "expires", 0, ""},
	{Conversations, "key", "expires", 0, ""},
	{Learned, "key", "expires", 0, ""},
	{Tickets, "key", "expires", 0, ""},
	{resultTable, "key", "expires", 0, ""},
	{"idempotency_keys", "owner, key", "expires", 0, ""},
	{"runs", "id", "expires", expiredLife, " AND removed = 2 AND NOT EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.run = runs.id)"},
	{"events", "key", "expires", 0, " AND state = 'ended'"},
	{"events", "key", "arrived", waitLife, " AND state <> 'ended'"},
	{"replies", "id", "created", waitLife, ""},
	{"commits", "id", "date", commitLife, ""},
}

// sweepRows deletes rows that have expired, in steps that other writes can share, and counts them.
func (db *DB) sweepRows(ctx context.Context) (removed int64, err error) {
	for _, e := range expiring {
		query := fmt.Sprintf("DELETE FROM %[1]s WHERE (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE %[3]s <= $1%[4]s LIMIT $2)", e.table, e.key, e.date, e.where)
		for n := int64(removeRows); n == removeRows; {
			if n, err = db.exec(ctx, query, db.clock().Add(-e.life).UnixMicro(), removeRows); err != nil {
				return removed, err
			}
			removed += n
		}
	}
	_, err = db.exec(ctx, "DELETE FROM usage WHERE day < $1", db.clock().Add(-usageLife).UTC().Format(time.DateOnly))
	return removed, err
}
