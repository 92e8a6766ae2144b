package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	peersWait   = 3 * time.Second  // for the servers of a cluster to know that they are three
	attemptWait = 3 * time.Second  // for one answer
	againWait   = 30 * time.Second // for what goes away by itself, where the context has no end
)

// The stream that shows how many copies the servers can have. Nothing is stored in it.
const copiesStream, copiesToken = "COPIES", "copies"

// Stream makes a stream, or changes the one that is there to the configuration. Its name gets the prefix, and it has [Cluster.Copies]
// copies. Several replicas may do it at once. What cannot be changed of a stream that is there stays as it is, and is in the log.
func (c *Cluster) Stream(ctx context.Context, config jetstream.StreamConfig) (jetstream.Stream, error) {
	config.Name = c.named(config.Name)
	s, err := c.stream(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("cluster: stream %s: %w", config.Name, err)
	}
	return s, nil
}

func (c *Cluster) stream(ctx context.Context, config jetstream.StreamConfig) (jetstream.Stream, error) {
	var s jetstream.Stream
	err := again(ctx, func(ctx context.Context) error {
		config := config
		config.Replicas = c.copies
		old, err := c.js.Stream(ctx, config.Name)
		switch {
		case err == nil:
			c.fit(&config, old.CachedInfo().Config)
			if s = old; !same(config, old.CachedInfo().Config) { // else a start of a replica would change the servers' own log
				s, err = c.js.UpdateStream(ctx, config)
			}
		case errors.Is(err, jetstream.ErrStreamNotFound):
			if config.Replicas > 1 || c.level < levelAsyncPersist {
				config.PersistMode = jetstream.DefaultPersistMode
			}
			s, err = c.js.CreateStream(ctx, config)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.watchStream(config.Name)
	return s, nil
}

// fit makes of a configuration one that the stream can be changed to.
func (c *Cluster) fit(config *jetstream.StreamConfig, old jetstream.StreamConfig) {
	config.Replicas = c.keepCopies(old)
	config.PersistMode, config.FirstSeq = old.PersistMode, old.FirstSeq // as it was made
	if old.PersistMode == jetstream.AsyncPersistMode && config.Replicas > 1 {
		config.Replicas = 1
		c.options.Log.LogAttrs(context.Background(), slog.LevelWarn, "NATS stream has one copy, because it was created on one server",
			slog.String("stream", config.Name))
	}
	if old.Storage != config.Storage {
		config.Storage = old.Storage
	}
}

// same says whether a stream is configured as it should be. What is left out of config is what the server made of it.
func same(config, old jetstream.StreamConfig) bool {
	for _, field := range []struct{ config, old *int64 }{
		{&config.MaxMsgs, &old.MaxMsgs},
		{&config.MaxBytes, &old.MaxBytes},
		{&config.MaxMsgsPerSubject, &old.MaxMsgsPerSubject},
		{(*int64)(&config.Duplicates), (*int64)(&old.Duplicates)},
	} {
		if *field.config == 0 && (*field.old == -1 || field.old == (*int64)(&old.Duplicates)) {
			*field.old = 0
		}
	}
	if config.MaxConsumers == 0 && old.MaxConsumers == -1 {
		old.MaxConsumers = 0
	}
	if config.MaxMsgSize == 0 && old.MaxMsgSize == -1 {
		old.MaxMsgSize = 0
	}
	if config.AllowMsgSchedules { // implies these
		config.AllowRollup, config.DenyPurge = old.AllowRollup, old.DenyPurge
	}
	mine := maps.Clone(old.Metadata)
	maps.DeleteFunc(mine, func(k, _ string) bool { return strings.HasPrefix(k, "_nats.") })
	old.Metadata = mine
	if len(config.Metadata) == 0 && len(mine) == 0 {
		config.Metadata, old.Metadata = nil, nil
	}
	return reflect.DeepEqual(config, old)
}

// keepCopies is how many copies a stream that is there gets: fewer only when that was asked for.
func (c *Cluster) keepCopies(old jetstream.StreamConfig) int {
	if c.options.Copies == 0 {
		return max(c.copies, old.Replicas)
	}
	return c.copies
}

func (c *Cluster) named(name string) string {
	if strings.HasPrefix(name, c.options.Prefix+"_") {
		return name
	}
	return c.Name(name)
}

// watchStream has the probe ask for a stream.
func (c *Cluster) watchStream(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.streams, name) {
		c.streams = append(c.streams, name)
	}
}

// again does what may fail because another replica does it at the same time, because a leader is being elected, or because the
// servers are away for a moment.
// An attempt has its own time: a request that went to a leader that died is never answered.
func again(ctx context.Context, do func(context.Context) error) error {
	for begin := time.Now(); ; {
		attempt, cancel := context.WithTimeout(ctx, attemptWait)
		err := do(attempt)
		cancel()
		if err == nil || !settles(err) || time.Since(begin) > againWait {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryWait):
		}
	}
}

// settles says whether what has failed about a stream may do at another attempt.
func settles(err error) bool {
	switch Code(err) {
	case codeNoPeers, jetstream.JSErrCodeStreamNameInUse, // made by another replica since we looked
		jetstream.JSErrCodeStreamNotFound: // which a server says that has not heard of it yet
		return true
	}
	return Passing(err) && !errors.Is(err, nats.ErrConnectionClosed)
}

// decideCopies finds out how many copies the servers can have, where nobody has said it: by making a stream of three.
func (c *Cluster) decideCopies(ctx context.Context) error {
	c.copies = c.options.Copies
	if c.copies != 0 {
		return nil
	}
	if c.options.routed() { // it was said
		c.copies = 3
		return nil
	}
	c.copies = 1
	if c.conn.ConnectedClusterName() == "" {
		return nil
	}
	var there bool
	if err := again(ctx, func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, c.Name(copiesStream))
		there = err == nil && s.CachedInfo().Config.Replicas > 1
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	}); err != nil {
		return fmt.Errorf("%w that answers: %s: %s", ErrNoJetStream, c.serverName(), c.reason(err))
	}
	c.copies = 3
	if there {
		return nil
	}
	for begin := time.Now(); ; {
		attempt, cancel := context.WithTimeout(ctx, peersWait)
		_, err := c.stream(attempt, jetstream.StreamConfig{Name: c.Name(copiesStream), Subjects: []string{c.Subject(copiesToken)}, Description: "whether streams have three copies"})
		cancel()
		switch {
		case err == nil:
			return nil
		case fewer(err) && time.Since(begin) >= peersWait:
			c.options.Log.LogAttrs(ctx, slog.LevelWarn, "NATS has fewer than three servers; new data has one copy",
				slog.String("error", c.reason(err)))
			c.copies = 1
			return nil
		case ctx.Err() != nil || !settles(err):
			return fmt.Errorf("%w that stores anything: %s: %s", ErrNoJetStream, c.serverName(), c.reason(err))
		}
	}
}

// fewer says whether the servers are not enough for the copies that were asked for.
func fewer(err error) bool {
	switch Code(err) {
	case codeNoPeers, codeNoResources, codeNotClustered:
		return true
	}
	return false
}
