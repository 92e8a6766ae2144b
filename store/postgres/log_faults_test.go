package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
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

// ST-05, ST-26: an answer that is lost, by a server that cannot be reached any more, is ErrUnsure. The batch that is sent again is written once.
func TestALostAnswerToABatch(t *testing.T) {
	need(t)
	schema := newSchema()
	well := logs(t, open(t, Options{Schema: schema}), store.LogOptions{})
	proxy := postgrestest.NewProxy(t, shared.Socket())
	e := open(t, Options{Schema: schema, URL: proxy.URL(), patience: 100 * time.Millisecond})
	l := logs(t, e, store.LogOptions{})
	was := add(t, l, "k", store.Batch{Entries: text("first")})
	for _, tt := range []struct {
		word string
		cut  postgrestest.Cut
		want int // entries, whatever the caller is told
	}{
		{"word-made", postgrestest.NotAnswered, 2},
		{"word-lost", postgrestest.NotSent, 2}, // which nobody can tell from the other
	} {
		b := store.Batch{ID: storetest.NewID(), After: was.Rev, Entries: text(tt.word)}
		seen := false
		proxy.Watch(func(sent []byte) postgrestest.Cut {
			if seen { // nothing more goes through
				return postgrestest.NotSent
			}
			if seen = bytes.Contains(sent, []byte(tt.word)); seen {
				return tt.cut
			}
			return nil
		})
		if _, err := l.Append(t.Context(), "k", b); !errors.Is(err, store.ErrUnsure) || errors.Is(err, store.ErrAway) {
			t.Errorf("%s: %v", tt.word, err)
		}
		if got := readAll(t, well, "k", store.Range{}); len(got) != tt.want {
			t.Errorf("%s: %q", tt.word, got)
		}
		_, newErr := tryAdd(t, l, "none", store.Batch{})
		_, infoErr := l.Info(t.Context(), "k")
		var readErr error
		for _, readErr = range l.Read(t.Context(), "k", store.Range{}) {
		}
		for _, err := range []error{newErr, infoErr, readErr, l.Trim(t.Context(), "k", 1), l.Delete(t.Context(), "none"), l.Sync(t.Context())} {
			if !errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrUnsure) {
				t.Errorf("while nothing goes through: %v", err)
			}
		}
		proxy.Watch(nil)
		for e.db.Away() {
			step(t)
		}
		again, err := l.Append(t.Context(), "k", b)
		if err != nil || again.Last != was.Last+1 {
			t.Fatalf("%s, sent again: %+v, %v", tt.word, again, err)
		}
		if twice, err := well.Append(t.Context(), "k", b); err != nil || twice.Rev != again.Rev {
			t.Errorf("%+v, %v, want %+v", twice, err, again)
		}
		was = again
		tt.want++
	}
	if got := readAll(t, well, "k", store.Range{}); !slices.Equal(got, []string{"1:first", "2:word-made", "3:word-lost"}) {
		t.Errorf("%q", got)
	}
	if _, err := well.Info(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("ErrAway, and it was written: %v", err)
	}
	checkLogs(t, e)
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

// appender is a log that a writer appends to, each time behind the revision that it has seen. A batch in doubt is sent again.
type appender struct {
	l     *Log
	name  string
	total int // batches that were acknowledged
}

func (a *appender) add(ctx context.Context) error {
	for ctx.Err() == nil {
		info, err := a.l.Info(ctx, a.name)
		switch {
		case errors.Is(err, store.ErrAway):
			continue
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		}
		b := store.Batch{ID: storetest.NewID(), After: info.Rev, Head: fmt.Append(nil, info.Last/2+1), Entries: text(fmt.Sprint(info.Last/2+1), "end")}
		_, err = a.l.Append(ctx, a.name, b)
		for errors.Is(err, store.ErrUnsure) && ctx.Err() == nil {
			_, err = a.l.Append(ctx, a.name, b)
		}
		switch {
		case err == nil:
			a.total++
			return nil
		case !errors.Is(err, store.ErrMoved) && !errors.Is(err, store.ErrAway):
			return err
		}
	}
	return context.Cause(ctx)
}

