package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
	"pgregory.net/rapid"
)

// ST-19: puts that wait for a table share a transaction: all but the first of these.
func TestPutsThatWaitShareATransaction(t *testing.T) {
	e := open(t, Options{})
	tab := table(t, e, store.TableOptions{Durability: store.Synced})
	unlock := lock(t, tab)
	defer unlock()
	const calls = 100
	var wg sync.WaitGroup
	await := func(busy bool, waiting int) {
		for {
			tab.puts.mu.Lock()
			ok := tab.puts.busy == busy && len(tab.puts.waiting) == waiting
			tab.puts.mu.Unlock()
			if ok {
				return
			}
			step(t)
		}
	}
	for i := range calls {
		wg.Go(func() {
			records, errs := tab.Put(t.Context(), store.Put{Key: fmt.Sprint(i), ID: storetest.NewID()}, store.Put{Key: "same", ID: storetest.NewID()})
			if errs[0] != nil || records[0].Key != fmt.Sprint(i) {
				t.Errorf("%+v, %v", records, errs)
			}
		})
		if i == 0 {
			await(true, 0) // it is sent, and the others wait
		}
	}
	await(true, calls-1)
	unlock()
	wg.Wait()
	var transactions, records int
	if err := e.db.Pool.QueryRow(t.Context(), `SELECT count(DISTINCT xmin::text), count(*) FROM records`).Scan(&transactions, &records); err != nil || transactions != 2 || records != calls+1 {
		t.Errorf("%d records in %d transactions, %v", records, transactions, err)
	}
	checkCounters(t, e)
}

// A group is bounded, and a call is not divided.
func TestLargePuts(t *testing.T) {
	e := open(t, Options{})
	tab := table(t, e, store.TableOptions{})
	body := make([]byte, store.MaxBody)
	puts := make([]store.Put, 5)
	for i := range puts {
		puts[i] = store.Put{Key: fmt.Sprint(i), ID: storetest.NewID(), Body: body}
	}
	records, errs := tab.Put(t.Context(), puts...)
	for i, err := range errs {
		if err != nil || records[i].Rev != records[0].Rev+uint64(i) {
			t.Errorf("put %d: %v, %v", i, records[i].Rev, err)
		}
	}
	n := 0
	for r, err := range tab.Range(t.Context(), "", true) {
		if n++; err != nil || len(r.Body) != store.MaxBody {
			t.Errorf("%d bytes, %v", len(r.Body), err)
		}
	}
	if n != len(puts) {
		t.Errorf("%d records", n)
	}
	for len(puts) <= maxCall/store.MaxBody {
		puts = append(puts, store.Put{Key: "more", ID: storetest.NewID(), Body: body})
	}
	if _, errs := tab.Put(t.Context(), puts...); !errors.Is(errs[0], store.ErrTooLarge) {
		t.Errorf("%v", errs[0])
	}
}

// Only puts that are not lazy, of Synced tables, wait for the disk.
func TestWhoWaitsForTheDisk(t *testing.T) {
	e := open(t, Options{})

	execute(t, e, `CREATE TABLE seen (key text, waits text)`)
	execute(t, e, `CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (NEW.key, current_setting('synchronous_commit')); RETURN NEW; END $$`)
	execute(t, e, `CREATE TRIGGER see BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION see()`)
	synced, async := table(t, e, store.TableOptions{Name: "synced", Durability: store.Synced}), table(t, e, store.TableOptions{Name: "async"})
	for _, tt := range []struct {
		tab  *Table
		key  string
		lazy bool
		want string
	}{{synced, "synced", false, "on"}, {synced, "lazy", true, "off"}, {async, "async", false, "off"}} {
		put(t, tt.tab, store.Put{Key: tt.key, Lazy: tt.lazy})
		var waits string
		if err := e.db.Pool.QueryRow(t.Context(), `SELECT waits FROM seen WHERE key = $1`, tt.key).Scan(&waits); err != nil || waits != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.key, waits, err, tt.want)
		}
		if lazy := tt.tab.lazy.Load(); lazy != tt.lazy {
			t.Errorf("%s: lazy is %t", tt.key, lazy)
		}
	}
	if err := e.flush(); err != nil { // as Close does (ST-27)
		t.Error(err)
	}
}

// ST-05: a deletion that is sent again succeeds again, also if another has made the record anew. A put whose record was deleted meanwhile
// does not come back.
func TestADeletionIsSentAgain(t *testing.T) {
	tab := table(t, open(t, Options{}), store.TableOptions{})
	first := store.Put{Key: "a", ID: storetest.NewID(), Meta: []byte("m"), Life: time.Hour}
	made := put(t, tab, first)
	gone := store.Put{Key: "a", ID: storetest.NewID(), After: made.Rev, Delete: true}
	was := put(t, tab, gone)
	if _, err := try(t, tab, first); !errors.Is(err, store.ErrMoved) {
		t.Errorf("a put whose record was deleted: %v", err)
	}
	for range 2 {
		again := put(t, tab, gone)
		if again.Rev != made.Rev || again.Made != was.Made || string(again.Meta) != "m" || !again.At.Equal(made.At) || !again.Expires.Equal(made.Expires) {
			t.Errorf("%+v, want %+v", again, made)
		}
		if _, err := tab.Get(t.Context(), "a"); errors.Is(err, store.ErrNotFound) {
			put(t, tab, store.Put{Key: "a"})
		} else if err != nil {
			t.Error(err)
		}
	}
	if _, err := tab.Get(t.Context(), "a"); err != nil {
		t.Errorf("a deletion that was sent again has deleted another's record: %v", err)
	}
}

