package channeltest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store/db"
)

// patience is how long the suite waits for what has to happen. Nothing takes that long where it happens at all.
const patience = time.Hour

// world is one run of a channel: its kernel, its platform, and what was seen of its turns.
type world struct {
	t *testing.T
	q *kernel.Queue
	p Platform

	mu      sync.Mutex
	policy  channel.Policy
	answer  func(context.Context, *channel.Turn) (channel.DispatchResult, error)
	heard   []string        // what the agent was asked, in order
	traces  []channel.Trace // without those of stages that begin
	ends    map[string]int  // of finalize, by turn
	stopped bool
	fixture Fixture
}

// newWorld starts the channel. It is stopped, and has left no goroutine, when the test ends.
func newWorld(t *testing.T, f Fixture, grace time.Duration) *world {
	t.Helper()
	if !f.Bubble { // a bubble fails by itself if goroutines are left
		findLeaks(t)
	}
	w := &world{t: t, fixture: f, ends: map[string]int{}, policy: channel.Policy{
		DM: channel.PolicyOpen, Group: channel.PolicyOpen, RouteAllowed: true, RequireMention: true, Unmentioned: channel.UnmentionedDrop,
		AllowBots: channel.BotsNone, Visibility: channel.VisibleAll, CommandMode: channel.CommandsOff, ErrorNotice: true, Agent: "assistant",
		Implicit: []channel.MentionKind{channel.ReplyToBot, channel.QuotedBot, channel.BotThread, channel.Native},
	}}
	w.answer = echo
	w.q = NewQueue(t, &kernel.Kernel{
		Agent: w, Observer: w, Settings: w,
	})
	w.p = f.Start(t, w.q, grace)
	t.Cleanup(func() {
		w.stop()
		for id, n := range w.finalized() {
			if n != 1 {
				t.Errorf("the turn %s was finalized %d times", id, n)
			}
		}
	})
	return w
}

// findLeaks fails the test if its end leaves goroutines behind.
func findLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { // the last
		var left error
		for end := time.Now().Add(patience); ; { // those that are at their end may need a while for it on a busy machine
			if left = goleak.Find(before); left == nil || time.Now().After(end) {
				break
			}
		}
		if left != nil {
			t.Error(left)
		}
	})
}

// NewQueue returns a queue of the events of a kernel, in a database of its own in memory. It ends with the test.
func NewQueue(t testing.TB, k *kernel.Kernel) *kernel.Queue {
	t.Helper()
	k.Store = Store(t)
	q := kernel.NewQueue(k, kernel.QueueOptions{Replica: "test"})
	t.Cleanup(func() { q.Close() })
	return q
}

// Store returns a database in memory. It closes with the test.
func Store(t testing.TB) kernel.Store {
	t.Helper()
	d, err := db.Open(t.Context(), "memory", &db.Options{Log: slog.New(slog.DiscardHandler), Beside: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.Events()
}

// stop ends the channel, once.
func (w *world) stop() {
	w.mu.Lock()
	stopped := w.stopped
	w.stopped = true
	w.mu.Unlock()
	if stopped {
		return
	}
	if err := w.p.Stop(); err != nil {
		w.t.Errorf("stop: %v", err)
	}
}

// Dispatch implements [channel.Agent].
func (w *world) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	w.mu.Lock()
	w.heard = append(w.heard, t.Context.BodyForAgent)
	answer := w.answer
	w.mu.Unlock()
	t.Queued()
	return answer(ctx, t)
}

// Observe implements [channel.Observer].
func (w *world) Observe(_ context.Context, t channel.Trace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.Phase == channel.PhaseStart || t.Phase == channel.PhaseWarning {
		return
	}
	w.traces = append(w.traces, t)
	if t.Stage == channel.StageFinalize {
		w.ends[t.TurnID]++
	}
}

// Policy implements [channel.Settings].
func (w *world) Policy(channel.PolicyQuery) channel.Policy {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.policy
}

// echo answers with what was asked.
func echo(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "echo " + t.Context.BodyForAgent})
}

// answers makes the agent answer like this.
func (w *world) answers(f func(context.Context, *channel.Turn) (channel.DispatchResult, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

func (w *world) finalized() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	ends := make(map[string]int, len(w.ends))
	for id, n := range w.ends {
		ends[id] = n
	}
	return ends
}

// turns are the ends of the turns so far, in the order in which they ended.
func (w *world) turns() []channel.Trace {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ends []channel.Trace
	for _, t := range w.traces {
		if t.Stage == channel.StageFinalize {
			ends = append(ends, t)
		}
	}
	return ends
}

// asked is what the agent was asked.
func (w *world) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.heard...)
}

// send has somebody write, and the channel take it.
func (w *world) send(m Message) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.p.Send(ctx, m); err != nil {
		w.t.Fatalf("the channel did not take the message %d: %v", m.ID, err)
	}
}

// until waits for something to be so.
func (w *world) until(what string, so func() bool) {
	w.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-deadline.C:
			w.t.Fatalf("%s: that has not come; the agent was asked %q, %q is shown", what, w.asked(), w.p.Shown())
		}
	}
}

// ended waits for so many turns to end, and returns their ends.
func (w *world) ended(n int) []channel.Trace {
	w.t.Helper()
	w.until("the end of the turns", func() bool { return len(w.turns()) >= n })
	return w.turns()
}
