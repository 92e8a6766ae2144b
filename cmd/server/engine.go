//go:build !nonats

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/run"
	runlogs "github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/store"
	storenats "github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web"
	oncetable "github.com/lingserve/lingserve/web/once/table"
)

// engine is what replicas share. Nil is none, which is a server alone: all its methods can be called, and nothing of NATS runs.
type engine struct {
	cluster    *cluster.Cluster  // nil without NATS
	members    *replicas.Members // nil where a command has the engine
	tables     tablesAndLogs
	logs       *storenats.Engine // of tapes; nil before they are opened
	unwatch    func()
	disconnect func() error // leaves the others, and ends all that uses their servers

	// Of a server; nil where a command has the engine.
	bus     replicas.Bus
	runs    *runlogs.Log
	control *control.Requests
	keys    *oncetable.Keys

	mu    sync.Mutex
	state cluster.State
	away  time.Duration // in all, without what goes on
}

// tablesAndLogs is an engine that replicas share.
type tablesAndLogs interface {
	store.Engine
	store.LogEngine
}

// awayAfter is for how long the servers must have been away until that is said: a leader that changes, and a connection that is made anew,
// take less.
const awayAfter = 2 * time.Second

// openEngine connects this process with the others, where the settings say so. Its error is for the user. It waits for servers that are
// being started, until ctx ends at the latest.
func openEngine(ctx context.Context, c *config.Config, log *slog.Logger) (*engine, error) {
	if err := c.CheckEngine(); err != nil {
		return nil, err
	}
	switch c.Engine {
	case config.EngineNATS:
		return openNATS(ctx, c, log)
	case config.EnginePostgres:
		return openSharedPostgres(ctx, c, log)
	}
	return nil, nil
}

func openNATS(ctx context.Context, c *config.Config, log *slog.Logger) (*engine, error) {
	o := clusterOptions(c, log)
	if list := c.NATSInClear(); len(list) > 0 {
		log.WarnContext(ctx, "NATS connection has no TLS; use tls:// addresses, or set nats.tls.ca or nats.tls.cert",
			"servers", strings.Join(list, ","))
	}
	log.InfoContext(ctx, "connecting to NATS", "servers", strings.Join(c.NATS.Servers, ","), "cluster", len(o.Routes) > 0)
	shared, err := cluster.Open(ctx, o)
	if err != nil {
		return nil, engineError(c, err)
	}
	e := &engine{cluster: shared, tables: storenats.Open(shared, storenats.Options{Log: log}), disconnect: shared.Close}
	if e.members, err = storenats.Join(ctx, shared); err != nil {
		return nil, errors.Join(engineError(c, err), shared.Close())
	}
	if e.bus, err = shared.Bus(); err != nil {
		return nil, errors.Join(engineError(c, err), shared.Close())
	}
	e.unwatch = shared.Watch(e.turn)
	e.turn(shared.State())
	return e, nil
}

// openEngineWith is openEngine for a command beside the server that these settings start on this machine: it reaches an embedded server
// that others can reach, and runs one only where it must.
func openEngineWith(ctx context.Context, c *config.Config, log *slog.Logger) (*engine, error) {
	if c.Engine == config.EngineNATS && c.NATS.Embedded() && c.NATS.Listen != "" && c.CheckEngine() == nil {
		host, port, _ := net.SplitHostPort(c.NATS.Listen)
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		scheme := "nats://"
		if c.NATS.TLS.Cert != "" {
			scheme = "tls://"
		}
		other := *c
		other.NATS.Servers = []string{scheme + net.JoinHostPort(host, port)}
		other.NATS.Routes, other.NATS.Listen, other.NATS.ClusterListen = nil, "", ""
		o := clusterOptions(&other, log)
		if shared, err := cluster.Open(ctx, o); err == nil {
			return &engine{
				cluster: shared, tables: storenats.Open(shared, storenats.Options{Log: log}), state: shared.State(),
				unwatch: func() {}, disconnect: shared.Close,
			}, nil
		} else if !errors.Is(err, cluster.ErrUnreachable) {
			return nil, engineError(c, err)
		}
	}
	return openEngine(ctx, c, log)
}

