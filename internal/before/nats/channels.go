// Package nats takes in what earlier versions kept on NATS, at the first start. All replicas of an earlier version have stopped by then.
package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
	storenats "github.com/lingserve/lingserve/store/nats"
)

// taker copies a stream into tables, and returns how many records there were.
type taker func(context.Context, jetstream.Stream, store.Engine, *slog.Logger) (int, error)

// streams are those of the channels.
var streams = map[string]taker{
	"PAIRS": texts(channel.PairTable), "WINDOWS": texts(channel.WindowTable), "SESSIONS": texts(channel.SessionTable),
	"LEARNED": texts(channel.LearnedTable),
	"INBOX":   takeEvents, "OUTBOX": takeBlocks,
	// Answers go within a day: a sender who repeats a message is told that it was accepted.
	"RESULTS": func(context.Context, jetstream.Stream, store.Engine, *slog.Logger) (int, error) { return 0, nil },
}

func texts(table channel.TextTable) taker {
	return func(ctx context.Context, s jetstream.Stream, e store.Engine, log *slog.Logger) (int, error) {
		return take(ctx, s, e, table, log)
	}
}

// Headers of texts.
const (
	headerName = "Text-Name"
	headerGone = "Text-Gone" // of a text that was removed
)

// Channels copies what the channels' streams have into tables, and deletes the streams. What is in a table already stays. If it fails,
// it can be called again. One replica at a time does it.
func Channels(ctx context.Context, c *cluster.Cluster, log *slog.Logger) error {
	found := map[string]jetstream.Stream{}
	look := func() error {
		clear(found)
		for name := range streams {
			s, err := c.JetStream().Stream(ctx, c.Name(name))
			switch {
			case err == nil:
				found[name] = s
			case !errors.Is(err, jetstream.ErrStreamNotFound):
				return fmt.Errorf("look for the stream %s: %w", c.Name(name), err)
			}
		}
		return nil
	}
	if err := look(); err != nil || len(found) == 0 {
		return err
	}
	leases, err := storenats.Leases(ctx, c, "before")
	if err != nil {
		return err
	}
	lease, err := leases.Lease(ctx, "channels", true)
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := look(); err != nil { // another replica may have taken them in
		return err
	}
	e := storenats.Open(c, storenats.Options{Log: log}) // the server opens some of the tables with bounds
	defer e.Close()
	for name, s := range found {
		n, err := streams[name](ctx, s, e, log)
		if err != nil {
			return fmt.Errorf("take in the stream %s of an earlier version: %w", c.Name(name), err)
		}
		if err := c.JetStream().DeleteStream(ctx, c.Name(name)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("delete the stream %s of an earlier version: %w", c.Name(name), err)
		}
		log.InfoContext(ctx, "took in a stream of an earlier version", "stream", c.Name(name), "records", n)
	}
	return nil
}

// take copies the texts of a stream, and returns how many there were.
func take(ctx context.Context, s jetstream.Stream, e store.Engine, table channel.TextTable, log *slog.Logger) (n int, err error) {
	texts, err := channel.OpenTexts(ctx, e, table, log)
	if err != nil {
		return 0, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(">")) // of its leader, with the subjects
	if err != nil {
		return 0, err
	}
	for subject := range info.State.Subjects {
		m, err := s.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // its time was over
			continue
		}
		if err != nil {
			return n, err
		}
		name := m.Header.Get(headerName)
		if name == "" || m.Header.Get(headerGone) != "" {
			continue
		}
		err = texts.Change(ctx, name, func(there []byte) ([]byte, error) {
			if there != nil {
				return there, nil
			}
			return append([]byte{}, m.Data...), nil
		})
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
