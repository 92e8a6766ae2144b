package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

func fence(t *testing.T, s Store) {
	for _, taken := range []string{"sent by the other", "being sent by the other", "prepared again by the other"} {
		t.Run(taken, func(t *testing.T) {
			store := s.Open(t)
			closed(t, store)
			h := hear(t, store)
			id := put(t, store, "a", "c")
			step(t, store, id, true, 1)
			step(t, store, id, false, 1)
			other := s.Pause(t, store)
			closed(t, other)
			theirs := hear(t, other)
			until(t, "the other to take it for dead", func() bool { n, ok := theirs.of(id); return ok && !n.Alive })
			step(t, other, id, true, 2)
			switch taken {
			case "sent by the other":
				if err := other.End(t.Context(), id, channel.Sent); err != nil {
					t.Fatal(err)
				}
			case "prepared again by the other":
				step(t, other, id, false, 2)
			}
			for _, sending := range []bool{true, false} {
				if err := store.Step(t.Context(), id, sending, 2); !errors.Is(err, channel.ErrBlockTaken) {
					t.Errorf("a step of the one that was paused is %v, expected %v", err, channel.ErrBlockTaken)
				}
			}
			if err := store.End(t.Context(), id, channel.NotSent); err != nil {
				t.Errorf("its end is %v, expected nothing to be done", err)
			}
			until(t, "it to be told", func() bool {
				n, ok := h.of(id)
				gone := taken == "sent by the other"
				return ok && n.Gone == gone && (gone || n.Alive)
			})
			if taken != "sent by the other" { // which its end has not touched
				step(t, other, id, true, 3)
			}
			// What it puts in from now on is its own.
			mine := put(t, store, "b", "c")
			step(t, store, mine, true, 1)
		})
	}
}

func fencedOutbox(t *testing.T, s Store) {
	store := s.Open(t)
	id := put(t, start(t, store), "a", "c")
	_ = id
	var mu sync.Mutex
	dead := true // the platform, at first
	answer := func(channel.Outbound) (channel.Receipt, error) {
		mu.Lock()
		defer mu.Unlock()
		if dead {
			return channel.Receipt{}, &channel.NotSentError{Err: errors.New("503"), Retryable: true, RetryAfter: time.Second}
		}
		return channel.Receipt{}, nil
	}
	first := &post{answer: answer}
	store = s.Reopen(t, store)
	refused := make(chan struct{}, 1)
	o := outbox(t, notSent{store, refused}, first)
	until(t, "the first attempt to be refused, and that to be stored", func() bool { return len(refused) == 1 }) // else it was being sent
	second := &post{answer: answer}
	mu.Lock()
	dead = false
	mu.Unlock()
	other := outbox(t, s.Pause(t, store), second)
	until(t, "both to have nothing", func() bool { return pending(o)+pending(other) == 0 })
	if n := len(first.said()) + len(second.said()); n != 2 {
		t.Errorf("%d attempts, one of which was to come to nothing: %q and %q", n, first.said(), second.said())
	}
}

// notSent says of a store's steps when one is stored that an attempt came to nothing.
type notSent struct {
	channel.OutboxStore
	stored chan<- struct{}
}

func (n notSent) Step(ctx context.Context, id uint64, sending bool, attempt int) error {
	err := n.OutboxStore.Step(ctx, id, sending, attempt)
	if err == nil && !sending {
		select {
		case n.stored <- struct{}{}:
		default:
		}
	}
	return err
}

// start starts a store of which nobody wants to hear.
func start(t *testing.T, store channel.OutboxStore) channel.OutboxStore {
	t.Helper()
	hear(t, store)
	return store
}

// late: what it was about to do when it was taken for dead is stored after that, and before the others have heard of it.
func late(t *testing.T, s Store) {
	for range 5 { // the other may hear of it before or after it looks
		store := s.Open(t)
		closed(t, store)
		hear(t, store)
		id := put(t, store, "a", "c")
		other := s.Pause(t, store)
		if err := store.Step(t.Context(), id, true, 1); errors.Is(err, channel.ErrBlockTaken) {
			closed(t, other)
			continue // the other was faster, and this one sends nothing
		} else if err != nil { // else it sends now
			t.Fatal(err)
		}
		p := new(post)
		o := outbox(t, other, p)
		until(t, "the block to go", func() bool { return pending(o) == 0 })
		if len(p.said()) != 0 {
			t.Error("what another process was sending was sent again")
		}
	}
}

