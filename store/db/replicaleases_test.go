package db

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/store"
)

func replicaLeases(t *testing.T, open openEmpty) {
	now := testDay
	db := open(t, func() time.Time { return now })
	r := db.Runs()
	take := func(replica, name, want string, alive ...string) {
		t.Helper()
		if holder, err := r.TakeLease(t.Context(), name, replica, alive); holder != want || err != nil {
			t.Errorf("%s takes %s: %q has it, %v; want %q", replica, name, holder, err, want)
		}
	}
	wantHolder := func(name, want string) {
		t.Helper()
		if holder, err := r.LeaseHolder(t.Context(), name); holder != want || err != nil {
			t.Errorf("%q has %s, %v; want %q", holder, name, err, want)
		}
	}
	// forget makes the last heartbeats older.
	forget := func(age time.Duration) {
		t.Helper()
		must(t, db.Update(t.Context(), func(tx *Tx) {
			tx.exec("UPDATE replicas SET seen = seen - $1", age.Microseconds())
		}))
	}
	wantHolder("x", "")
	take("A", "x", "A")
	take("A", "x", "A", "A")
	take("B", "x", "A", "A", "B")
	take("A", "天/y", "A", "A", "B")
	must(t, r.FreeLease(t.Context(), "x", "B"))
	wantHolder("x", "A")
	must(t, r.FreeLease(t.Context(), "x", "A"))
	must(t, r.FreeLease(t.Context(), "x", "A"))
	wantHolder("x", "")
	take("B", "x", "B", "A", "B")
	for replica, want := range map[string][]string{"A": {"天/y"}, "B": {"x"}, "C": nil} {
		if names, err := r.LeasesOf(t.Context(), replica); !slices.Equal(names, want) || err != nil {
			t.Errorf("of %s: %q, %v; want %q", replica, names, err, want)
		}
	}
	// C has joined, and A does not know it yet.
	must(t, r.Beat(t.Context(), store.Replica{ID: "C"}))
	take("C", "new", "C", "A", "B", "C")
	take("A", "new", "C", "A", "B")
	forget(unknownReplicaLife + time.Millisecond)
	take("B", "new", "C", "A", "B", "C") // B has not declared it dead
	take("A", "new", "A", "A", "B")
	// B has no row of a replica, and A has one.
	must(t, r.Beat(t.Context(), store.Replica{ID: "A"}))
	must(t, db.Sweep(t.Context()))
	wantHolder("x", "")
	wantHolder("new", "A")
	must(t, r.Leave(t.Context(), "A"))
	must(t, db.Sweep(t.Context()))
	if n := countRows(t, db, "leases"); n != 0 {
		t.Errorf("%d leases", n)
	}
}

func oneReplicaTakesALease(t *testing.T, open openEmpty) {
	r := open(t, time.Now).Runs()
	ids := []string{"A", "B", "C", "D"}
	for i := range 20 {
		name := fmt.Sprint("lease", i)
		if i%2 > 0 { // of a dead replica
			_, err := r.TakeLease(t.Context(), name, "dead", nil)
			must(t, err)
		}
		holders := make([]string, len(ids))
		var wg sync.WaitGroup
		for i, id := range ids {
			wg.Go(func() {
				var err error
				if holders[i], err = r.TakeLease(context.WithoutCancel(t.Context()), name, id, ids); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		holder, err := r.LeaseHolder(t.Context(), name)
		must(t, err)
		for i, got := range holders {
			if got != holder || !slices.Contains(ids, got) {
				t.Errorf("for %s, %q has %s, want %q", ids[i], got, name, holder)
			}
		}
	}
}
