package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store/db"
)

func TestEventsAreAnsweredOnceAndInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		s := start(t, d, "a", &chat{}, echo)
		for range 3 {
			s.send("ann", 1, "one")
		}
		s.send("ann", 2, "two")
		synctest.Wait()
		time.Sleep(time.Second)
		if got := s.chat.shown(); got != "echo one\necho two" {
			t.Errorf("got %q", got)
		}
		s.close()
	})
}

// steps is an agent whose turn says three words, each in a block, the last as the end of the answer. Like an agent with a tape, it goes on behind what was
// shown. at is called before each word.
func steps(at func(word int)) agentFunc {
	return func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		upto := 0
		for i, word := range []string{"one ", "two ", "three"} {
			upto += len(word)
			if upto <= t.Shown {
				continue
			}
			at(i)
			t.Sink.Preview(channel.Payload{Text: word[:1]})
			time.Sleep(20 * time.Millisecond)
			kind := channel.ReplyBlock
			if i == 2 {
				kind = channel.ReplyFinal
			}
			if err := t.Sink.Emit(ctx, kind, channel.Payload{Text: word, Upto: upto}); err != nil {
				return channel.DispatchResult{}, err
			}
			time.Sleep(20 * time.Millisecond)
		}
		return channel.DispatchResult{}, nil
	}
}

// A process is killed at every step of an answer, and another one goes on.
func TestAnAnswerGoesOnAfterACrash(t *testing.T) {
	for after := range 30 {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				c := &chat{}
				first := start(t, d, "a", c, steps(func(int) {}))
				first.send("ann", 1, "hello")
				time.Sleep(time.Duration(after) * 5 * time.Millisecond)
				first.kill()
				c.failWith(func(string) error { return errors.New("of a dead process") })
				first.close()
				c.failWith(nil)
				second := start(t, d, "b", c, steps(func(int) {}))
				time.Sleep(10 * time.Second)
				got := c.shown()
				if got != "one \ntwo \nthree" && !strings.HasPrefix(got, "one \ntwo \nthree") {
					t.Errorf("got %q", got)
				}
				second.close()
			})
		})
	}
}

func TestAShutdownLeavesTheTurnToTheNextStart(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		c := &chat{}
		slow := func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			turn.Sink.Preview(channel.Payload{Text: "half"})
			<-ctx.Done()
			return channel.DispatchResult{}, context.Cause(ctx)
		}
		first := start(t, d, "a", c, slow)
		first.send("ann", 1, "hello")
		time.Sleep(time.Second)
		first.close()
		if got := c.shown(); got != "half" {
			t.Errorf("got %q, expected that the preview is left as it is", got)
		}
		second := start(t, d, "b", c, echo)
		time.Sleep(time.Second)
		if got := c.shown(); got != "echo hello" {
			t.Errorf("got %q, expected that the preview became the answer", got)
		}
		second.close()
	})
}

func TestAReplyThatThePlatformRefusesForAWhileIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		c := &chat{}
		c.failWith(func(string) error {
			return &channel.NotSentError{Err: errors.New("too many requests"), Retryable: true, RetryAfter: 150 * time.Second}
		})
		s := start(t, d, "a", c, echo)
		s.send("ann", 1, "one")
		s.send("ann", 2, "two")
		time.Sleep(time.Minute)
		s.close()
		c.failWith(nil)
		s = start(t, d, "b", c, echo)
		time.Sleep(time.Minute)
		if got := c.shown(); got != "" {
			t.Errorf("got %q before the platform wants more", got)
		}
		time.Sleep(2 * time.Minute)
		if got := c.shown(); got != "echo one\necho two" {
			t.Errorf("got %q", got)
		}
		s.close()
	})
}

func TestAFailedTurnRunsAgainAndThenTheSenderIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		attempts, begun := 0, time.Now()
		var times []time.Duration
		s := start(t, d, "a", &chat{}, func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			attempts++
			times = append(times, time.Since(begun).Round(time.Second))
			return channel.DispatchResult{}, errors.New("the model is away")
		})
		s.send("ann", 1, "one")
		time.Sleep(10 * time.Minute)
		if got := s.chat.shown(); attempts != 4 || !strings.Contains(got, "reference") || strings.Contains(got, "\n") || fmt.Sprint(times) != "[0s 1s 6s 36s]" {
			t.Errorf("got %d attempts at %v and %q, expected four and one notice", attempts, times, got)
		}
		s.close()
	})
}

func TestEveryFinalBlockOfATurnIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		s := start(t, d, "a", &chat{}, func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			for _, text := range []string{"one", "two"} {
				if err := turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text}); err != nil {
					return channel.DispatchResult{}, err
				}
			}
			return channel.DispatchResult{}, nil
		})
		s.send("ann", 1, "hello")
		time.Sleep(time.Second)
		if got := s.chat.shown(); got != "one\ntwo" {
			t.Errorf("got %q", got)
		}
		s.close()
	})
}

func TestNothingIsSentAfterThePlatformHasRefusedForGood(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		c, attempts := &chat{}, 0
		c.failWith(func(string) error {
			attempts++
			return &channel.NotSentError{Err: errors.New("the chat is gone"), Permanent: true}
		})
		s := start(t, d, "a", c, echo)
		s.send("ann", 1, "hello")
		time.Sleep(time.Minute)
		if attempts != 1 {
			t.Errorf("got %d attempts to send, expected one", attempts)
		}
		s.close()
	})
}

// A platform knows a message again by its key, so that no two notices of an event have the same one.
func TestNoticesHaveKeysOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		pairs, keys := channel.NewPairs(nil), map[string]string{}
		s := start(t, d, "a", &chat{}, echo, func(k *kernel.Kernel) {
			policy := openPolicy()
			policy.DM = channel.PolicyPairing
			k.Pairing, k.Settings = pairs, openSettings{policy}
		})
		s.chat.mu.Lock()
		s.chat.onKey = func(key, text string) {
			if keys[key] != "" {
				t.Errorf("%q and %q have the same key", keys[key], text)
			}
			keys[key] = text
		}
		s.chat.mu.Unlock()
		s.send("ann", 1, "hello")
		time.Sleep(time.Second)
		list, err := pairs.List(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("got %v, %v", list, err)
		}
		if _, err := pairs.Approve(t.Context(), "chat", list[0].Code); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if len(keys) != 3 { // the code, the welcome, and the answer
			t.Errorf("got %v", keys)
		}
		s.close()
	})
}
