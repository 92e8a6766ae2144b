package leased_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/owner/leased"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/cluster/replicatest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func pollers(t *testing.T, url, schema string, change ...func(*replicas.Options)) (*leased.Pollers, *replicatest.Replica) {
	t.Helper()
	r := replicatest.Open(t, url, schema, change...)
	p, err := leased.OpenPollers(r.Members)
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

func TestOneReplicaAsksAPlatformForEvents(t *testing.T) { // CL-02, CH-170
	t.Parallel()
	url, schema := postgrestest.Shared(t).URL(), replicatest.Schema()
	first, dying := pollers(t, url, schema)
	second, _ := pollers(t, url, schema)
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
	dying.Kill()
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
