package replicas_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
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

// place is a replica on PostgreSQL.
type place struct {
	*replicas.Members
	*replicas.Leases
	close func() error
}

func openPlace(ctx context.Context, url, schema string) (*place, error) {
	e, err := postgres.Open(ctx, postgres.Options{URL: url, Schema: schema, Connections: 4})
	if err != nil {
		return nil, err
	}
	table, err := e.Table(ctx, replicas.Table)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	m, err := replicas.Join(ctx, table, replicas.Options{})
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	l, err := m.Leases("sessions")
	return &place{m, l, func() error { return errors.Join(m.Close(), e.Close()) }}, err
}

// hold is a replica in a process of its own that holds the lease "s". For each line it says whether it still does.
func hold(schema string) error {
	ctx := context.Background()
	p, err := openPlace(ctx, os.Getenv(urlVariable), schema)
	if err != nil {
		return err
	}
	lease, err := p.Lease(ctx, "s", true)
	if err != nil {
		return err
	}
	fmt.Println("holds", p.ID())
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
	return p.close()
}

const urlVariable = "REPLICAS_TEST_URL"
