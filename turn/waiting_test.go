package turn_test

import (
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
