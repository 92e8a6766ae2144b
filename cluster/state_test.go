package cluster_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	storenats "github.com/lingserve/lingserve/store/nats"
	"github.com/nats-io/nats.go/jetstream"
)

// buffer is a log that is written and read at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// states are those that a cluster gets.
func states(t *testing.T, c *cluster.Cluster) func(connected bool) cluster.State {
	t.Helper()
	all := make(chan cluster.State, 100)
	t.Cleanup(c.Watch(func(s cluster.State) { all <- s }))
	return func(connected bool) cluster.State {
		t.Helper()
		for {
			select {
			case s := <-all:
				if s.Connected == connected {
					return s
				}
			case <-time.After(2 * soon):
				t.Fatalf("waited %v for a state with connected %v, it is %+v", 2*soon, connected, c.State())
			}
		}
	}
}

// TestTheServersGoAndComeBack: it is said at once, each change once, nothing waits in the client (CL-10).
func TestTheServersGoAndComeBack(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	var log buffer
	c := s.Open(t, func(o *cluster.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	ctx := t.Context()
	if _, err := c.Stream(ctx, jetstream.StreamConfig{Name: "X", Subjects: []string{c.Subject("x", ">")}}); err != nil {
		t.Fatal(err)
	}
	var gone, back atomic.Int64 // so often it was told
	was := true
	t.Cleanup(c.Watch(func(s cluster.State) {
		switch {
		case was && !s.Connected:
			gone.Add(1)
		case !was && s.Connected:
			back.Add(1)
		}
		was = s.Connected
	}))
	next := states(t, c)
	for range 2 {
		s.Kill(0)
		if away := next(false); away.Err == "" || away.Server == "" || time.Since(away.Since) > soon {
			t.Errorf("without servers: %+v", away)
		}
		begin := time.Now()
		if _, err := c.JetStream().Publish(ctx, c.Subject("x", "a"), nil); err == nil {
			t.Error("something is stored without servers")
		}
		longtest.Within(t, "to say that nothing can be stored", time.Since(begin), time.Second)
		s.Restart(0)
		for {
			back := next(true)
			if back.Err != "" {
				t.Errorf("with servers again: %+v", back)
			}
			if c.State() == back {
				break
			}
			t.Logf("they are away once more, behind %+v: %+v", back, c.State()) // a busy machine does not answer in time, either
		}
		if _, err := c.JetStream().Publish(ctx, c.Subject("x", "a"), nil); err != nil {
			t.Error(err)
		}
	}
	said := func(text string) int64 { return int64(strings.Count(log.String(), text)) }
	if n := said("msg=\"connected to NATS"); n != 1 || gone.Load() < 2 || back.Load() < 2 {
		t.Errorf("it is connected %d times, and was told to be away %d times and back %d times:\n%s", n, gone.Load(), back.Load(), &log)
	}
	// Each change is in the log before it is told.
	clustertest.Eventually(t, "what is told to be in the log once", func() bool {
		return said("NATS is away") == gone.Load() && said("NATS is back") == back.Load()
	})
}

// TestAConnectionWithoutALeaderIsNone: of three servers two are gone; the third takes connections and stores nothing (CL-10).
func TestAConnectionWithoutALeaderIsNone(t *testing.T) {
	t.Parallel()
	s := clustertest.Three(t)
	c := s.Open(t)
	if _, err := c.Stream(t.Context(), jetstream.StreamConfig{Name: "X", Subjects: []string{c.Subject("x", ">")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := storenats.Join(t.Context(), c); err != nil { // what is stored tells that a leader is none any more, which answers for a while
		t.Fatal(err)
	}
	next := states(t, c)
	s.Kill(0)
	s.Kill(1)
	away := next(false)
	for c.Conn().ConnectedServerName() != "n2" || c.State().Connected { // it may have been on one of the others before
		away = next(false)
	}
	if away.Err == "" {
		t.Errorf("without a leader: %+v", away)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.JetStream().Publish(ctx, c.Subject("x", "a"), nil); err == nil {
		t.Error("one of three servers has stored something")
	}
	s.Restart(0)
	next(true)
	store(t, c, c.Subject("x", "a"), "") // servers that have just elected may do so once more
}
