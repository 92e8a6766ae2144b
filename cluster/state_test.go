package cluster_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
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
		if back := next(true); back.Err != "" || c.State() != back {
			t.Errorf("with servers again: %+v, and then %+v", back, c.State())
		}
		if _, err := c.JetStream().Publish(ctx, c.Subject("x", "a"), nil); err != nil {
			t.Error(err)
		}
	}
	for text, want := range map[string]int{"connected to the servers": 1, "are away": 2, "are back": 2} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%q is %d times in the log, want %d:\n%s", text, got, want, &log)
		}
	}
}

// TestAConnectionWithoutALeaderIsNone: of three servers two are gone; the third takes connections and stores nothing (CL-10).
func TestAConnectionWithoutALeaderIsNone(t *testing.T) {
	t.Parallel()
	s := clustertest.Three(t)
	c := s.Open(t)
	if _, err := c.Stream(t.Context(), jetstream.StreamConfig{Name: "X", Subjects: []string{c.Subject("x", ">")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Presence(t.Context()); err != nil { // what is stored tells that a leader is none any more, which answers for a while
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
