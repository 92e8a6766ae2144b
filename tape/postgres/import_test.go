package postgres

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/tape"
)

// numbered yields entries 1 to n, and calls at before each.
func numbered(n int, at func(i int) error) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		for i := 1; i <= n; i++ {
			e := tape.NewMessage("user", fmt.Sprint("number ", i, strings.Repeat(" word", 20)))
			e.ID = int64(i)
			if !yield(e, at(i)) {
				return
			}
		}
	}
}

func rows(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	if err := s.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TA-40: nobody sees an import before it is whole, it holds no connection meanwhile, and one that fails leaves nothing.
func TestAnImportIsSeenAsAWhole(t *testing.T) {
	s := open(t, Options{Connections: 2})
	const entries = 5000 // written in several pieces
	if err := s.Import(t.Context(), "a", "s", "/w", numbered(entries, func(i int) error {
		if i%1000 != 0 {
			return nil
		}
		if _, err := s.Info(t.Context(), "a"); !errors.Is(err, tape.ErrNotFound) {
			t.Errorf("at %d the tape is there: %v", i, err)
		}
		if listed, err := collect(s.Sessions(t.Context(), tape.SessionQuery{})); err != nil || len(listed) != 0 {
			t.Errorf("at %d, %v are listed, %v", i, listed, err)
		}
		if n := s.db.Pool.Stat().AcquiredConns(); n != 0 {
			t.Errorf("at %d, %d connections are in use", i, n)
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	if info, err := s.Info(t.Context(), "a"); err != nil || info.Entries != entries || info.Session != "s" || info.LastID != entries {
		t.Errorf("info is %+v, %v", info, err)
	}
	s.indexer.rest()
	before := rows(t, s, "entries")

	bang := errors.New("bang")
	if err := s.Import(t.Context(), "b", "s", "/w", numbered(entries, func(i int) error {
		if i == entries-1 {
			return bang
		}
		return nil
	})); !errors.Is(err, bang) {
		t.Errorf("an import that fails: %v", err)
	}
	if err := s.Import(t.Context(), "b", "s", "/w", numbered(entries, func(i int) error {
		if i == entries-1 {
			create(t, s, "b")
		}
		return nil
	})); !errors.Is(err, tape.ErrNotEmpty) {
		t.Errorf("of a tape that was made meanwhile: %v", err)
	}
	if n := rows(t, s, "entries"); n != before+1 {
		t.Errorf("%d entries are left of imports that failed", n-before-1)
	}
	if n := rows(t, s, "tapes"); n != 2 {
		t.Errorf("there are %d tapes, want 2", n)
	}

	// What a process left behind that has died is swept away by a later import.
	if _, err := s.db.Pool.Exec(t.Context(), `WITH t AS (INSERT INTO tapes (name, listed, touched, `+infoColumns+`)
		SELECT '~left', false, now() - interval '2 hours', `+infoColumns+` FROM tapes WHERE name = 'b' RETURNING id)
		INSERT INTO entries (tape, id, date, kind, payload, meta) SELECT id, 1, now(), 'x', '{}', '' FROM t`); err != nil {
		t.Fatal(err)
	}
	if err := s.Import(t.Context(), "c", "s", "/w", numbered(1, func(int) error { return nil })); err != nil {
		t.Fatal(err)
	}
	if n := rows(t, s, "tapes"); n != 3 {
		t.Errorf("there are %d tapes, want 3", n)
	}
	if n := rows(t, s, "entries"); n != before+2 {
		t.Errorf("%d entries too many", n-before-2)
	}
}

// TA-33: sessions are forked by more at once than there are connections.
func TestForkingSessionsDoesNotWaitForItself(t *testing.T) {
	s := open(t, Options{Connections: 2})
	tp, err := tape.Open(t.Context(), s, t.TempDir(), "s")
	if err != nil {
		t.Fatal(err)
	}
	var all []tape.Entry
	for i := range 3000 {
		all = append(all, tape.NewMessage("user", fmt.Sprint(i)))
	}
	if _, err := tp.Append(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			f, err := tp.ForkSession(t.Context(), fmt.Sprint("fork ", i), 0)
			if err != nil {
				t.Error(err)
				return
			}
			if info, err := f.Info(t.Context()); err != nil || info.Entries != 3002 {
				t.Errorf("it has %d entries, %v", info.Entries, err)
			}
		})
	}
	wg.Wait()
}
