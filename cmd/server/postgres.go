//go:build !nopostgres

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"

	before "github.com/lingserve/lingserve/internal/before/postgres"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/store/postgres/lease"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

// postgresTapes are tapes in a database, with an engine of their own.
type postgresTapes struct {
	*logs.Store
	engine *postgres.Engine
	leases *lease.Leases
	before *before.Tapes
}

// openPostgres opens the store of sessions that is a database. Replicas that share the database otherwise, too, have their own leases.
func openPostgres(c *config.Config, shared *engine, log *slog.Logger, observer tape.Observer) (tape.Whole, error) {
	ctx, p := context.Background(), c.Tape.Postgres
	e, err := postgres.Open(ctx, postgres.Options{URL: p.URL.Reveal(), Schema: p.Schema, Connections: p.Connections, Log: log})
	if err != nil {
		return nil, err
	}
	s := &postgresTapes{engine: e, leases: lease.New(e.Database())}
	o := logs.Options{Durability: store.Synced, Leases: s.leases, Replica: rand.Text(), Away: e.Away, Log: log, Observer: observer}
	if c.Engine == config.EnginePostgres {
		o.Leases, o.Replica, err = shared.tapeLeases()
	}
	if err == nil {
		s.before, err = before.Open(ctx, e, log)
	}
	if err == nil {
		s.Store, err = logs.Open(ctx, s.before, o)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return s, nil
}

// Close implements [tape.Store].
func (s *postgresTapes) Close() error {
	err := s.Store.Close()
	s.leases.Close()
	s.before.Close()
	return errors.Join(err, s.engine.Close())
}
