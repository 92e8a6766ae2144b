//go:build unix

package replicas_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/cluster/leasetest"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/cluster/replicatest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
)

func openReplica(t testing.TB, url, schema string) leasetest.Replica {
	t.Helper()
	r, err := open(t.Context(), url, schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Leave() }) // the database may be gone
	return r
}

// CL-06, CL-07, CL-14: leases of replicas on PostgreSQL, some of them in processes of their own.
func TestLeases(t *testing.T) {
	url := postgrestest.Shared(t).URL()
	leasetest.Run(t, func(t *testing.T) leasetest.Place {
		schema := replicatest.Schema()
		t.Setenv(urlVariable, url)
		return leasetest.Place{
			Open:   func(t testing.TB) leasetest.Replica { return openReplica(t, url, schema) },
			Holder: func(t *testing.T) *leasetest.Process { return leasetest.Start(t, "holder", schema) },
		}
	})
}

// CL-10, CL-14: leases outlive a database that is killed and starts again, for longer than TTL.
func TestLeasesOutliveTheDatabase(t *testing.T) {
	database, schema := postgrestest.Run(t), replicatest.Schema()
	a, b := openReplica(t, database.URL(), schema), openReplica(t, database.URL(), schema)
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
	leasetest.Eventually(t, "the beats to fail for long enough to die", func() bool {
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
