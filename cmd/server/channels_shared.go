package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/file"
	"github.com/lingserve/lingserve/channel/nats"
	"github.com/lingserve/lingserve/config"
)

// Names of what channels of replicas share, beside the journal.
const (
	sharedWindows  = "WINDOWS"
	sharedSessions = "SESSIONS"
	sharedPairs    = "PAIRS"

	// windowLife is how long a window is kept that nothing is written to: as long as what is in it.
	windowLife = 24 * time.Hour

	// shareWait is how long opening it may take: the servers were there a moment ago.
	shareWait = time.Minute
)

// share opens what the channels of replicas share: events and what became of them, what waits in groups, where the messages of sessions
// came from, and which replica asks a platform for events. What stays in the data folder is this replica's alone.
func (d *doors) share(ctx context.Context, c *config.Config, shared *engine, windows channel.WindowOptions, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	if c.Data != "" {
		held, err := file.Hold(journalFolder(c))
		if err != nil {
			return dataError(c, err)
		}
		d.close = append(d.close, held.Close)
	}
	journal, err := nats.OpenJournal(ctx, shared.cluster, nats.JournalOptions{Bytes: int64(c.NATS.MaxInbox), Log: log})
	if err != nil {
		return engineError(c, err)
	}
	d.close = append(d.close, journal.Close)
	waiting, err := nats.OpenTexts(ctx, shared.cluster, nats.TextsOptions{Name: sharedWindows, Life: windowLife})
	if err != nil {
		return engineError(c, err)
	}
	sessions, err := nats.OpenTexts(ctx, shared.cluster, nats.TextsOptions{Name: sharedSessions})
	if err != nil {
		return engineError(c, err)
	}
	pollers, err := nats.OpenPollers(ctx, shared.cluster)
	if err != nil {
		return engineError(c, err)
	}
	k := d.kernel
	k.Journal, k.Only = journal, pollers
	k.Window = channel.NewWindow(waiting, windows)
	k.Recorder = &recorder{file.ShareSessions(sessions, file.SessionsOptions{Log: log}), d, channelsFolder(c)}
	return nil
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

// channelsPlace is where what channels keep is, for people.
func channelsPlace(c *config.Config) string {
	if c.Engine == config.EngineNATS {
		return fmt.Sprintf("the NATS servers of nats.servers (%s), prefix %s", c.Source("nats.servers"), c.NATS.Prefix)
	}
	return c.Data
}
