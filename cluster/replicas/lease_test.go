package replicas

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest/file"
	"github.com/lingserve/lingserve/tape"
)

// waiting returns how many callers of this process wait for a lease.
func (l *Leases) waiting(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.all[name]; e != nil && e.line != nil {
		return len(e.line.waiting)
	}
	return 0
}

// group is a table that replicas share in a bubble of package synctest.
type group struct {
	t      *testing.T
	engine store.Engine
}

func newGroup(t *testing.T) *group {
	t.Helper()
	e, err := file.Open(vfs.InMemory(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &group{t, e}
}

// faulty is a table that fails while down is set.
type faulty struct {
	store.Table
	mu   sync.Mutex
	down error
}

func (f *faulty) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

func (f *faulty) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

func (f *faulty) Put(ctx context.Context, puts ...store.Put) ([]store.Record, []error) {
	if err := f.failure(); err != nil {
		if errors.Is(err, store.ErrUnsure) { // the answer is lost
			_, _ = f.Table.Put(ctx, puts...)
		}
		return make([]store.Record, len(puts)), []error{err}
	}
	return f.Table.Put(ctx, puts...)
}

// join has a replica join in the caller's bubble; when it returns, all replicas know of each other, and have told those who watch.
func (g *group) join(id string) (*Members, *faulty) {
	g.t.Helper()
	table, err := g.engine.Table(g.t.Context(), Table)
	if err != nil {
		g.t.Fatal(err)
	}
	f := &faulty{Table: table}
	m, err := Join(g.t.Context(), f, Options{ID: id, Name: "name of " + id})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			g.t.Error(err)
		}
	})
	synctest.Wait()
	return m, f
}

func leases(t *testing.T, m *Members) *Leases {
	t.Helper()
	l, err := m.Leases("sessions")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func take(t *testing.T, l *Leases, name string) *lease {
	t.Helper()
	got, err := l.Lease(t.Context(), name, true)
	if err != nil {
		t.Fatalf("the lease %s: %v", name, err)
	}
	return got.(*lease)
}

func lost(l tape.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// Callers of one replica get a lease in the order in which they came, and one that gives up leaves no gap.
func TestCallersOfOneReplicaComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Alone(Options{ID: "me"})
		defer m.Close()
		l := leases(t, m)
		first := take(t, l, "s")
		var got []int
		var wg sync.WaitGroup
		ctxs := make([]context.CancelFunc, 5)
		for i := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			ctxs[i] = cancel
			defer cancel()
			wg.Go(func() {
				lease, err := l.Lease(ctx, "s", true)
				if err != nil {
					return
				}
				got = append(got, i) // the lease is the lock
				lease.Release()
			})
			synctest.Wait()
			if n := l.waiting("s"); n != i+1 {
				t.Fatalf("%d wait, want %d", n, i+1)
			}
		}
		ctxs[2]()
		synctest.Wait()
		first.Release()
		wg.Wait()
		if want := []int{0, 1, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("they got it in the order %v, want %v", got, want)
		}
	})
}

// RU-52, CL-02: a server that is alone has the same leases, and no goroutine: the bubble would not end with one.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Alone(Options{ID: "me", Name: "host"})
		l := leases(t, m)
		if all := m.Replicas(); len(all) != 1 || all[0].ID != "me" || all[0].Name != "host" || all[0].Life != 1 || !m.Alive("me") || m.Alive("other") {
			t.Errorf("there are %v", all)
		}
		if ok, err := m.Find(t.Context(), "other"); ok || err != nil {
			t.Errorf("another one: %v, %v", ok, err)
		}
		defer m.Watch(func(c Change) { t.Errorf("told %v", c) })()
		held := take(t, l, "s")
		time.Sleep(24 * time.Hour)
		if id, since, ok, err := l.Holder(t.Context(), "s"); id != "me" || time.Since(since).Round(time.Minute) != 24*time.Hour || !ok || err != nil || !held.Held() {
			t.Errorf("held by %q since %v, %v, %v", id, since, ok, err)
		}
		if _, err := l.Lease(t.Context(), "s", false); !errors.Is(err, tape.ErrLeased) {
			t.Errorf("taken twice: %v", err)
		}
		held.Release()
		if _, _, ok, err := l.Holder(t.Context(), "s"); ok || err != nil || l.Held() != 0 {
			t.Errorf("held after the release: %v", err)
		}
		other := take(t, l, "s")
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if !lost(other) || other.Held() {
			t.Error("a lease outlives the members")
		}
		if _, err := l.Lease(t.Context(), "t", false); !errors.Is(err, ErrClosed) {
			t.Errorf("a lease after Close: %v", err)
		}
	})
}

