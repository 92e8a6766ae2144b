package leased_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel/owner/leased"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

func TestOneReplicaPollsAPlatform(t *testing.T) { // CL-02, CL-07, CH-170
	synctest.Test(t, func(t *testing.T) {
		db := clustertest.Open(t)
		dying, living := clustertest.Join(t, db), clustertest.Join(t, db)
		first, second := leased.OpenPollers(dying.Leases("pollers")), leased.OpenPollers(living.Leases("pollers"))
		time.Sleep(7 * time.Second) // until the living one may declare the other dead
		alone, release, err := first.Only(t.Context(), "telegram@a/b c")
		if err != nil {
			t.Fatal(err)
		}
		if _, other, err := second.Only(t.Context(), "telegram@other"); err != nil {
			t.Error(err)
		} else {
			other()
		}
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, _, err := second.Only(short, "telegram@a/b c"); err == nil {
			t.Fatal("two replicas poll one account")
		}
		dying.Stop()
		stopped := time.Now()
		next, done, err := second.Only(t.Context(), "telegram@a/b c")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(stopped); took < 4*time.Second || took > 8*time.Second {
			t.Errorf("the other one took over after %v", took)
		}
		if alone.Err() != nil {
			t.Error("the replica that is stopped knows of it")
		}
		dying.Continue()
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if alone.Err() == nil || next.Err() != nil {
			t.Errorf("%v, %v", alone.Err(), next.Err())
		}
		release()
		done()
		_, again, err := second.Only(t.Context(), "telegram@a/b c")
		if err != nil {
			t.Fatal(err)
		}
		again()
	})
}

func TestPollersWaitForTheDatabase(t *testing.T) { // CL-09
	synctest.Test(t, func(t *testing.T) {
		r := clustertest.Join(t, clustertest.Open(t))
		r.Stop()
		time.AfterFunc(time.Minute, r.Continue)
		_, release, err := leased.OpenPollers(r.Leases("pollers")).Only(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		release()
		r.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, _, err := leased.OpenPollers(r.Leases("pollers")).Only(ctx, "x"); err == nil {
			t.Error("alone without a database")
		}
	})
}

func TestOwnersLiveAsLongAsTheirReplicas(t *testing.T) { // CL-02
	synctest.Test(t, func(t *testing.T) {
		db := clustertest.Open(t)
		a, b := clustertest.Join(t, db), clustertest.Join(t, db) // a does not know b yet
		time.Sleep(time.Millisecond)
		inA, inB := leased.Owners(a.Leases("inbox")), leased.Owners(b.Leases("inbox"))
		name, lost, _, err := inB.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantAlive := func(what string, want bool) {
			t.Helper()
			if alive, err := inA.Alive(t.Context(), name); alive != want || err != nil {
				t.Errorf("%s: alive %t, %v", what, alive, err)
			}
		}
		wantAlive("at once", true)
		if alive, err := inA.Alive(t.Context(), "other"); alive || err != nil {
			t.Errorf("an owner that never was: %t, %v", alive, err)
		}
		isLost := func() bool {
			select {
			case <-lost:
				return true
			default:
				return false
			}
		}
		time.Sleep(7 * time.Second)
		b.Stop()
		time.Sleep(7 * time.Second)
		b.Continue()
		time.Sleep(2 * time.Second)
		wantAlive("stopped, and back before it was missed", true)
		if isLost() {
			t.Error("lost, and no other replica has missed it")
		}
		b.Stop()
		time.Sleep(7 * time.Second)
		wantAlive("stopped", false)
		b.Continue()
		time.Sleep(2 * time.Second)
		wantAlive("back after it was declared dead", false)
		if !isLost() {
			t.Error("the owner does not know that it was declared dead")
		}
		var release func()
		name, _, release, err = inB.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantAlive("with a new name", true)
		release()
		wantAlive("released", false)
	})
}