// clusterOptions are the settings of the engine as package cluster has them.
func clusterOptions(c *config.Config, log *slog.Logger) cluster.Options {
	n := &c.NATS
	o := cluster.Options{
		Servers: strings.Join(n.Servers, ","), Name: n.Name, Routes: n.Routes, Listen: n.Listen, ClusterListen: n.ClusterListen,
		Copies: n.Copies, Prefix: n.Prefix, User: n.User, Password: n.Password.Reveal(), Token: n.Token.Reveal(), Creds: n.Creds, NKey: n.NKey,
		TLS: cluster.TLS{CA: n.TLS.CA, Cert: n.TLS.Cert, Key: n.TLS.Key}, Grace: n.Grace, Log: log,
	}
	if n.Embedded() {
		o.Dir = filepath.Join(c.Data, "nats")
	}
	return o
}

// engineError says what to do about what is wrong with the servers.
func engineError(c *config.Config, err error) error {
	if c.Engine == config.EnginePostgres {
		return fmt.Errorf("postgres.url (%s): cannot use the database that replicas share: %s",
			c.Source("postgres.url"), strings.TrimPrefix(err.Error(), "database: "))
	}
	hint := ""
	switch {
	case strings.Contains(err.Error(), "insufficient storage"), strings.Contains(err.Error(), "resource limits exceeded"):
		hint = "; the servers need more storage"
	case errors.Is(err, cluster.ErrUnreachable) && len(c.NATS.Routes) > 0:
		hint = "; a cluster needs two of its three servers: start the others, and check that they reach each other at the addresses in nats.routes"
	case errors.Is(err, cluster.ErrUnreachable):
		hint = "; check that the servers run and that this machine reaches them"
	case errors.Is(err, cluster.ErrRefused):
		hint = "; check nats.user and nats.password, nats.token, nats.creds or nats.nkey"
	case errors.Is(err, cluster.ErrForbidden):
		hint = fmt.Sprintf("; allow the user to publish and subscribe to %s.>, $JS.> and _INBOX.>", c.NATS.Prefix)
	case errors.Is(err, cluster.ErrNoCluster):
		hint = "; remove nats.copies, or set the servers of a cluster"
	case errors.Is(err, cluster.ErrNoJetStream) && len(c.NATS.Routes) > 0:
		hint = "; a cluster needs two of its three servers: start the others"
	case errors.Is(err, cluster.ErrNoJetStream):
		hint = "; start the servers with JetStream (nats-server --jetstream), and allow the account to use it"
	case c.NATS.Embedded() && strings.Contains(err.Error(), "another process"):
		hint = "; set nats.listen to use commands beside a running server. A second server needs its own data folder"
	}
	key := "nats.servers"
	return fmt.Errorf("%s (%s): %s%s", key, c.Source(key), strings.TrimPrefix(err.Error(), "cluster: "), hint)
}

// close leaves the others. All that uses the engine is closed before.
func (e *engine) close(log *slog.Logger) {
	if e == nil {
		return
	}
	e.unwatch()
	var errs []error
	if e.runs != nil {
		errs = append(errs, e.runs.Close()) // which first stores what there is
	}
	if e.control != nil {
		errs = append(errs, e.control.Close())
	}
	if e.keys != nil {
		errs = append(errs, e.keys.Close())
	}
	if e.cluster != nil {
		errs = append(errs, e.tables.Close()) // the members have tables of their own
	}
	if e.logs != nil {
		errs = append(errs, e.logs.Close())
	}
	if err := errors.Join(append(errs, e.disconnect())...); err != nil {
		log.Warn("cannot disconnect cleanly", "error", err)
	}
}