// CL-06, CL-07: the lease of a replica that is silent is free within TTL and a second, and the others are told of its death. When it comes
// back, it has lost the lease and is in another life.
func TestASilentReplicaLosesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, table := g.join("a")
		b, _ := g.join("b")
		var told []Change
		defer b.Watch(func(c Change) { told = append(told, c) })()
		held := take(t, leases(t, a), "s")
		began := time.Now()
		table.set(store.ErrAway)
		second := take(t, leases(t, b), "s")
		if took := time.Since(began); took > TTL+time.Second || took < TTL-beatEvery {
			t.Errorf("free after %v", took)
		}
		table.set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !lost(held) || held.Held() || lost(second) || !second.Held() {
			t.Errorf("the first holder has lost it: %v, the second: %v", lost(held), lost(second))
		}
		if len(told) != 2 || told[0].What != Died || told[0].Replica.ID != "a" || told[0].Replica.Name != "name of a" ||
			told[1].What != Came || told[1].Replica.Life != 2 {
			t.Errorf("told were %v", told)
		}
		held.Release() // of a life that has ended
		if id, _, ok, err := leases(t, a).Holder(t.Context(), "s"); id != "b" || !ok || err != nil {
			t.Errorf("held by %q, %v, %v", id, ok, err)
		}
	})
}

// CL-10: while the store is away nobody dies and no lease is taken; after Options.Grace leases are lost.
func TestTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, first := g.join("a")
		b, second := g.join("b")
		both := func(err error) { first.set(err); second.set(err) }
		held := take(t, leases(t, a), "s")
		given := take(t, leases(t, a), "given")
		both(store.ErrAway)
		time.Sleep(30 * time.Second)
		if _, err := leases(t, b).Lease(t.Context(), "x", false); !errors.Is(err, ErrAway) {
			t.Errorf("a lease meanwhile: %v", err)
		}
		if a.FailingSince().IsZero() || lost(held) || !held.Held() || !b.Alive("a") {
			t.Error("somebody is taken for dead")
		}
		given.Release()
		if _, err := leases(t, a).Lease(t.Context(), "given", false); !errors.Is(err, tape.ErrLeased) {
			t.Errorf("a lease that could not be given back is taken again: %v", err)
		}
		both(nil)
		take(t, leases(t, b), "given").Release()
		if lost(held) || !held.Held() || !a.FailingSince().IsZero() {
			t.Error("the lease is lost when the store is back")
		}
		if away := a.Failed(); away < 25*time.Second || away > 35*time.Second {
			t.Errorf("the store was away for %v", away)
		}
		both(store.ErrAway)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !lost(held) || held.Held() {
			t.Error("the lease is held after the grace")
		}
		both(nil)
		take(t, leases(t, b), "s").Release()
	})
}

// A replica that leaves frees its leases at once, and is seen to leave.
func TestAReplicaLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, _ := g.join("a")
		b, _ := g.join("b")
		var told []Change
		defer b.Watch(func(c Change) { told = append(told, c) })()
		held := take(t, leases(t, a), "s")
		began := time.Now()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		take(t, leases(t, b), "s").Release()
		if took := time.Since(began); took > time.Second || !lost(held) {
			t.Errorf("free after %v", took)
		}
		synctest.Wait()
		if len(told) != 1 || told[0].What != Left {
			t.Errorf("told were %v", told)
		}
		time.Sleep(2 * leftLife) // its record ends
		if len(told) != 1 || b.Alive("a") {
			t.Errorf("told were %v", told)
		}
	})
}

