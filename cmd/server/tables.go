package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
)

// errDataInUse is the error for the user if another server owns the data folder.
var errDataInUse = errors.New("another server uses this folder; stop it, or give this server its own folder")

// openTables opens the engine of the tables: the database that replicas share, or else files in the data folder, or memory if there is none.
// Its error is for the user. What it returns is closed after all that uses the tables.
func openTables(c *config.Config, shared *engine, log *slog.Logger) (store.Engine, error) {
	if shared != nil {
		return shared.tables, nil
	}
	e, err := file.Open(tablesFolder(c), file.Options{Alone: c.Data == "", Log: log})
	if errors.Is(err, store.ErrInUse) {
		err = errDataInUse
	}
	if err != nil {
		return nil, dataError(c, err)
	}
	return e, nil
}

// openTablesBeside is openTables for a command that a server may run beside.
func openTablesBeside(c *config.Config, shared *engine, log *slog.Logger) (store.Engine, error) {
	e, err := openTables(c, shared, log)
	if !errors.Is(err, errDataInUse) {
		return e, err
	}
	beside, err := file.Open(tablesFolder(c), file.Options{Beside: true, Log: log})
	if err != nil {
		return nil, dataError(c, err)
	}
	return beside, nil
}

// tablesFolder is where the tables of a single server are.
func tablesFolder(c *config.Config) vfs.Dir {
	if c.Data == "" {
		return vfs.InMemory()
	}
	return vfs.At(filepath.Join(c.Data, "store"))
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
