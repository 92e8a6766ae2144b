package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
)

func table(tb testing.TB, e *Engine, o store.TableOptions) *Table {
	tb.Helper()
	if o.Name == "" {
		o.Name = "things"
	}
	got, err := e.Table(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return got.(*Table)
}

func try(tb testing.TB, t *Table, p store.Put) (store.Record, error) {
	tb.Helper()
	if p.ID == [16]byte{} {
		p.ID = storetest.NewID()
	}
	records, errs := t.Put(tb.Context(), p)
	return records[0], errs[0]
}

func put(tb testing.TB, t *Table, p store.Put) store.Record {
	tb.Helper()
	r, err := try(tb, t, p)
	if err != nil {
		tb.Fatalf("put %s: %v", p.Key, err)
	}
	return r
}

// execute runs a statement in the schema of an engine.
func execute(tb testing.TB, e *Engine, sql string, args ...any) {
	tb.Helper()
	if _, err := e.db.Pool.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// checkCounters compares what the row of each table says with its records.
func checkCounters(tb testing.TB, e *Engine) {
	tb.Helper()
	var wrong string
	err := e.db.Pool.QueryRow(tb.Context(), `SELECT coalesce(string_agg(format('%s has %s records with %s bytes, and says %s with %s', t.name, r.n, r.size, t.records, t.bytes), '; '), '')
		FROM tables t, LATERAL (SELECT count(*) AS n, coalesce(sum(size), 0) AS size, coalesce(max(rev), 0) AS rev,
				coalesce(bool_and(size = octet_length(key) + octet_length(meta) + octet_length(body)), true) AS fits FROM records WHERE tab = t.id) r
		WHERE (t.records, t.bytes) IS DISTINCT FROM (r.n, r.size) OR r.rev > t.rev OR NOT r.fits`).Scan(&wrong)
	if err != nil || wrong != "" {
		tb.Errorf("%s, %v", wrong, err)
	}
}

// script makes changes that depend on each other, each of which must succeed once.
func script(t *testing.T, tab *Table) {
	made := put(t, tab, store.Put{Key: "a", Meta: []byte("1"), Body: []byte("one")})
	next := put(t, tab, store.Put{Key: "a", After: made.Rev, Meta: []byte("2")})
	if next.Made != made.Made || next.Rev <= made.Rev {
		t.Errorf("%+v after %+v", next, made)
	}
	records, errs := tab.Put(t.Context(), store.Put{Key: "a", ID: storetest.NewID(), After: made.Rev}, store.Put{Key: "b", ID: storetest.NewID(), Body: []byte("b")})
	if !errors.Is(errs[0], store.ErrMoved) || errs[1] != nil || records[1].Rev <= next.Rev {
		t.Errorf("%+v, %v", records, errs)
	}
	if got, err := tab.Get(t.Context(), "a"); err != nil || got.Rev != next.Rev || string(got.Body) != "one" || string(got.Meta) != "2" {
		t.Errorf("%+v, %v", got, err)
	}
	gone := put(t, tab, store.Put{Key: "b", After: records[1].Rev, Delete: true})
	if gone.Rev != records[1].Rev || gone.Made != records[1].Made {
		t.Errorf("deleted %+v, want %+v", gone, records[1])
	}
	keys := 0
	for r, err := range tab.Range(t.Context(), "", true) {
		if err != nil || r.Key != "a" || string(r.Body) != "one" {
			t.Errorf("%+v, %v", r, err)
		}
		keys++
	}
	if keys != 1 {
		t.Errorf("%d records", keys)
	}
}

// TestAConnectionCutAtEachMessage cuts the N-th message of a store for each N, with the server having got none, half or all of it. Each put is
// written once, and no caller sees an error (ST-05, ST-30).
func TestAConnectionCutAtEachMessage(t *testing.T) {
	need(t)
	for name, cut := range map[string]postgrestest.Cut{"not sent": postgrestest.NotSent, "half sent": postgrestest.HalfSent, "not answered": postgrestest.NotAnswered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := newSchema()
			open(t, Options{Schema: schema}) // its tables are made once
			for at, more := 1, true; more; at++ {
				more = cutAtMessage(t, schema, at, cut, func(e *Engine) {
					script(t, table(t, e, store.TableOptions{Name: fmt.Sprint("t", at), Durability: store.Synced}))
				})
				if t.Failed() {
					t.Fatalf("message %d", at)
				}
				if !more && at < 12 {
					t.Errorf("there are %d messages alone", at)
				}
			}
		})
	}
}

