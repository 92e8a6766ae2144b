// Package journaltest is what every journal of events has to show.
package journaltest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
)

// Store opens journals. Reopen ends the process that j is in, as a crash does, and opens what it has left; nil is a journal that
// leaves nothing.
//
// The tests run in a bubble of package synctest, whose clock they move. A journal that cannot be in one, because it talks to others, has
// a clock of its own.
type Store struct {
	Open   func(testing.TB) channel.Journal
	Close  func(channel.Journal)
	Reopen func(testing.TB, channel.Journal) channel.Journal
	Clock  *Clock
	Keeps  bool // of events that nobody has accepted it keeps, too, that they have settled
}

// Clock stands still until a test moves it. The zero value is at the beginning of 1970.
type Clock struct {
	mu  sync.Mutex
	now time.Duration
}

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Unix(0, int64(c.now))
}

// Sleep lets time pass.
func (c *Clock) Sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
}

func (s Store) sleep(d time.Duration) {
	if s.Clock != nil {
		s.Clock.Sleep(d)
	} else {
		time.Sleep(d)
	}
}

func (s Store) now() time.Time {
	if s.Clock != nil {
		return s.Clock.Now()
	}
	return time.Now()
}

// bubble runs a test.
func (s Store) bubble(t *testing.T, run func(*testing.T)) {
	if s.Clock != nil {
		run(t)
		return
	}
	synctest.Test(t, run)
}

// Run runs all tests.
func Run(t *testing.T, s Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Store)
	}{
		{"CH-70: other parts of a key are another event", keys},
		{"CH-70: a synthetic id is known for a minute, others for a day", lives},
		{"CH-72: an event is accepted, claimed, settled, and run once", states},
		{"CH-72: of a hundred at once, one is new and one has the claim", crowd},
		{"CH-73: a claim that is outdated does nothing", outdated},
		{"CH-73: a released event runs four times, then it has failed", released},
		{"CH-73: an event that nobody accepted may come again when it is released", unaccepted},
		{"CH-74: what is pending comes the oldest first", pending},
		{"CH-74: what is known of an answer outlives the process, until the event is settled", ledger},
		{"CH-76: what is erased is not known any more", erased},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.bubble(t, func(t *testing.T) { test.run(t, s) })
		})
	}
	t.Run("CH-72, CH-73: every order of steps is that of a simple model", func(t *testing.T) { model(t, s) })
}

func key(id string) channel.EventKey {
	return channel.EventKey{Channel: "fake", Account: "a", Conversation: "c", Thread: "5", ID: id}
}

// open opens a journal for one test.
func (s Store) open(t testing.TB) channel.Journal {
	j := s.Open(t)
	t.Cleanup(func() { s.Close(j) })
	return j
}

func accept(t testing.TB, j channel.Journal, k channel.EventKey, isNew bool) {
	t.Helper()
	got, err := j.Accept(t.Context(), k, []byte("raw "+k.ID))
	if err != nil || got != isNew {
		t.Fatalf("Accept of %s is %v, %v, expected %v", k, got, err, isNew)
	}
}

func take(t testing.TB, j channel.Journal, k channel.EventKey) channel.Claim {
	t.Helper()
	c, state, err := j.Claim(t.Context(), k)
	if err != nil || c == nil || state != channel.ClaimTaken {
		t.Fatalf("Claim of %s is %v, %q, %v, expected a claim", k, c, state, err)
	}
	return c
}

func refuse(t testing.TB, j channel.Journal, k channel.EventKey, state channel.ClaimState) {
	t.Helper()
	c, got, err := j.Claim(t.Context(), k)
	if err != nil || c != nil || got != state {
		t.Fatalf("Claim of %s is %v, %q, %v, expected none and %q", k, c, got, err, state)
	}
}

