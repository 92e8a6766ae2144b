// Package accesstest is the test of every [access.TicketStore].
package accesstest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/access"
)

// Limits of the stores of the suite.
const (
	Most = 4  // that wait to be used, of one principal
	All  = 10 // and of all together
)

// patient is what only a failure takes.
const patient = 20 * time.Second

// Tickets runs the suite. open makes a store with these limits; calls of one t make replicas with the same tickets. alone says that there
// are no others: it is called once for a t.
func Tickets(t *testing.T, alone bool, open func(t *testing.T) access.TicketStore) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, a, b access.TicketStore)
	}{
		{"SE-10: a ticket is taken once, at any replica", once},
		{"SE-10: of many who take it one gets it", race},
		{"there are so many of a principal", most},
		{"and so many of all", all},
		{"one that has expired makes room", expires},
		{"who does not wait gets none", canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := open(t)
			b := a
			if !alone {
				b = open(t)
			}
			test.run(t, a, b)
		})
	}
}

func digest(n int) access.TicketDigest { return sha256.Sum256(fmt.Append(nil, n)) }

func ticket(name string, life time.Duration) access.Ticket {
	return access.Ticket{Principal: access.Principal{Name: name}, Method: "GET", Path: "/v1/runs/" + name, Expires: time.Now().Add(life).Truncate(time.Millisecond)}
}

func put(t *testing.T, s access.TicketStore, n int, of access.Ticket) {
	t.Helper()
	if err := s.Put(t.Context(), digest(n), of); err != nil {
		t.Fatalf("ticket %d: %v", n, err)
	}
}

func take(t *testing.T, s access.TicketStore, n int) (access.Ticket, bool) {
	t.Helper()
	got, ok, err := s.Take(t.Context(), digest(n))
	if err != nil {
		t.Fatalf("ticket %d: %v", n, err)
	}
	return got, ok
}

func once(t *testing.T, a, b access.TicketStore) {
	if _, ok := take(t, b, 1); ok {
		t.Error("there is one that never was")
	}
	want := ticket("ann", time.Minute)
	want.Grant = access.Grant{Digest: [32]byte{9}, Until: want.Expires}
	put(t, a, 1, want)
	put(t, a, 2, ticket("bob", time.Minute))
	got, ok := take(t, b, 1)
	if !ok || got.Principal.Name != "ann" || got.Path != want.Path || got.Method != "GET" || !got.Expires.Equal(want.Expires) || got.Grant.Digest != want.Grant.Digest || !got.Grant.Until.Equal(want.Grant.Until) {
		t.Errorf("got %+v, %v; want %+v", got, ok, want)
	}
	for _, s := range []access.TicketStore{a, b} {
		if _, ok := take(t, s, 1); ok {
			t.Error("it is taken again")
		}
	}
	if got, ok := take(t, a, 2); !ok || got.Principal.Name != "bob" {
		t.Errorf("the other: %+v, %v", got, ok)
	}
}

func race(t *testing.T, a, b access.TicketStore) {
	for n := range 30 {
		put(t, a, n, ticket("ann", time.Minute))
		var got atomic.Int32
		var wg sync.WaitGroup
		for i := range 12 {
			s := a
			if i%2 == 1 {
				s = b
			}
			wg.Go(func() {
				if _, ok, err := s.Take(t.Context(), digest(n)); err != nil {
					t.Error(err)
				} else if ok {
					got.Add(1)
				}
			})
		}
		wg.Wait()
		if got.Load() != 1 {
			t.Fatalf("%d have got it", got.Load())
		}
	}
}

func most(t *testing.T, a, b access.TicketStore) {
	var given atomic.Int32
	var wg sync.WaitGroup
	for n := range 3 * Most {
		s := a
		if n%2 == 1 {
			s = b
		}
		wg.Go(func() {
			switch err := s.Put(t.Context(), digest(n), ticket("ann", time.Minute)); {
			case err == nil:
				given.Add(1)
			case !errors.Is(err, access.ErrManyTickets):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if given.Load() != Most {
		t.Errorf("there are %d", given.Load())
	}
	put(t, b, 100, ticket("bob", time.Minute))
	for n := range 3 * Most {
		if _, ok := take(t, b, n); ok {
			put(t, a, 200, ticket("ann", time.Minute)) // in its place
			if err := a.Put(t.Context(), digest(300), ticket("ann", time.Minute)); !errors.Is(err, access.ErrManyTickets) {
				t.Errorf("one more: %v", err)
			}
			return
		}
	}
	t.Error("there is none")
}

func all(t *testing.T, a, b access.TicketStore) {
	for n := range All {
		put(t, a, n, ticket(fmt.Sprint("p", n%5), time.Minute))
	}
	if err := b.Put(t.Context(), digest(100), ticket("q", time.Minute)); !errors.Is(err, access.ErrManyTickets) {
		t.Errorf("one more: %v", err)
	}
	if _, ok := take(t, b, 3); !ok {
		t.Error("it cannot be taken")
	}
	put(t, b, 100, ticket("q", time.Minute))
	if _, ok := take(t, a, 100); !ok {
		t.Error("the new one cannot be taken")
	}
}

func expires(t *testing.T, a, b access.TicketStore) {
	short := ticket("ann", time.Second)
	for n := range Most {
		put(t, a, n, short)
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) { // until the servers' clocks have gone on
		err := b.Put(t.Context(), digest(100), ticket("ann", time.Minute))
		if err == nil {
			break
		}
		if !errors.Is(err, access.ErrManyTickets) || time.Since(begin) > patient {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Until(short.Expires))
	for n := range Most {
		if _, ok := take(t, b, n); ok {
			t.Errorf("ticket %d is there", n)
		}
	}
}

func canceled(t *testing.T, a, b access.TicketStore) {
	if _, ok := take(t, b, 1); ok {
		t.Error("there is one")
	}
	put(t, a, 1, ticket("ann", time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok, err := b.Take(ctx, digest(1)); ok && err != nil {
		t.Errorf("it is there, and %v", err)
	}
}
