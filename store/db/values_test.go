package db

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/store"
)

// openEmpty opens an empty database with a clock.
type openEmpty func(t testing.TB, clock func() time.Time) *DB

// groups are tests of groups of tables on any database.
var groups = map[string]func(t *testing.T, open openEmpty){
	"values expire": valuesExpire, "the oldest values go": oldestValuesGo, "one takes a value": oneTakesAValue, "results": results, "files": files,
	"runs": runLife, "runs move": runsMove, "one replica takes a run": oneReplicaTakesARun, "one request gets a key": oneRequestGetsAKey, "keys of runs": keysOfRuns,
	"batches of a replaced replica": batchesOfAReplacedReplica, "many batches": manyBatches, "pages of runs": pagesOfRuns, "runs expire": runsExpire,
	"events have a bound": eventsHaveABound, "runs of an erased session": runsOfAnErasedSession, "replicas": replicas, "damaged runs are found": damagedRunsAreFound,
	"events of channels": eventsRunOnceInOrder, "events of a dead replica": eventsOfADeadReplica, "failed events run again": failedEventsRunAgain,
	"bundles of events": bundlesAreOneEvent, "parked events": parkedEventsWait, "events of a channel that is gone": eventsOfAChannelThatIsGone, "too many events": tooManyEvents, "replies": repliesKeepTheirOrder,
	"many claims": manyClaims,
	"leases":      replicaLeases, "one replica takes a lease": oneReplicaTakesALease,
}

func TestGroups(t *testing.T) {
	for name, test := range groups {
		for where, url := range map[string]func(t testing.TB) string{
			"memory": func(testing.TB) string { return "memory" },
			"file":   func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "x.db") },
		} {
			t.Run(name+" in "+where, func(t *testing.T) {
				test(t, func(t testing.TB, clock func() time.Time) *DB {
					t.Helper()
					db, err := Open(t.Context(), url(t), &Options{Clock: clock, Log: slog.New(slog.DiscardHandler)})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() {
						if err := db.Close(); err != nil {
							t.Error(err)
						}
					})
					return db
				})
			})
		}
	}
}

func valuesExpire(t *testing.T, open openEmpty) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	db := open(t, func() time.Time { return now })
	v := db.Values(Windows, ValueOptions{Life: time.Hour})
	set := func(key, value string) {
		t.Helper()
		if err := v.Change(t.Context(), key, func([]byte) ([]byte, error) { return []byte(value), nil }); err != nil {
			t.Fatal(err)
		}
	}
	want := func(key, want string) {
		t.Helper()
		if got, err := v.Load(t.Context(), key); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", key, got, err, want)
		}
	}
	set("a", "one")
	now = now.Add(30 * time.Minute)
	set("b", "two")
	now = now.Add(30 * time.Minute)
	want("a", "")
	want("b", "two")
	if err := v.Change(t.Context(), "a", func(old []byte) ([]byte, error) {
		if old != nil {
			t.Errorf("an expired value is %q", old)
		}
		return []byte("new"), nil
	}); err != nil {
		t.Error(err)
	}
	want("a", "new")
	now = now.Add(30 * time.Minute)
	if err := db.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := countRows(t, db, "windows"); rows != 1 {
		t.Errorf("%d rows after the sweep, want 1", rows)
	}
}

// ST-09
func oldestValuesGo(t *testing.T, open openEmpty) {
	for name, o := range map[string]ValueOptions{"rows": {MaxRows: 100}, "bytes": {MaxBytes: 100 * 10}} {
		t.Run(name, func(t *testing.T) {
			v := open(t, time.Now).Values(Conversations, o)
			for i := range 400 {
				if err := v.Change(t.Context(), fmt.Sprintf("k%03d", i), func([]byte) ([]byte, error) { return []byte("0123456789"), nil }); err != nil {
					t.Fatal(err)
				}
			}
			all, err := v.All(t.Context(), "k")
			if err != nil || len(all) < 80 || len(all) > 100+trimEvery || all["k399"] == nil || all["k000"] != nil {
				t.Errorf("%d values, %v, want about 100, the newest", len(all), err)
			}
		})
	}
}

func oneTakesAValue(t *testing.T, open openEmpty) {
	v := open(t, time.Now).Values(Tickets, ValueOptions{MaxRows: 2})
	for key, want := range map[string]bool{"a": true, "b": true} {
		if added, err := v.Add(t.Context(), key, []byte("v"), time.Minute); added != want || err != nil {
			t.Fatalf("%s: %v, %v", key, added, err)
		}
	}
	if added, err := v.Add(t.Context(), "c", nil, time.Minute); added || !errors.Is(err, store.ErrFull) {
		t.Errorf("a third one of two: %v, %v", added, err)
	}
	if value, err := v.Take(t.Context(), "a", func([]byte) bool { return false }); value != nil || err != nil {
		t.Errorf("one that does not fit: %q, %v", value, err)
	}
	var took atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			value, err := v.Take(t.Context(), "a", func(value []byte) bool { return string(value) == "v" })
			if err != nil {
				t.Error(err)
			}
			if value != nil {
				took.Add(1)
			}
		})
	}
	wg.Wait()
	if took.Load() != 1 {
		t.Errorf("%d took it, want 1", took.Load())
	}
	if added, err := v.Add(t.Context(), "b", nil, time.Minute); added || err != nil {
		t.Errorf("a key that has a value: %v, %v", added, err)
	}
}

// CH-182
func results(t *testing.T, open openEmpty) {
	r := open(t, time.Now).Results(time.Hour)
	for message, session := range map[string]string{"hook/1": "s", "hook/2": "s", "hook/3": "other"} {
		if err := r.Save(t.Context(), message, session, []byte("answer "+message)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Erase(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]string{"hook/1": "", "hook/2": "", "hook/3": "answer hook/3"} {
		if got, err := r.Load(t.Context(), message); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", message, got, err, want)
		}
	}
}

// A statement is prepared once, however many keys there are.
func TestValuesUseFewStatements(t *testing.T) {
	d, err := Open(t.Context(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	v := d.Values(Tickets, ValueOptions{})
	count := func() (n int) {
		d.writer.statements.Range(func(any, any) bool { n++; return true })
		return n
	}
	before := 0
	for i := range 100 {
		if added, err := v.Add(t.Context(), fmt.Sprint(i), []byte("x"), time.Hour); err != nil || !added {
			t.Fatal(added, err)
		}
		if i == 1 {
			before = count()
		}
		time.Sleep(time.Microsecond)
	}
	if n := count(); n != before {
		t.Errorf("%d statements are prepared after 2 values, and %d after 100", before, n)
	}
}