func peek(t testing.TB, j channel.Journal, k channel.EventKey, state channel.ClaimState) {
	t.Helper()
	if got, err := j.Peek(t.Context(), k); err != nil || got != state {
		t.Fatalf("Peek of %s is %q, %v, expected %q", k, got, err, state)
	}
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func left(t testing.TB, j channel.Journal) (ids []string) {
	t.Helper()
	for e, err := range j.Pending(t.Context()) {
		do(t, err)
		if want := "raw " + e.Key.ID; string(e.Raw) != want {
			t.Fatalf("the event %s is pending with %q, expected %q", e.Key, e.Raw, want)
		}
		ids = append(ids, e.Key.ID)
	}
	return ids
}

func keys(t *testing.T, s Store) {
	j := s.open(t)
	k := key("1")
	accept(t, j, k, true)
	accept(t, j, k, false)
	for i, change := range []func(*channel.EventKey){
		func(k *channel.EventKey) { k.Channel += "x" }, func(k *channel.EventKey) { k.Account = "" },
		func(k *channel.EventKey) { k.Conversation, k.Thread = "c5", "" }, func(k *channel.EventKey) { k.Thread, k.ID = "", "51" },
		func(k *channel.EventKey) { k.Conversation, k.Account = "ac", "" }, func(k *channel.EventKey) { k.ID = "1\x00" },
	} {
		other := k
		change(&other)
		if isNew, err := j.Accept(t.Context(), other, nil); err != nil || !isNew {
			t.Errorf("change %d: the key %s is taken for %s: %v", i, other, k, err)
		}
	}
}

func lives(t *testing.T, s Store) {
	j := s.open(t)
	real, made := key("1"), key("made")
	made.Synthetic = true
	for _, k := range []channel.EventKey{real, made} {
		accept(t, j, k, true)
		do(t, take(t, j, k).Commit(t.Context(), channel.OutcomeVisible))
	}
	s.sleep(time.Minute - time.Nanosecond)
	accept(t, j, made, false)
	s.sleep(time.Nanosecond)
	peek(t, j, made, channel.ClaimNone)
	accept(t, j, made, true)
	s.sleep(24*time.Hour - time.Minute - time.Nanosecond)
	accept(t, j, real, false)
	peek(t, j, real, channel.ClaimSettled)
	s.sleep(time.Nanosecond)
	accept(t, j, real, true)
	peek(t, j, made, channel.ClaimAccepted) // nothing ends what waits
}

func states(t *testing.T, s Store) {
	j := s.open(t)
	k := key("1")
	peek(t, j, k, channel.ClaimNone)
	accept(t, j, k, true)
	peek(t, j, k, channel.ClaimAccepted)
	c := take(t, j, k)
	peek(t, j, k, channel.ClaimTaken)
	refuse(t, j, k, channel.ClaimTaken)
	accept(t, j, k, false)
	do(t, c.Commit(t.Context(), channel.OutcomeVisible))
	peek(t, j, k, channel.ClaimSettled)
	refuse(t, j, k, channel.ClaimSettled)
	accept(t, j, k, false)
	if got := left(t, j); got != nil {
		t.Errorf("%v are pending, expected none", got)
	}
	if s.Reopen != nil {
		j = s.Reopen(t, j)
		refuse(t, j, k, channel.ClaimSettled)
		accept(t, j, key("2"), true)
		take(t, j, key("2"))
		j = s.Reopen(t, j)
		take(t, j, key("2")) // the claim of the dead process is void
	}
}

func crowd(t *testing.T, s Store) {
	j := s.open(t)
	var news, claims atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			isNew, err := j.Accept(t.Context(), key("1"), []byte("raw 1"))
			if err != nil {
				t.Error(err)
			}
			if isNew {
				news.Add(1)
			}
			if state, _ := j.Peek(t.Context(), key("1")); state == channel.ClaimNone {
				t.Error("an event is not there when its acceptance was confirmed")
			}
			if c, _, err := j.Claim(t.Context(), key("1")); err != nil {
				t.Error(err)
			} else if c != nil {
				claims.Add(1)
			}
		})
	}
	wg.Wait()
	if news.Load() != 1 || claims.Load() != 1 {
		t.Errorf("%d were new and %d have a claim, expected 1 and 1", news.Load(), claims.Load())
	}
}

