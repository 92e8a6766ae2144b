//go:build !nonats && !nopostgres

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store/postgres"
)

// openSharedPostgres connects this process with the others that share a database. Its error is for the user.
func openSharedPostgres(ctx context.Context, c *config.Config, log *slog.Logger) (_ *engine, err error) {
	p := c.Postgres
	tables, err := postgres.Open(ctx, postgres.Options{URL: p.URL.Reveal(), Schema: p.Schema, Connections: p.Connections, Log: log})
	if err != nil {
		return nil, engineError(c, err)
	}
	e := &engine{tables: tables, unwatch: func() {}, disconnect: tables.Close}
	defer func() {
		if err != nil {
			err = errors.Join(engineError(c, err), e.disconnect())
		}
	}()
	table, err := tables.Table(ctx, replicas.Table)
	if err != nil {
		return nil, err
	}
	if e.members, err = replicas.Join(ctx, table, replicas.Options{Name: replicaName(), Grace: p.Grace, Log: log}); err != nil {
		return nil, err
	}
	e.disconnect = func() error { return errors.Join(e.members.Close(), tables.Close()) }
	bus, err := tables.Bus(ctx, e.members.ID())
	if err != nil {
		return nil, err
	}
	e.bus = bus
	e.disconnect = func() error { return errors.Join(e.members.Close(), bus.Close(), tables.Close()) }
	return e, nil
}