// ST-03, ST-06, ST-12, ST-26, ST-30: the server is killed in the middle of batches of two processes and started again. Nothing that was
// acknowledged is missing, no batch is there twice or in part, and followers get each entry once.
func TestAKilledServerOfLogs(t *testing.T) {
	t.Parallel()
	need(t)
	server, err := postgrestest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	schema := newSchema()
	var all []*appender
	var engines []*Engine
	for i := range 2 {
		e := open(t, Options{URL: server.URL(), Schema: schema, patience: time.Minute})
		engines = append(engines, e)
		for w := range 3 {
			all = append(all, &appender{l: logs(t, e, store.LogOptions{Durability: store.Synced, Indexed: true}), name: fmt.Sprintf("w%d-%d", i, w)})
		}
	}
	for _, a := range all {
		if err := a.add(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	followed := make(chan uint64, 100_000)
	following, stop := context.WithCancel(t.Context())
	var follower sync.WaitGroup
	follower.Go(func() {
		for e, err := range all[0].l.Follow(following, all[5].name, 0) { // of the other process
			if err == nil {
				followed <- e.N
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	progress := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := a.add(t.Context()); err != nil {
					t.Error(err)
					cancel()
				}
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	await := func(n int) {
		for range n {
			select {
			case <-progress:
			case <-ctx.Done():
			}
		}
	}
	for round := range longtest.Times(2, 10) {
		await(20 + 7*round)
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	await(30)
	cancel()
	wg.Wait()
	for _, a := range all {
		got := readAll(t, a.l, a.name, store.Range{})
		info, err := a.l.Info(t.Context(), a.name)
		if err != nil || len(got) != 2*a.total || info.Last != uint64(2*a.total) || string(info.Head) != fmt.Sprint(a.total) {
			t.Errorf("%s has %d entries, %+v, %v, want %d", a.name, len(got), info, err, 2*a.total)
		}
		for i, entry := range got {
			want := fmt.Sprintf("%d:%d", i+1, i/2+1)
			if i%2 == 1 {
				want = fmt.Sprintf("%d:end", i+1)
			}
			if entry != want {
				t.Fatalf("%s: %s, want %s", a.name, entry, want)
			}
		}
	}
	for n := range uint64(2 * all[5].total) {
		if got := <-followed; got != n+1 {
			t.Fatalf("the follower got %d, want %d", got, n+1)
		}
	}
	stop()
	follower.Wait()
	checkLogs(t, engines[0])
}

// ST-06: what the database refuses leaves the log as it was. The error has no words of the server, which may name values.
func TestADatabaseThatRefusesABatch(t *testing.T) {
	e := open(t, Options{})
	l := logs(t, e, store.LogOptions{Indexed: true})
	was := add(t, l, "k", store.Batch{Entries: text("1")})
	execute(t, e, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the data is %', NEW.data USING ERRCODE = '53100'; END $$`)
	execute(t, e, `CREATE TRIGGER refuse BEFORE INSERT ON batches_0 FOR EACH ROW WHEN (NEW.data = 's3cretword') EXECUTE FUNCTION refuse()`)
	b := store.Batch{ID: storetest.NewID(), After: was.Rev, Entries: text("2", "s3cretword"), Head: []byte("h")}
	b.Entries[1].Mark = true
	if _, err := l.Append(t.Context(), "k", b); !errors.Is(err, store.ErrAway) || strings.Contains(err.Error(), "s3cretword") || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("%v", err)
	}
	if info, err := l.Info(t.Context(), "k"); err != nil || info.Rev != was.Rev || info.Last != 1 || len(info.Head) > 0 {
		t.Errorf("%+v, %v", info, err)
	}
	execute(t, e, `DROP TRIGGER refuse ON batches_0`)
	if info, err := l.Append(t.Context(), "k", b); err != nil || info.Last != 3 {
		t.Errorf("%+v, %v", info, err)
	}
	checkLogs(t, e)
}

// ST-12: a follower does not depend on notices.
func TestAFollowerWithoutNotices(t *testing.T) {
	schema := newSchema()
	writes := logs(t, open(t, Options{Schema: schema}), store.LogOptions{})
	deafEngine := open(t, Options{Schema: schema})
	deafEngine.channel = "nothing_is_said_here"
	reads := logs(t, deafEngine, store.LogOptions{})
	info := add(t, writes, "k", store.Batch{Entries: text("1")})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := uint64(0)
	for e, err := range reads.Follow(ctx, "k", 0) {
		if n++; err != nil || e.N != n {
			t.Fatalf("entry %d, %v, want %d", e.N, err, n)
		}
		if n == 3 {
			break
		}
		info = add(t, writes, "k", store.Batch{After: info.Rev, Entries: text("more")})
	}
}

// ST-18: entries are kept for as long as their space wants; then their part is dropped. A sweep of a clock that was set does not age a part
// by much.
func TestParts(t *testing.T) {
	e := open(t, Options{sweep: time.Hour})
	l := logs(t, e, store.LogOptions{Keep: time.Hour, MaxBytes: 1 << 20})
	sweep := func(age time.Duration) {
		t.Helper()
		execute(t, e, `UPDATE parts SET age = age + $1`, age.Microseconds())
		execute(t, e, `UPDATE parts SET swept = clock_timestamp() - interval '3 days'`) // the clock was set
		if err := e.sweepLogs(time.Hour, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	parts := func(want int) {
		t.Helper()
		var n, tables int
		if err := e.db.Pool.QueryRow(t.Context(), `SELECT count(*), (SELECT count(*) FROM pg_inherits WHERE inhparent = 'batches'::regclass) FROM parts`).Scan(&n, &tables); err != nil || n != want || tables != want+1 {
			t.Fatalf("%d parts, %d tables, %v, want %d", n, tables, err, want)
		}
	}
	sweep(2 * time.Hour)
	parts(1) // it is empty
	old := add(t, l, "old", store.Batch{Entries: text("1", "2")})
	long := add(t, l, "long", store.Batch{Entries: []store.Entry{{Data: []byte("1"), Mark: true}}})
	sweep(0)
	parts(2) // it is older than an hour
	late := add(t, l, "late", store.Batch{Entries: text("1")})
	long = add(t, l, "long", store.Batch{After: long.Rev, Entries: text("2")})
	sweep(57 * time.Minute) // and one of the step
	if got := readAll(t, l, "long", store.Range{}); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if got := readAll(t, l, "old", store.Range{}); len(got) != 2 {
		t.Errorf("%q before an hour is over", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reader error
	for _, reader = range l.Follow(ctx, "old", 0) {
		if sweep(5 * time.Minute); reader != nil {
			break
		}
	}
	if !errors.Is(reader, store.ErrExpired) {
		t.Errorf("a follower of what has expired: %v", reader)
	}
	if _, err := l.Info(t.Context(), "old"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
	var moved *store.MovedLog
	if _, err := tryAdd(t, l, "old", store.Batch{After: old.Rev}); !errors.As(err, &moved) || moved.Rev != store.New {
		t.Errorf("behind a log that has expired: %v", err)
	}
	info, err := l.Info(t.Context(), "long")
	if err != nil || info.Rev != long.Rev || info.First != 2 || info.Last != 2 || info.Entries != 1 || info.LastMark != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	for _, err := range l.Read(t.Context(), "long", store.Range{From: 1}) {
		if !errors.Is(err, store.ErrExpired) {
			t.Errorf("what is gone: %v", err)
		}
	}
	if got := readAll(t, l, "late", store.Range{}); len(got) != 1 || late.Last != 1 {
		t.Errorf("%q", got)
	}
	checkLogs(t, e)
}
