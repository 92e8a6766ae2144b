package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
	tapelogs "github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// envURL names the server for child processes that append to tapes.
const envURL = "POSTGRES_TEST_URL"

// tapes is a store of tapes on an engine of its own, as a server has it.
type tapes struct {
	*tapelogs.Store
	e       *Engine
	members *replicas.Members
}

func openTapes(ctx context.Context, o Options) (*tapes, error) {
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
	s.Store, err = tapelogs.Open(ctx, e, tapelogs.Options{
		Durability: store.Synced, Leases: leases, Replica: s.members.ID(), Away: e.Away, Log: o.Log,
	})
	if err != nil {
		_ = e.Close()
	}
	return s, err
}

func (s *tapes) Close() error {
	err := s.Store.Close()
	return errors.Join(err, s.members.Close(), s.e.Close())
}

var factory = tapetest.Factory{
	Open: func(dir string) (tape.Store, error) {
		sum := sha256.Sum256([]byte(dir))
		return openTapes(context.Background(), Options{URL: os.Getenv(envURL), Schema: "t" + hex.EncodeToString(sum[:8])})
	},
	Durable: true,
}

// TA-66
func TestTapes(t *testing.T) {
	need(t)
	tapetest.Run(t, factory)
}

// tapesOf opens a store of tapes in a schema of its own, and closes it when the test ends.
func tapesOf(tb testing.TB, o Options) *tapes {
	tb.Helper()
	if o.URL == "" {
		o.URL = need(tb).URL()
	}
	if o.Schema == "" {
		o.Schema = newSchema()
	}
	s, err := openTapes(tb.Context(), o)
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

// CL-10, DC-12: while the database is away calls fail soon, with a code that says to come back, and when it is back they work.
func TestTapesWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	need(t)
	server, err := postgrestest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	s := tapesOf(t, Options{URL: strings.Replace(server.URL(), "lingserve@", "lingserve:s3cretword@", 1), patience: 50 * time.Millisecond})
	create(t, s, "a")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for !s.Away() { // no call has told it
		step(t)
	}
	message := tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", "hi")}}
	calls := map[string]func() error{
		"append":   func() error { _, err := s.Append(t.Context(), "a", message); return err },
		"read":     func() error { _, err := collect(s.Read(t.Context(), "a", tape.Query{})); return err },
		"info":     func() error { _, err := s.Info(t.Context(), "a"); return err },
		"sessions": func() error { _, err := collect(s.Sessions(t.Context(), tape.SessionQuery{})); return err },
		"lease":    func() error { _, err := s.Lease(t.Context(), "a", true); return err },
		"blob":     func() error { _, err := s.PutBlob(t.Context(), "a", nil); return err },
		"delete":   func() error { return s.Delete(t.Context(), "b") },
		"import": func() error {
			return tape.Import(t.Context(), s, "/w", "s", strings.NewReader(`{"kind":"x","payload":{}}`))
		},
	}
	for what, call := range calls {
		began := time.Now()
		err := call()
		var coded interface{ ErrorCode() string }
		if !errors.As(err, &coded) || coded.ErrorCode() != "overloaded" || !errors.Is(err, tape.ErrAway) || errors.Is(err, tape.ErrUnsure) || tape.Refused(err) {
			t.Errorf("%s: %v does not say that the store is away", what, err)
		}
		for _, secret := range []string{"s3cretword", "SELECT", "INSERT", "127.0.0.1", ".s.PGSQL", "SQLSTATE"} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %q is in %v", what, secret, err)
			}
		}
		longtest.Within(t, what, time.Since(began), 5*time.Second)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	for s.Away() {
		step(t)
	}
	for what, call := range calls {
		if what == "lease" || what == "import" {
			continue // nothing is given back
		}
		if err := call(); err != nil {
			t.Errorf("%s, when it is back: %v", what, err)
		}
	}
}

// TA-10, TA-12: the server is killed in the middle of appends and started again. Nothing that was acknowledged is missing, nothing is there
// in part or twice, and a writer who waits for the server's return sees no error.
func TestAKilledServerLosesAndDoublesNoTape(t *testing.T) {
	t.Parallel()
	need(t)
	server, err := postgrestest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	s := tapesOf(t, Options{URL: server.URL(), patience: time.Minute, wait: time.Minute}) // of a slow machine
	create(t, s, "a")
	const writers = 4
	var written [writers]int
	var wg sync.WaitGroup
	stop, progress := make(chan struct{}), make(chan struct{}, 1)
	for by := range writers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				var batch tape.Batch
				for part := range 3 {
					batch.Entries = append(batch.Entries, tape.NewEvent("batch", [3]int{by, n, part}))
				}
				if _, err := s.Append(t.Context(), "a", batch); err != nil {
					t.Errorf("writer %d, batch %d: %v", by, n, err)
					return
				}
				written[by]++
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	for round := range longtest.Times(2, 10) {
		for range 10 + 7*round {
			<-progress
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		<-progress
	}
	close(stop)
	wg.Wait()
	var counts [writers]int
	var last [3]int
	for i, e := range mustRead(t, s, "a", tape.Query{}) {
		var p struct{ Data [3]int }
		if e.ID != int64(i+1) || json.Unmarshal(e.Payload, &p) != nil {
			t.Fatalf("entry %d has id %d: %s", i+1, e.ID, e.Payload)
		}
		switch {
		case e.Kind != tape.KindEvent:
			continue
		case p.Data[2] == 0 && p.Data[1] == counts[p.Data[0]]:
			counts[p.Data[0]]++
		case p.Data != [3]int{last[0], last[1], last[2] + 1}:
			t.Fatalf("entry %d is part %v behind %v", e.ID, p.Data, last)
		}
		last = p.Data
	}
	if counts != written {
		t.Errorf("there are %v batches, and %v were acknowledged", counts, written)
	}
}
