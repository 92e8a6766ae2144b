//go:build !nonats

package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/nats"
	"github.com/lingserve/lingserve/internal/config"
)

// shareWait is how long opening it may take: the servers were there a moment ago.
const shareWait = time.Minute

// share opens what the channels of replicas share beside the tables. Files of messages are each replica's own.
func (d *doors) share(ctx context.Context, c *config.Config, shared *engine, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	journal, err := nats.OpenJournal(ctx, shared.cluster, nats.JournalOptions{Bytes: int64(c.NATS.MaxInbox), Log: log})
	if err != nil {
		return err
	}
	d.close = append(d.close, journal.Close)
	d.kernel.Journal = journal
	if d.kernel.Only, err = nats.OpenPollers(ctx, shared.cluster); err != nil {
		return err
	}
	outbox, err := nats.OpenOutbox(ctx, shared.cluster, nats.OutboxOptions{Log: log})
	if err != nil {
		return err
	}
	return d.openOutbox(channel.OutboxOptions{Store: outbox, Log: log})
}
