package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/tape"
)

// openTapes opens the store of sessions: in a database if tape.store says so, else in the data folder, or in memory if there is none.
// The observer may be nil. Its error is one for the user.
func openTapes(c *config.Config, shared *engine, log *slog.Logger, observer tape.Observer) (tape.Store, error) {
	store, err := openStore(c, shared, log, observer)
	if err != nil {
		return nil, err
	}
	bounded, err := boundTapes(c, store)
	if err != nil {
		return nil, tapesError(c, err)
	}
	return bounded, nil
}

// openStore opens the store as it is, without a bound.
func openStore(c *config.Config, shared *engine, log *slog.Logger, observer tape.Observer) (tape.Whole, error) {
	if err := c.CheckTape(); err != nil {
		return nil, err
	}
	var store tape.Whole
	var err error
	switch {
	case c.Tape.Store == "postgres":
		store, err = openPostgres(c, shared, log, observer)
	default:
		return openDatabaseTapes(c, log, observer)
	}
	if err != nil {
		return nil, tapesError(c, err)
	}
	return store, nil
}

// tapesError says of which setting the error of a store is.
func tapesError(c *config.Config, err error) error {
	if c.Tape.Store == "postgres" {
		return fmt.Errorf("tape.postgres.url (%s): cannot use the database of sessions: %s", c.Source("tape.postgres.url"), strings.TrimPrefix(err.Error(), "database: "))
	}
	return dataError(c, err)
}

// tapesPlace is where sessions are kept, for people.
func tapesPlace(c *config.Config) string {
	if c.Tape.Store == "postgres" {
		return fmt.Sprintf("the database of tape.postgres.url (%s), schema %s", c.Source("tape.postgres.url"), c.Tape.Postgres.Schema)
	}
	return c.Data
}

// enginePlace is where the engine stores things, for people.
func enginePlace(c *config.Config) string {
	if c.Engine == config.EnginePostgres {
		return fmt.Sprintf("the database of postgres.url (%s), schema %s", c.Source("postgres.url"), c.Postgres.Schema)
	}
	return c.Data
}

// tapeLeases is the kind of the leases of sessions.
const tapeLeases = "tape"

// replicaName is what people call this replica.
func replicaName() string {
	name, _ := os.Hostname() // "" if the system does not tell
	return name
}
