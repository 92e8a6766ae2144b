package logs_test

import (
	"errors"
	"testing"

	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/runlog/runlogtest"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/tube"
)

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

// CL-14: PostgreSQL has all rules of a shared log.
func TestPostgres(t *testing.T) {
	t.Parallel()
	s := postgrestest.Run(t)
	places := func(testing.TB) place { return &inDatabase{s.URL(), newSchema()} }
	t.Run("log", func(t *testing.T) { runlogtest.Test(t, replicasOf(places, true)) })
	t.Run("shared", func(t *testing.T) { runlogtest.TestShared(t, replicasOf(places, false)) })
}

// CL-14, RU-10, RU-63: the database is killed a moment after it has acknowledged the beginning of one run and the end of another.
func TestAKilledDatabaseKeepsWhatRunsHaveBegunAndEnded(t *testing.T) {
	t.Parallel()
	// Async commits reach no file by themselves for ten seconds.
	s := postgrestest.Run(t, "wal_writer_delay=10000")
	o, closeStore := (&inDatabase{s.URL(), newSchema()}).open(t)
	document := func() tube.Document { return new(jsonuri.Document) }
	o.Tube = func() *tube.Options { return &tube.Options{Document: document} }
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
