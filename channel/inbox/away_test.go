package inbox_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store/db"
)

// deliver brings an event until it is taken, as platforms do. refused is whether it was not at first, on a machine that is busy.
func deliver(t *testing.T, d *channel.Door, i int) (isNew, refused bool) {
	for end := time.Now().Add(patience); ; refused = true {
		is, err := d.Accept(t.Context(), channel.Arrival{Key: key(i), Raw: []byte(fmt.Sprint("raw ", i))})
		if err == nil {
			return is[0], refused
		}
		var away *owner.Error
		if !errors.As(err, &away) || away.ErrorCode() != "overloaded" {
			t.Errorf("event %d: %v", i, err)
			return false, true
		}
		if time.Now().After(end) {
			t.Errorf("event %d is not taken for %v: %v", i, patience, err)
			return false, true
		}
	}
}

// The database is away for a while: nothing hangs, nothing is lost, and what ended meanwhile is stored when they are back.
func TestTheDatabaseIsAway(t *testing.T) { // CL-10, CH-71, CH-73
	t.Parallel()
	s := postgrestest.Run(t)
	open := func() *inbox.Inbox { // each with its own connections, as a process has them
		d, err := db.Open(t.Context(), s.URL(), &db.Options{Readers: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		j, _ := openReplica(t, d)
		return j
	}
	j := open()
	for i := range 2 {
		if _, err := j.Accept(t.Context(), key(i), []byte("raw")); err != nil {
			t.Fatal(err)
		}
	}
	c, _, err := j.Claim(t.Context(), key(0))
	if err != nil || c == nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for name, call := range map[string]func() error{
		"accept": func() error { _, err := j.Accept(t.Context(), key(2), []byte("raw")); return err },
		"claim":  func() error { _, _, err := j.Claim(t.Context(), key(1)); return err },
		"settle": func() error { return c.Commit(t.Context(), channel.OutcomeVisible) },
		"send":   func() error { return j.Sending(t.Context(), key(1).String()) },
	} {
		if err := call(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	longtest.Within(t, "the calls", time.Since(began), 25*time.Second)
	if state, err := j.Peek(t.Context(), key(0)); state != channel.ClaimSettled || err != nil {
		t.Errorf("for this replica the event is %q, %v, expected to be settled", state, err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	other := open()
	until(t, "the event to be settled everywhere", func() bool {
		state, err := other.Peek(t.Context(), key(0))
		return err == nil && state == channel.ClaimSettled
	})
	until(t, "the other event to be claimed", func() bool {
		c, _, err := j.Claim(t.Context(), key(1))
		return err == nil && c != nil
	})
	if isNew, err := j.Accept(t.Context(), key(2), []byte("raw")); err != nil || !isNew {
		t.Errorf("what was refused is not new: %v, %v", isNew, err)
	}
}
