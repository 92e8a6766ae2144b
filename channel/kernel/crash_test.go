package kernel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/turn"
)

const missing = "A part of this answer may be missing"

// steps is an agent that emits three words, each in a block. Like an agent with a tape, it continues after the text that was shown.
func steps(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	upto := 0
	for i, word := range []string{"one ", "two ", "three"} {
		upto += len(word)
		if upto <= t.Shown {
			continue
		}
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

// CH-53, CH-56, CH-63, CH-72: a process dies before or behind each call of the store and of the platform, and another one goes on. The person gets each
// part of the answer once, or one notice that a part may be missing.
func TestACrashAtAnyStepRepeatsAndLosesNothing(t *testing.T) {
	for name, change := range map[string]func(*process, *kernel.QueueOptions){
		"direct":     func(s *process, _ *kernel.QueueOptions) { s.handler.Sender = kernel.Sender{} },
		"durable":    func(*process, *kernel.QueueOptions) {},
		"idempotent": func(s *process, _ *kernel.QueueOptions) { s.idempotent() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				died := true
				for step := 1; died; step++ {
					died = dieAtStep(t, d, step, change, name == "idempotent")
				}
			})
		})
	}
}

// dieAtStep lets a process die at a step of a turn, and another one go on. It reports whether the process got as far as that step.
func dieAtStep(t *testing.T, d *db.DB, step int, change func(*process, *kernel.QueueOptions), fateIsKnown bool) (died bool) {
	c, name := &platform{}, fmt.Sprint("ann", step)
	first := start(t, d, fmt.Sprint("a", step), c, steps, change, func(s *process, _ *kernel.QueueOptions) { s.store.last = step })
	first.send(name, 1, "hello")
	time.Sleep(10 * time.Second)
	died = first.store.isDead()
	first.close()
	for _, replica := range []string{"b", "c"} { // the second one must find nothing left to do
		next := start(t, d, fmt.Sprint(replica, step), c, steps, change)
		time.Sleep(time.Minute)
		if events, replies, err := next.kernel.Store.Pending(t.Context()); len(events)+len(replies) > 0 || err != nil {
			t.Errorf("step %d: %v and %v are left, %v", step, events, replies, err)
		}
		next.close()
	}
	words, notices, previews := map[string]int{}, 0, 0
	for _, m := range c.shownTo(name) {
		switch m = strings.TrimSpace(m); {
		case strings.HasPrefix(m, missing):
			notices++
		case m == "one" || m == "two" || m == "three":
			words[m]++
		default:
			previews++ // the process died before the receipt was stored
		}
	}
	for _, word := range []string{"one", "two", "three"} {
		if words[word] > 1 || words[word]+notices == 0 || notices > 1 || previews > 1 {
			t.Errorf("step %d: the person got %q", step, c.shownTo(name))
		}
	}
	if len(c.replaced) > 0 {
		t.Errorf("step %d: the blocks %q were replaced", step, c.replaced)
	}
	if words["three"] == 0 && fateIsKnown {
		t.Errorf("step %d: the person got %q, though the platform can tell what was sent", step, c.shownTo(name))
	}
	return died
}

// idempotent lets the platform know keys: a block that was shown is not shown again.
func (s *process) idempotent() {
	s.handler.Sender.Repeatable = func(channel.Outbound, time.Duration) bool { return true }
	s.handler.Sender.Send = func(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
		if s.platform.hasShown(out.Block) {
			return channel.Receipt{}, nil
		}
		return s.deliver(ctx, out.Block)
	}
}

// CH-72: an event during which the process dies is given up after the third time, and its sender is told. Other events are answered. What a tool has
// shown is no progress of the answer.
func TestAnEventThatCrashesTheServerIsGivenUp(t *testing.T) {
	for name, toolSpeaks := range map[string]bool{"silent": false, "after a tool's block": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				c, runs, answered := &platform{}, 0, 0
				var live atomic.Pointer[process]
				var log bytes.Buffer
				poison := func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					if turn.Context.BodyForAgent != "poison" {
						answered++
						return echo(ctx, turn)
					}
					runs++
					if toolSpeaks {
						_ = turn.Sink.Emit(ctx, channel.ReplyTool, channel.Payload{Text: "tool"})
						time.Sleep(time.Second)
					}
					live.Load().store.kill()
					return channel.DispatchResult{}, errDead
				}
				for i := range 6 {
					s := start(t, d, fmt.Sprint("r", i), c, poison, func(s *process, o *kernel.QueueOptions) {
						live.Store(s)
						o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
					})
					if i == 0 {
						s.send("bob", 1, "hello")
						time.Sleep(time.Second)
						s.send("ann", 1, "poison")
					}
					time.Sleep(time.Minute)
					s.close()
				}
				if n := strings.Count(log.String(), "gave up an event"); n != 1 || !strings.Contains(log.String(), "event=fake//ann//1") {
					t.Errorf("got the log %s", &log)
				}
				if runs != 3 || answered != 1 {
					t.Errorf("it ran %d times; the other was answered %d times", runs, answered)
				}
				if got := c.shownTo("ann"); !toolSpeaks && (len(got) != 1 || !strings.Contains(got[0], "reference")) {
					t.Errorf("its sender was told %q", got)
				}
			})
		})
	}
}

