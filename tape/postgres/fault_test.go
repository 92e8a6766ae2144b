package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

// batchOf is batch n of a writer, in three parts.
func batchOf(by, n int) []tape.Entry {
	entries := make([]tape.Entry, 3)
	for part := range entries {
		entries[part] = tape.NewEvent("batch", [3]int{by, n, part})
	}
	return entries
}

// whole counts the batches of each writer, and sees that each is there once, with its parts in order and next to each other.
func whole(t *testing.T, entries []tape.Entry) map[int]int {
	t.Helper()
	counts := map[int]int{}
	var last [3]int
	for i, e := range entries {
		if e.ID != int64(i+1) {
			t.Fatalf("entry %d has id %d", i+1, e.ID)
		}
		if e.Kind != tape.KindEvent {
			continue
		}
		var p struct{ Data [3]int }
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			t.Fatal(err)
		}
		if p.Data[2] == 0 {
			if p.Data[1] != counts[p.Data[0]] {
				t.Fatalf("entry %d begins batch %d of writer %d, want %d", e.ID, p.Data[1], p.Data[0], counts[p.Data[0]])
			}
			counts[p.Data[0]]++
		} else if want := [3]int{last[0], last[1], last[2] + 1}; p.Data != want {
			t.Fatalf("entry %d is part %v, want %v", e.ID, p.Data, want)
		}
		last = p.Data
	}
	if last[2] != 2 && len(counts) > 0 {
		t.Fatalf("the last batch is there in part: %v", last)
	}
	return counts
}

// TA-10, TA-12: the server is killed in the middle of appends and started again. Nothing that was acknowledged is missing, nothing is there
// in part or twice, and a writer who waits for the server's return sees no error.
func TestAKilledServerLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	server := start(t, "fsync=off")
	var log notes
	s := open(t, Options{URL: server.URL(), Log: log.logger()})
	s.db.Patience = time.Minute // of a slow machine
	create(t, s, "a")
	const writers = 4
	var written [writers]int
	var wg sync.WaitGroup
	stop := make(chan struct{})
	progress := make(chan struct{}, 1)
	for by := range writers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: batchOf(by, n)}); err != nil {
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
	all := mustRead(t, s, "a", tape.Query{})
	for by, n := range whole(t, all) {
		if n != written[by] {
			t.Errorf("of writer %d there are %d batches, and %d were acknowledged", by, n, written[by])
		}
	}
	if said := log.String(); !strings.Contains(said, "PostgreSQL is away") || !strings.Contains(said, "PostgreSQL is back") {
		t.Errorf("the log says %s", said)
	}
	if info, err := s.Info(t.Context(), "a"); err != nil || info.Entries != int64(len(all)) || info.LastID != int64(len(all)) {
		t.Errorf("info is %+v, %v, of %d entries", info, err, len(all))
	}
}

// TA-10: the connection breaks when a batch is committed. What is sent then is the entries and the commit, in one piece.
func TestABatchWhoseCommitIsNotAnsweredIsThereOnce(t *testing.T) {
	cuts := map[string]postgrestest.Cut{
		"before it came":    postgrestest.NotSent,
		"after it was done": postgrestest.NotAnswered,
		"and it came late": func(from, to net.Conn, sent []byte) {
			_ = from.Close()
			sent = bytes.Clone(sent)
			time.Sleep(500 * time.Millisecond) // the server holds the tape's lock meanwhile
			_, _ = to.Write(sent)
			time.Sleep(100 * time.Millisecond)
		},
		"with half of it there": postgrestest.HalfSent,
	}
	url(t)
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			w := postgrestest.NewProxy(t, filepath.Join(socketFolder(t), ".s.PGSQL.5432"))
			var log notes
			s := open(t, Options{URL: w.URL(), Log: log.logger()})
			word := "cut-here"
			e := func(n int) []tape.Entry {
				return []tape.Entry{tape.NewEvent("x", fmt.Sprint(word, " ", n)), tape.NewMessage("user", "rest")} // no title has the word
			}
			pending := w.At(word, cut)
			// The first makes the tape: its row is nowhere to be seen until the commit.
			if first, err := s.Append(t.Context(), "a", tape.Batch{Create: true, Entries: e(0)}); first != 1 || err != nil {
				t.Fatalf("a batch that makes the tape: %d, %v", first, err)
			}
			for n := 1; n < 4; n++ {
				pending = w.At(word, cut)
				if first, err := s.Append(t.Context(), "a", tape.Batch{Entries: e(n)}); first != int64(1+2*n) || err != nil {
					t.Fatalf("batch %d: %d, %v", n, first, err)
				}
			}
			all := mustRead(t, s, "a", tape.Query{})
			if len(all) != 8 {
				t.Errorf("there are %d entries, want 8", len(all))
			}
			for i, e := range all {
				if e.ID != int64(i+1) || i%2 == 0 && !strings.Contains(string(e.Payload), fmt.Sprint(word, " ", i/2)) {
					t.Errorf("entry %d is %d: %s", i+1, e.ID, e.Payload)
				}
			}
			if info, err := s.Info(t.Context(), "a"); err != nil || info.Entries != 8 {
				t.Errorf("info is %+v, %v", info, err)
			}
			if pending() {
				t.Error("nothing was cut")
			}
		})
	}
}

