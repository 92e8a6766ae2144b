package nats_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/nats"
	"github.com/lingserve/lingserve/runlog/runlogtest"
)

// replicas makes a place on servers, each time another one.
func replicas(s *clustertest.Servers, adopts bool) func(testing.TB) func(testing.TB) *runlogtest.Replica {
	return func(t testing.TB) func(testing.TB) *runlogtest.Replica {
		prefix := clustertest.Prefix()
		return func(t testing.TB) *runlogtest.Replica { return replica(t, s, prefix, adopts) }
	}
}

func open(t testing.TB, s *clustertest.Servers, prefix string) (*nats.Log, *cluster.Cluster) {
	t.Helper()
	c := s.Open(t, func(o *cluster.Options) { o.Prefix = prefix })
	l, err := nats.Open(t.Context(), c, nats.Options{Keep: time.Hour, Tube: runlogtest.Tube, Async: true})
	if err != nil {
		t.Fatal(err)
	}
	return l, c
}

// replica opens one that takes over what all others have left, where it adopts.
func replica(t testing.TB, s *clustertest.Servers, prefix string, adopts bool) *runlogtest.Replica {
	t.Helper()
	l, c := open(t, s, prefix)
	var once sync.Once
	r := &runlogtest.Replica{Log: l, Name: c.Replica(), Crash: func() {
		once.Do(func() {
			nats.Crash(l)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}}
	t.Cleanup(r.Crash)
	if !adopts {
		return r
	}
	all, err := l.Running(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		ctx, cancel := context.WithTimeout(t.Context(), longWait)
		left, err := l.Adopt(ctx, g.ID, g.Replica)
		for ctx.Err() == nil && (errors.Is(err, runlog.ErrFenced) || errors.Is(err, runlog.ErrAway)) {
			// By a message of its replica that was still on its way, perhaps; or there was no answer in time, on a busy machine.
			if f, err := l.Find(ctx, g.ID); err == nil && (f.Ended || f.Replica != g.Replica) || errors.Is(err, runlog.ErrUnknown) {
				break
			}
			left, err = l.Adopt(ctx, g.ID, g.Replica)
		}
		switch {
		case err == nil:
			r.Left = append(r.Left, left)
		case !errors.Is(err, runlog.ErrEnded) && !errors.Is(err, runlog.ErrUnknown) && !errors.Is(err, runlog.ErrFenced):
			t.Fatalf("adopt %s: %v", g.ID, err)
		}
		cancel()
	}
	return r
}

// paged is replicas that put whatever can be into pages.
func paged(open func(testing.TB) func(testing.TB) *runlogtest.Replica) func(testing.TB) func(testing.TB) *runlogtest.Replica {
	return func(t testing.TB) func(testing.TB) *runlogtest.Replica {
		one := open(t)
		return func(t testing.TB) *runlogtest.Replica {
			r := one(t)
			nats.Always(r.Log.(*nats.Log))
			return r
		}
	}
}

// CL-12: pages change nothing but what it costs.
func TestOneNodeWithPages(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	t.Run("log", func(t *testing.T) { runlogtest.Test(t, paged(replicas(s, true))) })
	t.Run("shared", func(t *testing.T) { runlogtest.TestShared(t, paged(replicas(s, false))) })
}

func TestOneNode(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	t.Run("log", func(t *testing.T) { runlogtest.Test(t, replicas(s, true)) })
	t.Run("shared", func(t *testing.T) { runlogtest.TestShared(t, replicas(s, false)) })
}