// CH-60: a process dies when it has told the sender that the turn failed; the notice is not repeated.
func TestANoticeIsNotRepeatedAfterACrash(t *testing.T) {
	fails := func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
		return channel.DispatchResult{}, turn.ErrTimeout // which lasts
	}
	for name, change := range map[string]func(*process, *kernel.QueueOptions){
		"direct":  func(s *process, _ *kernel.QueueOptions) { s.handler.Sender = kernel.Sender{} },
		"durable": func(*process, *kernel.QueueOptions) {},
	} {
		bubble(t, func(t *testing.T, d *db.DB) {
			c := &platform{}
			for step := 1; step < 12; step++ {
				first := start(t, d, fmt.Sprint("a", step), c, fails, change, func(s *process, _ *kernel.QueueOptions) { s.store.last = step })
				who := fmt.Sprint("p", step)
				first.send(who, 1, "hello")
				time.Sleep(time.Second)
				first.close()
				second := start(t, d, fmt.Sprint("b", step), c, fails, change)
				time.Sleep(time.Minute)
				second.close()
				if got := c.shownTo(who); len(got) > 1 || len(got) == 0 && step != 4 && step != 3 { // it died when it was about to tell
					t.Errorf("%s, step %d: got %q", name, step, got)
				}
			}
		})
	}
}

// CH-55, CH-63: a preview of a process that is gone does not stay as half an answer when the turn fails in the next one.
func TestAPreviewOfADeadProcessIsFinished(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		c := &platform{}
		first := start(t, d, "a", c, func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			turn.Sink.Preview(channel.Payload{Text: "half of"})
			<-ctx.Done()
			return channel.DispatchResult{}, ctx.Err() // and not its cause
		})
		first.send("ann", 1, "hello")
		time.Sleep(time.Second)
		first.close()
		if got := c.shown(); got != "half of" {
			t.Errorf("got %q, expected that a shutdown leaves the preview to the next start", got)
		}
		second := start(t, d, "b", c, func(_ context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			if !turn.Resumed || turn.Repeated {
				t.Errorf("got %+v, expected a turn that goes on", turn)
			}
			return channel.DispatchResult{}, errTest
		})
		time.Sleep(time.Minute)
		if got := c.shown(); got != "The answer that began here was cut off." {
			t.Errorf("got %q", got)
		}
		second.close()
	})
}

// A shutdown, and then the answer in the place of the preview.
func TestAShutdownLeavesTheTurnToTheNextStart(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		c := &platform{}
		first := start(t, d, "a", c, func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			turn.Sink.Preview(channel.Payload{Text: "half"})
			time.Sleep(time.Hour) // it does not listen
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "late"})
		})
		first.send("ann", 1, "hello")
		time.Sleep(time.Second)
		began := time.Now()
		first.close()
		if took := time.Since(began); took < 59*time.Minute {
			t.Errorf("the channel has ended after %v, before its turn", took)
		}
		second := start(t, d, "b", c, echo)
		time.Sleep(time.Second)
		if got := c.shown(); got != "echo hello" {
			t.Errorf("got %q", got)
		}
		second.close()
	})
}

// Two replicas: one stood still for so long that the other took over its turn. It stores and sends nothing more.
func TestAReplicaThatStoodStillSendsNothingMore(t *testing.T) {
	emit := func(ctx context.Context, turn *channel.Turn, kind channel.ReplyKind, text string, upto int) error {
		return turn.Sink.Emit(ctx, kind, channel.Payload{Text: text, Upto: upto})
	}
	for name, kind := range map[string]channel.ReplyKind{"a block": channel.ReplyBlock, "the end of the answer": channel.ReplyFinal} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				c, wake := &platform{}, make(chan struct{})
				var result channel.Result
				var ended error
				first := start(t, d, "a", c, func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					_ = emit(ctx, turn, channel.ReplyBlock, "one", 3)
					<-wake
					_ = emit(ctx, turn, kind, "late", 7)
					<-ctx.Done()
					return channel.DispatchResult{}, context.Canceled // and not the cause
				}, func(s *process, _ *kernel.QueueOptions) {
					s.handler.Run = func(ctx context.Context, e *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
						result, ended = s.runEvent(ctx, e, m)
						return result, ended
					}
				})
				first.send("ann", 1, "hello")
				time.Sleep(500 * time.Millisecond)
				first.store.setAway(true) // it claims nothing
				second := start(t, d, "b", c, func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					if turn.Shown != 3 {
						t.Errorf("%d bytes were shown", turn.Shown)
					}
					return channel.DispatchResult{}, emit(ctx, turn, channel.ReplyFinal, "two", 6)
				})
				time.Sleep(5 * time.Second)
				second.close()
				first.store.setAway(false)
				close(wake)
				time.Sleep(time.Minute)
				first.close()
				if got := c.shown(); got != "one\ntwo" || !errors.Is(ended, turn.ErrHandedOver) || result.Outcome != channel.OutcomePartial {
					t.Errorf("got %q, %s, %v", got, result.Outcome, ended)
				}
			})
		})
	}
}

func TestTheSignOfWorkOfADeadProcessIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		signed := false
		first := start(t, d, "a", &platform{}, func(ctx context.Context, _ *channel.Turn) (channel.DispatchResult, error) {
			<-ctx.Done()
			return channel.DispatchResult{}, context.Cause(ctx)
		}, func(s *process, _ *kernel.QueueOptions) {
			s.change = func(_ string, d *kernel.Delivery) {
				d.Working, d.Rest = func(context.Context) error { signed = true; return nil }, func(context.Context) error { return errDead }
			}
		})
		first.send("ann", 1, "hello")
		time.Sleep(time.Second)
		first.die()
		if !signed {
			t.Fatal("there is no sign of work")
		}
		second := start(t, d, "b", first.platform, echo, func(s *process, _ *kernel.QueueOptions) {
			s.change = func(_ string, d *kernel.Delivery) {
				d.Working, d.Rest = func(context.Context) error { return errTest }, func(context.Context) error { signed = false; return nil }
			}
		})
		time.Sleep(time.Minute)
		second.close()
		if signed {
			t.Error("the sign of work is left")
		}
	})
}
