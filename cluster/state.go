package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	probeEvery = time.Second     // one small request a stream
	probeWait  = 2 * time.Second // more than a leader's graceful change takes, 0.4 s
)

// State says whether things can be stored.
type State struct {
	// Connected is true where there is a connection and JetStream answers on it: each stream of this replica has a leader.
	Connected bool
	Since     time.Time // when Connected became what it is
	Server    string    // the one that this replica is connected to, or was last
	Err       string    // why it is not connected, without secrets
}

// watcher is told of changes.
type watcher struct{ fn func(State) }

// State is how it is now.
func (c *Cluster) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Watch calls fn with each new state, one call at a time; it should return soon. A call that has begun may still run when stop
// returns.
func (c *Cluster) Watch(fn func(State)) (stop func()) {
	w := &watcher{fn}
	c.mu.Lock()
	c.watchers[w] = struct{}{}
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		delete(c.watchers, w)
		c.mu.Unlock()
	}
}

// changed makes the keeper look at once.
func (c *Cluster) changed() {
	select {
	case c.kick <- struct{}{}:
	default: // it will look
	}
}

// keep looks after the state until the cluster is closed.
func (c *Cluster) keep() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.end.Done():
			return
		case <-tick.C:
		case <-c.kick:
		}
		if next := c.look(); c.end.Err() == nil {
			c.set(next)
		}
	}
}

// look finds out the state.
func (c *Cluster) look() State {
	if status := c.conn.Status(); status != nats.CONNECTED {
		reason := "the connection is lost"
		if err := c.conn.LastError(); err != nil {
			reason += ": " + c.reason(err)
		}
		return State{Err: reason}
	}
	server := c.serverName()
	if err := c.probe(); err != nil {
		return State{Server: server, Err: "JetStream does not answer: " + c.reason(err)}
	}
	c.mu.Lock()
	p := c.members
	c.mu.Unlock()
	if p != nil { // its beats are stored messages
		if since := p.FailingSince(); !since.IsZero() && time.Since(since) > probeWait {
			return State{Server: server, Err: "JetStream stores nothing"}
		}
	}
	return State{Connected: true, Server: server}
}

// probe asks the leaders of the streams, or JetStream where there are none.
func (c *Cluster) probe() error {
	ctx, cancel := context.WithTimeout(c.end, probeWait)
	defer cancel()
	c.mu.Lock()
	names := slices.Clone(c.streams)
	c.mu.Unlock()
	if len(names) == 0 {
		_, err := c.js.AccountInfo(ctx)
		return err
	}
	for _, name := range names {
		_, err := c.js.Stream(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound): // who uses it makes it again
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("the stream %s has no leader", name)
		case err != nil:
			return fmt.Errorf("the stream %s: %w", name, err)
		}
	}
	return nil
}

// set takes a state, and tells it where it is a new one.
func (c *Cluster) set(next State) {
	c.mu.Lock()
	last := c.state
	if next.Server == "" {
		next.Server = last.Server
	}
	next.Since = last.Since
	if first := last.Since.IsZero(); first || last.Connected != next.Connected {
		next.Since = time.Now()
	} else if !last.Connected {
		next.Err = last.Err // the first reason is the cause
	}
	c.state = next
	if next == last {
		c.mu.Unlock()
		return
	}
	clear(c.told)
	watchers := slices.Collect(maps.Keys(c.watchers))
	c.mu.Unlock()
	if last.Connected != next.Connected {
		c.log(last, next)
	}
	for _, w := range watchers {
		w.fn(next)
	}
}

func (c *Cluster) log(last, next State) {
	ctx := context.Background()
	switch {
	case !next.Connected:
		c.options.Log.LogAttrs(ctx, slog.LevelError, "NATS is away", slog.String("server", next.Server), slog.String("error", next.Err))
	case last.Since.IsZero():
		c.options.Log.LogAttrs(ctx, slog.LevelInfo, "connected to NATS", slog.String("server", next.Server),
			slog.String("replica", c.replica), slog.Int("copies", c.copies))
	default:
		c.options.Log.LogAttrs(ctx, slog.LevelInfo, "NATS is back", slog.String("server", next.Server),
			slog.Duration("away", next.Since.Sub(last.Since)))
	}
}
