//go:build unix

package replicas_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tape"
)

// soon is longer than anything takes that is not meant to wait.
const soon = time.Minute

// installation is a schema that replicas share.
type installation struct {
	t      *testing.T
	schema string
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	if databaseMissing != nil {
		t.Skip(databaseMissing)
	}
	return &installation{t, "t" + strings.ToLower(rand.Text())}
}

func (i *installation) open() *place {
	i.t.Helper()
	p, err := openPlace(i.t.Context(), database.URL(), i.schema)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { _ = p.close() }) // the database may be gone
	return p
}

// holder starts a process that holds the lease "s".
func (i *installation) holder() (p *clustertest.Process, id string) {
	i.t.Helper()
	i.t.Setenv(urlVariable, database.URL())
	p = clustertest.Start(i.t, "holder", i.schema)
	return p, strings.TrimPrefix(p.Line(), "holds ")
}

// changes are those that are told of one replica.
func (i *installation) changes(p *place, id string) <-chan replicas.Change {
	all := make(chan replicas.Change, 100)
	i.t.Cleanup(p.Watch(func(c replicas.Change) {
		if c.Replica.ID == id {
			all <- c
		}
	}))
	return all
}

// next is the next change of that kind.
func next(t *testing.T, all <-chan replicas.Change, want replicas.What) replicas.Change {
	t.Helper()
	after := time.After(soon)
	for {
		select {
		case c := <-all:
			if c.What == want {
				return c
			}
		case <-after:
			t.Fatalf("waited %v to be told that the replica %v", soon, want)
		}
	}
}

func take(t *testing.T, p *place, name string) tape.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	l, err := p.Lease(ctx, name, true)
	if err != nil {
		t.Fatalf("the lease %s: %v", name, err)
	}
	return l
}

// CL-06, CL-14: no two replicas on PostgreSQL have a lease at once, and all get it.
func TestManyTakeOneLease(t *testing.T) {
	i := newInstallation(t)
	var wg sync.WaitGroup
	var mu sync.Mutex // would hide nothing: it is tried, not locked
	for range 3 {
		p := i.open()
		for range 4 {
			wg.Go(func() {
				for range 5 {
					lease, err := p.Lease(t.Context(), "s", true)
					if err != nil {
						t.Error(err)
						return
					}
					if !mu.TryLock() {
						t.Error("two have the lease")
						return
					}
					mu.Unlock()
					lease.Release()
				}
			})
		}
	}
	began := time.Now()
	wg.Wait()
	t.Logf("60 leases one after the other: %v", time.Since(began))
}

// CL-14: a replica that leaves frees its leases at once.
func TestAReplicaThatLeavesFreesItsLeases(t *testing.T) {
	i := newInstallation(t)
	a, b := i.open(), i.open()
	lease := take(t, a, "some.session/1")
	if _, err := b.Lease(t.Context(), "some.session/1", false); !errors.Is(err, tape.ErrLeased) {
		t.Errorf("a second lease: %v", err)
	}
	if id, since, ok, err := b.Holder(t.Context(), "some.session/1"); id != a.ID() || time.Since(since) > soon || !ok || err != nil {
		t.Errorf("held by %q, %v, %v", id, ok, err)
	}
	got := make(chan tape.Lease)
	go func() {
		l, err := b.Lease(t.Context(), "some.session/1", true)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	began := time.Now()
	if err := a.Members.Close(); err != nil {
		t.Fatal(err)
	}
	<-lease.Lost()
	(<-got).Release()
	longtest.Within(t, "until the lease of a replica that left is free", time.Since(began), replicas.TTL/2)
}

// CL-07, CL-14: the lease of a process that was killed is free within the TTL and a second, and the others are told of its death.
func TestTheLeaseOfADeadHolderIsFree(t *testing.T) {
	i := newInstallation(t)
	p := i.open()
	holder, id := i.holder()
	told := i.changes(p, id)
	got := make(chan tape.Lease)
	go func() { got <- take(t, p, "s") }()
	holder.Kill()
	began := time.Now()
	(<-got).Release()
	longtest.Within(t, "until the lease of a dead holder is free", time.Since(began), replicas.TTL+time.Second)
	next(t, told, replicas.Died)
}

// CL-06, CL-14: a process that was stopped has lost its lease as soon as it goes on, whatever it does first.
func TestAHolderThatIsStoppedHasLostItsLease(t *testing.T) {
	i := newInstallation(t)
	p := i.open()
	holder, id := i.holder()
	told := i.changes(p, id)
	holder.Say("?")
	holder.Expect("held true lost false")
	holder.Signal(syscall.SIGSTOP)
	began := time.Now()
	lease := take(t, p, "s")
	longtest.Within(t, "until the lease of a holder that is stopped is free", time.Since(began), replicas.TTL+time.Second)
	next(t, told, replicas.Died)
	holder.Say("?") // it is read when the process goes on
	holder.Signal(syscall.SIGCONT)
	holder.Expect("held false lost true")
	if life := next(t, told, replicas.Came).Replica.Life; life < 2 {
		t.Errorf("it has come back in life %d, want another than its first", life)
	}
	holder.Close()
	next(t, told, replicas.Left)
	select {
	case <-lease.Lost():
		t.Error("the lease is lost where it was taken")
	default:
	}
}

// CL-10, CL-14: leases outlive a database that is killed and starts again, for longer than TTL.
func TestLeasesOutliveTheDatabase(t *testing.T) {
	i := newInstallation(t)
	a, b := i.open(), i.open()
	held, given := take(t, a, "held"), take(t, a, "given")
	// What was written a moment before the database is killed, is lost, but not what is before a commit that is synced.
	conn, err := pgx.Connect(t.Context(), database.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `CREATE TABLE `+i.schema+`.synced ()`); err != nil {
		t.Fatal(err)
	}
	if err := database.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Lease(t.Context(), "x", false); err == nil {
		t.Error("there are leases without the database")
	}
	began := time.Now()
	given.Release()
	longtest.Within(t, "to give a lease back without the database", time.Since(began), 3*time.Second)
	if _, err := a.Lease(t.Context(), "given", false); err == nil {
		t.Error("a lease that could not be given back is taken again")
	}
	clustertest.Eventually(t, "the beats to fail for long enough to die", func() bool {
		since := a.FailingSince()
		return !since.IsZero() && time.Since(since) > replicas.TTL
	})
	if err := database.Restart(); err != nil {
		t.Fatal(err)
	}
	take(t, b, "given").Release()
	if _, err := b.Lease(t.Context(), "held", false); err == nil {
		t.Error("two have the lease")
	}
	select {
	case <-held.Lost():
		t.Error("the lease is lost")
	default:
	}
	held.Release()
	take(t, b, "held").Release()
}
