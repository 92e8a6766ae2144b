package control_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/cluster/replicatest"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/control/controltest"
	"github.com/lingserve/lingserve/internal/postgrestest"
)

// open makes a replica.
func open(t testing.TB, url, schema string) (controltest.Replica, *replicatest.Replica) {
	t.Helper()
	r := replicatest.Open(t, url, schema)
	c := control.New(r.Bus, r.Members, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	var lost atomic.Int64
	control.Lose(c, func() bool { return lost.Add(-1) >= 0 })
	return controltest.Replica{Control: c, Lose: func(count int) { lost.Store(int64(count)) }, Leave: func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}}, r
}

// CL-08, CL-14: requests between replicas that share a database.
func TestReplicas(t *testing.T) {
	url, schema := postgrestest.Shared(t).URL(), replicatest.Schema()
	controltest.Test(t, false, func(t *testing.T) controltest.Replica {
		r, _ := open(t, url, schema)
		return r
	})
}

func BenchmarkReplicas(b *testing.B) {
	url, schema := postgrestest.Shared(b).URL(), replicatest.Schema()
	asker, _ := open(b, url, schema)
	other, _ := open(b, url, schema)
	controltest.Bench(b, asker, other)
}

// CL-08: a replica that dies says nothing. Who waits for it learns it when the others do.
func TestAReplicaDiesWhileItIsAsked(t *testing.T) {
	url, schema := postgrestest.Shared(t).URL(), replicatest.Schema()
	asker, _ := open(t, url, schema)
	other, dying := open(t, url, schema)
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
	go func() {
		_, err := asker.Ask(t.Context(), other.Replica(), control.Request{Command: "wait"})
		errs <- err
	}()
	<-begun
	dying.Kill()
	if err := <-errs; !errors.Is(err, control.ErrLost) {
		t.Errorf("who waited is told %v", err)
	}
	if _, err := asker.Ask(t.Context(), other.Replica(), control.Request{Command: "wait"}); !errors.Is(err, control.ErrGone) {
		t.Errorf("asked behind it: %v", err)
	}
	close(end)
	stop()
}

// While the database is away a replica asks itself, and nobody else; when it is back, everybody.
func TestTheDatabaseIsAway(t *testing.T) {
	s, schema := postgrestest.Run(t), replicatest.Schema()
	asker, _ := open(t, s.URL(), schema)
	other, _ := open(t, s.URL(), schema)
	for _, r := range []controltest.Replica{asker, other} {
		stop, err := r.Serve(func(context.Context, control.Request) ([]byte, error) { return []byte(r.Replica()), nil })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if answer, err := asker.Ask(t.Context(), asker.Replica(), control.Request{Command: "cancel"}); err != nil || string(answer) != asker.Replica() {
		t.Errorf("itself: %q, %v", answer, err)
	}
	if _, err := asker.Ask(t.Context(), other.Replica(), control.Request{Command: "cancel"}); !errors.Is(err, control.ErrAway) {
		t.Errorf("another: %v", err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	for {
		_, err := asker.Ask(t.Context(), other.Replica(), control.Request{Command: "cancel"})
		if err == nil {
			break
		}
		if !errors.Is(err, control.ErrAway) {
			t.Fatal(err)
		}
	}
}

func TestClosed(t *testing.T) {
	asker, _ := open(t, postgrestest.Shared(t).URL(), replicatest.Schema())
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
