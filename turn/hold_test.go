package turn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lingserve/lingserve/turn"
)

// FT-31: while there is too little memory turns wait in their lanes, as far as the queues go, and begin when there is enough again.
func TestTurnsThatAreHeldBackWaitInTheirLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{Concurrency: 2, Queue: 1, QueueTotal: 3})
		runs := l.submit("1", "runs", "")
		l.Hold(true)
		a, b, c := l.submit("2", "a", ""), l.submit("3", "b", ""), l.submit("1", "c", "")
		if _, err := l.try(t.Context(), "4", "d", ""); !errors.Is(err, turn.ErrQueueFull) {
			t.Errorf("beyond the queue: %v", err)
		}
		l.open("runs") // its lane's next one has to wait, too
		if s := status(runs); s[:4] != "done" {
			t.Errorf("what ran is %s", s)
		}
		if now := l.Lanes(); now.Running != 0 || now.Waiting != 3 {
			t.Errorf("%+v", now)
		}
		// What is no turn does not wait: it may make room.
		alone := false
		if err := l.Alone(t.Context(), "c:9", turn.Queue, func(context.Context) error { alone = true; return nil }); err != nil || !alone {
			t.Errorf("beside the turns: %v, %v", alone, err)
		}
		l.Hold(false)
		synctest.Wait()
		if now := l.Lanes(); now.Running != 2 || now.Waiting != 1 {
			t.Errorf("%+v", now)
		}
		for content, k := range map[string]*turn.Ticket{"a": a, "b": b} {
			l.open(content)
			if s := status(k); s[:4] != "done" {
				t.Errorf("%s is %s", content, s)
			}
		}
		l.open("c")
		if s := status(c); s[:4] != "done" {
			t.Errorf("c is %s", s)
		}
		l.empty()
	})
}

func TestADrainEndsTurnsThatAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{})
		l.Hold(true)
		k := l.submit("1", "a", "")
		if err := l.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := k.Wait(t.Context()); !errors.Is(err, turn.ErrDraining) {
			t.Error(err)
		}
		l.Hold(false)
		l.empty()
	})
}

// The context of a turn is what Within makes of it, and its end is told.
func TestATurnRunsWithin(t *testing.T) {
	type key struct{}
	var began, ended int
	f := turn.New(turn.Options{Within: func(ctx context.Context) (context.Context, func()) {
		began++
		return context.WithValue(ctx, key{}, began), func() { ended++ }
	}})
	var saw any
	if err := f.Register("model", runner(func(ctx context.Context, _ turn.Prompt, _ string, _ turn.State) (string, bool, error) {
		saw = ctx.Value(key{})
		return "x", true, nil
	})); err != nil {
		t.Fatal(err)
	}
	k, err := f.Submit(t.Context(), &turn.Envelope{Channel: "c", ChatID: "1", Content: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Wait(t.Context()); err != nil || saw != 1 || ended != 1 {
		t.Errorf("%v, %v, %d", err, saw, ended)
	}
}
