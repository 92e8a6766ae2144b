// Package leasetest tests leases with replicas in processes of their own, on any engine.
package leasetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tape"
)

// Soon is longer than anything takes that is not meant to wait.
const Soon = time.Minute

// Replica is one of those that share leases.
type Replica struct {
	*replicas.Members
	*replicas.Leases
	Leave func() error
}

// Place is an installation.
type Place struct {
	Open   func(testing.TB) Replica  // another one in this process
	Holder func(*testing.T) *Process // a process that calls [Hold]
}

// Hold takes the lease "s", and then says for each line of the input whether it still has it.
func Hold(ctx context.Context, r Replica) error {
	lease, err := r.Lease(ctx, "s", true)
	if err != nil {
		return err
	}
	fmt.Println("holds", r.ID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		held := lease.(interface{ Held() bool }).Held()
		lost := false
		select {
		case <-lease.Lost():
			lost = true
		default:
		}
		fmt.Println("held", held, "lost", lost)
	}
	return r.Leave()
}

// HolderID returns the id of a holder that was just started.
func HolderID(p *Process) string { return strings.TrimPrefix(p.Line(), "holds ") }

// Take takes a lease.
func Take(t *testing.T, l *replicas.Leases, name string) tape.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Soon)
	defer cancel()
	lease, err := l.Lease(ctx, name, true)
	if err != nil {
		t.Fatalf("the lease %s: %v", name, err)
	}
	return lease
}

func holds(t *testing.T, l *replicas.Leases, name, replica string) bool {
	id, since, ok, err := l.Holder(t.Context(), name)
	return id == replica && time.Since(since) <= Soon && ok && err == nil
}

// Changes are what is told of one replica.
func Changes(t *testing.T, m *replicas.Members, id string) <-chan replicas.Change {
	all := make(chan replicas.Change, 100)
	t.Cleanup(m.Watch(func(c replicas.Change) {
		if c.Replica.ID == id {
			all <- c
		}
	}))
	return all
}

// Next is the next change of a kind: on a busy machine a replica may be heard of late, or be taken for dead and come again, before.
func Next(t *testing.T, all <-chan replicas.Change, want replicas.What) replicas.Change {
	t.Helper()
	after := time.After(Soon)
	for {
		select {
		case c := <-all:
			if c.What == want {
				return c
			}
			t.Logf("the replica %v", c.What)
		case <-after:
			t.Fatalf("waited %v to be told that the replica %v", Soon, want)
		}
	}
}

// No two have a lease at once, and all get it.
func manyTakeOneLease(t *testing.T, p Place) {
	var wg sync.WaitGroup
	var mu sync.Mutex // would hide nothing: it is tried, not locked
	for range 3 {
		r := p.Open(t)
		for range 4 {
			wg.Go(func() {
				for range 5 {
					lease, err := r.Lease(t.Context(), "s", true)
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

// A replica that leaves frees its leases at once.
func aReplicaThatLeavesFreesItsLeases(t *testing.T, p Place) {
	a, b := p.Open(t), p.Open(t)
	lease := Take(t, a.Leases, "some.session/1")
	if _, err := b.Lease(t.Context(), "some.session/1", false); !errors.Is(err, tape.ErrLeased) {
		t.Errorf("a second lease: %v", err)
	}
	if !holds(t, b.Leases, "some.session/1", a.ID()) {
		t.Error("it is not known who holds the lease")
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
	if err := a.Leave(); err != nil {
		t.Fatal(err)
	}
	<-lease.Lost()
	(<-got).Release()
	longtest.Within(t, "until the lease of a replica that left is free", time.Since(began), replicas.TTL/2)
	if _, err := a.Lease(t.Context(), "some.session/1", true); !errors.Is(err, replicas.ErrClosed) {
		t.Errorf("a lease of a replica that has left: %v", err)
	}
}

// The lease of a process that was killed is free within the TTL and a second, and the others are told of its death.
func theLeaseOfADeadHolderIsFree(t *testing.T, p Place) {
	r := p.Open(t)
	holder := p.Holder(t)
	told := Changes(t, r.Members, HolderID(holder))
	got := make(chan tape.Lease)
	go func() {
		lease, err := r.Lease(t.Context(), "s", true)
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	holder.Kill()
	began := time.Now()
	lease := <-got
	longtest.Within(t, "until the lease of a dead holder is free", time.Since(began), replicas.TTL+time.Second)
	Next(t, told, replicas.Died)
	lease.Release()
}
