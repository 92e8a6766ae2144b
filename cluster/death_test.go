//go:build unix

package cluster_test

import (
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/leasetest"
	"github.com/lingserve/lingserve/internal/longtest"
)

// CL-06, CL-07: leases with replicas in processes of their own.
func TestLeases(t *testing.T) {
	t.Parallel()
	for _, row := range servers {
		t.Run(row.name, func(t *testing.T) {
			row.orLong(t)
			leasetest.Run(t, func(t *testing.T) leasetest.Place {
				t.Parallel()
				s := row.start(t)
				return leasetest.Place{
					Lags: true,
					Open: func(t testing.TB) leasetest.Replica {
						c, l := leases(t, s)
						return replica(t, c, l)
					},
					Holder: func(t *testing.T) *clustertest.Process { return clustertest.Start(t, "holder", s.URL()) },
				}
			})
		})
	}
}

// TestAnElectionTakesNoLease: the leader of the bucket is killed as hard as can be, which costs longer than the TTL, and whoever holds a
// lease keeps it; one who dies in that time is found out afterwards.
func TestAnElectionTakesNoLease(t *testing.T) {
	t.Parallel()
	s := clustertest.ThreeCrashing(t)
	c, l := leases(t, s)
	p := clustertest.Start(t, "holder", s.URL())
	told := leasetest.Changes(t, replica(t, c, l).Members, leasetest.HolderID(p))
	mine := leasetest.Take(t, l, "mine")
	other, otherID := clustertest.Start(t, "holder", s.URL()), ""
	s.Kill(s.Leader(c.Name("TABLE", "leases")))
	begin := time.Now()
	lease := leasetest.Take(t, l, "new")
	t.Logf("a lease is to be had again after %v", time.Since(begin))
	lease.Release()
	p.Say("?")
	p.Expect("held true lost false")
	p.Kill()
	otherID = leasetest.HolderID(other)
	leasetest.HeldBy(t, l, "s", otherID)
	leasetest.Next(t, told, cluster.Died)
	select {
	case <-mine.Lost():
		t.Error("the lease is lost")
	default:
	}
}

// TestLeasesOutliveTheServers: CL-10 for those who hold one.
func TestLeasesOutliveTheServers(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	ca, a := leases(t, s)
	_, b := leases(t, s)
	held, given := leasetest.Take(t, a, "held"), leasetest.Take(t, a, "given")
	s.Kill(0)
	if _, err := a.Lease(t.Context(), "x", false); err == nil {
		t.Error("there are leases without servers")
	}
	begin := time.Now()
	given.Release()
	longtest.Within(t, "to give a lease back without servers", time.Since(begin), 3*time.Second)
	if _, err := a.Lease(t.Context(), "given", false); err == nil {
		t.Error("a lease that could not be given back is taken again")
	}
	s.Restart(0)
	leasetest.Take(t, b, "given").Release()
	if _, err := b.Lease(t.Context(), "held", false); err == nil {
		t.Error("two have the lease")
	}
	leasetest.HeldBy(t, b, "held", ca.Replica())
	select {
	case <-held.Lost():
		t.Error("the lease is lost")
	default:
	}
	held.Release()
}
