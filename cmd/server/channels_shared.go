//go:build !nonats

package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/file"
	"github.com/lingserve/lingserve/channel/nats"
	"github.com/lingserve/lingserve/config"
)

// Names of what channels of replicas share, beside the journal, the outbox and answers.
const (
	sharedWindows  = "WINDOWS"
	sharedSessions = "SESSIONS"
	sharedPairs    = "PAIRS"
	sharedLearned  = "LEARNED"

	// windowLife is how long a window is kept that nothing is written to: as long as what is in it.
	windowLife = 24 * time.Hour
	// learnedBytes is far more than what platforms teach takes: a few names a chat that has moved.
	learnedBytes = 16 << 20

	// shareWait is how long opening it may take: the servers were there a moment ago.
	shareWait = time.Minute
)

// share opens what the channels of replicas share: all but files of messages, which are each replica's own.
func (d *doors) share(ctx context.Context, c *config.Config, shared *engine, windows channel.WindowOptions, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	texts := func(o nats.TextsOptions) (*nats.Texts, error) { return nats.OpenTexts(ctx, shared.cluster, o) }
	journal, err := nats.OpenJournal(ctx, shared.cluster, nats.JournalOptions{Bytes: int64(c.NATS.MaxInbox), Log: log})
	if err != nil {
		return err
	}
	d.close = append(d.close, journal.Close)
	waiting, err := texts(nats.TextsOptions{Name: sharedWindows, Life: windowLife})
	if err != nil {
		return err
	}
	sessions, err := texts(nats.TextsOptions{Name: sharedSessions})
	if err != nil {
		return err
	}
	learned, err := texts(nats.TextsOptions{Name: sharedLearned, Bytes: learnedBytes})
	if err != nil {
		return err
	}
	results, err := nats.OpenResults(ctx, shared.cluster, nats.ResultsOptions{})
	if err != nil {
		return err
	}
	pollers, err := nats.OpenPollers(ctx, shared.cluster)
	if err != nil {
		return err
	}
	d.keep = sharedByLogins{learned, results}
	k := d.kernel
	k.Journal, k.Only = journal, pollers
	k.Window = channel.NewWindow(waiting, windows)
	k.Recorder = &recorder{Sessions: file.ShareSessions(sessions, file.SessionsOptions{Log: log}), d: d}
	outbox, err := nats.OpenOutbox(ctx, shared.cluster, nats.OutboxOptions{Log: log})
	if err != nil {
		return err
	}
	return d.openOutbox(channel.OutboxOptions{Store: outbox, Log: log})
}

// pairs opens the store of those who are paired at any replica.
func (e *engine) pairs(ctx context.Context, c *config.Config) (*channel.Pairs, error) {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	texts, err := nats.OpenTexts(ctx, e.cluster, nats.TextsOptions{Name: sharedPairs})
	if err != nil {
		return nil, engineError(c, err)
	}
	return channel.SharePairs(texts), nil
}