// cutAtMessage cuts a message of an engine that is used, and reports whether there was such a message.
func cutAtMessage(t *testing.T, schema string, at int, cut postgrestest.Cut, use func(*Engine)) (done bool) {
	proxy := postgrestest.NewProxy(t, shared.Socket())
	messages := 0
	proxy.Watch(func(sent []byte) postgrestest.Cut {
		if bytes.HasPrefix(sent, []byte("\x00\x00")) && at > 1 { // the beginning of a connection
			return nil
		}
		if messages++; messages == at {
			done = true
			return cut
		}
		return nil
	})
	e, err := Open(t.Context(), Options{URL: proxy.URL(), Schema: schema, Connections: 2})
	if err != nil {
		t.Fatal(err)
	}
	use(e)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	proxy.Watch(nil)
	return done
}

// ST-26: an answer that is lost, by a server that cannot be reached any more, is ErrUnsure. The put that is sent again then is written once.
func TestALostAnswerIsUnsure(t *testing.T) {
	need(t)
	schema := newSchema()
	well := table(t, open(t, Options{Schema: schema}), store.TableOptions{})
	proxy := postgrestest.NewProxy(t, shared.Socket())
	e := open(t, Options{Schema: schema, URL: proxy.URL(), patience: 100 * time.Millisecond})
	tab := table(t, e, store.TableOptions{})
	for _, tt := range []struct {
		key  string
		cut  postgrestest.Cut
		gone bool
		want error
	}{
		{"key-made", postgrestest.NotAnswered, false, nil},
		{"key-lost", postgrestest.NotSent, false, store.ErrNotFound}, // which nobody can tell from the other
		{"key-made", postgrestest.NotAnswered, true, store.ErrNotFound},
	} {
		p := store.Put{Key: tt.key, ID: storetest.NewID(), Delete: tt.gone}
		if before, err := well.Get(t.Context(), tt.key); err == nil {
			p.After = before.Rev
		}
		seen := false
		proxy.Watch(func(sent []byte) postgrestest.Cut {
			if seen { // nothing more goes through
				return postgrestest.NotSent
			}
			if seen = bytes.Contains(sent, []byte(tt.key)); seen {
				return tt.cut
			}
			return nil
		})
		if _, err := try(t, tab, p); !errors.Is(err, store.ErrUnsure) || errors.Is(err, store.ErrAway) {
			t.Errorf("%s: %v", tt.key, err)
		}
		stored, err := well.Get(t.Context(), tt.key)
		for end := time.Now().Add(time.Minute); !errors.Is(err, tt.want); stored, err = well.Get(t.Context(), tt.key) { // the server may be at it still
			if step(t); time.Now().After(end) {
				t.Fatalf("%s: %v, want %v", tt.key, err, tt.want)
			}
		}
		if _, err := try(t, tab, store.Put{Key: "key-none"}); !errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrUnsure) {
			t.Errorf("while nothing goes through: %v", err)
		}
		if _, err := tab.Get(t.Context(), "key-made"); !errors.Is(err, store.ErrAway) {
			t.Errorf("while nothing goes through: %v", err)
		}
		proxy.Watch(nil)
		for e.db.Away() {
			step(t)
		}
		again := put(t, tab, p)
		storetest.Same(t, put(t, well, p), again)
		if err == nil { // ST-05
			storetest.Same(t, again, stored)
		}
	}
	if _, err := well.Get(t.Context(), "key-none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("ErrAway, and it was written: %v", err)
	}
	checkCounters(t, e)
}

