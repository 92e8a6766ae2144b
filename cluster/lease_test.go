package cluster_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/longtest"
	storenats "github.com/lingserve/lingserve/store/nats"
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

// soon is longer than anything takes that is not meant to wait.
const soon = time.Minute

func leases(t *testing.T, s *clustertest.Servers) (*cluster.Cluster, *replicas.Leases) {
	t.Helper()
	c := s.Open(t)
	l, err := storenats.Leases(t.Context(), c, "sessions")
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}

func take(t *testing.T, l *replicas.Leases, name string) tape.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	lease, err := l.Lease(ctx, name, true)
	if err != nil {
		t.Fatalf("the lease %s: %v", name, err)
	}
	return lease
}

// heldBy waits for a replica to be known as the holder: a server that lags behind knows it later.
func heldBy(t *testing.T, l *replicas.Leases, name, replica string) {
	t.Helper()
	clustertest.Eventually(t, replica+" to be known to hold "+name, func() bool {
		id, since, ok, err := l.Holder(t.Context(), name)
		return id == replica && time.Since(since) <= soon && ok && err == nil
	})
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
			first := take(t, a, "some.session/1")
			for _, l := range []*replicas.Leases{a, b} {
				_, err := l.Lease(ctx, "some.session/1", false)
				for errors.Is(err, replicas.ErrAway) { // who does not wait for it waits for the servers no longer than a second
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
				heldBy(t, l, "some.session/1", ca.Replica())
				take(t, l, "another").Release()
			}
			if s.Len() > 1 {
				s.Kill(s.Leader(ca.Name("TABLE", "leases")))
			}
			got := make(chan tape.Lease)
			for _, l := range []*replicas.Leases{a, b} {
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

// TestManyTakeOneLease shows that no two have it at once, and that all get it.
func TestManyTakeOneLease(t *testing.T) {
	t.Parallel()
	for _, row := range servers {
		t.Run(row.name, func(t *testing.T) {
			row.orLong(t)
			t.Parallel()
			s := row.start(t)
			var wg sync.WaitGroup
			var mu sync.Mutex // would hide nothing: it is tried, not locked
			for range 3 {
				_, l := leases(t, s)
				for range 4 {
					wg.Go(func() {
						for range 5 {
							lease, err := l.Lease(t.Context(), "s", true)
							if err != nil {
								t.Error(err)
								return
							}
							if !mu.TryLock() {
								t.Error("two have the lease")
								return
							}
							mu.Unlock()
							lease.Release()
						}
					})
				}
			}
			begin := time.Now()
			wg.Wait()
			t.Logf("60 leases one after the other: %v", time.Since(begin))
		})
	}
}

// TestAReplicaThatLeavesFreesItsLeases at once.
func TestAReplicaThatLeavesFreesItsLeases(t *testing.T) {
	t.Parallel()
	for _, row := range servers {
		t.Run(row.name, func(t *testing.T) {
			row.orLong(t)
			t.Parallel()
			s := row.start(t)
			ca, a := leases(t, s)
			_, b := leases(t, s)
			lease := take(t, a, "s")
			got := make(chan tape.Lease)
			go func() {
				l, err := b.Lease(t.Context(), "s", true)
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
			begin := time.Now()
			if err := ca.Close(); err != nil {
				t.Fatal(err)
			}
			<-lease.Lost()
			(<-got).Release()
			longtest.Within(t, "until the lease of a replica that left is free", time.Since(begin), replicas.TTL/2)
			if _, err := a.Lease(t.Context(), "s", true); !errors.Is(err, cluster.ErrClosed) {
				t.Errorf("a lease of a cluster that is closed: %v", err)
			}
		})
	}
}
