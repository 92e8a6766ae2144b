package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
)

func TestLogs(t *testing.T) {
	need(t)
	storetest.Logs(t, storetest.Setup{New: func(testing.TB) storetest.Place { return place{Options{Schema: newSchema()}} }})
}

// Like TestTablesWithoutSettingsStatementsAndNotices.
func TestLogsWithoutSettingsStatementsAndNotices(t *testing.T) {
	need(t)
	storetest.Logs(t, storetest.Setup{New: func(testing.TB) storetest.Place {
		return deaf{place{Options{Schema: newSchema(), Connections: 3, URL: shared.URL() + "&default_query_exec_mode=exec"}}}
	}})
}

// ST-15: an entry that its row does not have is damaged, and those before it are read.
func TestADamagedRow(t *testing.T) {
	l := logs(t, open(t, Options{}), store.LogOptions{})
	add(t, l, "k", store.Batch{Entries: text("1", "2", "3")})
	add(t, l, "k", store.Batch{After: store.Any, Entries: text("4")})
	execute(t, l.e, `UPDATE batches SET data = substring(data FOR 5) WHERE first = 1`)
	for _, newest := range []bool{false, true} {
		var got []string
		for e, err := range l.Read(t.Context(), "k", store.Range{Newest: newest}) {
			got = append(got, fmt.Sprint(e.N, string(e.Data), errors.Is(err, store.ErrDamaged)))
		}
		want := []string{"11false", "22false", "3true", "44false"}
		if newest {
			slices.Reverse(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// checkLogs compares what the row of each log says with its entries.
func checkLogs(tb testing.TB, e *Engine) {
	tb.Helper()
	var wrong string
	err := e.db.Pool.QueryRow(tb.Context(), `SELECT coalesce(string_agg(format('%s has %s entries with %s bytes from %s to %s, and says %s with %s from %s to %s', l.name, r.n, r.size, r.first, r.last,
			l.entries, l.bytes, l.first, l.last), '; '), '')
		FROM logs l, LATERAL (SELECT coalesce(sum(n), 0) AS n, coalesce(sum(size), 0) AS size, min(first) AS first, max(first + n - 1) AS last,
				coalesce(max(first) FILTER (WHERE mark), 0) AS mark FROM batches WHERE log = l.id AND first >= l.first AND part >= l.part_from) r
		WHERE (l.entries, l.bytes, l.last_mark) IS DISTINCT FROM (r.n, r.size, r.mark) OR r.n > 0 AND (l.first, l.last) IS DISTINCT FROM (r.first, r.last)`).Scan(&wrong)
	if err != nil || wrong != "" {
		tb.Errorf("%s, %v", wrong, err)
	}
	err = e.db.Pool.QueryRow(tb.Context(), `SELECT coalesce(string_agg(s.name, ' '), '') FROM spaces s
		WHERE s.bytes IS NOT NULL AND s.bytes <> (SELECT coalesce(sum(bytes), 0) FROM logs WHERE space = s.id)`).Scan(&wrong)
	if err != nil || wrong != "" {
		tb.Errorf("wrong bytes of %s, %v", wrong, err)
	}
}

func readAll(tb testing.TB, l *Log, name string, r store.Range) (got []string) {
	tb.Helper()
	for e, err := range l.Read(tb.Context(), name, r) {
		if err != nil {
			tb.Fatalf("read %s: %v", name, err)
		}
		got = append(got, fmt.Sprint(e.N, ":", string(e.Data)))
	}
	return got
}

func text(data ...string) (entries []store.Entry) {
	for _, d := range data {
		entries = append(entries, store.Entry{Data: []byte(d)})
	}
	return entries
}

// logScript makes changes that depend on each other, each of which must succeed once.
func logScript(t *testing.T, l *Log) {
	first := add(t, l, "a", store.Batch{Entries: text("1", "2"), Head: []byte("h"), Label: "l"})
	second := add(t, l, "a", store.Batch{After: first.Rev, Entries: text("3")})
	third := add(t, l, "a", store.Batch{After: second.Rev, Head: []byte("i")})
	if _, err := tryAdd(t, l, "a", store.Batch{After: second.Rev, Entries: text("no")}); !errors.Is(err, store.ErrMoved) {
		t.Errorf("behind an old revision: %v", err)
	}
	add(t, l, "b", store.Batch{Entries: text("b")})
	last := add(t, l, "a", store.Batch{After: third.Rev, Entries: []store.Entry{{Data: []byte("4"), Mark: true}, {Data: []byte("5")}}})
	if last.Last != 5 || last.LastMark != 4 || last.Entries != 5 || string(last.Head) != "i" || last.Label != "l" {
		t.Errorf("%+v", last)
	}
	if info, err := l.Info(t.Context(), "a"); err != nil || info.Rev != last.Rev || info.Bytes != 5 {
		t.Errorf("%+v, %v", info, err)
	}
	if got := readAll(t, l, "a", store.Range{From: 2}); !slices.Equal(got, []string{"2:2", "3:3", "4:4", "5:5"}) {
		t.Errorf("%q", got)
	}
	if err := l.Trim(t.Context(), "a", 3); err != nil {
		t.Error(err)
	}
	if err := l.Delete(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	if _, err := l.Info(t.Context(), "b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if got := readAll(t, l, "a", store.Range{}); !slices.Equal(got, []string{"3:3", "4:4", "5:5"}) {
		t.Errorf("%q", got)
	}
	if err := l.Sync(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestALogConnectionCutAtEachMessage cuts the N-th message of a store for each N, with the server having got none, half or all of it. Each
// batch is written once, and no caller sees an error (ST-03, ST-05, ST-30).
func TestALogConnectionCutAtEachMessage(t *testing.T) {
	need(t)
	for name, cut := range map[string]postgrestest.Cut{"not sent": postgrestest.NotSent, "half sent": postgrestest.HalfSent, "not answered": postgrestest.NotAnswered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := newSchema()
			well := open(t, Options{Schema: schema}) // its tables are made once
			for at, more := 1, true; more; at++ {
				more = cutAtMessage(t, schema, at, cut, func(e *Engine) {
					logScript(t, logs(t, e, store.LogOptions{Space: fmt.Sprint("s", at), Durability: store.Synced, Indexed: at%2 == 0}))
				})
				if t.Failed() {
					t.Fatalf("message %d", at)
				}
				if !more && at < 14 {
					t.Errorf("there are %d messages alone", at)
				}
			}
			checkLogs(t, well)
		})
	}
}

// ST-05, ST-16: the first batch of a log that was deleted is not written again by an attempt that comes late.
func TestAFirstBatchAfterItsLogWasDeleted(t *testing.T) {
	l := logs(t, open(t, Options{}), store.LogOptions{Indexed: true})
	b := store.Batch{ID: storetest.NewID(), Entries: text("1")}
	if _, err := l.Append(t.Context(), "k", b); err != nil {
		t.Fatal(err)
	}
	if err := l.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	var moved *store.MovedLog
	if _, err := l.Append(t.Context(), "k", b); !errors.As(err, &moved) || moved.Rev != store.New {
		t.Errorf("%v", err)
	}
	add(t, l, "k", store.Batch{Entries: text("another")})
}
