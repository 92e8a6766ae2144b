package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres/lease"
	"github.com/lingserve/lingserve/tape"
	tapelogs "github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// envURL names the server for child processes that append to tapes.
const envURL = "POSTGRES_TEST_URL"

// tapes is a store of tapes on an engine of its own, as a server has it.
type tapes struct {
	*tapelogs.Store
	e      *Engine
	leases *lease.Leases
}

func openTapes(ctx context.Context, o Options, observer tape.Observer) (*tapes, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Connections == 0 {
		o.Connections = 4
	}
	e, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &tapes{e: e, leases: lease.New(e.Database())}
	s.Store, err = tapelogs.Open(ctx, e, tapelogs.Options{
		Durability: store.Synced, Leases: s.leases, Replica: rand.Text(), Away: e.Away, Log: o.Log, Observer: observer,
	})
	if err != nil {
		_ = e.Close()
	}
	return s, err
}

func (s *tapes) Close() error {
	err := s.Store.Close()
	s.leases.Close()
	return errors.Join(err, s.e.Close())
}

var factory = tapetest.Factory{
	Open: func(dir string) (tape.Store, error) {
		sum := sha256.Sum256([]byte(dir))
		return openTapes(context.Background(), Options{URL: os.Getenv(envURL), Schema: "t" + hex.EncodeToString(sum[:8])}, nil)
	},
	Durable: true,
}

// TA-66
func TestTapes(t *testing.T) {
	need(t)
	tapetest.Run(t, factory)
}

// tapesOf opens a store of tapes in a schema of its own, and closes it when the test ends.
func tapesOf(tb testing.TB, o Options, observer tape.Observer) *tapes {
	tb.Helper()
	if o.URL == "" {
		o.URL = need(tb).URL()
	}
	if o.Schema == "" {
		o.Schema = newSchema()
	}
	s, err := openTapes(tb.Context(), o, observer)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
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

// indexed waits until all that can be indexed of a tape is.
func indexed(tb testing.TB, s *tapes, name string) store.Indexed {
	tb.Helper()
	l, err := s.e.Log(tb.Context(), store.LogOptions{Space: tapelogs.Space})
	if err != nil {
		tb.Fatal(err)
	}
	for {
		x, err := l.(store.Terms).Indexed(tb.Context(), name, 0)
		if err != nil {
			tb.Fatal(err)
		}
		if s.Indexed() {
			return x
		}
		step(tb)
	}
}
