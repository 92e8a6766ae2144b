package inbox_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/channel/owner/ownertest"
	"github.com/lingserve/lingserve/store"
)

// A replica that was stopped for longer than its lease comes back: it neither sends nor settles what another one has by now.
func TestAClaimOfAReplicaThatWasTakenForDeadDoesNothing(t *testing.T) { // CH-73, CL-06
	t.Parallel()
	ownertest.EachShared(t, func(t *testing.T, p ownertest.Place) {
		alive, net := p.Owners.(*ownertest.Alive), &ownertest.Network{Engine: p.Open(t)}
		second, first := openOn(t, p.Open(t), alive), openOn(t, net, alive)
		for i := range 3 {
			if _, err := first.Accept(t.Context(), key(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		old, _, err := first.Claim(t.Context(), key(0))
		if err != nil || old == nil {
			t.Fatal(err)
		}
		kept, _, err := first.Claim(t.Context(), key(1))
		if err != nil || kept == nil {
			t.Fatal(err)
		}
		release, name := net.Hold(), first.Owner() // it knows nothing of what comes
		alive.Kill(name)
		until(t, "the claim to be free", func() bool {
			c, _, err := second.Claim(t.Context(), key(0))
			return err == nil && c != nil
		})
		if err := first.Sending(t.Context(), key(0).String()); err == nil {
			t.Error("a replica that has lost an event may send an answer to it")
		}
		if err := old.Commit(t.Context(), channel.OutcomeVisible); err != nil {
			t.Error(err)
		}
		if err := old.Release(t.Context(), errors.New("broken")); err != nil {
			t.Error(err)
		}
		if s, err := second.Peek(t.Context(), key(0)); s != channel.ClaimTaken || err != nil {
			t.Errorf("an outdated claim has made the event %q, %v", s, err)
		}
		release()
		alive.Tell(name)
		until(t, "the first replica to have what nobody has taken", func() bool {
			s, err := second.Peek(t.Context(), key(1))
			c, _, _ := second.Claim(t.Context(), key(2))
			return err == nil && s == channel.ClaimTaken && c == nil
		})
		if err := first.Sending(t.Context(), key(1).String()); err != nil {
			t.Error(err)
		}
		if err := kept.Commit(t.Context(), channel.OutcomeVisible); err != nil {
			t.Error(err)
		}
		if s, err := second.Peek(t.Context(), key(1)); s != channel.ClaimSettled || err != nil {
			t.Errorf("what it has kept and settled is %q, %v", s, err)
		}
	})
}

// lossy loses half of the answers: of puts that were done, and of puts that were not.
func lossy(net *ownertest.Network, lost *atomic.Int32) {
	net.Put(func(do func() ([]store.Record, []error)) ([]store.Record, []error) {
		switch rand.N(4) {
		case 0: // on the way there
			lost.Add(1)
			return ownertest.Lost(1, []error{store.ErrUnsure, store.ErrAway}[rand.N(2)])
		case 1: // on the way back
			lost.Add(1)
			records, errs := do()
			if owner.Moved(errs[0]) != nil {
				return records, errs
			}
			return ownertest.Lost(1, store.ErrUnsure)
		}
		return do()
	})
}

// Of each answer of the engine half get lost.
func TestLostAnswersCostNothing(t *testing.T) { // CL-06, CH-71, CH-72, ST-05
	synctest.Test(t, func(t *testing.T) {
		p := ownertest.InMemory(t)
		var ran runs
		var doors []*channel.Door
		var stops []func()
		var lost atomic.Int32
		for range 2 {
			net := &ownertest.Network{Engine: p.Open(t)}
			j := openOn(t, net, p.Owners)
			lossy(net, &lost)
			d, stop := door(t, j, func(e channel.JournalEntry, _ channel.Claim) error {
				ran.add(e.Key)
				return nil
			})
			doors, stops = append(doors, d), append(stops, func() { net.Put(nil); stop() })
		}
		const n = 200
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := worker; i < n; i += 8 {
					for _, at := range []int{i % 2, (i + 1) % 2} { // delivered again to the other one
						deliver(t, doors[at], i)
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(6 * time.Hour) // a claim that failed is tried again, half a minute later
		ran.check(t, n)
		if int(lost.Load()) < n {
			t.Errorf("%d answers were lost", lost.Load())
		}
		for _, stop := range stops {
			stop()
		}
	})
}
