package db

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingserve/lingserve/store"
)

var testDay = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// must fails the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func startRun(t testing.TB, r *Runs, run store.Run) {
	t.Helper()
	if taken, err := r.Start(t.Context(), run, nil); taken != nil || err != nil {
		t.Fatalf("%+v, %v", taken, err)
	}
}

// batch returns a batch whose events are its run, attempt and seq.
func batch(run string, attempt, seq int) store.RunBatch {
	return store.RunBatch{Run: run, Attempt: attempt, Seq: seq, First: uint64(attempt)<<32 + uint64(seq), Events: fmt.Appendf(nil, "%s/%d/%d", run, attempt, seq)}
}

// eventsOf returns the events of a run.
func eventsOf(t testing.TB, r *Runs, id string) string {
	t.Helper()
	var all []string
	err := r.Batches(t.Context(), id, func(b store.RunBatch) error {
		if want := batch(id, b.Attempt, b.Seq); b.Run != id || b.First != want.First {
			t.Errorf("batch %+v, want %+v", b, want)
		}
		all = append(all, strings.TrimPrefix(string(b.Events), id+"/"))
		return nil
	})
	must(t, err)
	return strings.Join(all, " ")
}

func wantMoved(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrMoved) {
		t.Errorf("%s: %v, want ErrMoved", what, err)
	}
}

func countRows(t testing.TB, db *DB, table string) (n int) {
	t.Helper()
	tx := db.reader(t.Context())
	tx.scanOne([]any{&n}, "SELECT count(*) FROM "+table)
	must(t, tx.err)
	return n
}

func runLife(t *testing.T, open openEmpty) {
	now := testDay
	r := open(t, func() time.Time { return now }).Runs()
	run := store.Run{
		ID: "run_1", Workflow: "w", Agent: "a", Owner: "天", Session: "天#s",
		Replica: "A", Attempt: 1, State: store.RunQueued, Request: []byte(`{"x": "天"}`), Created: now,
	}
	startRun(t, r, run)
	startRun(t, r, run) // sent again
	must(t, r.SetState(t.Context(), "run_1", "A", 1, store.RunRunning, 1))
	run.State, run.Crashes = store.RunRunning, 1
	for range 2 {
		if moved, err := r.Append(t.Context(), "A", []store.RunBatch{batch("run_1", 1, 1), batch("run_1", 1, 2)}); len(moved) > 0 || err != nil {
			t.Fatal(moved, err)
		}
	}
	got, err := r.Find(t.Context(), "run_1")
	if diff := cmp.Diff(run, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Error(diff, err)
	}
	now = now.Add(time.Minute)
	end := store.RunEnd{
		ID: "run_1", Replica: "A", Attempt: 1, State: "completed", Result: []byte(`"ok"`),
		Expires: now.Add(time.Hour), Batches: []store.RunBatch{batch("run_1", 1, 3)},
	}
	for range 2 {
		must(t, r.End(t.Context(), end))
	}
	other := end
	other.State = "failed"
	wantMoved(t, "another end", r.End(t.Context(), other))
	wantMoved(t, "a state behind the end", r.SetState(t.Context(), "run_1", "A", 1, store.RunWaiting, 0))
	if moved, err := r.Append(t.Context(), "A", []store.RunBatch{batch("run_1", 1, 4)}); !slices.Equal(moved, []string{"run_1"}) || err != nil {
		t.Errorf("a batch behind the end: %v, %v", moved, err)
	}
	run.State, run.Result, run.Ended, run.Expires, run.Bytes = "completed", end.Result, now, end.Expires, int64(len("run_1/1/1"))*3
	got, err = r.LatestOf(t.Context(), "天#s")
	if diff := cmp.Diff(run, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got := eventsOf(t, r, "run_1"); got != "1/1 1/2 1/3" {
		t.Error(got)
	}
	stop := errors.New("stop")
	if err := r.Batches(t.Context(), "run_1", func(store.RunBatch) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("each fails: %v", err)
	}
	for what, call := range map[string]func(id string) error{
		"Find":     func(id string) error { _, err := r.Find(t.Context(), id); return err },
		"LatestOf": func(id string) error { _, err := r.LatestOf(t.Context(), id); return err },
		"Batches":  func(id string) error { return r.Batches(t.Context(), id, nil) },
	} {
		for _, id := range []string{"", "none", "a\x00\xff"} {
			if err := call(id); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s of %q: %v", what, id, err)
			}
		}
	}
	if _, err := r.Append(t.Context(), "A", []store.RunBatch{{Run: "run_1", Attempt: 1}}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a batch without a number: %v", err)
	}
}

