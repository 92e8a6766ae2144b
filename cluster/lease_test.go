package cluster_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/leasetest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tape"
)

// kind is one of the kinds of servers that everything must work on.
type kind struct {
	name  string
	start func(testing.TB) *clustertest.Servers
}

// orLong skips three servers in the short form: it is for what their elections do not change.
func (k kind) orLong(t *testing.T) {
	t.Helper()
	if k.name != servers[0].name {
		longtest.Only(t, "three servers")
	}
}

var servers = []kind{
	{"one server", clustertest.One},
	{"three servers", clustertest.Three},
}

// killable are those of which one is killed. Three are in processes of their own: there they die harder, and nats-server, which
// the race detector has once caught when one of three was stopped in the test's process, has none to be caught in.
var killable = []kind{
	{"one server", clustertest.One},
	{"three servers", clustertest.ThreeCrashing},
}

const soon = leasetest.Soon

func leases(t testing.TB, s *clustertest.Servers) (*cluster.Cluster, *cluster.Leases) {
	t.Helper()
	c := s.Open(t)
	l, err := c.Leases(t.Context(), "sessions")
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}

// TestALeaseHasOneHolder shows the lease of CL-06, with the leader of its bucket killed in between where there are others.
func TestALeaseHasOneHolder(t *testing.T) {
	t.Parallel()
	for _, row := range killable {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := row.start(t)
			ca, a := leases(t, s)
			_, b := leases(t, s)
			ctx := t.Context()
			first := leasetest.Take(t, a, "some.session/1")
			for _, l := range []*cluster.Leases{a, b} {
				_, err := l.Lease(ctx, "some.session/1", false)
				for errors.Is(err, cluster.ErrAway) { // who does not wait for it waits for the servers no longer than a second
					_, err = l.Lease(ctx, "some.session/1", false)
				}
				if !errors.Is(err, tape.ErrLeased) {
					t.Errorf("a second lease: %v, want %v", err, tape.ErrLeased)
				}
				short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				if _, err := l.Lease(short, "some.session/1", true); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("waiting for it: %v", err)
				}
				cancel()
				leasetest.HeldBy(t, l, "some.session/1", ca.Replica())
				leasetest.Take(t, l, "another").Release()
			}
			if s.Len() > 1 {
				s.Kill(s.Leader(ca.Name("TABLE", "leases")))
			}
			got := make(chan tape.Lease)
			for _, l := range []*cluster.Leases{a, b} {
				go func() {
					lease, err := l.Lease(ctx, "some.session/1", true)
					if err != nil {
						t.Error(err)
					}
					got <- lease
				}()
			}
			begin := time.Now()
			first.Release()
			first.Release()
			second := <-got
			t.Logf("the next one has it after %v", time.Since(begin))
			select {
			case <-got:
				t.Error("two have the lease")
			case <-second.Lost():
				t.Error("the lease is lost")
			case <-first.Lost():
				t.Error("a lease that is given back is lost")
			default:
			}
			begin = time.Now()
			second.Release()
			(<-got).Release()
			t.Logf("and the one after that after %v", time.Since(begin))
			// A server that lags behind knows it later.
			clustertest.Eventually(t, "nobody to hold it", func() bool {
				_, _, ok, err := a.Holder(ctx, "some.session/1")
				return !ok && err == nil && a.Held()+b.Held() == 0
			})
		})
	}
}
