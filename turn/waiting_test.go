package turn_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/turn"
)

// waiting writes down what a turn is told of its wait.
func (l *lanes) waiting(session, content string) *turn.Ticket {
	l.t.Helper()
	k, err := l.Submit(l.t.Context(), &turn.Envelope{Channel: "c", ChatID: session, Content: content}, turn.WithWaiting(func(w turn.Waiting) {
		l.add("%s:%s,%d,%s", content, w.For, w.Position, w.Expected)
	}))
	if err != nil {
		l.t.Fatal(err)
	}
	return k
}

func TestDO_08ATurnIsToldThatItWaitsAndWhenThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{Concurrency: 1, Caller: func(s turn.SessionID) string { return strings.SplitN(s, "-", 2)[0] }})
		after := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		l.waiting("many-0", "a")
		for i, content := range []string{"b", "c"} {
			l.waiting(fmt.Sprintf("many-%d", i+1), content)
		}
		l.waiting("one-1", "d")
		l.waiting("many-1", "e")
		after(490 * time.Millisecond)
		l.expect("+a")
		after(20 * time.Millisecond)
		l.expect("b:slot,1,0s d:slot,2,0s c:slot,3,0s e:session,2,0s")
		after(10 * time.Second)
		l.expect("")

		close(l.gates["a"])
		after(1500 * time.Millisecond) // with its save_state; the first slot in 12 s
		l.expect("-a s:a b:,0,0s +b d:slot,1,12s c:slot,2,24s e:session,1,0s")
		close(l.gates["b"])
		after(1100 * time.Millisecond)
		l.expect("-b s:b d:,0,0s +d")
		after(2 * time.Second) // not before
		l.expect("c:slot,1,7s e:slot,2,14s")
		l.Stop("c:many-1", nil)
		l.Stop("c:many-2", nil)
		close(l.gates["d"])
		after(time.Minute)
		l.expect("-d s:d")
		l.empty()
	})
}

func TestDO_08ALongWaitAndALongQueueAreToldLessOften(t *testing.T) {
	for _, tt := range []struct {
		turns, concurrency int
		most               int // calls for the last turn
	}{
		{turns: 300, concurrency: 1, most: 36}, // it waits for five minutes
		{turns: 1000, concurrency: 50, most: 11},
		{turns: 3000, concurrency: 300, most: 4}, // ten seconds, in steps of at most six
	} {
		synctest.Test(t, func(t *testing.T) {
			f := turn.New(turn.Options{Concurrency: tt.concurrency})
			register(t, f, runner(func(context.Context, turn.Prompt, string, turn.State) (string, bool, error) {
				time.Sleep(time.Second)
				return "answer", true, nil
			}))
			calls, began := 0, 0
			for i := range tt.turns {
				last := i == tt.turns-1
				_, err := f.Submit(t.Context(), &turn.Envelope{Channel: "c", ChatID: fmt.Sprint(i)}, turn.WithWaiting(func(w turn.Waiting) {
					switch {
					case w == turn.Waiting{} && last:
						began++
					case last:
						calls++
					}
				}))
				if err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if calls < tt.most/2 || calls > tt.most || began != 1 {
				t.Errorf("%d turns: the last was told its position %d times and %d times that it begins, want at most %d and one", tt.turns, calls, began, tt.most)
			}
		})
	}
}

func TestDO_08NothingIsToldOfWaitingOnceTheTurnBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{Concurrency: 1})
		l.submit("0", "a", "")
		_, err := l.Submit(t.Context(), &turn.Envelope{Channel: "c", ChatID: "1", Content: "b"}, turn.WithWaiting(func(turn.Waiting) {
			l.add("b waits")
			l.Stop("c:1", nil)
			close(l.gates["a"])
			time.Sleep(5 * time.Second) // meanwhile, c begins
		}))
		if err != nil {
			t.Fatal(err)
		}
		l.waiting("2", "c")
		time.Sleep(10 * time.Second)
		l.expect("+a b waits -a s:a +c")
		l.open("c")
		l.empty()
	})
}

func TestDO_08DrainWaitsForWhoIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{Concurrency: 1})
		l.submit("0", "a", "")
		over := false
		_, err := l.Submit(t.Context(), &turn.Envelope{Channel: "c", ChatID: "1", Content: "b"}, turn.WithWaiting(func(turn.Waiting) {
			time.Sleep(time.Hour)
			over = true
		}))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Drain(ctx); err == nil || !over {
			t.Errorf("%v, told to its end: %v", err, over)
		}
		l.empty()
	})
}
