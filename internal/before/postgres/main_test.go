package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

// server is that of the tests, and missing is why there is none.
var (
	server  *postgrestest.Server
	missing error
)

func TestMain(m *testing.M) {
	longtest.Checks(10, 200)
	if server, missing = postgrestest.Start("fsync=off"); missing != nil && !errors.Is(missing, postgrestest.ErrMissing) {
		fmt.Fprintln(os.Stderr, missing)
		os.Exit(1)
	}
	code := m.Run()
	if missing == nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func need(tb testing.TB) {
	tb.Helper()
	if missing != nil {
		tb.Skip(missing)
	}
}

// schemaOf names a schema for a folder.
func schemaOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "t" + hex.EncodeToString(sum[:8])
}

// tapes is a store of tapes on an engine of its own, like that of a server.
type tapes struct {
	*logs.Store
	e       *postgres.Engine
	before  *Tapes
	members *replicas.Members
}

func openTapes(ctx context.Context, o postgres.Options, l logs.Options) (*tapes, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Connections == 0 {
		o.Connections = 4
	}
	e, err := postgres.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &tapes{e: e}
	table, err := e.Table(ctx, replicas.Table)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if s.members, err = replicas.Join(ctx, table, replicas.Options{Log: o.Log}); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	leases, err := s.members.Leases("tape")
	if err != nil {
		return nil, errors.Join(err, s.members.Close(), e.Close())
	}
	if s.before, err = Open(ctx, e, o.Log); err == nil {
		l.Durability, l.Leases, l.Replica, l.Away, l.Log = store.Synced, leases, s.members.ID(), e.Away, o.Log
		s.Store, err = logs.Open(ctx, s.before, l)
	}
	if err != nil {
		_ = e.Close()
	}
	return s, err
}

func (s *tapes) Close() error {
	err := s.Store.Close()
	s.before.Close()
	return errors.Join(err, s.members.Close(), s.e.Close())
}

// open opens a store in a schema of the test's own, and closes it when the test ends.
func open(tb testing.TB, o postgres.Options) *tapes {
	tb.Helper()
	need(tb)
	if o.URL == "" {
		o.URL = server.URL()
	}
	if o.Schema == "" {
		o.Schema = schemaOf(tb.Name())
	}
	s, err := openTapes(tb.Context(), o, logs.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// collect reads to the end.
func collect[T any](seq func(func(T, error) bool)) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

func mustRead(tb testing.TB, s tape.Store, name string, q tape.Query) []tape.Entry {
	tb.Helper()
	all, err := collect(s.Read(tb.Context(), name, q))
	if err != nil {
		tb.Fatalf("%+v: %v", q, err)
	}
	return all
}
