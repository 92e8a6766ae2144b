package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/run"
	runlogs "github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web"
	oncetable "github.com/lingserve/lingserve/web/once/table"
)

// engine is what replicas share in a PostgreSQL database. A server alone has a nil engine, whose methods it can call.
type engine struct {
	tables  *postgres.Engine
	members *replicas.Members
	bus     *postgres.Bus

	// Of a server; nil where a command has the engine.
	runs    *runlogs.Log
	control *control.Requests
	keys    *oncetable.Keys
}

// awayAfter is how long the database must be unavailable before readiness and metrics report it.
const awayAfter = 2 * time.Second

// openEngine connects this process with the other replicas. It returns nil for a server alone. Its error is for the user.
func openEngine(ctx context.Context, c *config.Config, log *slog.Logger) (*engine, error) {
	if !c.Replicas() {
		return nil, nil
	}
	e := new(engine)
	if err := e.connect(ctx, c, log); err != nil {
		return nil, errors.Join(databaseError(c, err), e.disconnect())
	}
	return e, nil
}

func (e *engine) connect(ctx context.Context, c *config.Config, log *slog.Logger) (err error) {
	e.tables, err = postgres.Open(ctx, postgres.Options{URL: c.Database, Schema: engineSchema(c), Log: log})
	if err != nil {
		return err
	}
	table, err := e.tables.Table(ctx, replicas.Table)
	if err != nil {
		return err
	}
	if e.members, err = replicas.Join(ctx, table, replicas.Options{Name: replicaName(), Grace: time.Minute, Log: log}); err != nil {
		return err
	}
	e.bus, err = e.tables.Bus(ctx, e.members.ID())
	return err
}

// disconnect leaves the other replicas and closes the database.
func (e *engine) disconnect() error {
	var errs []error
	if e.members != nil {
		errs = append(errs, e.members.Close())
	}
	if e.bus != nil {
		errs = append(errs, e.bus.Close())
	}
	if e.tables != nil {
		errs = append(errs, e.tables.Close())
	}
	return errors.Join(errs...)
}

// engineSchema is where the engine has its tables: beside those of the database.
func engineSchema(c *config.Config) string {
	u, err := url.Parse(c.Database)
	if err != nil { // the configuration has checked it
		return ""
	}
	return cmp.Or(u.Query().Get("search_path"), "lingserve") + "_runs"
}

// close stores what is left and disconnects. The caller closes all that uses the engine before.
func (e *engine) close(log *slog.Logger) {
	if e == nil {
		return
	}
	var errs []error
	if e.runs != nil {
		errs = append(errs, e.runs.Close())
	}
	if e.control != nil {
		errs = append(errs, e.control.Close())
	}
	if e.keys != nil {
		errs = append(errs, e.keys.Close())
	}
	if err := errors.Join(append(errs, e.disconnect())...); err != nil {
		log.Warn("cannot disconnect cleanly", "error", err)
	}
}

// Away implements [web.Engine].
func (e *engine) Away() bool {
	since := e.members.FailingSince()
	return !since.IsZero() && time.Since(since) >= awayAfter
}

// load is for the metrics.
func (e *engine) load() telemetry.EngineLoad {
	l := telemetry.EngineLoad{Up: e.members.FailingSince().IsZero(), Away: e.members.Failed(), Replicas: len(e.members.Replicas())}
	if e.runs != nil {
		s := e.runs.Stats()
		l.Log = &telemetry.EngineLog{Runs: s.Runs, Behind: s.Behind, Oldest: s.Oldest}
	}
	return l
}

// into gives a server what replicas share. Its error is for the user.
func (e *engine) into(ctx context.Context, c *config.Config, o *web.Options, log *slog.Logger) error {
	if e == nil {
		return nil
	}
	if err := e.share(ctx, c, o, log); err != nil {
		return databaseError(c, err)
	}
	return nil
}

// share opens what the runs of a server need.
func (e *engine) share(ctx context.Context, c *config.Config, o *web.Options, log *slog.Logger) (err error) {
	requests, err := replicas.NewMux(e.bus)
	if err != nil {
		return err
	}
	if e.runs, err = runlogs.Open(ctx, e.runOptions(c, requests.Of(runRequests), log)); err != nil {
		return err
	}
	e.control = control.New(requests.Of(""), e.members, log)
	if e.keys, err = oncetable.Open(ctx, e.tables, oncetable.Options{Retention: c.Run.KeyRetention, Log: log}); err != nil {
		return err
	}
	leases, err := e.members.Leases(tapeLeases)
	if err != nil {
		return err
	}
	o.Engine = e
	o.Shared = &run.Shared{
		Runs: e.runs, Control: e.control, Keys: e.keys,
		Replicas: func() (ids []string) {
			for _, r := range e.members.Replicas() {
				ids = append(ids, r.ID)
			}
			return ids
		},
		Watch: func(gone func(string)) func() {
			return e.members.Watch(func(change replicas.Change) {
				if change.What != replicas.Came {
					gone(change.Replica.ID)
				}
			})
		},
		Holder: func(ctx context.Context, tape string) (string, error) {
			replica, _, _, err := leases.Holder(ctx, tape)
			return replica, err
		},
	}
	return nil
}

// runRequests is the command of the requests between the logs of runs, which no command of package control has.
const runRequests = "run log"

// runOptions are the settings of the log of runs.
func (e *engine) runOptions(c *config.Config, bus replicas.Bus, log *slog.Logger) runlogs.Options {
	return runlogs.Options{
		Logs: e.tables, Tables: e.tables, Bus: bus, Replica: e.members.ID(), Log: log,
		// A run that is kept for less than it may take would lose its beginning.
		Keep: max(c.Run.Timeout+max(c.Run.Retention, c.Run.KeyRetention), time.Second),
		Tube: func() *tube.Options {
			return &tube.Options{MaxBytes: int(c.Run.MaxLog), Document: func() tube.Document { return new(jsonuri.Document) }}
		},
	}
}

// watched returns the source of the metrics; nil for a server alone.
func (e *engine) watched() func() telemetry.EngineLoad {
	if e == nil {
		return nil
	}
	return e.load
}
