package channeltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// Run runs the suite.
func Run(t *testing.T, f Fixture) {
	t.Helper()
	for _, test := range []struct {
		name  string
		is    bool // for this channel
		run   func(*testing.T, *world)
		short bool // grace
	}{
		{"a message is answered", true, answered, false},
		{"every outcome is finalized once", true, finalizedOnce, false},
		{"blocks come in the order of emission", true, inOrder, false},
		{"a conversation's events reach the agent in order, the next one when the last has its place", true, queued, false},
		{"copies of an event are one turn", f.Redelivers, copies, false},
		{"an observing turn shows nothing", f.Groups, observes, false},
		{"what was perhaps sent is not sent again", true, notAgain(FailUnknown), false},
		{"what was sent in part is not sent again", true, notAgain(FailPartial), false},
		{"a send that is refused ends its turn", true, refused, false},
		{"a shutdown waits for the turns that run", true, drains, false},
		{"a shutdown that cannot wait cancels them", true, cuts, true},
		{"a preview becomes its block", f.Streams, previews, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.is {
				t.Skip("this is nothing for this channel")
			}
			grace := patience
			if test.short {
				grace = time.Millisecond
			}
			run := func(t *testing.T) { test.run(t, newWorld(t, f, grace)) }
			if f.Bubble {
				synctest.Test(t, run)
			} else {
				run(t)
			}
		})
	}
}

func answered(t *testing.T, w *world) {
	w.send(Message{ID: 1, Text: "hello"})
	end := w.ended(1)[0]
	w.until("the answer", func() bool { return strings.Join(w.p.Shown(), "\n") == "echo hello" })
	if end.Outcome != channel.OutcomeVisible && end.Outcome != channel.OutcomeQueued {
		t.Errorf("the outcome is %s, expected visible or queued", end.Outcome)
	}
	if w.p.Writes() == 0 {
		t.Error("the platform counts no write for an answer")
	}
}

func finalizedOnce(t *testing.T, w *world) {
	broken := errors.New("the agent is broken")
	for i, test := range []struct {
		name   string
		answer func(context.Context, *channel.Turn) (channel.DispatchResult, error)
		want   []channel.Outcome
	}{
		{"visible", echo, []channel.Outcome{channel.OutcomeVisible, channel.OutcomeQueued}},
		{"silent", func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{NoReply: true}, nil
		}, []channel.Outcome{channel.OutcomeSilent}},
		{"deferred", func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{Deferred: true}, nil
		}, []channel.Outcome{channel.OutcomeDeferred}},
		{"failed", func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{}, broken
		}, []channel.Outcome{channel.OutcomeFailed}},
		{"panic", func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			panic(broken)
		}, []channel.Outcome{channel.OutcomeFailed}},
	} {
		w.answers(test.answer)
		before := len(w.turns())
		w.send(Message{ID: i + 1, Text: test.name, Chat: i + 1, Sender: i + 1})
		// One that failed before may run again meanwhile.
		w.until("the outcome of "+test.name, func() bool {
			return slices.ContainsFunc(w.turns()[before:], func(t channel.Trace) bool { return slices.Contains(test.want, t.Outcome) })
		})
	}
	if shown := strings.Join(w.p.Shown(), "\n"); strings.Contains(shown, broken.Error()) {
		t.Errorf("people were shown what an error says: %q", shown)
	}
}

func inOrder(t *testing.T, w *world) {
	w.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		for i, kind := range []channel.ReplyKind{channel.ReplyBlock, channel.ReplyTool, channel.ReplyBlock, channel.ReplyFinal} {
			if err := turn.Sink.Emit(ctx, kind, channel.Payload{Text: fmt.Sprintf("part-%d", i)}); err != nil {
				return channel.DispatchResult{}, err
			}
		}
		return channel.DispatchResult{}, nil
	})
	w.send(Message{ID: 1, Text: "hello"})
	w.ended(1)
	w.until("all parts", func() bool { return strings.Contains(strings.Join(w.p.Shown(), "\n"), "part-3") })
	shown, at := strings.Join(w.p.Shown(), "\n"), -1
	for i := range 4 {
		next := strings.Index(shown, fmt.Sprintf("part-%d", i))
		if next <= at || strings.Count(shown, fmt.Sprintf("part-%d", i)) != 1 {
			t.Fatalf("got %q, expected the parts 0 to 3 in order, each once", shown)
		}
		at = next
	}
}

func queued(t *testing.T, w *world) {
	const n = 5
	last := make(chan struct{})
	w.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		if turn.Context.BodyForAgent == fmt.Sprintf("text %d", n) {
			close(last)
		}
		select { // all have their place before the first ends
		case <-last:
		case <-ctx.Done():
		}
		return channel.DispatchResult{NoReply: true}, nil
	})
	var want []string
	for i := 1; i <= n; i++ {
		text := fmt.Sprintf("text %d", i)
		want = append(want, text)
		w.send(Message{ID: i, Text: text})
	}
	w.ended(n)
	if got := w.asked(); !slices.Equal(got, want) {
		t.Errorf("the agent was asked %q, expected %q", got, want)
	}
}