func outdated(t *testing.T, s Store) {
	j := s.open(t)
	k := key("1")
	accept(t, j, k, true)
	old := take(t, j, k)
	do(t, old.Release(t.Context(), errors.New("broken")))
	do(t, old.Release(t.Context(), errors.New("broken")))
	c := take(t, j, k)
	do(t, old.Commit(t.Context(), channel.OutcomeVisible))
	peek(t, j, k, channel.ClaimTaken)
	do(t, old.Release(t.Context(), nil))
	refuse(t, j, k, channel.ClaimTaken)
	do(t, c.Commit(t.Context(), channel.OutcomeVisible))
	do(t, c.Release(t.Context(), nil))
	peek(t, j, k, channel.ClaimSettled)
}

func released(t *testing.T, s Store) {
	j := s.open(t)
	k := key("1")
	accept(t, j, k, true)
	do(t, take(t, j, k).Release(t.Context(), channel.ErrDraining)) // no fault of the event
	for attempt := range 4 {
		n := 0
		for e, err := range j.Pending(t.Context()) {
			do(t, err)
			if n++; e.Attempt != attempt {
				t.Errorf("attempt %d is pending, expected %d", e.Attempt, attempt)
			}
		}
		if n != 1 {
			t.Fatalf("%d events are pending at attempt %d, expected 1", n, attempt)
		}
		c := take(t, j, k)
		if r, ok := c.(channel.Repeater); !ok || r.Again() != (attempt < 3) {
			t.Errorf("the claim of attempt %d does not know whether it is the last", attempt)
		}
		do(t, c.Release(t.Context(), errors.New("broken")))
		if s.Reopen != nil {
			j = s.Reopen(t, j)
		}
	}
	peek(t, j, k, channel.ClaimSettled)
	if got := left(t, j); got != nil {
		t.Errorf("%v are pending, expected none", got)
	}
}

func unaccepted(t *testing.T, s Store) {
	j := s.open(t)
	k := key("1")
	do(t, take(t, j, k).Release(t.Context(), errors.New("broken")))
	peek(t, j, k, channel.ClaimNone)
	c := take(t, j, k)
	if r, ok := c.(channel.Repeater); !ok || r.Again() {
		t.Error("an event that nobody has stored is said to run again")
	}
	accept(t, j, k, false)
	do(t, c.Commit(t.Context(), channel.OutcomeVisible))
	refuse(t, j, k, channel.ClaimSettled)
	if got := left(t, j); got != nil {
		t.Errorf("%v are pending, expected none", got)
	}
}

func pending(t *testing.T, s Store) {
	j := s.open(t)
	var want []string
	for i := range 50 {
		id := fmt.Sprint(i * 7 % 50)
		accept(t, j, key(id), true)
		c := take(t, j, key(id))
		if i%3 == 0 {
			do(t, c.Commit(t.Context(), channel.OutcomeVisible))
			continue
		}
		do(t, c.Release(t.Context(), channel.ErrDraining))
		want = append(want, id)
	}
	for range 2 {
		if got := left(t, j); !slices.Equal(got, want) {
			t.Fatalf("%v are pending, expected %v", got, want)
		}
		if s.Reopen == nil {
			break
		}
		j = s.Reopen(t, j)
	}
	for range j.Pending(t.Context()) {
		break // may end anywhere
	}
}

