package main

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/store/db"
)

// replicas are this process and the others that use its database. A process alone has nil, whose methods it can call.
type replicas struct {
	*cluster.Cluster
	leases *cluster.Leases // of sessions
	runs   *db.Runs
}

// awayAfter is how long the database must be unavailable before readiness and metrics report it.
const awayAfter = 2 * time.Second

// joinReplicas makes this process one of those that use the database. It returns nil if the database is of one process. Its error is for the
// user.
func joinReplicas(ctx context.Context, c *config.Config, d *database, log *slog.Logger) (*replicas, error) {
	if !c.Replicas() {
		return nil, nil
	}
	joined, err := cluster.Join(ctx, cluster.Options{
		Store: d.Runs(), Version: build().version, Reach: databaseAddress(c), Listen: c.InternalAddr, Log: log,
		MaxBody: max(int64(c.HTTP.MaxBody), c.Files.MaxSize/3*4) + 1<<20,
	})
	if err != nil {
		return nil, databaseError(c, err)
	}
	return &replicas{joined, joined.Leases("tape", d.Runs()), d.Runs()}, nil
}

// databaseAddress is the host and port of the database; "" if it is reached without a network.
func databaseAddress(c *config.Config) string {
	to, err := pgconn.ParseConfig(c.Database)
	if err != nil || to.Host == "" || filepath.IsAbs(to.Host) {
		return ""
	}
	return net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
}

// close leaves the others. The caller closes all that uses r before.
func (r *replicas) close(log *slog.Logger) {
	if r == nil {
		return
	}
	if err := r.Close(); err != nil {
		log.Warn("cannot leave the replicas cleanly", "error", err)
	}
}

// away reports whether the database has been unavailable for a moment.
func (r *replicas) away() bool {
	since := r.FailingSince()
	return !since.IsZero() && time.Since(since) >= awayAfter
}

// load is for the metrics.
func (r *replicas) load() telemetry.DatabaseLoad {
	return telemetry.DatabaseLoad{Up: r.FailingSince().IsZero(), Replicas: len(r.Alive())}
}
