package nats_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/web/once"
	"github.com/lingserve/lingserve/web/once/nats"
	"github.com/lingserve/lingserve/web/once/oncetest"
)

func TestMain(m *testing.M) { clustertest.Main(m, nil) }

func open(t testing.TB, s *clustertest.Servers, prefix string, o nats.Options) (*nats.Keys, *cluster.Cluster) {
	t.Helper()
	c := s.Open(t, func(o *cluster.Options) { o.Prefix = prefix })
	k, err := nats.Open(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k, c
}

func setup(s *clustertest.Servers) oncetest.Setup {
	prefixes := map[*testing.T]string{}
	return oncetest.Setup{Shared: true, Open: func(t *testing.T, retention time.Duration) once.Keys {
		if prefixes[t] == "" {
			prefixes[t] = clustertest.Prefix()
		}
		k, _ := open(t, s, prefixes[t], nats.Options{Retention: retention})
		return k
	}, Few: func(t *testing.T, most int) once.Keys {
		k, _ := open(t, s, clustertest.Prefix(), nats.Options{Most: int64(most)})
		return k
	}}
}

func TestOneNode(t *testing.T) { oncetest.Test(t, setup(clustertest.One(t))) }

func BenchmarkOneNode(b *testing.B) {
	k, _ := open(b, clustertest.One(b), clustertest.Prefix(), nats.Options{})
	oncetest.Bench(b, k)
}

// Three nodes: the suite, and the leader of the keys is lost while they are claimed. No key is claimed twice, and none is lost.
func TestThreeNodes(t *testing.T) {
	s := clustertest.Three(t)
	oncetest.Test(t, setup(s))
	prefix := clustertest.Prefix()
	a, c := open(t, s, prefix, nats.Options{})
	b, _ := open(t, s, prefix, nats.Options{})
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		s.Kill(s.Leader(c.Name("KEYS")))
	}()
	claimed := map[string]string{}
	for n := 0; ; n++ {
		key, first, second := oncetest.Run(n), oncetest.Run(2*n), oncetest.Run(2*n+1)
		tried := 0
		got, ok, err := patient(t, func() (once.Claim, bool, error) {
			tried++
			return a.Claim(t.Context(), once.Claim{Key: key, Run: first})
		})
		if err != nil || got.Run != first || !ok && tried == 1 { // a claim that is made again may have been taken the first time
			t.Fatalf("key %d: %+v, %v, %v", n, got, ok, err)
		}
		got, ok, err = patient(t, func() (once.Claim, bool, error) { return b.Claim(t.Context(), once.Claim{Key: key, Run: second}) })
		if err != nil || ok || got.Run != first {
			t.Fatalf("key %d once more: %+v, %v, %v", n, got, ok, err)
		}
		claimed[key] = first
		select {
		case <-lost:
			if n < 50 {
				continue
			}
		default:
			continue
		}
		break
	}
	for key, run := range claimed {
		got, ok, err := patient(t, func() (once.Claim, bool, error) { return b.Find(t.Context(), "", key) })
		if err != nil || !ok || got.Run != run {
			t.Errorf("%s leads to %s, %v, %v", key, got.Run, ok, err)
		}
	}
}

// patient asks for a key until it is not refused. While servers are finding a leader, on a machine that does much else, keys are at times.
func patient(t *testing.T, ask func() (once.Claim, bool, error)) (got once.Claim, ok bool, err error) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		if got, ok, err = ask(); !errors.Is(err, once.ErrAway) || time.Now().After(end) {
			return got, ok, err
		}
	}
}

