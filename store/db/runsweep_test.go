package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingserve/lingserve/store"
)

func pagesOfRuns(t *testing.T, open openEmpty) {
	now := testDay
	db := open(t, func() time.Time { return now })
	r := db.Runs()
	var all []store.Run
	for i := range 40 {
		run := store.Run{
			ID: fmt.Sprintf("r%02d", i*7%40), Workflow: "w", Owner: fmt.Sprint("o", i%3), Session: fmt.Sprint("s", i%2),
			Replica: "A", State: store.RunRunning, Created: now.Add(time.Duration(i/10) * time.Second),
		}
		startRun(t, r, run)
		if i%4 == 0 {
			run.State = "completed"
			must(t, r.End(t.Context(), store.RunEnd{
				ID: run.ID, Replica: "A", State: run.State,
				Expires: now.Add(time.Duration(i+1) * time.Second), Result: []byte(`1`),
			}))
		}
		all = append(all, run)
	}
	slices.SortFunc(all, func(a, b store.Run) int { return b.Created.Compare(a.Created)*2 + strings.Compare(b.ID, a.ID) })
	owner := "o1"
	for name, test := range map[string]struct {
		q    store.RunQuery
		want func(run store.Run) bool
	}{
		"all":      {store.RunQuery{}, func(store.Run) bool { return true }},
		"owner":    {store.RunQuery{Owner: &owner}, func(r store.Run) bool { return r.Owner == owner }},
		"no owner": {store.RunQuery{Owner: new(string)}, func(store.Run) bool { return false }},
		"session":  {store.RunQuery{Session: "s1", Workflow: "w"}, func(r store.Run) bool { return r.Session == "s1" }},
		"agent":    {store.RunQuery{Agent: "a"}, func(store.Run) bool { return false }},
		"live":     {store.RunQuery{States: []string{store.RunRunning, store.RunQueued}}, func(r store.Run) bool { return r.State == store.RunRunning }},
		"ended": {
			store.RunQuery{States: []string{"completed"}, Owner: &owner},
			func(r store.Run) bool { return r.State == "completed" && r.Owner == owner },
		},
		"times": {store.RunQuery{From: now.Add(time.Second), To: now.Add(3 * time.Second)}, func(r store.Run) bool {
			return !r.Created.Before(testDay.Add(time.Second)) && r.Created.Before(testDay.Add(3*time.Second))
		}},
	} {
		for _, limit := range []int{0, 1, 3, 10} {
			var want, got []string
			for _, run := range all {
				if test.want(run) {
					want = append(want, run.ID)
				}
			}
			q := test.q
			q.Limit = limit
			for {
				page, next, err := r.List(t.Context(), q)
				must(t, err)
				for _, run := range page {
					got = append(got, run.ID)
					if len(run.Request)+len(run.Result) > 0 {
						t.Errorf("the list has bodies")
					}
				}
				if q.Cursor = next; next == "" {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, limit %d: %s", name, limit, diff)
			}
		}
	}
	now = now.Add(time.Hour)
	for range 2 { // before and after the sweep
		list, next, err := r.List(t.Context(), store.RunQuery{})
		if len(list) != 30 || next != "" || err != nil {
			t.Errorf("after the others have expired: %d runs, %v", len(list), err)
		}
		must(t, db.Sweep(t.Context()))
	}
	for _, cursor := range []string{"x", "MSAy!", "MTIz", "YSBi", "MSAA", "MSD_"} {
		if _, _, err := r.List(t.Context(), store.RunQuery{Cursor: cursor}); !errors.Is(err, store.ErrCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// RU-08
func runsExpire(t *testing.T, open openEmpty) {
	now := testDay
	db := open(t, func() time.Time { return now })
	r := db.Runs()
	for i := range maxChunk + 5 {
		startRun(t, r, store.Run{ID: fmt.Sprint("r", i), Replica: "A", Attempt: 1, State: store.RunRunning, Session: "s", Request: []byte("{}")})
		must(t, r.End(t.Context(), store.RunEnd{
			ID: fmt.Sprint("r", i), Replica: "A", Attempt: 1, State: "completed",
			Result: []byte("1"), Expires: now.Add(time.Hour), Batches: []store.RunBatch{batch(fmt.Sprint("r", i), 1, 1), batch(fmt.Sprint("r", i), 1, 2)},
		}))
	}
	startRun(t, r, store.Run{ID: "live", Replica: "A", Attempt: 1, State: store.RunRunning, Expires: now.Add(time.Minute), Request: []byte("{}")})
	k := store.IdempotencyKey{Key: "k", Run: "r0", Expires: now.Add(72 * time.Hour)}
	must(t, r.SetKey(t.Context(), k))
	now = now.Add(time.Hour)
	for swept := range 2 {
		run, err := r.Find(t.Context(), "r7")
		if run.Removed != store.RemovedAll || run.State != "completed" || len(run.Request)+len(run.Result) > 0 || err != nil {
			t.Errorf("%+v, %v", run, err)
		}
		if _, err := r.LatestOf(t.Context(), "s"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("latest: %v", err)
		}
		if swept == 0 {
			must(t, db.Sweep(t.Context()))
		}
	}
	if err := r.Batches(t.Context(), "r7", nil); !errors.Is(err, store.ErrExpired) {
		t.Errorf("batches: %v", err)
	}
	if run, err := r.Find(t.Context(), "live"); run.Removed != store.RemovedNothing || len(run.Request) == 0 || err != nil {
		t.Errorf("a live one: %+v, %v", run, err)
	}
	now = now.Add(lateTime) // with several processes
	must(t, db.Sweep(t.Context()))
	if batches, removals := countRows(t, db, "run_batches"), countRows(t, db, "run_removals"); batches+removals > 0 {
		t.Errorf("%d batches, %d removals", batches, removals)
	}
	now = now.Add(expiredLife)
	must(t, db.Sweep(t.Context()))
	if n := countRows(t, db, "runs"); n != 2 { // one has a key
		t.Errorf("%d rows", n)
	}
	now = now.Add(72 * time.Hour)
	must(t, db.Sweep(t.Context()))
	if runs, keys := countRows(t, db, "runs"), countRows(t, db, "idempotency_keys"); runs != 1 || keys != 0 {
		t.Errorf("%d runs, %d keys", runs, keys)
	}
}

// ST-09
func eventsHaveABound(t *testing.T, open openEmpty) {
	now := testDay
	db := open(t, func() time.Time { return now })
	r := db.Runs()
	for i := range 10 {
		id := fmt.Sprint("r", i)
		startRun(t, r, store.Run{ID: id, Replica: "A", Attempt: 1, State: store.RunRunning})
		now = now.Add(time.Second)
		must(t, r.End(t.Context(), store.RunEnd{
			ID: id, Replica: "A", Attempt: 1, State: "completed", Result: []byte("1"),
			Batches: []store.RunBatch{{Run: id, Attempt: 1, Seq: 1, Events: make([]byte, 100)}},
		}))
	}
	for _, test := range []struct{ bound, removed int64 }{{0, 0}, {1000, 0}, {650, 4}, {600, 4}, {1, 10}} {
		db.maxRunBytes = test.bound
		must(t, db.Sweep(t.Context()))
		for i := range int64(10) {
			run, err := r.Find(t.Context(), fmt.Sprint("r", i))
			want := store.Run{
				ID: fmt.Sprint("r", i), Replica: "A", Attempt: 1, State: "completed", Created: run.Created,
				Ended: run.Ended, Result: []byte("1"), Bytes: 100,
			}
			if i < test.removed {
				want.Bytes, want.Removed = 0, store.RemovedEvents
			}
			if diff := cmp.Diff(want, run, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("bound %d: %s, %v", test.bound, diff, err)
			}
			if err := r.Batches(t.Context(), run.ID, func(store.RunBatch) error { return nil }); errors.Is(err, store.ErrExpired) != (i < test.removed) {
				t.Errorf("bound %d, batches of %s: %v", test.bound, run.ID, err)
			}
		}
		if got := int64(countRows(t, db, "run_batches")); got != 10-test.removed {
			t.Errorf("bound %d: %d batches", test.bound, got)
		}
	}
	if damages, err := db.Check(t.Context()); len(damages) > 0 || err != nil {
		t.Error(damages, err)
	}
}

// ST-10
func runsOfAnErasedSession(t *testing.T, open openEmpty) {
	db := open(t, time.Now)
	r, s := db.Runs(), db.Tapes(nil)
	begin := func(name, session string) {
		t.Helper()
		b := say("text")
		b.Create, b.Session = true, session
		_, err := s.Append(t.Context(), name, b)
		must(t, err)
		for _, state := range []string{"live", "ended"} {
			id := session + state
			_, err := r.Start(t.Context(), store.Run{
				ID: id, Replica: "A", Attempt: 1, State: store.RunRunning, Session: session,
				Request: []byte("{}"),
			}, &store.IdempotencyKey{Key: id})
			must(t, err)
			if state == "live" {
				_, err = r.Append(t.Context(), "A", []store.RunBatch{batch(id, 1, 1)})
			} else {
				err = r.End(t.Context(), store.RunEnd{ID: id, Replica: "A", Attempt: 1, State: "completed", Batches: []store.RunBatch{batch(id, 1, 1)}})
			}
			must(t, err)
		}
	}
	begin("a", "o#a")
	begin("b", "o#b")
	begin("c", "")
	must(t, s.Delete(t.Context(), "a"))
	must(t, s.Delete(t.Context(), "c"))
	check := func(want string) {
		t.Helper()
		var got []string
		list, _, err := r.List(t.Context(), store.RunQuery{})
		must(t, err)
		for _, run := range list {
			if _, found, err := r.FindKey(t.Context(), "", run.ID); !found || err != nil || eventsOf(t, r, run.ID) != "1/1" {
				t.Errorf("%s lost its key or its events, %v", run.ID, err)
			}
			got = append(got, run.ID)
		}
		slices.Sort(got)
		if got := strings.Join(got, " "); got != want || countRows(t, db, "idempotency_keys") != len(list) || countRows(t, db, "run_batches") != len(list) {
			t.Errorf("runs %s, want %s", got, want)
		}
	}
	check("ended live o#alive o#bended o#blive")
}

// ST-10
func TestTextOfErasedAndExpiredRunsIsInNoFile(t *testing.T) {
	dir := t.TempDir()
	now := testDay
	db := open(t, filepath.Join(dir, "x.db"), &Options{Clock: func() time.Time { return now }})
	r, s := db.Runs(), db.Tapes(nil)
	const erased, expired = "ZebraQuagga", "OkapiTapir"
	for i, secret := range []string{erased, expired} {
		b := say("what stays")
		b.Create, b.Session = true, fmt.Sprint("s", i)
		_, err := s.Append(t.Context(), fmt.Sprint("t", i), b)
		must(t, err)
		text := strings.Repeat(secret+" ", 3000)
		for j := range 20 {
			id := fmt.Sprint("r", i, j)
			startRun(t, r, store.Run{ID: id, Replica: "A", Attempt: 1, State: store.RunRunning, Session: b.Session, Request: []byte(text)})
			must(t, r.End(t.Context(), store.RunEnd{
				ID: id, Replica: "A", Attempt: 1, State: "completed", Result: []byte(text), Expires: now.Add(time.Duration(2-i) * time.Hour),
				Batches: []store.RunBatch{{Run: id, Attempt: 1, Seq: 1, Events: []byte(text)}, {Run: id, Attempt: 1, Seq: 2, Events: []byte(secret)}},
			}))
		}
	}
	files := func(secret string) (with []string) {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		must(t, err)
		for _, name := range names {
			data, err := os.ReadFile(name)
			must(t, err)
			if bytes.Contains(data, []byte(secret)) {
				with = append(with, name)
			}
		}
		return with
	}
	for _, test := range []struct {
		secret string
		remove func() error
	}{
		{erased, func() error { return s.Delete(t.Context(), "t0") }},
		{expired, func() error { now = now.Add(time.Hour); return db.Sweep(t.Context()) }},
	} {
		if len(files(test.secret)) == 0 {
			t.Fatalf("%s is in no file before it is removed", test.secret)
		}
		must(t, test.remove())
		if with := files(test.secret); len(with) > 0 {
			t.Errorf("%s is in %v", test.secret, with)
		}
	}
}

func TestRunsSurviveTheEndOfTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db := open(t, path, nil)
	r := db.Runs()
	for _, id := range []string{"r", "erased"} {
		startRun(t, r, store.Run{ID: id, Replica: "A", Attempt: 1, State: store.RunRunning, Session: id})
		_, err := r.Append(t.Context(), "A", []store.RunBatch{batch(id, 1, 1), batch(id, 1, 2)})
		must(t, err)
	}
	must(t, r.End(t.Context(), store.RunEnd{ID: "erased", Replica: "A", Attempt: 1, State: "completed"}))
	must(t, db.Update(t.Context(), func(tx *Tx) { tx.eraseRuns("erased") })) // its batches are not removed yet
	must(t, db.Close())

	db = open(t, path, nil)
	r = db.Runs()
	left, err := r.Left(t.Context(), "B", []string{"B"}, 10)
	if len(left) != 1 || left[0].ID != "r" || err != nil || eventsOf(t, r, "r") != "1/1 1/2" || countRows(t, db, "run_batches") != 2 {
		t.Fatalf("%+v, %v, %d batches", left, err, countRows(t, db, "run_batches"))
	}
	err = r.Take(t.Context(), store.Takeover{
		ID: "r", FromReplica: "A", FromAttempt: 1, Replica: "B", Crashes: 1, AfterSeq: 2,
		State: store.RunRunning,
	})
	must(t, err)
	must(t, r.End(t.Context(), store.RunEnd{ID: "r", Replica: "B", Attempt: 2, State: "completed", Batches: []store.RunBatch{batch("r", 2, 1)}}))
	if got := eventsOf(t, r, "r"); got != "1/1 1/2 2/1" {
		t.Error(got)
	}
}

func replicas(t *testing.T, open openEmpty) {
	now := testDay
	db := open(t, func() time.Time { return now })
	r := db.Runs()
	seen := func() (ids string, now time.Time) {
		t.Helper()
		list, now, err := r.Replicas(t.Context())
		must(t, err)
		for _, replica := range list {
			if age := now.Sub(replica.Seen); age < 0 || age > 30*time.Second {
				t.Errorf("%s was seen %v ago", replica.ID, age)
			}
			ids += replica.ID + replica.Address + replica.Version + " "
		}
		return ids, now
	}
	must(t, r.Beat(t.Context(), store.Replica{ID: "A", Address: ":1", Version: "1"}))
	must(t, r.Beat(t.Context(), store.Replica{ID: "B", Address: ":2", Version: "1"}))
	must(t, r.Beat(t.Context(), store.Replica{ID: "A", Address: ":1", Version: "2"}))
	got, at := seen()
	if got != "A:12 B:21 " || !db.network && !at.Equal(testDay) || db.network && time.Since(at).Abs() > time.Hour {
		t.Error(got, at)
	}
	must(t, r.Leave(t.Context(), "B"))
	if got, _ := seen(); got != "A:12 " {
		t.Error(got)
	}
	now = now.Add(replicaLife)
	if db.network { // the clock of a server cannot be set
		must(t, db.Update(t.Context(), func(tx *Tx) {
			tx.exec("UPDATE replicas SET seen = seen - 3600000000")
		}))
	}
	must(t, db.Sweep(t.Context()))
	if got, _ := seen(); got != "" {
		t.Error(got)
	}
	secrets := make([]string, 10)
	var wg sync.WaitGroup
	for i := range secrets {
		wg.Go(func() {
			secret, err := r.Secret(context.WithoutCancel(t.Context()), []byte{byte(i), 0xff})
			if secrets[i] = string(secret); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if slices.Sort(secrets); len(secrets[0]) != 2 || secrets[0] != secrets[9] {
		t.Errorf("secrets %q", secrets)
	}
}

// ST-08
func damagedRunsAreFound(t *testing.T, open openEmpty) {
	db := open(t, time.Now)
	r := db.Runs()
	var batches []store.RunBatch
	for i := range sessionRows + 3 {
		id := fmt.Sprintf("r%03d", i)
		startRun(t, r, store.Run{ID: id, Replica: "A", Attempt: 1, State: store.RunRunning})
		batches = append(batches, batch(id, 1, 1), batch(id, 1, 2), batch(id, 1, 3))
	}
	_, err := r.Append(t.Context(), "A", batches)
	must(t, err)
	if damages, err := db.Check(t.Context()); len(damages) > 0 || err != nil {
		t.Fatalf("%q, %v", damages, err)
	}
	for _, query := range []string{
		"DELETE FROM run_batches WHERE run = 'r001' AND seq = 1",
		"DELETE FROM run_batches WHERE run = 'r202' AND seq = 2", "DELETE FROM runs WHERE id = 'r100'",
	} {
		must(t, db.Update(t.Context(), func(tx *Tx) { tx.exec(query) }))
	}
	want := []string{
		`attempt 1 of run "r001" should have the batches from 1 on without a gap; found 2, from 2 to 3`, `there are batches of run "r100", which does not exist`,
		`attempt 1 of run "r202" should have the batches from 1 on without a gap; found 2, from 1 to 3`,
	}
	damages, err := db.Check(t.Context())
	if diff := cmp.Diff(want, damages); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