func runsMove(t *testing.T, open openEmpty) {
	r := open(t, time.Now).Runs()
	ids := func(alive ...string) string {
		t.Helper()
		left, err := r.Left(t.Context(), "Z", alive, 10)
		must(t, err)
		var ids []string
		for _, run := range left {
			ids = append(ids, run.ID)
		}
		return strings.Join(ids, " ")
	}
	for i, replica := range []string{"A", "A", "B", "A", ""} {
		startRun(t, r, store.Run{
			ID: fmt.Sprint("r", i), Replica: replica, Attempt: 1, State: store.RunRunning, Request: []byte("{}"),
			Created: testDay.Add(-time.Duration(i) * time.Second),
		})
	}
	must(t, r.End(t.Context(), store.RunEnd{ID: "r1", Replica: "A", Attempt: 1, State: "failed"}))
	if got := ids("A", "B") + ", " + ids("B") + ", " + ids(); got != "r4, r4 r3 r0, r4 r3 r2 r0" {
		t.Error(got)
	}
	must(t, r.Release(t.Context(), "A", []string{"r0", "r1", "r2"})) // the last two are not its own, or have ended
	if got := ids("A", "B"); got != "r4 r0" {
		t.Error(got)
	}
	wantMoved(t, "after its release", r.SetState(t.Context(), "r0", "A", 1, store.RunWaiting, 0))
	wantMoved(t, "an old attempt", r.Take(t.Context(), store.Takeover{ID: "r0", FromAttempt: 0, Replica: "C"}))
	must(t, r.Take(t.Context(), store.Takeover{ID: "r0", FromAttempt: 1, Replica: "C", Crashes: 2, State: store.RunQueued}))
	got, err := r.Find(t.Context(), "r0")
	want := store.Run{ID: "r0", Replica: "C", Attempt: 2, Crashes: 2, State: store.RunQueued, Request: []byte("{}"), Created: testDay}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Error(diff, err)
	}
	must(t, r.Beat(t.Context(), store.Replica{ID: "new"}))
	startRun(t, r, store.Run{ID: "new", Replica: "new", Attempt: 1, State: store.RunRunning, Request: []byte("{}"), Created: testDay})
	if list := ids("B"); strings.Contains(list, "new") {
		t.Errorf("CL-03: the runs of a replica that has just joined are left: %s", list)
	}
	if left, err := r.Left(t.Context(), "new", []string{"A", "B"}, 10); err != nil || !slices.ContainsFunc(left, func(r store.Run) bool { return r.ID == "new" }) {
		t.Errorf("a replica does not find its own: %v, %v", left, err)
	}
}

// RU-07
func oneReplicaTakesARun(t *testing.T, open openEmpty) {
	r := open(t, time.Now).Runs()
	startRun(t, r, store.Run{ID: "r", Replica: "A", Attempt: 1, State: store.RunRunning})
	startRun(t, r, store.Run{ID: "other", Replica: "A", Attempt: 1, State: store.RunRunning})
	var took atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			err := r.Take(t.Context(), store.Takeover{ID: "r", FromReplica: "A", FromAttempt: 1, Replica: fmt.Sprint("B", i)})
			if err == nil {
				took.Add(1)
			} else {
				wantMoved(t, "take", err)
			}
		})
	}
	wg.Wait()
	if took.Load() != 1 {
		t.Errorf("%d took it, want 1", took.Load())
	}
	moved, err := r.Append(t.Context(), "A", []store.RunBatch{batch("r", 1, 1), batch("r", 1, 2), batch("other", 1, 1), batch("none", 1, 1)})
	if !slices.Equal(moved, []string{"r", "none"}) || err != nil || eventsOf(t, r, "other") != "1/1" {
		t.Errorf("moved: %v, %v", moved, err)
	}
	wantMoved(t, "the end", r.End(t.Context(), store.RunEnd{
		ID: "r", Replica: "A", Attempt: 1, State: "failed",
		Batches: []store.RunBatch{batch("r", 1, 1)},
	}))
}

func batchesOfAReplacedReplica(t *testing.T, open openEmpty) {
	db := open(t, time.Now)
	r := db.Runs()
	startRun(t, r, store.Run{ID: "r", Replica: "A", Attempt: 1, State: store.RunRunning})
	_, err := r.Append(t.Context(), "A", []store.RunBatch{batch("r", 1, 1), batch("r", 1, 2), batch("r", 1, 3)})
	must(t, err)
	err = r.Take(t.Context(), store.Takeover{ID: "r", FromReplica: "A", FromAttempt: 1, Replica: "B", AfterSeq: 2})
	must(t, err)
	_, err = r.Append(t.Context(), "B", []store.RunBatch{batch("r", 2, 1)})
	must(t, err)
	err = r.Take(t.Context(), store.Takeover{ID: "r", FromReplica: "B", FromAttempt: 2, Replica: "C", AfterSeq: 1}) // it had nothing to write
	must(t, err)
	for _, b := range []store.RunBatch{batch("r", 1, 4), batch("r", 2, 2)} { // as if they were inserted at the same moment
		must(t, db.Update(t.Context(), func(tx *Tx) {
			tx.exec("INSERT INTO run_batches (run, attempt, seq, first, events) VALUES ("+parameters(1, 5)+")", b.Run, b.Attempt,
				b.Seq, int64(b.First), b.Events)
		}))
	}
	_, err = r.Append(t.Context(), "C", []store.RunBatch{batch("r", 3, 1)})
	must(t, err)
	if got := eventsOf(t, r, "r"); got != "1/1 1/2 2/1 3/1" {
		t.Error(got)
	}
	if damages, err := db.Check(t.Context()); len(damages) > 0 || err != nil {
		t.Error(damages, err)
	}
}