// ST-26: a server, or the way to it, that says nothing more without an end of the connection does not hold calls for longer than they wait.
func TestAServerThatSaysNothing(t *testing.T) {
	need(t)
	proxy := postgrestest.NewProxy(t, shared.Socket())
	e := open(t, Options{URL: proxy.URL(), wait: 300 * time.Millisecond})
	tab := table(t, e, store.TableOptions{})
	put(t, tab, store.Put{Key: "a"})
	proxy.Watch(func([]byte) postgrestest.Cut {
		return func(from, _ net.Conn, _ []byte) { _, _ = io.Copy(io.Discard, from) }
	})
	began := time.Now()
	if _, err := try(t, tab, store.Put{Key: "b"}); !errors.Is(err, store.ErrUnsure) {
		t.Errorf("put: %v", err)
	}
	if _, err := tab.Get(t.Context(), "a"); !errors.Is(err, store.ErrAway) {
		t.Errorf("get: %v", err)
	}
	longtest.Within(t, "two calls", time.Since(began), 5*time.Second)
	proxy.Watch(nil)
	proxy.Break()
	for {
		if _, err := try(t, tab, store.Put{Key: "c", After: store.AnyRev}); err == nil {
			break
		}
	}
}

// counter is a record that writers increment, each only behind the revision that it has seen. A write in doubt is sent again.
type counter struct {
	tab   *Table
	key   string
	total int // increments that were acknowledged
}

func (c *counter) increment(ctx context.Context) error {
	for ctx.Err() == nil {
		r, err := c.tab.Get(ctx, c.key)
		n := 0
		switch {
		case err == nil:
			_, err = fmt.Sscan(string(r.Body), &n)
		case errors.Is(err, store.ErrNotFound):
			err = nil
		}
		if errors.Is(err, store.ErrAway) {
			continue
		}
		if err != nil {
			return err
		}
		p := store.Put{Key: c.key, ID: storetest.NewID(), After: r.Rev, Body: fmt.Append(nil, n+1)}
		_, errs := c.tab.Put(ctx, p)
		for errors.Is(errs[0], store.ErrUnsure) && ctx.Err() == nil {
			_, errs = c.tab.Put(ctx, p)
		}
		switch {
		case errs[0] == nil:
			c.total++
			return nil
		case !errors.Is(errs[0], store.ErrMoved) && !errors.Is(errs[0], store.ErrAway):
			return errs[0]
		}
	}
	return context.Cause(ctx)
}

// ST-06, ST-23, ST-26, ST-30: the server is killed in the middle of puts of two processes and started again. Nothing that was acknowledged
// is missing, no increment is there twice, and watchers know in the end what is there.
func TestAKilledServer(t *testing.T) {
	t.Parallel()
	need(t)
	server, err := postgrestest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	schema := newSchema()
	var counters []*counter
	var engines []*Engine
	for i := range 2 {
		e := open(t, Options{URL: server.URL(), Schema: schema, patience: time.Minute})
		engines = append(engines, e)
		for w := range 3 {
			counters = append(counters, &counter{tab: table(t, e, store.TableOptions{Durability: store.Synced}), key: fmt.Sprintf("w%d-%d", i, w)})
		}
	}
	w := startWatch(t, table(t, engines[0], store.TableOptions{Durability: store.Synced}), "")
	ctx, cancel := context.WithCancel(t.Context())
	progress := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for _, c := range counters {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := c.increment(t.Context()); err != nil {
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
	for _, c := range counters {
		r, err := c.tab.Get(t.Context(), c.key)
		n := 0
		_, _ = fmt.Sscan(string(r.Body), &n)
		// An increment whose answer was lost, and which another one has not replaced, was sent again until it was acknowledged.
		if err != nil || n != c.total {
			t.Errorf("%s has %d, %v, want %d", c.key, n, err, c.total)
		}
		w.until(c.key, r.Rev)
	}
	checkCounters(t, engines[0])
}

// ST-26: while the database is away calls fail soon with ErrAway, and when it is back they work.
func TestADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	need(t)
	server, err := postgrestest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	e := open(t, Options{URL: server.URL(), patience: 50 * time.Millisecond})
	tab := table(t, e, store.TableOptions{Durability: store.Synced}) // else the server would lose what it had not yet written
	r := put(t, tab, store.Put{Key: "a"})
	w := startWatch(t, tab, "")
	w.live()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for !e.db.Away() { // no call has to tell it
		step(t)
	}
	began := time.Now()
	_, putErr := try(t, tab, store.Put{Key: "b"})
	_, getErr := tab.Get(t.Context(), "a")
	_, tableErr := e.Table(t.Context(), store.TableOptions{Name: "other"})
	var rangeErr error
	for _, rangeErr = range tab.Range(t.Context(), "", false) {
	}
	for _, err := range []error{putErr, getErr, tableErr, rangeErr} {
		if !errors.Is(err, store.ErrAway) {
			t.Errorf("%v, want %v", err, store.ErrAway)
		}
	}
	longtest.Within(t, "four calls", time.Since(began), 2*time.Second)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	for e.db.Away() {
		step(t)
	}
	r = put(t, tab, store.Put{Key: "a", After: r.Rev})
	w.until("a", r.Rev)
	put(t, tab, store.Put{Key: "b"})
}

// ST-26: all connections are in use. A call waits for one, but not forever, and nothing was written.
func TestAllConnectionsInUse(t *testing.T) {
	e := open(t, Options{Connections: 2})
	tab := table(t, e, store.TableOptions{})
	e.db.Acquire = 50 * time.Millisecond
	for range 2 {
		c, err := e.db.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
	}
	if _, err := try(t, tab, store.Put{Key: "a"}); !errors.Is(err, store.ErrAway) {
		t.Errorf("put: %v", err)
	}
	if _, err := tab.Get(t.Context(), "a"); !errors.Is(err, store.ErrAway) {
		t.Errorf("get: %v", err)
	}
}

// lock locks the row of a table, until unlock.
func lock(t *testing.T, tab *Table) (unlock func()) {
	t.Helper()
	tx, err := tab.e.db.Pool.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `SELECT FROM tables WHERE id = $1 FOR UPDATE`, tab.id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(context.Background()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Error(err)
		}
	}
}

