// Package outboxtest is what every store of an outbox has to show.
package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

// Store opens stores of outboxes.
type Store struct {
	// Open opens an empty one.
	Open func(testing.TB) channel.OutboxStore
	// Reopen ends the process that a store is in, as a crash does, and opens what it has left.
	Reopen func(testing.TB, channel.OutboxStore) channel.OutboxStore
	// Pause makes the other processes take the one for dead that a store is in, which goes on all the same, and opens what it shares with
	// them. Nil: processes share nothing.
	Pause func(testing.TB, channel.OutboxStore) channel.OutboxStore
	// Join opens what another process shares with a store. Nil: processes share nothing.
	Join func(testing.TB, channel.OutboxStore) channel.OutboxStore
}

// Run runs all tests.
func Run(t *testing.T, s Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Store)
	}{
		{"CH-56: a block is kept as it is, with the steps that it has taken", kept},
		{"CH-56: ids grow, over the end of a process, too", ids},
		{"CH-56, CH-192: a block at each point at which a process can end", crashes},
		{"CH-58: the order of a target outlives the process", order},
		{"CH-76: what is erased is not there any more", erased},
		{"CH-192: what has gone takes no step", gone},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
	if s.Pause == nil {
		return
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, Store)
	}{
		{"CL-06: a process that was taken for dead and goes on takes no step", fence},
		{"CL-06: a process that was taken for dead and goes on sends nothing that another has taken over", fencedOutbox},
		{"CL-06: what a process that was taken for dead has begun to send is not sent by another", late},
		{"CL-02: what one process has, the others only know of", alive},
		{"CL-06: of several that take a block over, one has it", race},
		{"CH-58: the order of a target is that of all processes", orderOfAll},
		{"CH-74: the answer to an event is held whoever sends it", holds},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// hearer remembers what a store tells.
type hearer struct {
	mu   sync.Mutex
	last map[uint64]channel.BlockNews
}

func (h *hearer) tell(n channel.BlockNews) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil {
		h.last = map[uint64]channel.BlockNews{}
	}
	h.last[n.ID] = n
}

// of is what was told of a block last; ok is false where nothing was.
func (h *hearer) of(id uint64) (channel.BlockNews, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.last[id]
	return n, ok
}

func (h *hearer) waits() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.last {
		if !one.Gone {
			n++
		}
	}
	return n
}

// hear starts a store.
func hear(t *testing.T, store channel.OutboxStore) *hearer {
	t.Helper()
	h := new(hearer)
	if err := store.Start(h.tell); err != nil {
		t.Fatal(err)
	}
	return h
}

