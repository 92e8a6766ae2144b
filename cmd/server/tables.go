package main

import (
	"errors"
	"log/slog"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store"
)

// openTables opens the tables of the channels. A database of one process is used by one server at a time. Its error is for the user. What it
// returns is closed after all that uses the tables.
func openTables(c *config.Config, log *slog.Logger) (store.Engine, error) {
	d, err := openDatabase(c, log)
	if err != nil {
		return nil, err
	}
	if c.Database != config.InMemory && !c.Replicas() {
		if err := d.serve(); err != nil {
			return nil, databaseError(c, errors.Join(err, d.close()))
		}
	}
	return databaseTables{d.Tables(), d}, nil
}
