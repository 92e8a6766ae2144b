//go:build unix

package leasetest

import (
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/longtest"
)

// Run runs all tests, each on a new place.
func Run(t *testing.T, place func(*testing.T) Place) {
	t.Run("many take one", func(t *testing.T) { manyTakeOneLease(t, place(t)) })
	t.Run("a replica leaves", func(t *testing.T) { aReplicaThatLeavesFreesItsLeases(t, place(t)) })
	t.Run("a holder dies", func(t *testing.T) { theLeaseOfADeadHolderIsFree(t, place(t)) })
	t.Run("a holder is stopped", func(t *testing.T) { aHolderThatIsStoppedHasLostItsLease(t, place(t)) })
}

// A process that was stopped has lost its lease as soon as it goes on, whatever it does first.
func aHolderThatIsStoppedHasLostItsLease(t *testing.T, p Place) {
	r := p.Open(t)
	holder := p.Holder(t)
	told := Changes(t, r.Members, HolderID(holder))
	holder.Say("?")
	holder.Expect("held true lost false")
	holder.Signal(syscall.SIGSTOP)
	began := time.Now()
	lease := Take(t, r.Leases, "s")
	longtest.Within(t, "until the lease of a holder that is stopped is free", time.Since(began), replicas.TTL+time.Second)
	Next(t, told, replicas.Died)
	holder.Say("?") // it is read when the process goes on
	holder.Signal(syscall.SIGCONT)
	holder.Expect("held false lost true")
	if life := Next(t, told, replicas.Came).Replica.Life; life < 2 {
		t.Errorf("it has come back in life %d, want another than its first", life)
	}
	holder.Close()
	Next(t, told, replicas.Left)
	select {
	case <-lease.Lost():
		t.Error("the lease is lost where it was taken")
	default:
	}
}
