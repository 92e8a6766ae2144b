//go:build !nonats && !nopostgres

package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/internal/program"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
	"github.com/lingserve/lingserve/tape"
)

func startPostgres(t *testing.T) *postgrestest.Server {
	t.Helper()
	server, err := postgrestest.Start("fsync=off")
	if errors.Is(err, postgrestest.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// CL-14: three replicas without NATS know each other, ask each other, and share tables and leases.
func TestReplicasShareADatabase(t *testing.T) {
	c := &config.Config{Engine: config.EnginePostgres}
	c.Postgres.URL, c.Postgres.Schema, c.Postgres.Connections = config.Secret(startPostgres(t).URL()), "shared", 4
	log := slog.New(slog.DiscardHandler)
	var all []*engine
	for range 3 {
		e, err := openSharedPostgres(t.Context(), c, log)
		if err != nil {
			t.Fatal(err)
		}
		e.control = control.New(e.bus, e.members, log)
		t.Cleanup(func() { e.close(log) })
		all = append(all, e)
	}
	for _, e := range all {
		clustertest.Eventually(t, "the replicas to know each other", func() bool { return len(e.members.Replicas()) == 3 })
		if l := e.load(); !l.Up || l.Replicas != 3 || l.Away != 0 || e.Away() {
			t.Errorf("its load is %+v", l)
		}
	}
	stop, err := all[1].control.Serve(func(_ context.Context, r control.Request) ([]byte, error) { return []byte(r.Run), nil })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if got, err := all[0].control.Ask(t.Context(), all[1].members.ID(), control.Request{Command: "cancel", Run: "r"}); err != nil || string(got) != "r" {
		t.Errorf("asked: %q, %v", got, err)
	}
	o := store.TableOptions{Name: "things"}
	var tables []store.Table
	for _, e := range all {
		engine, err := e.openTables()
		if err != nil {
			t.Fatal(err)
		}
		table, err := engine.Table(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	if _, errs := tables[0].Put(t.Context(), store.Put{Key: "a", ID: storetest.NewID(), Body: []byte("x")}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if r, err := tables[2].Get(t.Context(), "a"); err != nil || string(r.Body) != "x" {
		t.Errorf("another replica reads %q, %v", r.Body, err)
	}
	lease := func(e *engine) (tape.Lease, error) {
		l, err := e.members.Leases("tape")
		if err != nil {
			t.Fatal(err)
		}
		return l.Lease(t.Context(), "a", false)
	}
	if _, err := lease(all[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := lease(all[1]); !errors.Is(err, tape.ErrLeased) {
		t.Errorf("a second lease: %v", err)
	}
	gone := make(chan replicas.Change, 1)
	defer all[1].members.Watch(func(c replicas.Change) { gone <- c })()
	all[0].close(log)
	if c := <-gone; c.What != replicas.Left {
		t.Errorf("the replica %v", c.What)
	}
	if l, err := lease(all[1]); err != nil {
		t.Errorf("the lease of one that has left: %v", err)
	} else {
		l.Release()
	}
}

// CL-14: three servers without NATS continue each other's sessions, also when one is killed.
func TestThreeServersShareADatabase(t *testing.T) {
	longtest.Only(t, "three whole servers")
	url, workspace, dirs := startPostgres(t).URL(), t.TempDir(), []string{t.TempDir(), t.TempDir(), t.TempDir()}
	shareSessions(t, func(i int) (*program.Process, error) {
		return program.Start(t.Context(), "lingserve", dirs[i], &program.Options{Env: cleanEnvironment(), Args: []string{
			"--engine", config.EnginePostgres, "--postgres-url", url, "--workspace", workspace,
		}})
	})
}
