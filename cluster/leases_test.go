package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// leaseTable is a store of leases. It shares the clock and the outages of a database.
type leaseTable struct {
	*database
	holders map[string]string // by name
	calls   int
	late    error // of the next TakeLease, after it was executed
}

func newLeaseTable() *leaseTable {
	return &leaseTable{database: newDatabase(time.Now), holders: map[string]string{}}
}

func (l *leaseTable) query(ctx context.Context, f func()) error {
	if err := l.call(ctx, func() { l.calls++; f() }); err != nil {
		return fmt.Errorf("%w: %w", store.ErrAway, err)
	}
	return nil
}

func (l *leaseTable) TakeLease(ctx context.Context, name, replica string, alive []string) (holder string, err error) {
	var late error
	err = l.query(ctx, func() {
		holder = l.holders[name]
		r, member := l.rows[holder]
		if holder == "" || !slices.Contains(alive, holder) && !(member && l.now().Sub(r.Seen) < 5*time.Second) {
			holder = replica
			l.holders[name] = holder
		}
		late, l.late = l.late, nil
	})
	return holder, errors.Join(err, late)
}

func (l *leaseTable) FreeLease(ctx context.Context, name, replica string) error {
	return l.query(ctx, func() {
		if l.holders[name] == replica {
			delete(l.holders, name)
		}
	})
}

func (l *leaseTable) LeaseHolder(ctx context.Context, name string) (replica string, err error) {
	err = l.query(ctx, func() { replica = l.holders[name] })
	return replica, err
}

func (l *leaseTable) LeasesOf(ctx context.Context, replica string) (names []string, err error) {
	err = l.query(ctx, func() {
		for name, holder := range l.holders {
			if holder == replica {
				names = append(names, name)
			}
		}
	})
	return names, err
}

// holder returns what the table has, without a cluster.
func (l *leaseTable) holder(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holders["jobs/"+name]
}

// member is a replica with leases.
type member struct {
	*cluster.Cluster
	*cluster.Leases
}

func (l *leaseTable) join(t *testing.T, id string) member {
	t.Helper()
	c := join(t, l.database, cluster.Options{ID: id})
	return member{c, c.Leases("jobs", l)}
}

func (m member) take(t *testing.T, name string) tape.Lease {
	t.Helper()
	lease, err := m.Lease(t.Context(), name, false)
	if err != nil {
		t.Fatalf("%s takes %s: %v", m.ID(), name, err)
	}
	return lease
}

func (m member) wantLeased(t *testing.T, name string) {
	t.Helper()
	if _, err := m.Lease(t.Context(), name, false); !errors.Is(err, tape.ErrLeased) {
		t.Errorf("%s takes %s: %v, want ErrLeased", m.ID(), name, err)
	}
}

func (m member) wantHolder(t *testing.T, name, want string) {
	t.Helper()
	if got, err := m.Holder(t.Context(), name); got != want || err != nil {
		t.Errorf("for %s, %s has %s: %v, want %q", m.ID(), got, name, err, want)
	}
}

func isLost(l tape.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// waiter is a caller that waits for a lease.
type waiter struct {
	lease tape.Lease
	err   error
	done  bool
}

func (m member) wait(ctx context.Context, name string) *waiter {
	w := &waiter{}
	go func() {
		w.lease, w.err = m.Lease(ctx, name, true)
		w.done = true
	}()
	synctest.Wait()
	return w
}

func TestOneReplicaGetsALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseTable()
		a, b := l.join(t, "a"), l.join(t, "b") // a does not know b yet
		var wg sync.WaitGroup
		got := map[string][]string{}
		var mu sync.Mutex
		for i := range 100 {
			for _, m := range []member{b, a, b, a} {
				wg.Go(func() {
					name := fmt.Sprint(i)
					_, err := m.Lease(t.Context(), name, false)
					if err != nil && !errors.Is(err, tape.ErrLeased) {
						t.Error(err)
					}
					if mu.Lock(); err == nil {
						got[name] = append(got[name], m.ID())
					}
					mu.Unlock()
				})
			}
		}
		wg.Wait()
		for name, replicas := range got {
			if len(replicas) != 1 {
				t.Errorf("%v have %s", replicas, name)
			}
			a.wantHolder(t, name, replicas[0])
			b.wantHolder(t, name, replicas[0])
		}
		if len(got) != 100 {
			t.Errorf("%d leases were taken", len(got))
		}
		a.wantHolder(t, "none", "")
		c := l.join(t, "c")
		c.take(t, "new")
		a.wantLeased(t, "new")
		a.wantHolder(t, "new", "c")
		a.wantHolder(t, "100", "")
		other := a.Cluster.Leases("others", l)
		if lease, err := other.Lease(t.Context(), "new", false); err != nil {
			t.Errorf("another kind: %v", err)
		} else {
			lease.Release()
		}
		if a.Cluster.Leases("others", l) != other {
			t.Error("the second call returns other leases of the same kind")
		}
	})
}

func TestLeaseOfADeadReplicaIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseTable()
		a := l.join(t, "a")
		after(300 * time.Millisecond)
		b := l.join(t, "b")
		after(7 * time.Second)
		lost := b.take(t, "x")
		l.stop("b", true)
		w := a.wait(t.Context(), "x")
		after(4 * time.Second)
		if w.done {
			t.Fatal("taken from a replica that is alive")
		}
		a.wantHolder(t, "x", "b")
		after(4 * time.Second)
		if w.err != nil || !w.done || isLost(w.lease) {
			t.Fatalf("%+v", w)
		}
		a.wantHolder(t, "x", "a")

		if isLost(lost) {
			t.Error("lost, and the replica cannot know it yet")
		}
		kept := b.take(t, "y") // the others do not know of it, but nothing else has it
		l.stop("b", false)
		after(1100 * time.Millisecond)
		if !isLost(lost) || isLost(kept) || isLost(w.lease) {
			t.Errorf("lost: %t, %t, %t", isLost(lost), isLost(kept), isLost(w.lease))
		}
		lost.Release()
		if l.holder("x") != "a" {
			t.Error("the replica that lost the lease has freed it")
		}
		b.wantLeased(t, "x")
		w.lease.Release()
		b.take(t, "x")
	})
}

func TestReplicaThatWasStoppedLearnsWhatItHasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseTable()
		a, b := l.join(t, "a"), l.join(t, "b")
		one, two, released := b.take(t, "one"), b.take(t, "two"), b.take(t, "released")
		next := b.wait(t.Context(), "one")
		released.Release()
		after(7 * time.Second)
		l.stop("b", true)
		after(7 * time.Second)
		a.take(t, "one")
		l.set(func() { l.down = true }) // b returns, and cannot read its leases at first
		l.stop("b", false)
		after(1500 * time.Millisecond)
		if isLost(one) {
			t.Error("lost, and the replica cannot know it yet")
		}
		l.set(func() { l.down = false })
		after(1100 * time.Millisecond)
		if !isLost(one) || isLost(two) || isLost(released) || next.done {
			t.Errorf("lost: %t, %t, %t; the next caller has it: %t", isLost(one), isLost(two), isLost(released), next.done)
		}
		one.Release()
		after(2 * time.Second)
		if next.done || l.holder("one") != "a" {
			t.Errorf("the next caller has the lease of another replica: %+v", next)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		after(2100 * time.Millisecond)
		if !next.done || next.err != nil || isLost(next.lease) {
			t.Errorf("%+v", next)
		}
	})
}

func TestReplicaThatHasLeftLearnsWhatOthersTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseTable()
		a, b := l.join(t, "a"), l.join(t, "b")
		one, two := b.take(t, "one"), b.take(t, "two")
		after(time.Second)
		if err := b.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		after(1100 * time.Millisecond)
		a.wantHolder(t, "one", "")
		if isLost(one) {
			t.Error("lost, and no other replica has it")
		}
		a.take(t, "one")
		after(1100 * time.Millisecond)
		if !isLost(one) || isLost(two) {
			t.Errorf("lost: %t, %t", isLost(one), isLost(two))
		}
	})
}

func TestCallersOfOneReplicaGetALeaseOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseTable()
		a := l.join(t, "a")
		lease := a.take(t, "x")
		a.wantLeased(t, "x")
		ctx, cancel := context.WithCancel(t.Context())
		canceled := a.wait(ctx, "x")
		first, second := a.wait(t.Context(), "x"), a.wait(t.Context(), "x")
		cancel()
		after(time.Minute)
		if !canceled.done || !errors.Is(canceled.err, context.Canceled) || first.done || second.done {
			t.Errorf("%+v %+v %+v", canceled, first, second)
		}
		lease.Release()
		lease.Release()
		synctest.Wait()
		if second.done {
			first, second = second, first
		}
		if !first.done || first.err != nil || second.done {
			t.Errorf("%+v %+v", first, second)
		}
		first.lease.Release()
		synctest.Wait()
		if !second.done || second.err != nil {
			t.Errorf("%+v", second)
		}
		ctx, cancel = context.WithCancel(t.Context())
		last := a.wait(ctx, "x")
		second.lease.Release() // to the caller whose context ends now
		cancel()
		synctest.Wait()
		if last.err == nil {
			last.lease.Release()
		}
		after(2 * time.Second)
		if l.holder("x") != "" {
			t.Error("the lease stays taken")
		}
	})
}

func TestWaitingForAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseTable()
		a, b := l.join(t, "a"), l.join(t, "b")
		lease := a.take(t, "x")
		w, next := b.wait(t.Context(), "x"), b.wait(t.Context(), "x")
		time.Sleep(5 * time.Millisecond)
		lease.Release()
		after(20 * time.Millisecond)
		if !w.done || w.err != nil || next.done {
			t.Fatalf("%+v %+v", w, next)
		}
		calls := l.calls
		far := a.wait(t.Context(), "x")
		after(time.Minute)
		if n := l.calls - calls; n < 60 || n > 130 {
			t.Errorf("%d calls in a minute", n)
		}
		w.lease.Release()
		synctest.Wait()
		next.lease.Release()
		after(time.Second)
		if !far.done || far.err != nil {
			t.Fatalf("%+v", far)
		}
		closing := b.wait(t.Context(), "x")
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !closing.done || closing.err == nil {
			t.Errorf("after Close: %+v", closing)
		}
		if _, err := b.Lease(t.Context(), "y", true); err == nil {
			t.Error("taken after Close")
		}
	})
}

func TestReleaseWhileTheDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseTable()
		a, b := l.join(t, "a"), l.join(t, "b")
		lease, other := a.take(t, "x"), a.take(t, "y")
		l.set(func() { l.down = true })
		for _, wait := range []bool{false, true} {
			if _, err := b.Lease(t.Context(), "z", wait); !errors.Is(err, store.ErrAway) {
				t.Errorf("wait %t: %v, want ErrAway", wait, err)
			}
		}
		if _, err := b.Holder(t.Context(), "x"); !errors.Is(err, store.ErrAway) {
			t.Errorf("holder: %v, want ErrAway", err)
		}
		lease.Release()
		other.Release()
		if _, err := a.Lease(t.Context(), "x", false); !errors.Is(err, store.ErrAway) {
			t.Errorf("again: %v, want ErrAway", err)
		}
		after(2 * time.Second)
		if l.holder("x") != "a" {
			t.Fatal("freed without the database")
		}
		l.set(func() { l.down = false })
		again := a.take(t, "y")
		after(1100 * time.Millisecond)
		b.take(t, "x")
		b.wantLeased(t, "y")
		l.set(func() { l.hangs = true })
		start := time.Now()
		again.Release()
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("Release took %v", took)
		}
		_ = a.Close()
		l.set(func() { l.hangs = false })
	})
}

func TestLeaseThatMayHaveBeenTakenIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseTable()
		a, b := l.join(t, "a"), l.join(t, "b")
		l.set(func() { l.late = store.ErrUnsure })
		if _, err := a.Lease(t.Context(), "x", false); !errors.Is(err, store.ErrUnsure) {
			t.Fatal(err)
		}
		after(1100 * time.Millisecond)
		b.take(t, "x")
	})
}

func TestKindOfLeasesIsAWord(t *testing.T) {
	a := newLeaseTable().join(t, "a")
	for _, kind := range []string{"", "a/b"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is accepted", kind)
				}
			}()
			a.Cluster.Leases(kind, nil)
		}()
	}
}
