package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
)

// database is an open database.
type database struct {
	*db.DB
	c     *config.Config
	inUse error // names the other process that has the file open; nil: none
}

// openDatabase opens the database. If a server has the file open, a command may use it at the same time. Its error is for the user.
func openDatabase(c *config.Config, log *slog.Logger) (*database, error) {
	o := &db.Options{Durable: c.Durability == config.DurabilityFull, MaxRunBytes: int64(c.Run.MaxDisk), Log: log}
	d := &database{c: c}
	var err error
	if d.DB, err = db.Open(context.Background(), c.Database, o); errors.Is(err, store.ErrInUse) {
		o.Beside, d.inUse = true, err
		d.DB, err = db.Open(context.Background(), c.Database, o)
	}
	if err != nil {
		return nil, databaseError(c, err)
	}
	return d, nil
}

// tapes returns the store of sessions; shared is nil without replicas. The observer may be nil.
func (d *database) tapes(shared *replicas, observer tape.Observer) tape.Store {
	if shared == nil {
		return d.Tapes(observer)
	}
	return d.SharedTapes(shared.leases, observer)
}

// databaseError says to the user which database cannot be used, and which setting names it.
func databaseError(c *config.Config, err error) error {
	if text, ok := strings.CutPrefix(err.Error(), "database: "); ok { // of the package that names the database, too
		err = errors.New(text)
	}
	if e, ok := errors.AsType[*db.Error](err); ok { // the operator may see the cause, and can do something about it
		err = e.Unwrap()
	}
	return fmt.Errorf("database (%s): cannot use %s: %w", c.Source("database"), c.DatabaseName(), err)
}

// pairs returns who is paired with channels.
func (d *database) pairs() *channel.Pairs {
	return channel.NewPairs(d.Values(db.Pairs, db.ValueOptions{}))
}