// ledger is for journals that are a [channel.Ledger], too.
func ledger(t *testing.T, s Store) {
	j := s.open(t)
	if _, ok := j.(channel.Ledger); !ok {
		t.Skip("the journal is no ledger")
	}
	claims := map[string]channel.Claim{}
	begin := func(id string) string {
		accept(t, j, key(id), true)
		claims[id] = take(t, j, key(id))
		return key(id).String()
	}
	seen := func(id string, want channel.ReceiptState) {
		t.Helper()
		if got, err := j.(channel.Ledger).Seen(t.Context(), key(id).String()); err != nil || got != want {
			t.Errorf("of %s is known %v, %v, expected %v", id, got, err, want)
		}
	}
	wants := map[string]channel.ReceiptState{
		"nothing": channel.NotSent, "sending": channel.UnknownWhether, "failed": channel.NotSent, "suppressed": channel.NotSent,
		"sent": channel.Sent, "partly": channel.Partial, "again": channel.Sent, "twice": channel.UnknownWhether,
	}
	for id := range wants {
		event, l := begin(id), j.(channel.Ledger)
		if id == "nothing" {
			continue
		}
		do(t, l.Sending(t.Context(), event))
		switch id {
		case "failed", "twice":
			do(t, l.Sent(t.Context(), event, channel.NotSent))
		case "suppressed":
			do(t, l.Sent(t.Context(), event, channel.Suppressed))
		case "sent", "again":
			do(t, l.Sent(t.Context(), event, channel.Sent))
		case "partly":
			do(t, l.Sent(t.Context(), event, channel.Partial))
		}
		if id == "again" || id == "twice" {
			do(t, l.Sending(t.Context(), event))
		}
		if id == "again" { // what was seen was seen
			do(t, l.Sent(t.Context(), event, channel.NotSent))
		}
	}
	for range 2 {
		for id, want := range wants {
			seen(id, want)
		}
		seen("never", channel.NotSent)
		if s.Reopen == nil {
			return
		}
		j = s.Reopen(t, j)
	}
	do(t, take(t, j, key("sent")).Release(t.Context(), channel.ErrDraining))
	seen("sent", channel.Sent)
	do(t, take(t, j, key("sent")).Commit(t.Context(), channel.OutcomeUnknown))
	seen("sent", channel.NotSent)
	do(t, take(t, j, key("partly")).Commit(t.Context(), channel.OutcomeUnknown))
	j = s.Reopen(t, j)
	seen("partly", channel.NotSent)
}

func erased(t *testing.T, s Store) {
	j := s.open(t)
	e, ok := j.(channel.Eraser)
	if !ok {
		t.Fatal("the journal is no channel.Eraser")
	}
	other := key("1")
	other.Conversation = "other"
	accept(t, j, other, true)
	for _, id := range []string{"waits", "runs", "settled"} {
		accept(t, j, key(id), true)
	}
	runs := take(t, j, key("runs"))
	do(t, take(t, j, key("settled")).Commit(t.Context(), channel.OutcomeVisible))
	take(t, j, key("never accepted"))
	do(t, e.Erase(t.Context(), func(k channel.EventKey) bool { return k.Conversation == "c" }))
	do(t, runs.Commit(t.Context(), channel.OutcomeVisible))
	for range 2 {
		for _, id := range []string{"waits", "runs", "settled", "never accepted"} {
			peek(t, j, key(id), channel.ClaimNone)
		}
		if got := left(t, j); !slices.Equal(got, []string{"1"}) {
			t.Fatalf("%v are pending, expected [1]", got)
		}
		if s.Reopen == nil {
			break
		}
		j = s.Reopen(t, j)
	}
	accept(t, j, key("waits"), true)
}

// modeled is what a simple model knows of an event.
type modeled struct {
	state    channel.ClaimState
	accepted bool
	attempt  int
	at       time.Time
	until    time.Time
}

// model draws outside of the bubble's clock, by which rapid would soon be at its deadline.
func model(t *testing.T, s Store) {
	rapid.Check(t, func(rt *rapid.T) {
		if s.Clock != nil {
			modelOnce(t, rt, s)
			return
		}
		var failed any
		synctest.Test(t, func(t *testing.T) {
			defer func() { failed = recover() }()
			modelOnce(t, rt, s)
		})
		if failed != nil {
			panic(failed)
		}
	})
}

