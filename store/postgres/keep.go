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
)

// keep sweeps all tables of the schema from time to time. Another process may do so, too: then there is less to do.
func (e *Engine) keep() {
	for database.Sleep(e.end, e.end, e.sweep) {
		if err := e.sweepAll(); err != nil && !errors.Is(err, store.ErrClosed) && !errors.Is(err, store.ErrAway) {
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
