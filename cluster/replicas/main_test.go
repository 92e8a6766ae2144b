package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/leasetest"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store/postgres"
)

var (
	database        *postgrestest.Server
	databaseMissing error
)

func TestMain(m *testing.M) {
	clustertest.Role(map[string]func(string) error{"holder": hold})
	if database, databaseMissing = postgrestest.Start("fsync=off"); databaseMissing != nil && !errors.Is(databaseMissing, postgrestest.ErrMissing) {
		fmt.Fprintln(os.Stderr, databaseMissing)
		os.Exit(1)
	}
	code := m.Run()
	if databaseMissing == nil {
		if err := database.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// open opens a replica on PostgreSQL.
func open(ctx context.Context, url, schema string) (leasetest.Replica, error) {
	e, err := postgres.Open(ctx, postgres.Options{URL: url, Schema: schema, Connections: 4})
	if err != nil {
		return leasetest.Replica{}, err
	}
	table, err := e.Table(ctx, replicas.Table)
	if err != nil {
		return leasetest.Replica{}, errors.Join(err, e.Close())
	}
	m, err := replicas.Join(ctx, table, replicas.Options{})
	if err != nil {
		return leasetest.Replica{}, errors.Join(err, e.Close())
	}
	l, err := m.Leases("sessions")
	return leasetest.Replica{Members: m, Leases: l, Leave: func() error { return errors.Join(m.Close(), e.Close()) }}, err
}

func hold(schema string) error {
	r, err := open(context.Background(), os.Getenv(urlVariable), schema)
	if err != nil {
		return err
	}
	return leasetest.Hold(context.Background(), r)
}

const urlVariable = "REPLICAS_TEST_URL"
