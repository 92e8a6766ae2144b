package control_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/control/controltest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store/postgres"
)

var (
	database        *postgrestest.Server
	databaseMissing error
)

// needPostgres returns the server of the tests. A test is skipped without.
func needPostgres(tb testing.TB) *postgrestest.Server {
	tb.Helper()
	if databaseMissing != nil {
		tb.Skip(databaseMissing)
	}
	return database
}

// openPostgres makes a replica.
func openPostgres(t testing.TB, url, schema string) controltest.Replica {
	t.Helper()
	ctx := context.Background()
	e, err := postgres.Open(ctx, postgres.Options{URL: url, Schema: schema, Connections: 8})
	if err != nil {
		t.Fatal(err)
	}
	table, err := e.Table(ctx, replicas.Table)
	if err != nil {
		t.Fatal(err)
	}
	members, err := replicas.Join(ctx, table, replicas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	bus, err := e.Bus(ctx, members.ID())
	if err != nil {
		t.Fatal(err)
	}
	c := control.New(bus, members, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), members.Close(), bus.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	})
	var lost atomic.Int64
	control.Lose(c, func() bool { return lost.Add(-1) >= 0 })
	return controltest.Replica{Control: c, Lose: func(count int) { lost.Store(int64(count)) }, Leave: func() {
		if err := errors.Join(members.Close(), bus.Close()); err != nil {
			t.Error(err)
		}
	}}
}

// CL-08, CL-14: requests between replicas that share PostgreSQL.
func TestPostgres(t *testing.T) {
	url := needPostgres(t).URL()
	controltest.Test(t, false, func(t *testing.T) controltest.Replica { return openPostgres(t, url, "control") })
}

func BenchmarkPostgres(b *testing.B) {
	url := needPostgres(b).URL()
	asker, other := openPostgres(b, url, "bench"), openPostgres(b, url, "bench")
	controltest.Bench(b, asker, other)
}