// socketFolder is where the server of all tests listens.
func socketFolder(t *testing.T) string {
	_, folder, ok := strings.Cut(url(t), "?host=")
	if !ok {
		t.Fatal("the address names no folder")
	}
	return folder
}

// A read goes on where the connection broke, and a lease is taken once.
func TestWhatCanBeDoneTwiceOutlivesABrokenConnection(t *testing.T) {
	w := postgrestest.NewProxy(t, filepath.Join(socketFolder(t), ".s.PGSQL.5432"))
	s := open(t, Options{URL: w.URL()})
	var entries []tape.Entry
	for i := range 1000 {
		entries = append(entries, tape.NewMessage("user", fmt.Sprint(i)))
	}
	create(t, s, "a", entries...)
	broken := 0
	breaks := func() {
		w.Break()
		broken++
	}
	n := 0
	for _, err := range s.Read(t.Context(), "a", tape.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%150 == 0 {
			breaks()
		}
	}
	if n != 1001 || broken < 6 {
		t.Errorf("%d entries were read over %d breaks", n, broken)
	}
	breaks()
	l, err := s.Lease(t.Context(), "a", false)
	if err != nil {
		t.Fatal(err)
	}
	breaks()
	l.Release()
	breaks()
	if _, err := s.PutBlob(t.Context(), "a", []byte("x")); err != nil {
		t.Error(err)
	}
	breaks()
	if err := tape.Import(t.Context(), s, "/w", "s", strings.NewReader(`{"kind":"x","payload":{}}`)); err != nil {
		t.Error(err)
	}
	breaks()
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if _, err := s.Lease(t.Context(), "a", false); err != nil {
		t.Error(err)
	}
}

// coded is an error that knows its code.
type coded interface {
	error
	ErrorCode() string
}

// overloaded fails unless err says that it may be better later, in words that everybody may read.
func overloaded(t *testing.T, what string, err error) {
	t.Helper()
	c, ok := errors.AsType[coded](err)
	if !ok || c.ErrorCode() != "overloaded" {
		t.Errorf("%s: %v, want the code overloaded", what, err)
		return
	}
	for _, secret := range []string{"s3cretword", "SELECT", "INSERT", "127.0.0.1", ".s.PGSQL", "SQLSTATE"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %q is in %v", what, secret, err)
		}
	}
	if tape.Refused(err) {
		t.Errorf("%s: %v is taken for the caller's mistake", what, err)
	}
}

// CL-10: while the database is away calls fail soon, with a code that says to come back, and when it is back they work.
func TestADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	server := start(t, "fsync=off")
	var log notes
	s := open(t, Options{URL: strings.Replace(server.URL(), "lingserve@", "lingserve:s3cretword@", 1), Log: log.logger()})
	create(t, s, "a")
	s.indexer.rest()
	s.db.Patience = 100 * time.Millisecond
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"append": func() error {
			_, err := s.Append(t.Context(), "a", tape.Batch{Entries: batchOf(0, 0)})
			return err
		},
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
		overloaded(t, what, err)
		if !errors.Is(err, tape.ErrAway) || errors.Is(err, tape.ErrUnsure) {
			t.Errorf("%s: %v does not say that the store is away", what, err)
		}
		longtest.Within(t, what, time.Since(began), 5*time.Second)
	}
	// Whoever has no time to wait is told that, and not that the database is away.
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := s.Info(ctx, "a"); !errors.Is(err, enough) {
		t.Errorf("a call of somebody who has gone: %v", err)
	}
	if n := strings.Count(log.String(), "PostgreSQL is away"); n != 1 || strings.Contains(log.String(), "s3cretword") {
		t.Errorf("the log says %d times that the database is away: %s", n, log.String())
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	s.db.Patience = time.Minute // connections that broke are found out one by one, and a busy machine takes its time
	for what, call := range calls {
		if what == "lease" || what == "blob" || what == "import" {
			continue // after the rest
		}
		if err := call(); err != nil {
			t.Errorf("%s, when it is back: %v", what, err)
		}
	}
	if n := strings.Count(log.String(), "PostgreSQL is back"); n != 1 {
		t.Errorf("the log says %d times that it is back: %s", n, log.String())
	}
	if _, err := Open(t.Context(), Options{URL: "postgres://u:s3cretword@127.0.0.1:1/x?connect_timeout=1", patience: 50 * time.Millisecond}); err == nil || strings.Contains(err.Error(), "s3cretword") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("an address where nobody listens: %v", err)
	}
}