// manyBatches appends batches of many runs in one call, more than a statement or a page has.
func manyBatches(t *testing.T, open openEmpty) {
	r := open(t, time.Now).Runs()
	var batches []store.RunBatch
	for i := range 7 {
		id := fmt.Sprint("r", i)
		startRun(t, r, store.Run{ID: id, Replica: "A", Attempt: 1, State: store.RunRunning})
		for seq := range 300 {
			b := batch(id, 1, seq+1)
			b.Events = append(b.Events, make([]byte, 8<<10)...)
			batches = append(batches, b)
		}
	}
	must(t, r.Release(t.Context(), "A", []string{"r3"}))
	if moved, err := r.Append(t.Context(), "A", batches); !slices.Equal(moved, []string{"r3"}) || err != nil {
		t.Fatal(moved, err)
	}
	for i := range 7 {
		seq := 0
		must(t, r.Batches(t.Context(), fmt.Sprint("r", i), func(b store.RunBatch) error {
			if seq++; b.Seq != seq || len(b.Events) < 8<<10 {
				t.Fatalf("%d: batch %d, want %d", i, b.Seq, seq)
			}
			return nil
		}))
		if want := map[bool]int{false: 300}[i == 3]; seq != want {
			t.Errorf("%d: %d batches, want %d", i, seq, want)
		}
	}
}

// RU-02
func oneRequestGetsAKey(t *testing.T, open openEmpty) {
	db := open(t, time.Now)
	r := db.Runs()
	var started atomic.Int32
	found := make([]string, 20)
	var wg sync.WaitGroup
	for i := range found {
		wg.Go(func() {
			id := fmt.Sprint("r", i)
			taken, err := r.Start(t.Context(), store.Run{ID: id, State: store.RunRunning}, &store.IdempotencyKey{
				Owner: "o", Key: "secret key",
				Hash: [16]byte{byte(i)}, Expires: time.Now().Add(time.Hour),
			})
			if err != nil {
				t.Error(err)
			}
			if taken == nil {
				started.Add(1)
				found[i] = id
			} else {
				found[i] = taken.Run
			}
		})
	}
	wg.Wait()
	if started.Load() != 1 || countRows(t, db, "runs") != 1 || slices.ContainsFunc(found, func(id string) bool { return id != found[0] }) {
		t.Errorf("%d started, found %v", started.Load(), found)
	}
	k, ok, err := r.FindKey(t.Context(), "o", "secret key")
	if !ok || err != nil || k.Run != found[0] || fmt.Sprint("r", k.Hash[0]) != found[0] {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
	if n := countRows(t, db, "idempotency_keys WHERE key LIKE '%secret%'"); n > 0 {
		t.Error("the key is stored")
	}
	if taken, err := r.Start(t.Context(), store.Run{ID: found[0], State: store.RunRunning}, &k); taken != nil || err != nil {
		t.Errorf("the same start once more: %+v, %v", taken, err)
	}
}

func keysOfRuns(t *testing.T, open openEmpty) {
	now := testDay
	r := open(t, func() time.Time { return now }).Runs()
	k := store.IdempotencyKey{Owner: "o\x00", Key: "k", Hash: [16]byte{1, 2}, Run: "r1", Expires: now.Add(time.Hour)}
	runOf := func(want string) {
		t.Helper()
		if got, found, err := r.FindKey(t.Context(), k.Owner, k.Key); got.Run != want || found != (want != "") || err != nil {
			t.Errorf("%+v, %v, want run %q", got, err, want)
		}
	}
	for _, run := range []string{"r1", "r1", "r2"} {
		k.Run = run
		must(t, r.SetKey(t.Context(), k))
		runOf(run)
	}
	now = now.Add(time.Hour)
	runOf("")
	k.Expires = time.Time{}
	must(t, r.SetKey(t.Context(), k))
	now = now.Add(10_000 * time.Hour)
	runOf("r2")
	startRun(t, r, store.Run{ID: "r2", Replica: "A", State: store.RunRunning})
	must(t, r.End(t.Context(), store.RunEnd{ID: "r2", Replica: "A", State: "failed", FreeKey: &k}))
	runOf("")
}