func copies(t *testing.T, w *world) {
	const n = 100
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range n {
		wg.Go(func() {
			// A platform repeats what was not taken; that it is refused while the first is being stored is the channel's right.
			_ = w.p.Send(ctx, Message{ID: 1, Text: "hello"})
		})
	}
	wg.Wait()
	w.send(Message{ID: 1, Text: "hello"})
	w.send(Message{ID: 2, Text: "and now"})
	w.until("the next message", func() bool { return slices.Contains(w.asked(), "and now") })
	w.until("the answers", func() bool { // of turns that run beside each other, in any order
		shown := strings.Join(w.p.Shown(), "\n")
		return strings.Contains(shown, "echo hello") && strings.Contains(shown, "echo and now")
	})
	if got := w.asked(); !slices.Equal(got, []string{"hello", "and now"}) {
		t.Errorf("the agent was asked %q, expected each message once", got)
	}
	if got := strings.Count(strings.Join(w.p.Shown(), "\n"), "echo hello"); got != 1 {
		t.Errorf("the answer is shown %d times", got)
	}
}

func observes(t *testing.T, w *world) {
	w.mu.Lock()
	w.policy.Unmentioned = channel.UnmentionedObserve
	w.mu.Unlock()
	w.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		turn.Sink.Preview(channel.Payload{Text: "half"})
		if !turn.Context.ObserveOnly {
			t.Error("the agent is not told that the turn observes")
		}
		if err := turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "whole"}); err != nil && !errors.Is(err, channel.ErrNoDelivery) {
			return channel.DispatchResult{}, err
		}
		return channel.DispatchResult{}, nil
	})
	w.send(Message{ID: 1, Text: "by the way", Group: true})
	end := w.ended(1)[0]
	if end.Outcome != channel.OutcomeObserved || len(w.asked()) != 1 {
		t.Errorf("got %+v, expected a turn that observes", end)
	}
	if n := w.p.Writes(); n != 0 {
		t.Errorf("the platform counts %d writes, expected none", n)
	}
}

// notAgain sends a text so long that no platform takes it as one message, of words that each stand there once.
func notAgain(how Failure) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		if !w.p.Fail(how) {
			t.Skip("this platform does not fail like that")
		}
		var text strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&text, "word%d. ", i)
		}
		w.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text.String()})
		})
		w.send(Message{ID: 1, Text: "hello"})
		end := w.ended(1)[0]
		switch end.Outcome {
		case channel.OutcomePartial, channel.OutcomeUnknown, channel.OutcomeFailed, channel.OutcomeQueued:
		default:
			t.Errorf("the outcome is %s", end.Outcome)
		}
		_ = w.p.Send(t.Context(), Message{ID: 1, Text: "hello"}) // a platform in doubt sends it again
		w.answers(echo)
		w.send(Message{ID: 2, Text: "and now", Chat: 2, Sender: 2})
		w.until("the next answer", func() bool { return strings.Contains(strings.Join(w.p.Shown(), "\n"), "echo and now") })
		if n := strings.Count(strings.Join(w.p.Shown(), "\n"), "word0."); n > 1 {
			t.Errorf("the beginning of the text is shown %d times", n)
		}
	}
}

func refused(t *testing.T, w *world) {
	if !w.p.Fail(FailRefused) {
		t.Skip("this platform does not fail like that")
	}
	w.send(Message{ID: 1, Text: "hello"})
	if end := w.ended(1)[0]; end.Outcome == channel.OutcomeVisible {
		t.Errorf("the outcome is %s of a message that nobody sees", end.Outcome)
	}
}

func drains(t *testing.T, w *world) {
	began, goOn := make(chan struct{}), make(chan struct{})
	w.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		close(began)
		<-goOn
		return echo(ctx, turn)
	})
	w.send(Message{ID: 1, Text: "hello"})
	<-began
	var wg sync.WaitGroup
	wg.Go(w.stop)
	close(goOn)
	wg.Wait()
	ends := w.turns()
	if len(ends) != 1 || ends[0].Outcome != channel.OutcomeVisible && ends[0].Outcome != channel.OutcomeQueued {
		t.Errorf("got %+v, expected that the turn was waited for", ends)
	}
}

func cuts(t *testing.T, w *world) {
	began := make(chan struct{})
	var cause error
	w.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		turn.Sink.Preview(channel.Payload{Text: "half an answer"})
		close(began)
		<-ctx.Done()
		cause = context.Cause(ctx)
		return channel.DispatchResult{}, cause
	})
	w.send(Message{ID: 1, Text: "hello"})
	<-began
	w.stop()
	ends := w.turns()
	if len(ends) != 1 || ends[0].Outcome != channel.OutcomeCanceled && ends[0].Outcome != channel.OutcomePartial && ends[0].Outcome != channel.OutcomeUnknown {
		t.Errorf("got %+v, expected one turn that was canceled", ends)
	}
	if !errors.Is(cause, channel.ErrDraining) {
		t.Errorf("the turn was canceled because of %v, expected ErrDraining", cause)
	}
}

func previews(t *testing.T, w *world) {
	goOn := make(chan struct{})
	w.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		turn.Sink.Preview(channel.Payload{Text: "half"})
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "half and whole"})
	})
	w.send(Message{ID: 1, Text: "hello"})
	w.until("the preview", func() bool { return strings.Contains(strings.Join(w.p.Shown(), "\n"), "half") })
	close(goOn)
	w.ended(1)
	if shown := w.p.Shown(); len(shown) != 1 || strings.TrimSpace(shown[0]) != "half and whole" {
		t.Errorf("got %q, expected that the preview became the block", shown)
	}
}
