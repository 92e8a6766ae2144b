package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/channel/owner/leased"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

// shareWait is how long opening it may take: the database was there a moment ago.
const shareWait = time.Minute

// share opens what the channels of replicas share. Files of messages are each replica's own.
func (d *channels) share(ctx context.Context, shared *replicas, tables store.Engine, log *slog.Logger) (err error) {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	leases := func(kind string) *cluster.Leases { return shared.Leases(kind, shared.stored.Runs()) }
	d.Kernel.Only = leased.OpenPollers(leases("pollers"))
	return d.Keep(ctx, tables, inbox.Options{
		Owners: leased.Owners(leases("inbox")), Keys: sharedKeys, Keep: longestWait, Shown: true, Log: log,
	}, outbox.Options{Owners: leased.Owners(leases("outbox")), Log: log})
}

const (
	// sharedKeys is how many events of the last day all replicas together remember, so that none is answered twice.
	sharedKeys = 2_000_000
	// longestWait is how long an event waits at most: no replica runs what nobody has run for a week.
	longestWait = 7 * 24 * time.Hour
)
