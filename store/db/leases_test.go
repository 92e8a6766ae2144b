package db

import (
	"context"
	"errors"
	"testing"

	"github.com/lingserve/lingserve/tape"
)

// freeLeases are leases that everybody gets at once, as if the holders before had died without knowing it.
type freeLeases struct{ last *freeLease }

type freeLease struct{ lost chan struct{} }

func (l *freeLeases) Lease(context.Context, string, bool) (tape.Lease, error) {
	l.last = &freeLease{make(chan struct{})}
	return l.last, nil
}

func (l *freeLease) Lost() <-chan struct{} { return l.lost }
func (*freeLease) Release()                {}

func openMemory(t *testing.T) *DB {
	t.Helper()
	db, err := Open(t.Context(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func message(text string) tape.Batch {
	return tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", text)}}
}

// CL-03: a process that was stopped, and goes on when another one has taken its lease, cannot append.
func TestLostLeaseCannotAppend(t *testing.T) {
	for name, created := range map[string]bool{"the tape exists": true, "the tape does not exist yet": false} {
		t.Run(name, func(t *testing.T) {
			db := openMemory(t)
			leases := new(freeLeases)
			one, two := db.SharedTapes(leases, nil), db.SharedTapes(leases, nil)
			create := func(s *Tapes, first string) {
				t.Helper()
				b := message(first)
				b.Create = true
				if _, err := s.Append(t.Context(), "a", b); err != nil {
					t.Fatal(err)
				}
			}
			lease := func(s *Tapes) tape.Lease {
				t.Helper()
				l, err := s.Lease(t.Context(), "a", true)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			first := lease(one)
			if created {
				create(one, "one")
			}
			second := lease(two)
			if !created {
				create(two, "two")
			}
			for range 2 {
				if _, err := one.Append(t.Context(), "a", message("late")); !errors.Is(err, tape.ErrLeased) {
					t.Errorf("an append with a lease that another process has taken: %v, want ErrLeased", err)
				}
			}
			if _, err := two.Append(t.Context(), "a", message("goes on")); err != nil {
				t.Error(err)
			}
			second.Release()
			first.Release()
			defer lease(one).Release()
			if _, err := one.Append(t.Context(), "a", message("back")); err != nil {
				t.Error(err)
			}
			if info, err := one.Info(t.Context(), "a"); err != nil || info.Entries != 3 {
				t.Errorf("there are %d entries, %v, want 3", info.Entries, err)
			}
		})
	}
}

func TestToldOfALostLease(t *testing.T) {
	leases := new(freeLeases)
	s := openMemory(t).SharedTapes(leases, nil)
	b := message("one")
	b.Create = true
	if _, err := s.Append(t.Context(), "a", b); err != nil {
		t.Fatal(err)
	}
	l, err := s.Lease(t.Context(), "a", true)
	if err != nil {
		t.Fatal(err)
	}
	close(leases.last.lost)
	<-l.Lost()
	if _, err := s.Append(t.Context(), "a", message("late")); !errors.Is(err, tape.ErrLeased) {
		t.Errorf("an append with a lost lease: %v, want ErrLeased", err)
	}
	l.Release()
	l.Release()
	if _, err := s.Append(t.Context(), "a", message("without a lease")); err != nil {
		t.Error(err)
	}
}

// DS-05
func TestOneOwnerHasAShareOfTheSessions(t *testing.T) {
	b, err := tape.Bound(t.Context(), openMemory(t).Tapes(nil), 10, 2)
	if err != nil {
		t.Fatal(err)
	}
	open := func(session string) error {
		_, err := tape.Open(t.Context(), b, "w", session)
		return err
	}
	for _, session := range []string{"http:ann#1", "http:ann#2", "http:bob#1", "telegram:1", "telegram:2", "telegram:3"} {
		if err := open(session); err != nil {
			t.Fatalf("%s: %v", session, err)
		}
	}
	if err := open("http:ann#3"); !errors.Is(err, tape.ErrTooManyOfOwner) {
		t.Errorf("one more: %v, want ErrTooManyOfOwner", err)
	}
	if err := b.Room(t.Context(), "http:ann#3"); !errors.Is(err, tape.ErrTooManyOfOwner) {
		t.Errorf("room for one more: %v, want ErrTooManyOfOwner", err)
	}
	if err := errors.Join(open("http:ann#2"), open("http:bob#2"), b.Room(t.Context(), "telegram:4")); err != nil {
		t.Error(err)
	}
	if n, err := b.Count(t.Context(), ""); n != 7 || err != nil {
		t.Errorf("%d sessions, %v, want 7", n, err)
	}
}
