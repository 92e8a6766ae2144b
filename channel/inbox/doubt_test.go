package inbox_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
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

// Accept that says nothing certain to the platform: the process that has stored the event runs it, and the platform brings it again.
func TestAnEventThatWasStoredWithoutAnAnswerRunsOnce(t *testing.T) { // CH-71
	for name, again := range map[string]bool{"and does not come again": false, "and comes again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := ownertest.InMemory(t)
				net := &ownertest.Network{Engine: p.Open(t)}
				j, other := openOn(t, net, p.Owners), openOn(t, p.Open(t), p.Owners)
				var ran runs
				d, stop := door(t, j, func(e channel.JournalEntry, _ channel.Claim) error {
					ran.add(e.Key)
					return nil
				})
				defer stop()
				net.Put(func(do func() ([]store.Record, []error)) ([]store.Record, []error) {
					_, _ = do()
					return ownertest.Lost(1, store.ErrUnsure)
				})
				if _, err := d.Accept(t.Context(), channel.Arrival{Key: key(0), Raw: []byte("raw")}); err == nil {
					t.Fatal("what nobody has confirmed is accepted")
				}
				net.Put(nil)
				if isNew, err := other.Accept(t.Context(), key(0), []byte("raw")); isNew || err != nil {
					t.Errorf("at another replica it is new: %v, %v", isNew, err)
				}
				if again {
					if _, err := d.Accept(t.Context(), channel.Arrival{Key: key(0), Raw: []byte("raw")}); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(time.Minute)
				if again {
					if isNew, err := d.Accept(t.Context(), channel.Arrival{Key: key(0), Raw: []byte("raw")}); err != nil || isNew[0] {
						t.Error(isNew, err)
					}
				}
				ran.check(t, 1)
			})
		})
	}
}

// The end of a claim that cannot be stored is stored later.
func TestAnEndThatCannotBeStoredIsStoredLater(t *testing.T) { // CL-10, CH-73
	synctest.Test(t, func(t *testing.T) {
		p := ownertest.InMemory(t)
		net := &ownertest.Network{Engine: p.Open(t)}
		j, other := openOn(t, net, p.Owners), openOn(t, p.Open(t), p.Owners)
		claims := map[int]channel.Claim{}
		for i := range 2 {
			accept(t, j, key(i), fmt.Sprint(i))
			c, _, err := j.Claim(t.Context(), key(i))
			if err != nil || c == nil {
				t.Fatal(err)
			}
			claims[i] = c
		}
		net.Put(func(func() ([]store.Record, []error)) ([]store.Record, []error) {
			return ownertest.Lost(1, store.ErrAway)
		})
		var coded interface{ ErrorCode() string }
		if err := claims[0].Commit(t.Context(), channel.OutcomeVisible); !errors.As(err, &coded) || coded.ErrorCode() != "overloaded" {
			t.Errorf("a commit without an engine is %v", err)
		}
		if err := claims[1].Release(t.Context(), errors.New("broken")); err == nil {
			t.Error("a release without an engine is no error")
		}
		for i, want := range []channel.ClaimState{channel.ClaimSettled, channel.ClaimAccepted} {
			if s, err := j.Peek(t.Context(), key(i)); s != want || err != nil {
				t.Errorf("here event %d is %q, %v, expected %q", i, s, err, want)
			}
			if s, err := other.Peek(t.Context(), key(i)); s != channel.ClaimTaken || err != nil {
				t.Errorf("elsewhere event %d is %q, %v", i, s, err)
			}
		}
		time.Sleep(time.Minute)
		net.Put(nil)
		time.Sleep(time.Second)
		for i, want := range []channel.ClaimState{channel.ClaimSettled, channel.ClaimAccepted} {
			if s, err := other.Peek(t.Context(), key(i)); s != want || err != nil {
				t.Errorf("elsewhere event %d is %q, %v, expected %q", i, s, err, want)
			}
		}
	})
}

// What waits is bounded for all replicas together.
func TestReplicasShareABound(t *testing.T) { // CH-70
	t.Parallel()
	ownertest.EachShared(t, func(t *testing.T, p ownertest.Place) {
		var both []*inbox.Inbox
		for range 2 {
			j, err := inbox.Open(t.Context(), p.Open(t), inbox.Options{Owners: p.Owners, Pending: 10})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = j.Close() })
			both = append(both, j)
		}
		j, other := both[0], both[1]
		for i := range 10 {
			accept(t, j, key(i), "raw")
		}
		until(t, "the other replica to hear of it", func() bool { return other.Waiting()["fake"] == 10 })
		for _, j := range both {
			if _, err := j.Accept(t.Context(), key(10), nil); !errors.Is(err, channel.ErrJournalFull) {
				t.Errorf("Accept of one too many is %v, expected %v", err, channel.ErrJournalFull)
			}
			if isNew, err := j.Accept(t.Context(), key(3), nil); err != nil || isNew {
				t.Errorf("one that is known is %v, %v", isNew, err)
			}
		}
		settle(t, j, key(0))
		accept(t, j, key(10), "")
		if err := other.Erase(t.Context(), func(k channel.EventKey) bool { return k.ID == "3" }); err != nil {
			t.Fatal(err)
		}
		if c, _, err := j.Claim(t.Context(), key(3)); err != nil || c == nil { // as one that was never seen
			t.Errorf("got %v, %v", c, err)
		} else if r, ok := c.(channel.Repeater); !ok || r.Again() {
			t.Error("what was erased runs again")
		}
	})
}
