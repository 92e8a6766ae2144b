//go:build !nopostgres

package main

import (
	"context"
	"log/slog"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/postgres"
)

// openPostgres opens the store of sessions that is a database.
func openPostgres(c *config.Config, log *slog.Logger, observer tape.Observer) (tape.Whole, error) {
	p := c.Tape.Postgres
	return postgres.Open(context.Background(), postgres.Options{
		URL: p.URL.Reveal(), Schema: p.Schema, Connections: p.Connections, Log: log, Observer: observer,
	})
}
