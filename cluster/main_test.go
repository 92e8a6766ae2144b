package cluster_test

import (
	"context"
	"testing"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/leasetest"
	"github.com/lingserve/lingserve/internal/longtest"
	_ "github.com/lingserve/lingserve/store/nats" // the tables of leases
)

func TestMain(m *testing.M) {
	longtest.Parallel(6) // they wait for leases that end, and for elections
	clustertest.Main(m, map[string]func(string) error{"holder": hold})
}

// hold is a replica in a process of its own that holds the lease "s". For each line it says whether it still does.
func hold(url string) error {
	ctx := context.Background()
	c, err := cluster.Open(ctx, cluster.Options{Servers: url})
	if err != nil {
		return err
	}
	l, err := c.Leases(ctx, "sessions")
	if err != nil {
		return err
	}
	m, err := c.Presence(ctx)
	if err != nil {
		return err
	}
	return leasetest.Hold(ctx, leasetest.Replica{Members: m, Leases: l, Leave: c.Close})
}

// replica is a cluster as the tests of leases have it.
func replica(t testing.TB, c *cluster.Cluster, l *cluster.Leases) leasetest.Replica {
	t.Helper()
	m, err := c.Presence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return leasetest.Replica{Members: m, Leases: l, Leave: c.Close}
}
