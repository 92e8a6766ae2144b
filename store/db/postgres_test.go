//go:build nightly

package db

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

func init() {
	childFactory.Open = func(dir string) (tape.Store, error) {
		url, err := os.ReadFile(urlFile(dir))
		if err != nil {
			return openShared(dir)
		}
		return openPostgres(dir, string(url))
	}
}

// urlFile is where a test on PostgreSQL leaves the address for its child processes.
func urlFile(dir string) string { return filepath.Join(dir, "postgres") }

// leasesOf has the *tape.Leases of the stores of a folder, as if a cluster had them.
var leasesOf sync.Map

func openPostgres(dir, url string) (tape.Store, error) {
	sum := sha256.Sum256([]byte(dir))
	db, err := openSchema(url, "t"+hex.EncodeToString(sum[:8]), longTime)
	if err != nil {
		return nil, err
	}
	leases, _ := leasesOf.LoadOrStore(dir, new(tape.Leases))
	return &ownTapes{db.SharedTapes(leases.(*tape.Leases), nil)}, nil
}

// openSchema opens a database whose tables are in a schema of a server.
func openSchema(url, schema string, callTime time.Duration) (*DB, error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema)
	if err = errors.Join(err, conn.Close(ctx)); err != nil && !strings.Contains(err.Error(), "23505") { // two at once
		return nil, err
	}
	return Open(ctx, url+"&pool_max_conns=3&search_path="+schema, &Options{callTime: callTime})
}

// longTime is the callTime of tests that do not wait for it to pass.
const longTime = time.Minute

func openServer(t testing.TB, url string, callTime time.Duration) *DB {
	t.Helper()
	db, err := openSchema(url, "test", callTime)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestPostgres(t *testing.T) {
	url := postgrestest.Run(t).URL()
	tapetest.Run(t, tapetest.Factory{Durable: true, Open: func(dir string) (tape.Store, error) {
		if err := os.WriteFile(urlFile(dir), []byte(url), 0o600); err != nil {
			return nil, err
		}
		return openPostgres(dir, url)
	}})
}

func TestGroupsOnPostgres(t *testing.T) {
	url := postgrestest.Run(t).URL()
	schemas := 0
	for name, test := range groups {
		t.Run(name, func(t *testing.T) {
			test(t, func(t testing.TB, clock func() time.Time) *DB {
				t.Helper()
				schemas++
				db, err := Open(t.Context(), fmt.Sprintf("%s&search_path=group%d", url, schemas), &Options{Clock: clock, Log: slog.New(slog.DiscardHandler), callTime: longTime})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				return db
			})
		})
	}
}

// ST-06
func TestCommitWhoseAnswerIsLostHappensOnce(t *testing.T) {
	server := postgrestest.Run(t)
	proxy := postgrestest.NewProxy(t, server.Socket())
	db := openServer(t, proxy.URL(), longTime)
	s := db.Tapes(nil)
	create(t, s, "a")
	want := int64(1)
	for name, cut := range map[string]func(from, to net.Conn, sent []byte){
		"not sent": postgrestest.NotSent, "half sent": postgrestest.HalfSent, "not answered": postgrestest.NotAnswered,
	} {
		for _, word := range []string{"COMMIT\x00", "INSERT INTO entries", "UPDATE sessions", "BEGIN"} {
			pending := proxy.At(word, cut)
			first, err := s.Append(t.Context(), "a", say(name, word))
			if want += 2; err != nil || first != want-1 || pending() {
				t.Fatalf("%s, %q: id %d, %v, want %d; pending %v", name, word, first, err, want-1, pending())
			}
		}
	}
	if in, err := s.Info(t.Context(), "a"); err != nil || in.Entries != want || in.LastID != want {
		t.Errorf("%+v, %v, want %d entries", in, err, want)
	}
}

// ST-07
func TestCallsFailSoonWhileThePostgresServerIsAway(t *testing.T) {
	server, err := postgrestest.Start("fsync=off")
	if errors.Is(err, postgrestest.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	db := openServer(t, server.URL(), callTime)
	s := db.Tapes(nil)
	create(t, s, "a", "hi")
	calls := map[string]func() error{
		"append": func() error { _, err := s.Append(t.Context(), "a", say("hi")); return err },
		"read": func() error {
			for _, err := range s.Read(t.Context(), "a", tape.Query{}) {
				return err
			}
			return nil
		},
		"info":   func() error { _, err := s.Info(t.Context(), "a"); return err },
		"blob":   func() error { _, err := s.PutBlob(t.Context(), "a", nil); return err },
		"delete": func() error { return s.Delete(t.Context(), "b") },
	}
	for state, stop := range map[string]func() error{"killed": server.Kill, "paused": server.Pause} {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for what, call := range calls {
			began := time.Now()
			err := call()
			var coded interface{ ErrorCode() string }
			if !errors.As(err, &coded) || coded.ErrorCode() != "overloaded" || !errors.Is(err, tape.ErrAway) || !errors.Is(err, store.ErrAway) || tape.Refused(err) {
				t.Errorf("%s, %s: %v", state, what, err)
			}
			for _, secret := range []string{"SELECT", "INSERT", ".s.PGSQL", "SQLSTATE"} {
				if strings.Contains(fmt.Sprint(err), secret) {
					t.Errorf("%s, %s: %q is in %v", state, what, secret, err)
				}
			}
			longtest.Within(t, state+", "+what, time.Since(began), 5*time.Second)
		}
		if state == "paused" {
			err = server.Resume()
		} else {
			err = server.Restart()
		}
		if err != nil {
			t.Fatal(err)
		}
		for what, call := range calls {
			longtest.Wait(t, what, func() bool { return call() == nil })
		}
	}
}

func BenchmarkAppendPostgres(b *testing.B) {
	benchmarkAppend(b, openServer(b, postgrestest.Run(b).URL(), longTime).Tapes(nil))
}

func BenchmarkAppendAtOncePostgres(b *testing.B) {
	benchmarkAppendAtOnce(b, openServer(b, postgrestest.Run(b).URL(), longTime).Tapes(nil))
}

func BenchmarkPageOfSessionsPostgres(b *testing.B) {
	db := openServer(b, postgrestest.Run(b).URL(), longTime)
	tapetest.BenchmarkPages(b, db.Tapes(nil), func() { analyze(b, db, "sessions") })
}

func BenchmarkAppendRunsPostgres(b *testing.B) {
	benchmarkAppendRuns(b, openServer(b, postgrestest.Run(b).URL(), longTime))
}

func BenchmarkPageOfRunsPostgres(b *testing.B) {
	benchmarkPageOfRuns(b, openServer(b, postgrestest.Run(b).URL(), longTime))
}