// Answers are lost: whatever was stored, one replica has the lease, and the other gets it when it is given back.
func TestAnswersAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, table := g.join("a")
		b, _ := g.join("b")
		table.set(store.ErrUnsure)
		time.AfterFunc(3*time.Second, func() { table.set(nil) })
		held := take(t, leases(t, a), "s") // it was stored at the first attempt
		if _, err := leases(t, b).Lease(t.Context(), "s", false); !errors.Is(err, tape.ErrLeased) || !held.Held() {
			t.Errorf("two have the lease: %v", err)
		}
		table.set(store.ErrUnsure)
		held.Release()
		if _, err := leases(t, a).Lease(t.Context(), "t", false); !errors.Is(err, ErrAway) { // perhaps it is stored
			t.Errorf("without an answer: %v", err)
		}
		time.AfterFunc(time.Second, func() { table.set(nil) })
		take(t, leases(t, b), "s").Release()
		take(t, leases(t, b), "t").Release()
		time.Sleep(time.Minute)
		if a.Replicas()[0].Life != 1 || len(b.Replicas()) != 2 {
			t.Errorf("there are %v", b.Replicas())
		}
	})
}

// A lease that is held for a day stays held, and its record is not given up. What is deleted behind the holder's back is lost.
func TestALeaseIsStoredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, table := g.join("a")
		b, _ := g.join("b")
		held := take(t, leases(t, a), "s")
		time.Sleep(3 * time.Hour)
		if _, err := leases(t, b).Lease(t.Context(), "s", false); !errors.Is(err, tape.ErrLeased) || !held.Held() {
			t.Errorf("it is not held: %v", err)
		}
		_, errs := table.Table.Put(t.Context(), store.Put{Key: leases(t, a).key("s"), ID: [16]byte{1}, After: store.AnyRev, Delete: true})
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		take(t, leases(t, b), "s")
		time.Sleep(leaseLife)
		if !lost(held) {
			t.Error("a lease that was deleted is still held")
		}
	})
}

// More callers wait for leases than may watch one.
func TestManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, _ := g.join("a")
		b, _ := g.join("b")
		names := make([]string, mostNews+20)
		var held []*lease
		for i := range names {
			names[i] = string(rune('a'+i%26)) + time.Duration(i).String()
			held = append(held, take(t, leases(t, a), names[i]))
		}
		var wg sync.WaitGroup
		for _, name := range names {
			wg.Go(func() { take(t, leases(t, b), name).Release() })
		}
		synctest.Wait()
		for _, lease := range held {
			lease.Release()
		}
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took > lookAgain {
			t.Errorf("all have had theirs after %v", took)
		}
		if b.news != 0 {
			t.Errorf("%d still watch", b.news)
		}
	})
}

// A replica leaves, and the answer to its last beat, or to the first one of a life, has not come: it is seen to leave at once.
func TestAReplicaLeavesBehindALostAnswer(t *testing.T) {
	for _, first := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t)
			a, table := g.join("a")
			b, _ := g.join("b")
			var told []Change
			defer b.Watch(func(c Change) { told = append(told, c) })()
			table.set(store.ErrUnsure)
			time.Sleep(beatEvery)
			synctest.Wait()
			if first {
				a.mu.Lock()
				a.lose(errTaken)
				a.mu.Unlock()
				time.Sleep(beatAgain)
			}
			table.set(nil)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := len(told); n == 0 || told[n-1].What != Left || b.Alive("a") {
				t.Errorf("told were %v", told)
			}
			time.Sleep(time.Minute)
			if b.Alive("a") {
				t.Error("it is there again")
			}
		})
	}
}
