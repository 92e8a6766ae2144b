package logs_test

import (
	"errors"
	"testing"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/runlog/runlogtest"
	storenats "github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/tube"
)

// onNATS is an installation on servers.
type onNATS struct {
	servers *clustertest.Servers
	prefix  string
}

func natsPlaces(s *clustertest.Servers) func(testing.TB) place {
	return func(testing.TB) place { return &onNATS{s, clustertest.Prefix()} }
}

func (p *onNATS) open(t testing.TB) (logs.Options, func() error) {
	t.Helper()
	c := p.servers.Open(t, func(o *cluster.Options) { o.Prefix = p.prefix })
	bus, err := c.Bus()
	if err != nil {
		t.Fatal(err)
	}
	e := storenats.Open(c, storenats.Options{})
	return logs.Options{Logs: e, Tables: e, Bus: bus, Replica: c.Replica()}, func() error { return errors.Join(e.Close(), c.Close()) }
}

func TestOneNode(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	t.Run("log", func(t *testing.T) { runlogtest.Test(t, replicasOf(natsPlaces(s), true)) })
	t.Run("shared", func(t *testing.T) { runlogtest.TestShared(t, replicasOf(natsPlaces(s), false)) })
}

func TestThreeNodes(t *testing.T) {
	longtest.Only(t, "what one server shows, on three")
	t.Parallel()
	s := clustertest.Three(t)
	t.Run("log", func(t *testing.T) { runlogtest.Test(t, replicasOf(natsPlaces(s), true)) })
	t.Run("shared", func(t *testing.T) { runlogtest.TestShared(t, replicasOf(natsPlaces(s), false)) })
}

// inDatabase is an installation in a schema of a database.
type inDatabase struct {
	url, schema string
}

func (p *inDatabase) open(t testing.TB) (logs.Options, func() error) {
	t.Helper()
	e, err := postgres.Open(t.Context(), postgres.Options{URL: p.url, Schema: p.schema, Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	id := newReplica()
	bus, err := e.Bus(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return logs.Options{Logs: e, Tables: e, Bus: bus, Replica: id}, func() error { return errors.Join(bus.Close(), e.Close()) }
}

func startPostgres(t testing.TB, settings ...string) *postgrestest.Server {
	t.Helper()
	s, err := postgrestest.Start(append(settings, "fsync=off")...)
	if errors.Is(err, postgrestest.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// CL-14: PostgreSQL has all rules of a shared log.
func TestPostgres(t *testing.T) {
	t.Parallel()
	s := startPostgres(t)
	places := func(testing.TB) place { return &inDatabase{s.URL(), newSchema()} }
	t.Run("log", func(t *testing.T) { runlogtest.Test(t, replicasOf(places, true)) })
	t.Run("shared", func(t *testing.T) { runlogtest.TestShared(t, replicasOf(places, false)) })
}

// CL-14, RU-10, RU-63: the database is killed a moment after it has acknowledged the beginning of one run and the end of another.
func TestAKilledDatabaseKeepsWhatRunsHaveBegunAndEnded(t *testing.T) {
	t.Parallel()
	// Async commits reach no file by themselves for ten seconds.
	s := startPostgres(t, "wal_writer_delay=10000")
	o, closeStore := (&inDatabase{s.URL(), newSchema()}).open(t)
	document := func() tube.Document { return new(jsonuri.Document) }
	o.Tube, o.Durability = func() *tube.Options { return &tube.Options{Document: document} }, logs.DatabaseDurability
	l, err := logs.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(l.Close(), closeStore()); err != nil {
			t.Error(err)
		}
	}()
	for _, id := range []string{"begun", "ended"} {
		held := tube.New(id, &tube.Options{Document: document, Held: true})
		e := l.Keep(runlog.Run{ID: id, Opening: []byte(id), Tube: held})
		if id == "ended" {
			e.End([]byte("done"))
		}
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Kill(), s.Restart()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"begun", "ended"} {
		f, err := l.Find(t.Context(), id)
		if want := id == "ended"; err != nil || f.Ended != want || string(f.Opening) != id {
			t.Errorf("the run that has %s is %+v: %v", id, f, err)
		}
	}
}
