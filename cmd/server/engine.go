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
	controlnats "github.com/lingserve/lingserve/control/nats"
	beforenats "github.com/lingserve/lingserve/internal/before/nats"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/run"
	runlognats "github.com/lingserve/lingserve/runlog/nats"
	"github.com/lingserve/lingserve/store"
	storenats "github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/tape"
	tapenats "github.com/lingserve/lingserve/tape/nats"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web"
	oncetable "github.com/lingserve/lingserve/web/once/table"
)

// engine is what replicas share. Nil is none, which is a server alone: all its methods can be called, and nothing of NATS runs.
type engine struct {
	cluster  *cluster.Cluster
	presence *cluster.Presence
	tables   *storenats.Engine
	unwatch  func()

	// Of a server; nil where a command has the engine.
	runs    *runlognats.Log
	control *controlnats.Control
	keys    *oncetable.Keys

	mu    sync.Mutex
	state cluster.State
	away  time.Duration // in all, without what goes on
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
	if c.Engine != config.EngineNATS {
		return nil, nil
	}
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
	e := &engine{cluster: shared, tables: storenats.Open(shared, storenats.Options{Log: log})}
	if e.presence, err = shared.Presence(ctx); err != nil {
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
			return &engine{cluster: shared, tables: storenats.Open(shared, storenats.Options{Log: log}), state: shared.State(), unwatch: func() {}}, nil
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
	hint := ""
	switch {
	case strings.Contains(err.Error(), "insufficient storage"), strings.Contains(err.Error(), "resource limits exceeded"):
		hint = "; the servers need more storage for channels: increase it, or lower nats.max_inbox"
	case errors.Is(err, cluster.ErrUnreachable) && len(c.NATS.Routes) > 0:
		hint = "; a cluster needs two of its three servers: start the others, and check that they reach each other at the addresses in nats.routes"
	case errors.Is(err, cluster.ErrUnreachable):
		hint = "; check that the servers run and that this machine reaches them"
	case errors.Is(err, cluster.ErrRefused):
		hint = "; check nats.user and nats.password, nats.token, nats.creds or nats.nkey"
	case errors.Is(err, cluster.ErrForbidden):
		hint = fmt.Sprintf("; allow the user to publish and subscribe to %[1]s.>, $KV.%[1]s_LEASES.>, $JS.> and _INBOX.>", c.NATS.Prefix)
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
	errs = append(errs, e.tables.Close())
	if err := errors.Join(append(errs, e.cluster.Close())...); err != nil {
		log.Warn("cannot close the NATS connection cleanly", "error", err)
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
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.state.Connected && time.Since(e.state.Since) >= awayAfter
}

// load is for the metrics.
func (e *engine) load() telemetry.EngineLoad {
	stats := e.cluster.Conn().Stats()
	l := telemetry.EngineLoad{
		Reconnects: stats.Reconnects,
		Sent:       telemetry.Traffic{Messages: stats.OutMsgs, Bytes: stats.OutBytes},
		Heard:      telemetry.Traffic{Messages: stats.InMsgs, Bytes: stats.InBytes},
	}
	if e.presence != nil {
		l.Replicas = len(e.presence.Replicas())
	}
	if e.runs != nil {
		s := e.runs.Stats()
		l.Log = &telemetry.EngineLog{Runs: s.Runs, Behind: s.Behind, Oldest: s.Oldest}
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

// openTables returns the engine of the tables, after what an earlier version has kept was taken in. It is closed by close, or before.
func (e *engine) openTables(ctx context.Context, log *slog.Logger) (store.Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	return e.tables, beforenats.Channels(ctx, e.cluster, e.tables, log)
}

// share opens what the runs of a server need.
func (e *engine) share(ctx context.Context, c *config.Config, o *web.Options, log *slog.Logger) (err error) {
	// A run that is kept for less than it may take would lose its beginning. Servers keep nothing for less than a tenth of a second.
	if e.runs, err = runlognats.Open(ctx, e.cluster, runlognats.Options{
		Keep: max(c.Run.Timeout+max(c.Run.Retention, c.Run.KeyRetention), time.Second), Log: log,
		Tube: func() *tube.Options {
			return &tube.Options{MaxBytes: int(c.Run.MaxLog), Document: func() tube.Document { return new(jsonuri.Document) }}
		},
	}); err != nil {
		return err
	}
	if e.control, err = controlnats.Open(ctx, e.cluster, controlnats.Options{Log: log}); err != nil {
		return err
	}
	if e.keys, err = oncetable.Open(ctx, e.tables, oncetable.Options{Retention: c.Run.KeyRetention, Log: log}); err != nil {
		return err
	}
	leases, err := e.cluster.Leases(ctx, "tape") // those of tape/nats
	if err != nil {
		return err
	}
	o.Engine = e
	o.Shared = &run.Shared{
		Runs: e.runs, Control: e.control, Keys: e.keys,
		Replicas: func() (ids []string) {
			for _, r := range e.presence.Replicas() {
				ids = append(ids, r.ID)
			}
			return ids
		},
		Watch: func(gone func(string)) func() {
			return e.presence.Watch(func(change cluster.Change) {
				if change.What != cluster.Came {
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

// tapes opens the store of the sessions that replicas share.
func (e *engine) tapes(log *slog.Logger, observer tape.Observer) (tape.Whole, error) {
	return tapenats.Open(context.Background(), e.cluster, &tapenats.Options{Log: log, Observer: observer})
}

// watched is what the metrics ask of an engine; nil where there is none.
func (e *engine) watched() func() telemetry.EngineLoad {
	if e == nil {
		return nil
	}
	return e.load
}