// A caller who goes away while a put waits has not written it. If the put was sent, nobody knows.
func TestACallerWhoGoesAway(t *testing.T) {
	e := open(t, Options{})
	tab := table(t, e, store.TableOptions{})
	unlock := lock(t, tab)
	defer unlock()
	enough := errors.New("enough")
	results := map[string]chan error{}
	cancels := map[string]context.CancelCauseFunc{}
	for i, key := range []string{"sent", "waits"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 1)
		results[key], cancels[key] = result, cancel
		go func() {
			_, errs := tab.Put(ctx, store.Put{Key: key, ID: storetest.NewID()})
			result <- errs[0]
		}()
		for {
			tab.puts.mu.Lock()
			busy, waiting := tab.puts.busy, len(tab.puts.waiting)
			tab.puts.mu.Unlock()
			if busy && waiting == i {
				break
			}
			step(t)
		}
	}
	for _, cancel := range cancels {
		cancel(enough)
	}
	if err := <-results["waits"]; !errors.Is(err, enough) || errors.Is(err, store.ErrUnsure) {
		t.Errorf("waits: %v", err)
	}
	if err := <-results["sent"]; !errors.Is(err, enough) || !errors.Is(err, store.ErrUnsure) {
		t.Errorf("sent: %v", err)
	}
	unlock()
	put(t, tab, store.Put{Key: "behind"})
	if _, err := tab.Get(t.Context(), "waits"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("waits: %v", err)
	}
	if _, err := tab.Get(t.Context(), "sent"); err != nil {
		t.Errorf("sent: %v", err)
	}
}

// ST-06: what the database refuses leaves the table as it was. The error has no words of the server, which may name values.
func TestADatabaseThatRefuses(t *testing.T) {
	e := open(t, Options{})
	tab := table(t, e, store.TableOptions{})
	execute(t, e, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the key is %', NEW.key USING ERRCODE = '53100'; END $$`)
	execute(t, e, `CREATE TRIGGER refuse BEFORE INSERT ON records FOR EACH ROW WHEN (NEW.key = 's3cretword') EXECUTE FUNCTION refuse()`)
	_, errs := tab.Put(t.Context(), store.Put{Key: "fine", ID: storetest.NewID()}, store.Put{Key: "s3cretword", ID: storetest.NewID()})
	for _, err := range errs {
		if !errors.Is(err, store.ErrAway) || strings.Contains(err.Error(), "s3cretword") || !strings.Contains(err.Error(), "disk is full") {
			t.Errorf("%v", err)
		}
	}
	if _, err := tab.Get(t.Context(), "fine"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
	put(t, tab, store.Put{Key: "fine"})
	checkCounters(t, e)
}
