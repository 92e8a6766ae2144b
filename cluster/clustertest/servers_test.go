package clustertest

import (
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestOneServer measures what a test pays for it.
func TestOneServer(t *testing.T) {
	begin := time.Now()
	s := One(t)
	c := s.Open(t)
	t.Logf("one server and a replica: %v", time.Since(begin))
	if _, err := c.Stream(t.Context(), jetstream.StreamConfig{Name: "X", Subjects: []string{c.Subject("x", ">")}}); err != nil {
		t.Fatal(err)
	}
	if c.Copies() != 1 || s.Leader(c.Name("X")) != 0 {
		t.Errorf("%d copies", c.Copies())
	}
}

func TestMain(m *testing.M) {
	longtest.Parallel(4) // they wait for elections
	Main(m, nil)
}

// TestKillAndRestart loses the leader of a stream.
func TestKillAndRestart(t *testing.T) {
	t.Run("stopped", func(t *testing.T) { killAndRestart(t, Three) })
	t.Run("crashed", func(t *testing.T) { killAndRestart(t, ThreeCrashing) })
}

func killAndRestart(t *testing.T, start func(testing.TB) *Servers) {
	t.Parallel()
	begin := time.Now()
	s := start(t)
	t.Logf("three servers: %v", time.Since(begin))
	c := s.Open(t)
	ctx := t.Context()
	if _, err := c.Stream(ctx, jetstream.StreamConfig{Name: "X", Subjects: []string{c.Subject("x", ">")}}); err != nil {
		t.Fatal(err)
	}
	t.Logf("a stream of three copies: %v", time.Since(begin))
	if c.Copies() != 3 {
		t.Errorf("%d copies, want 3", c.Copies())
	}
	if _, err := c.JetStream().Publish(ctx, c.Subject("x", "a"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	old := s.Leader(c.Name("X"))
	begin = time.Now()
	s.Kill(old)
	t.Logf("killed in %v", time.Since(begin))
	if now := s.Leader(c.Name("X")); now == old {
		t.Errorf("server %d leads, and is killed", now)
	}
	t.Logf("a leader after %v", time.Since(begin))
	for {
		if _, err := c.JetStream().Publish(ctx, c.Subject("x", "a"), []byte("2")); err == nil {
			break
		}
		time.Sleep(pollEvery)
	}
	t.Logf("stored after %v", time.Since(begin))
	s.Restart(old)
	s.WaitReady()
	t.Logf("whole after %v", time.Since(begin))
}
