package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
)

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
