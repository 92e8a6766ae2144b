//go:build unix

package replicas_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/leasetest"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/longtest"
)

// newSchema returns the name of a schema that replicas share.
func newSchema(t *testing.T) string {
	t.Helper()
	if databaseMissing != nil {
		t.Skip(databaseMissing)
	}
	return "t" + strings.ToLower(rand.Text())
}

func openReplica(t testing.TB, schema string) leasetest.Replica {
	t.Helper()
	r, err := open(t.Context(), database.URL(), schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Leave() }) // the database may be gone
	return r
}

// CL-06, CL-07, CL-14: leases of replicas on PostgreSQL, some of them in processes of their own.
func TestLeases(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Place {
		schema := newSchema(t)
		t.Setenv(urlVariable, database.URL())
		return leasetest.Place{
			Open:   func(t testing.TB) leasetest.Replica { return openReplica(t, schema) },
			Holder: func(t *testing.T) *clustertest.Process { return clustertest.Start(t, "holder", schema) },
		}
	})
}

// CL-10, CL-14: leases outlive a database that is killed and starts again, for longer than TTL.
func TestLeasesOutliveTheDatabase(t *testing.T) {
	schema := newSchema(t)
	a, b := openReplica(t, schema), openReplica(t, schema)
	held, given := leasetest.Take(t, a.Leases, "held"), leasetest.Take(t, a.Leases, "given")
	// What was written a moment before the database is killed, is lost, but not what is before a commit that is synced.
	conn, err := pgx.Connect(t.Context(), database.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `CREATE TABLE `+schema+`.synced ()`); err != nil {
		t.Fatal(err)
	}
	if err := database.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Lease(t.Context(), "x", false); err == nil {
		t.Error("there are leases without the database")
	}
	began := time.Now()
	given.Release()
	longtest.Within(t, "to give a lease back without the database", time.Since(began), 3*time.Second)
	if _, err := a.Lease(t.Context(), "given", false); err == nil {
		t.Error("a lease that could not be given back is taken again")
	}
	clustertest.Eventually(t, "the beats to fail for long enough to die", func() bool {
		since := a.FailingSince()
		return !since.IsZero() && time.Since(since) > replicas.TTL
	})
	if err := database.Restart(); err != nil {
		t.Fatal(err)
	}
	leasetest.Take(t, b.Leases, "given").Release()
	if _, err := b.Lease(t.Context(), "held", false); err == nil {
		t.Error("two have the lease")
	}
	select {
	case <-held.Lost():
		t.Error("the lease is lost")
	default:
	}
	held.Release()
	leasetest.Take(t, b.Leases, "held").Release()
}
