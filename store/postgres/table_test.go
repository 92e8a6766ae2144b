package postgres

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
)

// shared is the server of the tests, and missing is why there is none.
var (
	shared  *postgrestest.Server
	missing error
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(envChild) != "" {
		writeAsChild()
		return
	}
	longtest.Checks(10, 200)
	var options []string
	if flag.Lookup("test.bench").Value.String() == "" {
		options = append(options, "fsync=off") // the machine does not end here, and syncs are what figures are about
	}
	if shared, missing = postgrestest.Start(options...); missing != nil && !errors.Is(missing, postgrestest.ErrMissing) {
		fmt.Fprintln(os.Stderr, missing)
		os.Exit(1)
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil { // ST-27
		fmt.Fprintln(os.Stderr, "the tests have passed, and left goroutines:", err)
		code = 1
	}
	if missing == nil {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// need returns the server of the tests. A test is skipped without.
func need(tb testing.TB) *postgrestest.Server {
	tb.Helper()
	if missing != nil {
		tb.Skip(missing)
	}
	return shared
}

// newSchema names a schema that no other test has.
func newSchema() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "t" + hex.EncodeToString(b[:])
}

// open opens an engine, which is closed when the test ends.
func open(tb testing.TB, o Options) *Engine {
	tb.Helper()
	if o.URL == "" {
		o.URL = need(tb).URL()
	}
	if o.Schema == "" {
		o.Schema = newSchema()
	}
	if o.Connections == 0 {
		o.Connections = 4
	}
	if o.sweep == 0 {
		o.sweep = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	e, err := Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// place is a schema.
type place struct{ Options }

func (p place) Open(t testing.TB) store.Engine { return open(t, p.Options) }

func TestTables(t *testing.T) {
	need(t)
	storetest.Tables(t, storetest.Setup{New: func(testing.TB) storetest.Place { return place{Options{Schema: newSchema()}} }})
}

// A pooler that shares connections between transactions drops the settings of a connection, keeps no statements and passes no notices on.
func TestTablesWithoutSettingsStatementsAndNotices(t *testing.T) {
	need(t)
	storetest.Tables(t, storetest.Setup{New: func(testing.TB) storetest.Place {
		return deaf{place{Options{Schema: newSchema(), Connections: 3, URL: shared.URL() + "&default_query_exec_mode=exec"}}}
	}})
}

// deaf is a place whose engines listen to a channel on which nothing is said.
type deaf struct{ place }

func (d deaf) Open(t testing.TB) store.Engine {
	e := open(t, d.Options)
	e.channel += newSchema()
	for range d.Options.Connections {
		c, err := e.db.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		if _, err := c.Exec(t.Context(), `SET search_path TO pg_catalog`); err != nil {
			t.Fatal(err)
		}
	}
	return e
}
