package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	storenats "github.com/lingserve/lingserve/store/nats"
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
	l, err := storenats.Leases(ctx, c, "sessions")
	if err != nil {
		return err
	}
	lease, err := l.Lease(ctx, "s", true)
	if err != nil {
		return err
	}
	fmt.Println("holds", c.Replica())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		held := lease.(interface{ Held() bool }).Held()
		lost := false
		select {
		case <-lease.Lost():
			lost = true
		default:
		}
		fmt.Println("held", held, "lost", lost)
	}
	return c.Close()
}

// holder starts a replica that holds the lease, and waits until this one has heard of it.
func holder(t *testing.T, s *clustertest.Servers) (p *clustertest.Process, id string) {
	t.Helper()
	p = clustertest.Start(t, "holder", s.URL())
	return p, strings.TrimPrefix(p.Line(), "holds ")
}
