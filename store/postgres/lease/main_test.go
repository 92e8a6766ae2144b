package lease

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store/postgres"
)

// envURL names the server for child processes.
const envURL = "POSTGRES_TEST_URL"

// server is that of the tests, and missing is why there is none.
var (
	server  *postgrestest.Server
	missing error
)

func TestMain(m *testing.M) {
	if os.Getenv(envLease) != "" {
		if err := holdLease(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
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

// open opens leases in a schema of the test's own. Each call stands for another process.
func open(tb testing.TB, url string, log *slog.Logger) *Leases {
	tb.Helper()
	need(tb)
	if url == "" {
		url = server.URL()
	}
	sum := sha256.Sum256([]byte(tb.Name()))
	e, err := postgres.Open(tb.Context(), postgres.Options{URL: url, Schema: "t" + hex.EncodeToString(sum[:8]), Connections: 4, Log: log})
	if err != nil {
		tb.Fatal(err)
	}
	k := New(e.Database())
	tb.Cleanup(func() {
		k.Close()
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return k
}

// start starts a server for one test.
func start(tb testing.TB) *postgrestest.Server {
	tb.Helper()
	need(tb)
	own, err := postgrestest.Start("fsync=off")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := own.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return own
}

// notes is what was logged.
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