// An answer that is lost is found out; where it cannot be, what was claimed is taken back.
func TestAnswersAreLost(t *testing.T) {
	s, prefix := clustertest.One(t), clustertest.Prefix()
	a, _ := open(t, s, prefix, nats.Options{})
	b, _ := open(t, s, prefix, nats.Options{})
	lost := 0
	nats.Lose(a, func() bool { lost++; return lost == 1 })
	if got, ok, err := a.Claim(t.Context(), once.Claim{Key: "found", Run: oncetest.Run(1)}); err != nil || !ok || got.Run != oncetest.Run(1) {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
	lost = 0
	if ok, err := a.Move(t.Context(), "", "found", oncetest.Run(1), oncetest.Run(2)); err != nil || !ok {
		t.Errorf("moved: %v, %v", ok, err)
	}
	lost = 0
	if err := a.Forget(t.Context(), "", "found", oncetest.Run(2)); err != nil {
		t.Errorf("forgotten: %v", err)
	}
	if got, ok, err := b.Find(t.Context(), "", "found"); err != nil || ok {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}

	// Who has asked went away in that moment.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lost = 0
	nats.Lose(a, func() bool {
		if lost++; lost == 1 {
			cancel()
			return true
		}
		return false
	})
	if _, ok, err := a.Claim(ctx, once.Claim{Key: "taken back", Run: oncetest.Run(3)}); ok || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v", ok, err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got, ok, err := b.Find(t.Context(), "", "taken back")
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it leads to %s for ever", got.Run)
		}
	}
	if _, ok, err := b.Claim(t.Context(), once.Claim{Key: "taken back", Run: oncetest.Run(4)}); err != nil || !ok {
		t.Errorf("claimed again: %v, %v", ok, err)
	}
}

// While the servers are away keys cannot be claimed, and that is said soon; when they are back, they can.
func TestTheServersAreAway(t *testing.T) {
	s, prefix := clustertest.One(t), clustertest.Prefix()
	k, _ := open(t, s, prefix, nats.Options{})
	if _, ok, err := k.Claim(t.Context(), once.Claim{Key: "before", Run: oncetest.Run(1)}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	s.Kill(0)
	begin := time.Now()
	_, _, err := k.Claim(t.Context(), once.Claim{Key: "while", Run: oncetest.Run(2)})
	if e, ok := err.(interface{ ErrorCode() string }); !errors.Is(err, once.ErrAway) || !ok || e.ErrorCode() != "overloaded" {
		t.Error(err)
	}
	longtest.Within(t, "until it is said that the servers are away", time.Since(begin), 10*time.Second)
	if _, _, err := k.Find(t.Context(), "", "before"); !errors.Is(err, once.ErrAway) {
		t.Errorf("found: %v", err)
	}
	s.Restart(0)
	for end := time.Now().Add(20 * time.Second); ; {
		got, ok, err := k.Claim(t.Context(), once.Claim{Key: "before", Run: oncetest.Run(3)})
		if err == nil {
			if ok || got.Run != oncetest.Run(1) {
				t.Errorf("a key from before: %+v, %v", got, ok)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// There is a bound, and a stream that somebody has erased is made again.
func TestTheStream(t *testing.T) {
	s, prefix := clustertest.One(t), clustertest.Prefix()
	k, c := open(t, s, prefix, nats.Options{Most: 10})
	for n := range 25 {
		if _, ok, err := k.Claim(t.Context(), once.Claim{Key: oncetest.Run(n), Run: oncetest.Run(n)}); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	for n := range 25 {
		if got, ok, err := k.Find(t.Context(), "", oncetest.Run(n)); err != nil || ok != (n >= 15) {
			t.Errorf("key %d: %+v, %v, %v", n, got, ok, err)
		}
	}
	if err := c.JetStream().DeleteStream(t.Context(), c.Name("KEYS")); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := k.Claim(t.Context(), once.Claim{Key: "k", Run: oncetest.Run(99)}); err != nil || !ok {
		t.Errorf("claimed: %v, %v", ok, err)
	}
	if info, err := c.JetStream().Stream(t.Context(), c.Name("KEYS")); err != nil || info.CachedInfo().Config.MaxMsgs != 10 || info.CachedInfo().Config.Storage != jetstream.FileStorage {
		t.Errorf("the stream: %v", err)
	}
}
