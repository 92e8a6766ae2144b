package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store"
)

// errDataInUse is the error for the user if another server owns the data folder.
var errDataInUse = errors.New("another server uses this folder; stop it, or give this server its own folder")

// openTables opens the engine of the tables: the database that replicas share, or else that of the data folder, or memory if there is none.
// Its error is for the user. What it returns is closed after all that uses the tables.
func openTables(c *config.Config, shared *engine, log *slog.Logger) (store.Engine, error) {
	if shared != nil {
		return shared.tables, nil
	}
	d, err := openDatabase(c, log)
	if err != nil {
		return nil, err
	}
	if c.Data != "" && !d.serve(true) {
		return nil, dataError(c, errors.Join(errDataInUse, d.close()))
	}
	return databaseTables{d.Tables(), d, true}, nil
}

// openTablesBeside is openTables for a command that a server may run beside.
func openTablesBeside(c *config.Config, shared *engine, log *slog.Logger) (store.Engine, error) {
	if shared != nil {
		return shared.tables, nil
	}
	d, err := openDatabase(c, log)
	if err != nil {
		return nil, err
	}
	return databaseTables{d.Tables(), d, false}, nil
}

// newTickets returns the tickets of a server.
func newTickets(ctx context.Context, c *config.Config, tables store.Engine) (*access.Tickets, error) {
	t, err := tables.Table(ctx, access.TicketTable)
	if err != nil {
		return nil, err
	}
	return access.NewTickets(access.TicketsOptions{Table: t, Life: c.Auth.TicketLife}), nil
}

// tablesError says to the user where a table is that cannot be used.
func tablesError(c *config.Config, err error) error {
	if c.Engine == config.EnginePostgres {
		return engineError(c, err)
	}
	return dataError(c, err)
}