func modelOnce(t *testing.T, rt *rapid.T, s Store) {
	j := s.Open(t)
	defer func() { s.Close(j) }()
	events := map[channel.EventKey]*modeled{}
	var order []channel.EventKey // of acceptance
	type held struct {
		channel.Claim
		of  *modeled
		key channel.EventKey
		end bool
	}
	var claims []*held
	find := func(k channel.EventKey) *modeled {
		e := events[k]
		if e != nil && e.state == channel.ClaimSettled && !s.now().Before(e.until) {
			delete(events, k)
			return nil
		}
		return e
	}
	settle := func(k channel.EventKey, e *modeled) {
		e.state, e.until = channel.ClaimSettled, s.now().Add(24*time.Hour)
		if k.Synthetic {
			e.until = e.at.Add(time.Minute)
		}
		order = slices.DeleteFunc(order, func(o channel.EventKey) bool { return o == k })
	}
	anyKey := rapid.Custom(func(t *rapid.T) channel.EventKey {
		k := key(rapid.SampledFrom([]string{"1", "2", "3", "made"}).Draw(t, "id"))
		k.Synthetic = k.ID == "made"
		return k
	})
	actions := map[string]func(*rapid.T){
		"accept": func(rt *rapid.T) {
			k := anyKey.Draw(rt, "key")
			known := find(k) != nil
			isNew, err := j.Accept(t.Context(), k, []byte("raw "+k.ID))
			if err != nil || isNew == known {
				rt.Fatalf("Accept is %v, %v; known was %v", isNew, err, known)
			}
			if isNew {
				events[k] = &modeled{state: channel.ClaimAccepted, accepted: true, at: s.now()}
				order = append(order, k)
			}
		},
		"claim": func(rt *rapid.T) {
			k := anyKey.Draw(rt, "key")
			e := find(k)
			c, state, err := j.Claim(t.Context(), k)
			if err != nil {
				rt.Fatal(err)
			}
			if e == nil {
				e = &modeled{state: channel.ClaimAccepted, at: s.now()}
				events[k] = e
			}
			if e.state != channel.ClaimAccepted {
				if c != nil || state != e.state {
					rt.Fatalf("Claim is %v, %q, expected none and %q", c, state, e.state)
				}
				return
			}
			if c == nil {
				rt.Fatalf("Claim is nil, %q, expected one", state)
			}
			e.state = channel.ClaimTaken
			for _, h := range claims {
				h.end = h.end || h.of == e
			}
			claims = append(claims, &held{c, e, k, false})
		},
		"end": func(rt *rapid.T) {
			if len(claims) == 0 {
				rt.Skip("no claims")
			}
			h := rapid.SampledFrom(claims).Draw(rt, "claim")
			counts := rapid.Bool().Draw(rt, "counts")
			commit := rapid.Bool().Draw(rt, "commit")
			var err error
			if commit {
				err = h.Commit(t.Context(), channel.OutcomeSilent)
			} else if counts {
				err = h.Release(t.Context(), errors.New("broken"))
			} else {
				err = h.Release(t.Context(), channel.ErrDraining)
			}
			if err != nil {
				rt.Fatal(err)
			}
			if h.end {
				return
			}
			h.end = true
			switch e := h.of; {
			case commit:
				settle(h.key, e)
			case !e.accepted:
				delete(events, h.key)
			case counts && e.attempt >= 3:
				settle(h.key, e)
			default:
				if e.state = channel.ClaimAccepted; counts {
					e.attempt++
				}
			}
		},
		"time": func(rt *rapid.T) {
			s.sleep(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(rt, "passes"))
		},
		"": func(rt *rapid.T) {
			for _, id := range []string{"1", "2", "3", "made"} {
				k := key(id)
				k.Synthetic = id == "made"
				want := channel.ClaimNone
				if e := find(k); e != nil {
					want = e.state
				}
				if got, err := j.Peek(t.Context(), k); err != nil || got != want {
					rt.Fatalf("Peek of %s is %q, %v, expected %q", k, got, err, want)
				}
			}
			var got, want bytes.Buffer
			for e, err := range j.Pending(t.Context()) {
				fmt.Fprintln(&got, e.Key.ID, e.Attempt, string(e.Raw), err)
			}
			for _, k := range order {
				if e := events[k]; e.state == channel.ClaimAccepted {
					fmt.Fprintln(&want, k.ID, e.attempt, "raw "+k.ID, nil)
				}
			}
			if got.String() != want.String() {
				rt.Fatalf("pending are\n%sexpected\n%s", got.String(), want.String())
			}
		},
	}
	if s.Reopen != nil {
		actions["reopen"] = func(*rapid.T) {
			j = s.Reopen(t, j)
			for k, e := range events {
				if !e.accepted && !(s.Keeps && e.state == channel.ClaimSettled) {
					delete(events, k)
				} else if e.state == channel.ClaimTaken {
					e.state = channel.ClaimAccepted
					e.attempt++ // the process died in it
				}
			}
			claims = nil
		}
	}
	rt.Repeat(actions)
}
