package replicas_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/lingserve/lingserve/cluster/leasetest"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store/postgres"
)

func TestMain(m *testing.M) {
	leasetest.Role(map[string]func(string) error{"holder": hold})
	os.Exit(postgrestest.Main(m))
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
