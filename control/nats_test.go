package control_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/control/controltest"
	"github.com/lingserve/lingserve/internal/longtest"
	storenats "github.com/lingserve/lingserve/store/nats"
)

// open makes a replica.
func open(t testing.TB, s *clustertest.Servers, prefix string) (controltest.Replica, *cluster.Cluster) {
	c := s.Open(t, func(o *cluster.Options) { o.Prefix = prefix })
	members, err := storenats.Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	bus, err := c.Bus()
	if err != nil {
		t.Fatal(err)
	}
	n := control.New(bus, members, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	var lost atomic.Int64
	control.Lose(n, func() bool { return lost.Add(-1) >= 0 })
	return controltest.Replica{Control: n, Lose: func(count int) { lost.Store(int64(count)) }, Leave: func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}}, c
}

func TestOneNode(t *testing.T) {
	s, prefix := clustertest.One(t), clustertest.Prefix()
	controltest.Test(t, false, func(t *testing.T) controltest.Replica {
		r, _ := open(t, s, prefix)
		return r
	})
}

func BenchmarkOneNode(b *testing.B) {
	s, prefix := clustertest.One(b), clustertest.Prefix()
	asker, _ := open(b, s, prefix)
	other, _ := open(b, s, prefix)
	controltest.Bench(b, asker, other)
}

// CL-08: a replica that dies says nothing. Who waits for it learns it when the others do.
func TestAReplicaDiesWhileItIsAsked(t *testing.T) {
	s, prefix := clustertest.One(t), clustertest.Prefix()
	asker, _ := open(t, s, prefix)
	other, c := open(t, s, prefix)
	begun, end := make(chan struct{}), make(chan struct{})
	stop, err := other.Serve(func(context.Context, control.Request) ([]byte, error) {
		close(begun)
		<-end
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // longer than a busy machine takes to learn it
	defer cancel()
	go func() {
		_, err := asker.Ask(ctx, other.Replica(), control.Request{Command: "wait"})
		errs <- err
	}()
	<-begun
	c.Conn().Close() // as the kernel does it for a process that was killed
	if _, err := asker.Ask(ctx, other.Replica(), control.Request{Command: "wait"}); !errors.Is(err, control.ErrGone) {
		t.Errorf("asked behind it: %v", err)
	}
	if err := <-errs; !errors.Is(err, control.ErrLost) {
		t.Errorf("who waited is told %v", err)
	}
	close(end)
	stop()
}

// While the servers are away a replica asks itself, and nobody else; when they are back, everybody.
func TestTheServersAreAway(t *testing.T) {
	s, prefix := clustertest.One(t), clustertest.Prefix()
	asker, c := open(t, s, prefix)
	other, _ := open(t, s, prefix)
	for _, r := range []controltest.Replica{asker, other} {
		stop, err := r.Serve(func(context.Context, control.Request) ([]byte, error) { return []byte(r.Replica()), nil })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	s.Kill(0)
	for c.State().Connected || c.Conn().IsConnected() {
		time.Sleep(10 * time.Millisecond)
	}
	if answer, err := asker.Ask(t.Context(), asker.Replica(), control.Request{Command: "cancel"}); err != nil || string(answer) != asker.Replica() {
		t.Errorf("itself: %q, %v", answer, err)
	}
	begin := time.Now()
	if _, err := asker.Ask(t.Context(), other.Replica(), control.Request{Command: "cancel"}); !errors.Is(err, control.ErrAway) {
		t.Errorf("another: %v", err)
	}
	longtest.Within(t, "to know that another cannot be asked", time.Since(begin), 5*time.Second)
	s.Restart(0)
	clustertest.Eventually(t, "another to be asked when they are back", func() bool {
		_, err := asker.Ask(t.Context(), other.Replica(), control.Request{Command: "cancel"})
		return err == nil
	})
}

// CL-08: a request that may be sent again has its answer also where each takes longer than until then.
func TestAnAnswerThatIsLateIsHad(t *testing.T) {
	t.Parallel()
	s, prefix := clustertest.One(t), clustertest.Prefix()
	asker, _ := open(t, s, prefix)
	other, _ := open(t, s, prefix)
	control.Lose(other.Control.(*control.Requests), func() bool {
		time.Sleep(3 * control.AskAgain / 2)
		return false
	})
	stop, err := other.Serve(func(context.Context, control.Request) ([]byte, error) { return []byte("late"), nil })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if answer, err := asker.Ask(ctx, other.Replica(), control.Request{ID: "x", Command: "say"}); err != nil || string(answer) != "late" {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestClosed(t *testing.T) {
	s, prefix := clustertest.One(t), clustertest.Prefix()
	asker, _ := open(t, s, prefix)
	n := asker.Control.(*control.Requests)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := asker.Ask(t.Context(), "x", control.Request{Command: "cancel"}); !errors.Is(err, control.ErrClosed) {
		t.Errorf("asked: %v", err)
	}
	if _, err := asker.Serve(func(context.Context, control.Request) ([]byte, error) { return nil, nil }); !errors.Is(err, control.ErrClosed) {
		t.Errorf("served: %v", err)
	}
}

// CL-08: with three nodes a request finds its way across them.
func TestThreeNodes(t *testing.T) {
	longtest.Only(t, "what one node shows, on three")
	s, prefix := clustertest.Three(t), clustertest.Prefix()
	var others []*cluster.Cluster
	controltest.Test(t, false, func(t *testing.T) controltest.Replica {
		r, c := open(t, s, prefix)
		// Who was there before hears of it by way of another server.
		for _, other := range others {
			p, err := storenats.Join(t.Context(), other)
			if errors.Is(err, cluster.ErrClosed) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			clustertest.Eventually(t, "the others to know the new one", func() bool { return p.Alive(c.Replica()) })
		}
		others = append(others, c)
		return r
	})
}
