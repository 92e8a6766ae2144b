package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lingserve/lingserve/cluster/replicas"
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
	members *replicas.Members // those that share this database alone, for their leases; nil if replicas share an engine with it
}

// openPostgres opens the store of sessions that is a database.
func openPostgres(c *config.Config, shared *engine, log *slog.Logger, observer tape.Observer) (tape.Whole, error) {
	ctx, p := context.Background(), c.Tape.Postgres
	e, err := postgres.Open(ctx, postgres.Options{URL: p.URL.Reveal(), Schema: p.Schema, Connections: p.Connections, Log: log})
	if err != nil {
		return nil, err
	}
	s := &postgresTapes{engine: e}
	var members *replicas.Members
	if c.Engine == config.EnginePostgres {
		members = shared.members
	}
	if err := s.open(ctx, members, log, observer); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// open opens the store. The leases are those of the members, or if there are none of all who share the database.
func (s *postgresTapes) open(ctx context.Context, members *replicas.Members, log *slog.Logger, observer tape.Observer) error {
	if members == nil {
		table, err := s.engine.Table(ctx, replicas.Table)
		if err != nil {
			return err
		}
		if s.members, err = replicas.Join(ctx, table, replicas.Options{Name: replicaName(), Log: log}); err != nil {
			return err
		}
		members = s.members
	}
	leases, err := members.Leases(tapeLeases)
	if err != nil {
		return err
	}
	s.Store, err = logs.Open(ctx, s.engine, logs.Options{
		Durability: store.Synced, Leases: leases, Replica: members.ID(), Away: s.engine.Away, Log: log, Observer: observer,
	})
	return err
}

// Close implements [tape.Store].
func (s *postgresTapes) Close() error { return errors.Join(s.Store.Close(), s.close()) }

// close closes what the store of tapes stands on.
func (s *postgresTapes) close() (err error) {
	if s.members != nil {
		err = s.members.Close()
	}
	return errors.Join(err, s.engine.Close())
}
