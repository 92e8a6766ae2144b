//go:build !nopostgres

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lingserve/lingserve/cluster/replicas"
	before "github.com/lingserve/lingserve/internal/before/postgres"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

// postgresTapes are tapes in a database, with an engine of their own.
type postgresTapes struct {
	*logs.Store
	engine  *postgres.Engine
	members *replicas.Members // those that share the database, for their leases; nil if the engine is the same database
	before  *before.Tapes
}

// openPostgres opens the store of sessions that is a database. Replicas that share the database otherwise, too, have their own leases.
func openPostgres(c *config.Config, shared *engine, log *slog.Logger, observer tape.Observer) (tape.Whole, error) {
	ctx, p := context.Background(), c.Tape.Postgres
	e, err := postgres.Open(ctx, postgres.Options{URL: p.URL.Reveal(), Schema: p.Schema, Connections: p.Connections, Log: log})
	if err != nil {
		return nil, err
	}
	s := &postgresTapes{engine: e}
	if err := s.open(ctx, c, shared, log, observer); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *postgresTapes) open(ctx context.Context, c *config.Config, shared *engine, log *slog.Logger, observer tape.Observer) error {
	leases, replica, err := s.join(ctx, c, shared, log)
	if err != nil {
		return err
	}
	if s.before, err = before.Open(ctx, s.engine, log); err != nil {
		return err
	}
	s.Store, err = logs.Open(ctx, s.before, logs.Options{
		Durability: store.Synced, Leases: leases, Replica: replica, Away: s.engine.Away, Log: log, Observer: observer,
	})
	return err
}

// join returns the leases of sessions, and the id of the replica that takes them here.
func (s *postgresTapes) join(ctx context.Context, c *config.Config, shared *engine, log *slog.Logger) (tape.Leaser, string, error) {
	if c.Engine == config.EnginePostgres {
		return shared.tapeLeases()
	}
	table, err := s.engine.Table(ctx, replicas.Table)
	if err != nil {
		return nil, "", err
	}
	if s.members, err = replicas.Join(ctx, table, replicas.Options{Name: replicaName(), Log: log}); err != nil {
		return nil, "", err
	}
	leases, err := s.members.Leases(tapeLeases)
	return leases, s.members.ID(), err
}

// Close implements [tape.Store].
func (s *postgresTapes) Close() error { return errors.Join(s.Store.Close(), s.close()) }

// close closes what the store of tapes stands on.
func (s *postgresTapes) close() (err error) {
	if s.members != nil {
		err = s.members.Close()
	}
	if s.before != nil {
		s.before.Close()
	}
	return errors.Join(err, s.engine.Close())
}
