//go:build unix

package cluster_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/longtest"
	storenats "github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/tape"
)

// changes are those that are told of one replica.
func changes(t *testing.T, c *cluster.Cluster, id string) <-chan replicas.Change {
	t.Helper()
	p, err := storenats.Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan replicas.Change, 100)
	t.Cleanup(p.Watch(func(c replicas.Change) {
		if c.Replica.ID == id {
			all <- c
		}
	}))
	return all
}

// next is the next change of that kind: on a busy machine a replica may be heard of late, or be taken for dead and come again, before.
func next(t *testing.T, all <-chan replicas.Change, want replicas.What) replicas.Change {
	t.Helper()
	after := time.After(soon)
	for {
		select {
		case c := <-all:
			if c.What == want {
				return c
			}
			t.Logf("the replica %v", c.What)
		case <-after:
			t.Fatalf("waited %v to be told that the replica %v", soon, want)
		}
	}
}

// TestTheLeaseOfADeadHolderIsFree within the TTL and a second (CL-06, CL-07), and the others are told of its death.
func TestTheLeaseOfADeadHolderIsFree(t *testing.T) {
	t.Parallel()
	for _, row := range servers {
		t.Run(row.name, func(t *testing.T) {
			row.orLong(t)
			t.Parallel()
			s := row.start(t)
			c, l := leases(t, s)
			p, id := holder(t, s)
			told := changes(t, c, id)
			got := make(chan tape.Lease)
			go func() {
				lease, err := l.Lease(t.Context(), "s", true)
				if err != nil {
					t.Error(err)
				}
				got <- lease
			}()
			p.Kill()
			begin := time.Now()
			lease := <-got
			longtest.Within(t, "until the lease of a dead holder is free", time.Since(begin), replicas.TTL+time.Second)
			next(t, told, replicas.Died)
			lease.Release()
		})
	}
}

// TestAHolderThatIsStoppedHasLostItsLease as soon as it goes on, whatever it does first (CL-06).
func TestAHolderThatIsStoppedHasLostItsLease(t *testing.T) {
	t.Parallel()
	for _, row := range servers {
		t.Run(row.name, func(t *testing.T) {
			row.orLong(t)
			t.Parallel()
			s := row.start(t)
			c, l := leases(t, s)
			p, id := holder(t, s)
			told := changes(t, c, id)
			p.Say("?")
			p.Expect("held true lost false")
			p.Signal(syscall.SIGSTOP)
			begin := time.Now()
			lease := take(t, l, "s")
			longtest.Within(t, "until the lease of a holder that is stopped is free", time.Since(begin), replicas.TTL+time.Second)
			next(t, told, replicas.Died)
			p.Say("?") // it is read when the process goes on
			p.Signal(syscall.SIGCONT)
			p.Expect("held false lost true")
			if life := next(t, told, replicas.Came).Replica.Life; life < 2 {
				t.Errorf("it has come back in life %d, want another than its first", life)
			}
			p.Close()
			next(t, told, replicas.Left)
			select {
			case <-lease.Lost():
				t.Error("the lease is lost where it was taken")
			default:
			}
		})
	}
}

// TestAnElectionTakesNoLease: the leader of the bucket is killed as hard as can be, which costs longer than the TTL, and whoever holds a
// lease keeps it; one who dies in that time is found out afterwards.
func TestAnElectionTakesNoLease(t *testing.T) {
	t.Parallel()
	s := clustertest.ThreeCrashing(t)
	c, l := leases(t, s)
	p, id := holder(t, s)
	told := changes(t, c, id)
	mine := take(t, l, "mine")
	other, otherID := clustertest.Start(t, "holder", s.URL()), ""
	s.Kill(s.Leader(c.Name("TABLE", "leases")))
	begin := time.Now()
	lease := take(t, l, "new")
	t.Logf("a lease is to be had again after %v", time.Since(begin))
	lease.Release()
	p.Say("?")
	p.Expect("held true lost false")
	p.Kill()
	otherID = strings.TrimPrefix(other.Line(), "holds ")
	heldBy(t, l, "s", otherID)
	next(t, told, replicas.Died)
	select {
	case <-mine.Lost():
		t.Error("the lease is lost")
	default:
	}
}

// TestLeasesOutliveTheServers: CL-10 for those who hold one.
func TestLeasesOutliveTheServers(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	ca, a := leases(t, s)
	_, b := leases(t, s)
	held, given := take(t, a, "held"), take(t, a, "given")
	s.Kill(0)
	if _, err := a.Lease(t.Context(), "x", false); err == nil {
		t.Error("there are leases without servers")
	}
	begin := time.Now()
	given.Release()
	longtest.Within(t, "to give a lease back without servers", time.Since(begin), 3*time.Second)
	if _, err := a.Lease(t.Context(), "given", false); err == nil {
		t.Error("a lease that could not be given back is taken again")
	}
	s.Restart(0)
	take(t, b, "given").Release()
	if _, err := b.Lease(t.Context(), "held", false); err == nil {
		t.Error("two have the lease")
	}
	heldBy(t, b, "held", ca.Replica())
	select {
	case <-held.Lost():
		t.Error("the lease is lost")
	default:
	}
	held.Release()
}