func closed(t *testing.T, store channel.OutboxStore) {
	t.Helper()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// outbound is a block to a target.
func outbound(name, target string) channel.Outbound {
	return channel.Outbound{
		Channel: "fake", Account: "a", TurnID: name, Session: "s-" + target, Event: "event-" + name, Sender: "fake",
		Origin: channel.Origin{Sender: channel.SenderFacts{ID: "42", Roles: []string{"r"}}, Conversation: channel.ConversationFacts{Kind: channel.Group, ID: target}},
		Block: channel.Block{
			Kind: channel.ReplyFinal, Seq: 3, Key: name + ":3", Preview: &channel.Receipt{MessageIDs: []string{"9"}},
			Payload: channel.Payload{Text: name + " <&>\u2028\n", Silent: true, Media: []channel.MediaFact{{Path: "x", Kind: channel.MediaImage}}},
			Target:  channel.ReplyPlanFacts{To: target, ReplyToID: channel.None, MessageThreadID: channel.Some("7\x7f\u00e9"), Mode: channel.ReplyThread},
		},
	}
}

func put(t *testing.T, store channel.OutboxStore, name, target string) uint64 {
	t.Helper()
	id, err := store.Put(t.Context(), channel.StoredBlock{At: time.Now(), Size: 600, Target: targetName(target), Block: outbound(name, target)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// targetName is how an outbox names a target.
func targetName(target string) string {
	out := outbound("", target)
	return channel.TargetName(&out)
}

func step(t *testing.T, store channel.OutboxStore, id uint64, sending bool, attempt int) {
	t.Helper()
	if err := store.Step(t.Context(), id, sending, attempt); err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Hour); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited for " + what)
		}
	}
}

func kept(t *testing.T, s Store) {
	store := s.Open(t)
	hear(t, store)
	large := outbound("large", "b")
	large.Block.Text = strings.Repeat("words that a platform takes in parts. ", 30_000) // 1 MiB, the most that a turn's queue has
	first := put(t, store, "first", "c")
	second, err := store.Put(t.Context(), channel.StoredBlock{At: time.Now(), Size: int64(len(large.Block.Text)), Target: "b", Block: large})
	if err != nil {
		t.Fatal(err)
	}
	step(t, store, first, true, 1)
	step(t, store, first, false, 1)
	step(t, store, first, true, 2)
	store = s.Reopen(t, store)
	closed(t, store)
	h := hear(t, store)
	for id, want := range map[uint64]channel.Outbound{first: outbound("first", "c"), second: large} {
		n, ok := h.of(id)
		got := n.Block
		if got == nil && ok {
			if got, err = store.Load(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if n.Channel != want.Channel || n.Event != want.Event || n.Sender != want.Sender {
				t.Errorf("told is %+v", n)
			}
		}
		if !ok || got == nil {
			t.Fatalf("block %d is not there", id)
		}
		if diff := cmp.Diff(want, *got, cmp.AllowUnexported(channel.Opt{})); diff != "" {
			t.Errorf("block %d (-want +got):\n%s", id, diff)
		}
		if !n.Left || n.Alive || n.Gone || time.Since(n.At) > time.Hour || time.Since(n.At) < -time.Hour || n.Size < 500 {
			t.Errorf("told is %+v", n)
		}
		if sending := id == first; n.Sending != sending || sending && n.Attempt != 2 || !sending && n.Attempt != 0 {
			t.Errorf("block %d is told of with sending %v, attempt %d", id, n.Sending, n.Attempt)
		}
	}
	if n, _ := h.of(first); n.Target != targetName("c") {
		t.Errorf("the target is %q", n.Target)
	}
	if out, err := store.Load(t.Context(), second+1000); out != nil || err != nil {
		t.Errorf("a block that never was is %v, %v", out, err)
	}
}

func ids(t *testing.T, s Store) {
	store := s.Open(t)
	hear(t, store)
	last := uint64(0)
	grows := func(name string) {
		t.Helper()
		id := put(t, store, name, "c")
		if id <= last {
			t.Errorf("id %d after %d", id, last)
		}
		last = id
	}
	grows("a")
	grows("b")
	store = s.Reopen(t, store)
	closed(t, store)
	hear(t, store)
	grows("c")
}

func gone(t *testing.T, s Store) {
	store := s.Open(t)
	closed(t, store)
	hear(t, store)
	id := put(t, store, "a", "c")
	step(t, store, id, true, 1)
	if err := store.End(t.Context(), id, channel.Sent); err != nil {
		t.Fatal(err)
	}
	if err := store.Step(t.Context(), id, true, 2); !errors.Is(err, channel.ErrBlockTaken) {
		t.Errorf("a step of what has gone is %v, expected %v", err, channel.ErrBlockTaken)
	}
	if err := store.End(t.Context(), id, channel.Sent); err != nil {
		t.Errorf("the second end of a block is %v", err)
	}
}

func erased(t *testing.T, s Store) {
	store := s.Open(t)
	hear(t, store)
	a, b, c := put(t, store, "a", "one"), put(t, store, "b", "other"), put(t, store, "c", "one")
	step(t, store, c, true, 1)
	if err := store.Erase(t.Context(), "s-one"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint64{a, c} {
		if err := store.Step(t.Context(), id, false, 1); !errors.Is(err, channel.ErrBlockTaken) {
			t.Errorf("a step of what was erased is %v, expected %v", err, channel.ErrBlockTaken)
		}
	}
	store = s.Reopen(t, store)
	closed(t, store)
	h := hear(t, store)
	if _, ok := h.of(b); !ok || h.waits() != 1 {
		t.Errorf("there are %d blocks, expected the one of the other session", h.waits())
	}
	// What an earlier process has left goes, too.
	if err := store.Erase(t.Context(), "s-other"); err != nil {
		t.Fatal(err)
	}
	if err := store.Step(t.Context(), b, true, 1); !errors.Is(err, channel.ErrBlockTaken) {
		t.Errorf("a step of what was erased is %v, expected %v", err, channel.ErrBlockTaken)
	}
}

// post is a platform.
type post struct {
	mu     sync.Mutex
	sent   []string
	answer func(channel.Outbound) (channel.Receipt, error)
}

func (*post) Can(channel.Capabilities) (bool, error) { return true, nil }

func (p *post) Send(_ context.Context, out channel.Outbound) (channel.Receipt, error) {
	p.mu.Lock()
	p.sent = append(p.sent, out.TurnID)
	p.mu.Unlock()
	if p.answer != nil {
		return p.answer(out)
	}
	return channel.Receipt{}, nil
}

func (p *post) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.sent...)
}

// asked can be asked what became of a send.
type asked struct {
	*post
	state channel.ReceiptState
}

func (a asked) Reconcile(context.Context, channel.Outbound) (channel.Receipt, error) {
	return channel.Receipt{State: a.state}, nil
}

// keyed knows a second send for the first.
type keyed struct{ *post }

func (keyed) HonoursKey() bool { return true }

// outbox opens an outbox with a store, and starts it.
func outbox(t *testing.T, store channel.OutboxStore, s channel.Sender) *channel.Outbox {
	t.Helper()
	o, err := channel.OpenOutbox(&channel.OutboxOptions{Store: store, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	o.Register("fake", s)
	o.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := o.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return o
}

func pending(o *channel.Outbox) int { return o.Pending()["fake"] }

func crashes(t *testing.T, s Store) {
	senders := map[string]func(*post) channel.Sender{
		"a platform that says nothing":     func(p *post) channel.Sender { return p },
		"a platform that knows the key":    func(p *post) channel.Sender { return keyed{p} },
		"a platform that has it":           func(p *post) channel.Sender { return asked{p, channel.Sent} },
		"a platform that does not have it": func(p *post) channel.Sender { return asked{p, channel.NotSent} },
	}
	for _, row := range []struct {
		when   string
		steps  func(channel.OutboxStore, uint64) error
		again  map[string]int // sends after the crash, by sender; the others 1
		gone   bool
		unsure bool
	}{
		{when: "it was put in", steps: func(channel.OutboxStore, uint64) error { return nil }},
		{
			when: "it was being sent", unsure: true, steps: func(o channel.OutboxStore, id uint64) error { return o.Step(t.Context(), id, true, 1) },
			again: map[string]int{"a platform that says nothing": 0, "a platform that has it": 0},
		},
		{when: "it was not sent", steps: func(o channel.OutboxStore, id uint64) error {
			return errors.Join(o.Step(t.Context(), id, true, 1), o.Step(t.Context(), id, false, 1))
		}},
		{when: "it was being sent a second time", unsure: true, steps: func(o channel.OutboxStore, id uint64) error {
			return errors.Join(o.Step(t.Context(), id, true, 1), o.Step(t.Context(), id, false, 1), o.Step(t.Context(), id, true, 2))
		}, again: map[string]int{"a platform that says nothing": 0, "a platform that has it": 0}},
		{when: "it was sent", gone: true, steps: func(o channel.OutboxStore, id uint64) error {
			return errors.Join(o.Step(t.Context(), id, true, 1), o.End(t.Context(), id, channel.Sent))
		}},
	} {
		for name, sender := range senders {
			t.Run(row.when+", "+name, func(t *testing.T) {
				store := s.Open(t)
				hear(t, store)
				id := put(t, store, "turn", "c")
				if err := row.steps(store, id); err != nil {
					t.Fatal(err)
				}
				store = s.Reopen(t, store)
				p := new(post)
				o := outbox(t, store, sender(p))
				want := 1
				if n, ok := row.again[name]; ok {
					want = n
				}
				if row.gone {
					want = 0
				}
				until(t, "the block to go", func() bool { return pending(o) == 0 })
				if got := len(p.said()); got != want {
					t.Errorf("sent %d times, expected %d", got, want)
				}
				// CH-74: a door that looks only now does not run an event again that was answered.
				answered := !row.gone && !(row.unsure && name == "a platform that says nothing")
				if held := o.Holds("event-turn"); held != answered {
					t.Errorf("held is %v, expected %v", held, answered)
				}
			})
		}
	}
}

func order(t *testing.T, s Store) {
	store := s.Open(t)
	hear(t, store)
	var want []string
	for i := range 5 {
		name := fmt.Sprint("t", i)
		put(t, store, name, "c")
		want = append(want, name)
	}
	p := new(post)
	o := outbox(t, s.Reopen(t, store), p)
	until(t, "all to be sent", func() bool { return pending(o) == 0 })
	if diff := cmp.Diff(want, p.said()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