// ST-22, ST-25: whatever is put, removed, expires or goes as the oldest, the table's bounds and counters hold, and the oldest goes first.
func TestCountersFitTheRecords(t *testing.T) {
	e := open(t, Options{sweep: 5 * time.Millisecond})
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		o := store.TableOptions{Name: fmt.Sprint("t", n), MaxRecords: 5, MaxBytes: 200, Oldest: rapid.Bool().Draw(r, "oldest")}
		tab := table(t, e, o)
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"})
		for range rapid.IntRange(1, 12).Draw(r, "calls") {
			var puts []store.Put
			for range rapid.IntRange(1, 5).Draw(r, "puts") {
				p := store.Put{Key: key.Draw(r, "key"), ID: storetest.NewID(), After: store.AnyRev, Meta: make([]byte, rapid.IntRange(0, 20).Draw(r, "meta"))}
				p.Delete = rapid.IntRange(0, 4).Draw(r, "delete") == 0
				p.Life = time.Duration(rapid.SampledFrom([]int{0, 0, 1, 3000}).Draw(r, "life")) * time.Microsecond
				if rapid.Bool().Draw(r, "body") {
					p.Body = make([]byte, rapid.IntRange(0, 250).Draw(r, "bytes"))
				}
				puts = append(puts, p)
			}
			_, errs := tab.Put(t.Context(), puts...)
			for i, err := range errs {
				if err != nil && !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrNotFound) {
					r.Fatalf("%+v: %v", puts[i], err)
				}
				if errors.Is(err, store.ErrFull) && o.Oldest && len(puts[i].Body) < 170 && puts[i].Body != nil && i == 0 {
					r.Fatalf("%+v is full", puts[i])
				}
			}
			var records, bytes int64
			if err := e.db.Pool.QueryRow(t.Context(), `SELECT records, bytes FROM tables WHERE id = $1`, tab.id).Scan(&records, &bytes); err != nil || records > 5 || bytes > 200 {
				r.Fatalf("%d records, %d bytes, %v", records, bytes, err)
			}
		}
	})
	checkCounters(t, e)
}

// More records expire than one transaction of a sweep removes, and all are gone soon; so are removals when they are old.
func TestASweepRemovesAllThatHasExpired(t *testing.T) {
	e := open(t, Options{sweep: time.Hour})
	tab := table(t, e, store.TableOptions{})
	put(t, tab, store.Put{Key: "kept"})
	execute(t, e, `INSERT INTO records (tab, key, made, rev, id, at, expires, size, meta, body)
		SELECT $1, 'k' || i, i, i, '', now(), now() - interval '1 minute', length('k' || i), '', '' FROM generate_series(1, $2::integer) i`, tab.id, 2*sweepMost+7)
	execute(t, e, `UPDATE tables SET records = (SELECT count(*) FROM records), bytes = (SELECT sum(size) FROM records)`)
	if err := e.sweepAll(); err != nil {
		t.Fatal(err)
	}
	checkCounters(t, e)
	count := func(of string) (n int) {
		if err := e.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM `+of).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if records, removed := count("records"), count("removed"); records != 1 || removed != 2*sweepMost+7 {
		t.Errorf("%d records and %d removals are left", records, removed)
	}
	execute(t, e, `UPDATE removed SET rev = rev - 400 * 1000000::bigint`) // more than five minutes
	if err := e.sweepAll(); err != nil {
		t.Fatal(err)
	}
	if removed := count("removed"); removed != 0 {
		t.Errorf("%d removals are left", removed)
	}
	if h, err := tab.head(t.Context()); err != nil || h.forgotten == 0 || h.forgotten > h.rev {
		t.Errorf("%+v, %v", h, err)
	}
}

const envChild = "STORE_POSTGRES_TEST_CHILD" // schema of a process that these tests have started

// writeAsChild increments records until the process is killed.
func writeAsChild() {
	e, err := Open(context.Background(), Options{URL: os.Getenv(envChild + "_URL"), Schema: os.Getenv(envChild)})
	if err == nil {
		var tab store.Table
		if tab, err = e.Table(context.Background(), store.TableOptions{Name: "things", Durability: store.Synced}); err == nil {
			fmt.Println("begins")
			both, own := counter{tab: tab.(*Table), key: "both"}, counter{tab: tab.(*Table), key: "child"}
			for err == nil {
				if err = both.increment(context.Background()); err == nil {
					err = own.increment(context.Background())
				}
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// ST-04, ST-30: a second process increments the same record, and is killed in the middle. No increment is lost, and nothing that it held
// is in the way.
func TestTwoProcesses(t *testing.T) {
	e := open(t, Options{})
	tab := table(t, e, store.TableOptions{Durability: store.Synced})
	mine := counter{tab: tab, key: "both"}
	number := func(key string) (n int) {
		r, err := tab.Get(t.Context(), key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		_, _ = fmt.Sscan(string(r.Body), &n)
		return n
	}
	theirs := 0
	for range longtest.Times(3, 20) {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), envChild+"="+e.db.Schema, envChild+"_URL="+shared.URL())
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for number("child") < theirs+5 {
			if err := mine.increment(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
		put(t, tab, store.Put{Key: "barrier", After: store.AnyRev}) // behind what the killed process has sent
		theirs = number("child")
		// It may have been killed between its two records.
		if both := number("both") - mine.total; both != theirs && both != theirs+1 {
			t.Fatalf("there are %d increments by the other process, want %d or 1 more", both, theirs)
		} else if both == theirs+1 {
			mine.total++
		}
	}
	checkCounters(t, e)
}
