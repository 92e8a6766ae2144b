package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// envURL says where the server of these tests is; child processes have it, too.
const envURL = "POSTGRES_TEST_URL"

// missing is why there is no server.
var missing error

func TestMain(m *testing.M) {
	if os.Getenv(envLease) != "" {
		if err := holdLease(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(envURL) != "" { // a child
		tapetest.Main(m, factory)
	}
	longtest.Checks(10, 200)
	code := 1
	var options []string
	if flag.Lookup("test.bench").Value.String() == "" {
		options = append(options, "fsync=off") // the machine does not end here, and syncs are what figures are about
	}
	server, err := postgrestest.Start(options...)
	switch {
	case err == nil:
		_ = os.Setenv(envURL, server.URL())
		code = m.Run()
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	case errors.Is(err, postgrestest.ErrMissing):
		missing = err
		code = m.Run()
	default:
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// url is where the server is; a test that needs one is skipped without.
func url(tb testing.TB) string {
	tb.Helper()
	if missing != nil {
		tb.Skip(missing)
	}
	return os.Getenv(envURL)
}

// schema is one of its own for a folder.
func schema(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "t" + hex.EncodeToString(sum[:8])
}

var factory = tapetest.Factory{
	Open: func(dir string) (tape.Store, error) {
		return Open(context.Background(), Options{URL: os.Getenv(envURL), Schema: schema(dir), Connections: 4})
	},
	Durable: true,
}

// TA-66
func TestStore(t *testing.T) {
	url(t)
	tapetest.Run(t, factory)
}

// notes is what a store has logged.
type notes struct {
	mu   sync.Mutex
	text []byte
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text = append(n.text, p...)
	return len(p), nil
}

func (n *notes) logger() *slog.Logger { return slog.New(slog.NewTextHandler(n, nil)) }

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return string(n.text)
}

// open opens a store in a schema of the test's own, and closes it when the test ends.
func open(tb testing.TB, o Options) *Store {
	tb.Helper()
	if o.URL == "" {
		o.URL = url(tb)
	}
	if o.Schema == "" {
		o.Schema = schema(tb.Name())
	}
	if o.Connections == 0 {
		o.Connections = 4
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s, err := Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// start starts a server for one test.
func start(tb testing.TB, options ...string) *postgrestest.Server {
	tb.Helper()
	url(tb)
	server, err := postgrestest.Start(options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return server
}

// create makes a tape.
func create(tb testing.TB, s tape.Store, name string, entries ...tape.Entry) {
	tb.Helper()
	if _, err := s.Append(tb.Context(), name, tape.Batch{Create: true, Entries: append([]tape.Entry{tape.NewAnchor("start", nil)}, entries...)}); err != nil {
		tb.Fatal(err)
	}
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

func ids(entries []tape.Entry) []int64 {
	all := []int64{}
	for _, e := range entries {
		all = append(all, e.ID)
	}
	return all
}

var day = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func mustRead(tb testing.TB, s tape.Store, name string, q tape.Query) []tape.Entry {
	tb.Helper()
	all, err := collect(s.Read(tb.Context(), name, q))
	if err != nil {
		tb.Fatalf("%+v: %v", q, err)
	}
	return all
}
