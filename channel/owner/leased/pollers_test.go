package leased_test

import (
	"context"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/owner/leased"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/longtest"
	storenats "github.com/lingserve/lingserve/store/nats"
)

func TestMain(m *testing.M) { clustertest.Main(m, nil) }

func pollers(t *testing.T, s *clustertest.Servers) (*leased.Pollers, *cluster.Cluster) {
	t.Helper()
	c := s.Open(t)
	members, err := storenats.Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := leased.OpenPollers(members)
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

func TestOneReplicaAsksAPlatformForEvents(t *testing.T) { // CL-02, CH-170
	t.Parallel()
	s := clustertest.One(t)
	first, dying := pollers(t, s)
	second, _ := pollers(t, s)
	alone, release, err := first.Only(t.Context(), "telegram@a/b c")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, other, err := second.Only(t.Context(), "telegram@other"); err != nil {
		t.Error(err)
	} else {
		other()
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := second.Only(short, "telegram@a/b c"); err == nil {
		t.Fatal("two replicas ask for the events of one account")
	}
	dying.Conn().Close()
	died := time.Now()
	next, done, err := second.Only(t.Context(), "telegram@a/b c")
	if err != nil {
		t.Fatal(err)
	}
	longtest.Within(t, "until the other one takes over", time.Since(died), replicas.TTL+time.Second)
	if next.Err() != nil {
		t.Error("it was taken away again")
	}
	done()
	done = nil
	if _, again, err := second.Only(t.Context(), "telegram@a/b c"); err != nil {
		t.Error(err)
	} else {
		again()
	}
	_ = alone
}

// The one that was taken for dead is told to stop.
func TestAReplicaWhoseConnectionIsGoneStopsAsking(t *testing.T) { // CL-06
	t.Parallel()
	s := clustertest.One(t)
	c := s.Open(t, func(o *cluster.Options) { o.Grace = time.Second })
	members, err := storenats.Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := leased.OpenPollers(members)
	if err != nil {
		t.Fatal(err)
	}
	alone, release, err := p.Only(t.Context(), "telegram")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	s.Kill(0)
	until(t, "it to stop", func() bool { return alone.Err() != nil })
}

func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Hour); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}