// DC-12: a database that has been away for longer than calls wait makes them fail at once, and is found again without a call.
func TestCallsFailAtOnceWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	server := start(t, "fsync=off")
	s := open(t, Options{URL: server.URL(), patience: 50 * time.Millisecond})
	create(t, s, "a")
	if s.Away() {
		t.Error("it is away at the beginning")
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	await := func(away bool) {
		for s.Away() != away {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-t.Context().Done():
				t.Fatalf("away: %t", !away)
			}
		}
	}
	await(true) // no call has told it
	for what, call := range map[string]func() error{
		"append": func() error {
			_, err := s.Append(t.Context(), "a", tape.Batch{Entries: batchOf(0, 0)})
			return err
		},
		"info":  func() error { _, err := s.Info(t.Context(), "a"); return err },
		"lease": func() error { _, err := s.Lease(t.Context(), "a", true); return err },
	} {
		if err := call(); !errors.Is(err, tape.ErrAway) || !errors.Is(err, database.ErrNotTried) {
			t.Errorf("%s: %v; expected an error without a try", what, err)
		}
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	await(false)
}

// All connections are in use: who comes then waits for one, and not for ever.
func TestAPoolThatIsExhausted(t *testing.T) {
	s := open(t, Options{Connections: 2})
	create(t, s, "a")
	s.indexer.rest()
	s.db.Acquire = 50 * time.Millisecond
	var held []*pgxpool.Conn
	for range 2 {
		c, err := s.db.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	_, err := s.Append(t.Context(), "a", tape.Batch{Entries: batchOf(0, 0)})
	overloaded(t, "append", err)
	_, err = s.Info(t.Context(), "a")
	overloaded(t, "info", err)
	s.db.Acquire = time.Minute // on a busy machine, too
	held[0].Release()
	if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: batchOf(0, 0)}); err != nil {
		t.Errorf("with a connection: %v", err)
	}
	held[1].Release()

	// As many readers as like hold none: each writes before it reads on.
	var entries []tape.Entry
	for i := range 600 {
		entries = append(entries, tape.NewMessage("user", fmt.Sprint(i)))
	}
	create(t, s, "b", entries...)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			n := 0
			for _, err := range s.Read(t.Context(), "b", tape.Query{Before: 602}) {
				if n++; err == nil && n%200 == 0 {
					_, err = s.Append(t.Context(), "a", tape.Batch{Entries: batchOf(9, 9)})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
			if n != 601 {
				t.Errorf("%d entries", n)
			}
		})
	}
	wg.Wait()
}

// TA-12: what the database refuses leaves the tape as it was, and the next append gets the ids that the refused one would have had.
func TestADatabaseThatRefuses(t *testing.T) {
	s := open(t, Options{})
	create(t, s, "a")
	if _, err := s.db.Pool.Exec(t.Context(), `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'the row is %', NEW.payload USING ERRCODE = TG_ARGV[0]; END $$`); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]string{"53100": textFull, "57014": textBusy, "55P03": textBusy, "40001": "", "XX000": "SQLSTATE XX000"} {
		if _, err := s.db.Pool.Exec(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON entries FOR EACH ROW WHEN (NEW.payload LIKE '%s3cretword%') EXECUTE FUNCTION refuse('`+state+`')`); err != nil {
			t.Fatal(err)
		}
		wait := time.Minute
		if state == "40001" {
			wait = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := s.Append(ctx, "a", tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", "fine"), tape.NewMessage("user", "s3cretword")}})
		cancel()
		switch {
		case err == nil:
			t.Errorf("%s: it was taken", state)
		case state == "40001": // which is tried again as long as somebody waits
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", state, err)
			}
		case state == "XX000":
			if strings.Contains(err.Error(), "s3cretword") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", state, err)
			}
		default:
			overloaded(t, state, err)
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", state, err)
			}
		}
		if _, err := s.db.Pool.Exec(t.Context(), `DROP TRIGGER refuse ON entries`); err != nil {
			t.Fatal(err)
		}
	}
	if first, err := s.Append(t.Context(), "a", tape.Batch{Entries: batchOf(0, 0)}); first != 2 || err != nil {
		t.Errorf("the next append: %d, %v, want 2", first, err)
	}
	if all := mustRead(t, s, "a", tape.Query{}); len(all) != 4 {
		t.Errorf("%d entries", len(all))
	}
}