func alive(t *testing.T, s Store) {
	a := s.Open(t)
	hear(t, a)
	before := put(t, a, "before", "c")
	b := s.Join(t, a)
	closed(t, b)
	h := hear(t, b)
	after := put(t, a, "after", "d")
	step(t, a, after, true, 1)
	for _, id := range []uint64{before, after} {
		until(t, "the other to hear of it", func() bool { _, ok := h.of(id); return ok })
		if err := b.Step(t.Context(), id, true, 1); !errors.Is(err, channel.ErrBlockTaken) {
			t.Errorf("a step of another's block is %v, expected %v", err, channel.ErrBlockTaken)
		}
		if err := b.End(t.Context(), id, channel.NotSent); err != nil {
			t.Error(err)
		}
	}
	until(t, "the step to be heard of", func() bool { n, _ := h.of(after); return n.Sending && n.Attempt == 1 && n.Alive && !n.Left })
	step(t, a, before, true, 1) // the end that is not the other's to store has done nothing
	if err := a.End(t.Context(), before, channel.Sent); err != nil {
		t.Fatal(err)
	}
	until(t, "its end to be heard of", func() bool { n, _ := h.of(before); return n.Gone && n.Came == channel.Sent && !n.Left })
	// One that ends in order leaves its blocks at once.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the block to be left", func() bool { n, _ := h.of(after); return !n.Alive && n.Left && n.Sending })
	if err := b.Erase(t.Context(), "s-d"); err != nil {
		t.Fatal(err)
	}
	if n, _ := h.of(after); !n.Gone {
		t.Errorf("told of what was erased is %+v", n)
	}
}

func race(t *testing.T, s Store) {
	const blocks, heirs = 20, 3
	a := s.Open(t)
	hear(t, a)
	for i := range blocks {
		put(t, a, fmt.Sprint(i), fmt.Sprint("c", i%5))
	}
	var all []*post
	var outboxes []*channel.Outbox
	for range heirs - 1 {
		p := new(post)
		all, outboxes = append(all, p), append(outboxes, outbox(t, s.Join(t, a), p))
	}
	for _, o := range outboxes {
		if n := pending(o); n != blocks {
			t.Errorf("%d blocks wait, expected %d", n, blocks)
		}
	}
	p := new(post)
	all, outboxes = append(all, p), append(outboxes, outbox(t, s.Reopen(t, a), p))
	until(t, "all to be sent", func() bool { return pending(outboxes[0])+pending(outboxes[1])+pending(outboxes[2]) == 0 })
	times := map[string]int{}
	for _, p := range all {
		for _, name := range p.said() {
			times[name]++
		}
	}
	for i := range blocks {
		if times[fmt.Sprint(i)] != 1 {
			t.Errorf("block %d was sent %d times, expected once", i, times[fmt.Sprint(i)])
		}
	}
	for i, o := range outboxes {
		until(t, "all to know of it", func() bool { return o.Holds("event-0") })
		if o.Holds("event-x") {
			t.Errorf("outbox %d holds what never was", i)
		}
	}
}

func orderOfAll(t *testing.T, s Store) {
	a := s.Open(t)
	hear(t, a)
	first := put(t, a, "first", "c")
	step(t, a, first, true, 1)
	step(t, a, first, false, 1)
	other := s.Join(t, a)
	p := new(post)
	closed(t, other)
	h := new(hearer)
	if err := other.Start(h.tell); err != nil {
		t.Fatal(err)
	}
	// Whoever puts a block in knows of all that are before it.
	second := put(t, other, "second", "c")
	if _, ok := h.of(first); !ok || second < first {
		t.Errorf("block %d was put in, and block %d is not known", second, first)
	}
	third := put(t, a, "third", "c")
	if third < second {
		t.Errorf("the third has id %d, the second %d", third, second)
	}
	if err := other.Close(); err != nil { // and leaves its own
		t.Fatal(err)
	}
	o := outbox(t, s.Reopen(t, a), p)
	until(t, "all to be sent", func() bool { return pending(o) == 0 })
	if diff := cmp.Diff([]string{"first", "second", "third"}, p.said()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func holds(t *testing.T, s Store) {
	a := s.Open(t)
	hear(t, a)
	waits := put(t, a, "waits", "c")
	unsure := put(t, a, "unsure", "d")
	step(t, a, unsure, true, 1)
	o, err := channel.OpenOutbox(&channel.OutboxOptions{Store: s.Join(t, a)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close(t.Context()) })
	p := new(post)
	o.Register("fake", p)
	if !o.Holds("event-waits") || !o.Holds("event-unsure") || o.Holds("event-x") {
		t.Error("what another process has is not held")
	}
	if err := a.End(t.Context(), waits, channel.Sent); err != nil {
		t.Fatal(err)
	}
	until(t, "its end to be heard of", func() bool { return pending(o) == 1 })
	if o.Holds("event-waits") { // its turn has the event, and settles it
		t.Error("what its own process has sent is held")
	}
	again := s.Reopen(t, a)
	closed(t, again)
	hear(t, again)
	// What nobody can say anything of is for the ledger to say.
	until(t, "the process to be taken for dead", func() bool { return !o.Holds("event-unsure") })
	o.Register("fake", keyed{p})
	if !o.Holds("event-unsure") {
		t.Error("what may be sent again is not held")
	}
}