// turn takes a new state of the connection.
func (e *engine) turn(next cluster.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last := e.state; !last.Connected && next.Connected {
		e.away += next.Since.Sub(last.Since)
	}
	e.state = next
}

// Away implements [web.Engine].
func (e *engine) Away() bool {
	if e.cluster == nil {
		since := e.members.FailingSince()
		return !since.IsZero() && time.Since(since) >= awayAfter
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.state.Connected && time.Since(e.state.Since) >= awayAfter
}

// load is for the metrics.
func (e *engine) load() telemetry.EngineLoad {
	var l telemetry.EngineLoad
	if e.cluster != nil {
		stats := e.cluster.Conn().Stats()
		l = telemetry.EngineLoad{
			Reconnects: stats.Reconnects,
			Sent:       telemetry.Traffic{Messages: stats.OutMsgs, Bytes: stats.OutBytes},
			Heard:      telemetry.Traffic{Messages: stats.InMsgs, Bytes: stats.InBytes},
		}
	}
	if e.members != nil {
		l.Replicas = len(e.members.Replicas())
	}
	if e.runs != nil {
		s := e.runs.Stats()
		l.Log = &telemetry.EngineLog{Runs: s.Runs, Behind: s.Behind, Oldest: s.Oldest}
	}
	if e.cluster == nil {
		l.Up, l.Away = e.members.FailingSince().IsZero(), e.members.Failed()
		return l
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l.Up, l.Away = e.state.Connected, e.away
	if !l.Up {
		l.Away += time.Since(e.state.Since)
	}
	return l
}

// into gives a server what replicas share.
func (e *engine) into(ctx context.Context, c *config.Config, o *web.Options, log *slog.Logger) error {
	if e == nil {
		return nil
	}
	if err := e.share(ctx, c, o, log); err != nil {
		return engineError(c, err)
	}
	return nil
}

// openTables returns the engine of the tables. It is closed by close, or before.
func (e *engine) openTables() (store.Engine, error) { return e.tables, nil }

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
	o := runlogs.Options{
		Logs: e.tables, Tables: e.tables, Bus: bus, Replica: e.members.ID(), Log: log,
		// A run that is kept for less than it may take would lose its beginning. Servers keep nothing for less than a tenth of a second.
		Keep: max(c.Run.Timeout+max(c.Run.Retention, c.Run.KeyRetention), time.Second),
		Tube: func() *tube.Options {
			return &tube.Options{MaxBytes: int(c.Run.MaxLog), Document: func() tube.Document { return new(jsonuri.Document) }}
		},
	}
	if e.cluster == nil { // a transaction and a message cost more in a database
		o.Collect, o.Push = runlogs.DatabaseCollect, runlogs.DatabasePush
		o.Durability = runlogs.DatabaseDurability
	}
	return o
}

// replicas are those that share the engine; nil where a command has it.
func (e *engine) replicas() *replicas.Members { return e.members }

// tapes opens the store of the sessions that replicas share.
func (e *engine) tapes(log *slog.Logger, observer tape.Observer) (tape.Whole, error) {
	ctx := context.Background()
	leases, err := storenats.Leases(ctx, e.cluster, tapeLeases)
	if err != nil {
		return nil, fmt.Errorf("tape: %w", err)
	}
	if e.logs == nil { // the tables may be closed before
		e.logs = storenats.Open(e.cluster, storenats.Options{Log: log})
	}
	s, err := logs.Open(ctx, e.logs, logs.Options{
		Durability: store.Synced, Leases: leases, Replica: e.cluster.Replica(), Log: log, Observer: observer,
	})
	if err != nil {
		return nil, fmt.Errorf("tape: %w", err)
	}
	return s, nil
}

// watched is what the metrics ask of an engine; nil where there is none.
func (e *engine) watched() func() telemetry.EngineLoad {
	if e == nil {
		return nil
	}
	return e.load
}
