package main

import (
	"errors"
	"log/slog"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store"
)

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
	if c.Database != config.InMemory {
		if err := d.serve(); err != nil {
			return nil, databaseError(c, errors.Join(err, d.close()))
		}
	}
	return databaseTables{d.Tables(), d}, nil
}
