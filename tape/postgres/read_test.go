package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// TA-20: what a read holds is bounded in bytes, whatever the entries are, and between two pieces it has neither a connection nor a
// transaction, which would keep the database from tidying up.
func TestAReadHoldsLittle(t *testing.T) {
	s := open(t, Options{Connections: 2})
	create(t, s, "a")
	large := strings.Repeat("x", 700<<10)
	for i := range 12 {
		e := []tape.Entry{tape.NewMessage("user", fmt.Sprint(i)), tape.NewMessage("user", large)}
		if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: e}); err != nil {
			t.Fatal(err)
		}
	}
	s.indexer.rest() // it has a connection, too
	row, err := s.load(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, newest := range []bool{false, true} {
		src := s.source(t.Context(), row, tape.Query{})
		chunk, size, err := src.chunk(nil, 0, row.info.LastID+1, newest, chunkMost)
		if err != nil || size > chunkBytes+len(large)+1000 || len(chunk) < 2 || len(chunk) == 25 {
			t.Errorf("newest=%v: a piece has %d entries and %d bytes, %v", newest, len(chunk), size, err)
		}
		n := 0
		for e, err := range s.Read(t.Context(), "a", tape.Query{Newest: newest}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%5 != 0 {
				continue
			}
			// The store's probe has one for a moment; what a read holds, it would hold until its next entry is asked for.
			for end := time.Now().Add(10 * time.Second); s.db.Pool.Stat().AcquiredConns() != 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("at %d, a connection is in use", e.ID)
				}
			}
			var busy int
			if err := s.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state LIKE 'idle in transaction%' AND datname = current_database()`).Scan(&busy); err != nil || busy != 0 {
				t.Errorf("%d transactions are open, %v", busy, err)
			}
		}
		if n != 25 {
			t.Errorf("newest=%v: %d entries", newest, n)
		}
	}
}

// TA-08: a page of sessions is found by an index, whatever is asked for, and in order.
func TestSessionsAreListedByAnIndex(t *testing.T) {
	s := open(t, Options{})
	if _, err := s.db.Pool.Exec(t.Context(), `INSERT INTO tapes (name, listed, session, workspace, title, created, updated, entries, last_id, anchors, anchor_id, anchor_name, anchor_date, bytes)
		SELECT 't' || i, true, 'user' || i % 500 || '#' || i, '/srv/' || i % 3, '', '2026-03-01', timestamptz '2026-03-01' + i % 1000 * interval '1 second', 1, 1, 0, 0, '', '0001-01-01', 1
		FROM generate_series(1, 20000) i`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Pool.Exec(t.Context(), `ANALYZE tapes`); err != nil {
		t.Fatal(err)
	}
	all, err := collect(s.Sessions(t.Context(), tape.SessionQuery{}))
	if err != nil || len(all) != 20_000 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	for _, q := range []tape.SessionQuery{
		{Limit: 50},
		{Workspace: "/srv/1", Limit: 50},
		{Workspace: "/srv/1", Prefix: "user7#", Limit: 50},
		{Workspace: "/srv/1", Prefix: "user7#", After: all[9000].Cursor(), Limit: 5},
		{Workspace: "/srv/1", Prefix: "user7#10", Limit: 50},
		{Workspace: "/srv/1", Prefix: "user7", Limit: 50},
		{Workspace: "/srv/2", After: all[9000].Cursor(), Limit: 10},
		{Prefix: "user49", Limit: 7},
		{After: all[19_990].Cursor()},
	} {
		want, err := collect(tape.Page(all, q))
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(s.Sessions(t.Context(), q))
		if err != nil || fmt.Sprint(names(got)) != fmt.Sprint(names(want)) {
			t.Errorf("%+v: %v, %v, want %v", q, names(got), err, names(want))
		}
	}
	for where, index := range map[string]string{
		`listed`: "tapes_updated",
		`listed AND place = '/srv/1' AND workspace = '/srv/1'`:                                   "tapes_place_updated",
		`listed AND place = '/srv/1' AND workspace = '/srv/1' AND ` + groupColumn + ` = 'user7'`: "tapes_place_group",
	} {
		lines, err := s.db.Pool.Query(t.Context(), `EXPLAIN SELECT name FROM tapes WHERE `+where+` ORDER BY updated DESC, name LIMIT 50`)
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for lines.Next() {
			var line string
			if err := lines.Scan(&line); err != nil {
				t.Fatal(err)
			}
			plan.WriteString(line + "\n")
		}
		if !strings.Contains(plan.String(), index) {
			t.Errorf("%s is not found by %s:\n%s", where, index, plan.String())
		}
	}
}

// DO-03: a page reads no more sessions than it shows, also while the server has no statistics, as after a restore or an upgrade.
func TestDO_03APageReadsFewSessionsThoughNothingIsAnalyzed(t *testing.T) {
	s := open(t, Options{Connections: 1}) // which counts what it reads
	for _, sql := range []string{
		`ALTER TABLE tapes SET (autovacuum_enabled = off)`,
		`INSERT INTO tapes (name, listed, session, workspace, title, created, updated, entries, last_id, anchors, anchor_id, anchor_name, anchor_date, bytes)
		SELECT 't' || i, true, 'web:user' || i % 10 || '#' || i, '/srv', '', '2026-03-01', timestamptz '2026-03-01' + i * interval '1 second', 1, 1, 0, 0, '', '0001-01-01', 1
		FROM generate_series(1, 20000) i`,
	} {
		if _, err := s.db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (n int) {
		if _, err := s.db.Pool.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Pool.QueryRow(t.Context(), `SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = $1 AND relname = 'tapes'`, s.db.Schema).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	middle := tape.Info{Tape: "t", Updated: time.Date(2026, 3, 1, 0, 0, 10_000, 0, time.UTC)}.Cursor()
	for _, q := range []tape.SessionQuery{
		{},
		{After: middle},
		{Workspace: "/srv"},
		{Workspace: "/srv", After: middle},
		{Workspace: "/srv", Prefix: "web:user7#"},
		{Workspace: "/srv", Prefix: "web:user7#", After: middle},
	} {
		q.Limit = 100
		before := read()
		page, err := collect(s.Sessions(t.Context(), q))
		if n := read() - before; err != nil || len(page) != 100 || n > 110 {
			t.Errorf("%+v: a page of %d reads %d sessions, %v", q, len(page), n, err)
		}
	}
}

func names(infos []tape.Info) (all []string) {
	for _, i := range infos {
		all = append(all, i.Tape)
	}
	return all
}

// What comes from foreign exports goes into columns that do not take everything.
func TestOddTextsOfSessionsAreKept(t *testing.T) {
	s := open(t, Options{})
	long := strings.Repeat("/very/long", 500)
	odd := "nul \x00, backslash \\, broken \xff"
	e := tape.NewMessage("user", "title with \x00 nul").With(tape.Meta{})
	b := tape.Batch{Create: true, Session: odd, Workspace: long, Entries: []tape.Entry{tape.NewAnchor(`a\b`+"\x00", nil), e, {Kind: "k\x00\\", Payload: []byte(`{"a":"\u0000"}`)}}}
	if _, err := s.Append(t.Context(), "a", b); err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), "a")
	if err != nil || info.Session != odd || info.Workspace != long || info.Title != "title with \x00 nul" || info.LastAnchor.Name != `a\b`+"\x00" {
		t.Errorf("info is %+v, %v", info, err)
	}
	if got := mustRead(t, s, "a", tape.Query{Kinds: []tape.Kind{"k\x00\\"}}); len(got) != 1 || string(got[0].Payload) != `{"a":"\u0000"}` || got[0].Kind != "k\x00\\" {
		t.Errorf("of that kind there is %v", got)
	}
	if got := mustRead(t, s, "a", tape.Query{FromAnchor: `a\b` + "\x00"}); len(got) != 3 {
		t.Errorf("from the anchor on there are %d entries", len(got))
	}
	for _, q := range []tape.SessionQuery{{Workspace: long}, {Prefix: "nul \x00, back"}, {Prefix: odd, Workspace: long}} {
		if got, err := collect(s.Sessions(t.Context(), q)); err != nil || len(got) != 1 {
			t.Errorf("%+v finds %d, %v", q, len(got), err)
		}
	}
}

// counter is an observer that adds up.
type counter struct {
	entries, refused int
	bytes            int64
}

func (c *counter) Appended(entries int, bytes int64, err error) {
	if err != nil {
		c.refused++
		return
	}
	c.entries += entries
	c.bytes += bytes
}

func (c *counter) Synced(time.Duration, error) { panic("the disk is the database's") }

func TestAnObserverIsToldWhatIsAppended(t *testing.T) {
	var c counter
	s := open(t, Options{Observer: &c})
	create(t, s, "a", tape.NewMessage("user", "hi"))
	if _, err := s.Append(t.Context(), "b", tape.Batch{Entries: batchOf(0, 0)}); err == nil {
		t.Error("a tape that is not there took a batch")
	}
	info, err := s.Info(t.Context(), "a")
	if err != nil || c.entries != 2 || c.refused != 1 || c.bytes != info.Bytes {
		t.Errorf("told of %+v, %v, and the tape has %d bytes", c, err, info.Bytes)
	}
}

// A store that closes ends what waits for it, and what is asked of it later.
func TestClosingEndsThoseWhoWait(t *testing.T) {
	one, two := open(t, Options{}), open(t, Options{})
	l := must(t, one, "a")
	defer l.Release()
	ended := make(chan error, 1)
	go func() {
		_, err := two.Lease(context.WithoutCancel(t.Context()), "a", true)
		ended <- err
	}()
	for { // until it waits
		two.keeper.mu.Lock()
		n := len(two.keeper.waits)
		two.keeper.mu.Unlock()
		if n > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, tape.ErrClosed) {
		t.Errorf("whoever waited got %v", err)
	}
}
