package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres/database"
)

const (
	sweepEvery  = 20 * time.Second // so watchers learn within a minute that a record has expired
	sweepMost   = 1000             // records of one transaction, during which no put of the table is made
	removedTime = 5 * time.Minute  // that removals are kept: watchers that could not read for longer compare all records

	// Of spaces that keep entries for some time:
	period  = time.Hour                  // that batches go to one part
	ageStep = time.Minute                // that a part grows older at most, from one sweep to the next
	margin  = 2 * database.StatementTime // a transaction may have begun before its part was closed
)

// keep sweeps all tables of the schema from time to time. Another process may do so, too: then there is less to do.
func (e *Engine) keep() {
	for database.Sleep(e.end, e.end, e.sweep) {
		err := e.sweepAll()
		if err == nil {
			err = e.sweepLogs(period, margin)
		}
		if err != nil && !errors.Is(err, store.ErrClosed) && !errors.Is(err, store.ErrAway) {
			e.log.WarnContext(e.end, "cannot remove expired records", "reason", err.Error())
		}
	}
}

func (e *Engine) sweepAll() error {
	var due []int32
	err := e.do(e.end, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, e.sql.due, removedTime)
		if err != nil {
			return err
		}
		due, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	for i := 0; err == nil && i < len(due); i++ {
		for n := int64(sweepMost); err == nil && n == sweepMost; {
			err = e.do(e.end, func(ctx context.Context, conn *pgx.Conn) error {
				return conn.QueryRow(ctx, e.sql.sweep, due[i], e.channel, sweepMost, removedTime).Scan(&n)
			})
		}
	}
	return err
}

// sweepLogs drops parts of batches that were kept for long enough, each in a transaction of its own: what it locks nobody else waits for long.
func (e *Engine) sweepLogs(period, margin time.Duration) error {
	var drop []int32
	err := e.do(e.end, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, e.sql.forget, removedTime); err != nil {
			return err
		}
		rows, err := conn.Query(ctx, e.sql.sweepParts, ageStep.Microseconds(), period.Microseconds(), margin.Microseconds())
		if err != nil {
			return err
		}
		drop, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	for i := 0; err == nil && i < len(drop); i++ {
		err = e.do(e.end, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, e.sql.dropPart, drop[i])
			if database.WaitedTooLong(err) {
				return nil // the next sweep drops it
			}
			return err
		})
	}
	return err
}
