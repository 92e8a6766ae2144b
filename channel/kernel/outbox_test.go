package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store/db"
)

func later(after time.Duration) error {
	return &channel.NotSentError{Err: errTest, Retryable: true, RetryAfter: after}
}

// CH-179: what a platform asks to wait after a preview, the end of the answer waits too.
func TestAnAnswerWaitsAsLongAsItsRefusedPreview(t *testing.T) {
	for _, asked := range []time.Duration{20 * time.Second, 150 * time.Second} {
		bubble(t, func(t *testing.T, d *db.DB) {
			c := &platform{}
			s := start(t, d, "a", c, func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
				turn.Sink.Preview(channel.Payload{Text: "half"})
				time.Sleep(time.Second)
				return echo(ctx, turn)
			}, func(s *process, _ *kernel.QueueOptions) {
				s.change = func(_ string, d *kernel.Delivery) {
					d.Preview = func(context.Context, channel.Block, channel.Receipt) (channel.Receipt, error) {
						_, _ = c.call("preview")
						return channel.Receipt{}, later(asked)
					}
				}
			})
			s.send("ann", 1, "one")
			time.Sleep(10 * time.Minute)
			want(t, "calls", c.requests(), []string{"preview", "send echo one"})
			if waited := c.at[len(c.at)-1].Sub(c.at[0]); waited < asked {
				t.Errorf("the answer was sent after %v, expected at least %v", waited, asked)
			}
			s.close()
		})
	}
}

// CH-58: with a growing pause for a day, and no longer. The outcome of the turn is queued, and its sender gets no notice of a failure.
func TestAReplyIsGivenUpAfterADay(t *testing.T) {
	for name, test := range map[string]struct {
		fail     func(attempt int) error
		min, max int // attempts
	}{
		"refused for ever": {func(int) error { return later(0) }, 40, 80},
		"every 7 hours":    {func(int) error { return later(7 * time.Hour) }, 4, 4},
		"for good, on the way": {func(n int) error {
			if n == 2 {
				return &channel.NotSentError{Err: errTest}
			}
			return later(0)
		}, 2, 2},
		"the chat is gone, on the way": {func(n int) error {
			if n == 2 {
				return &channel.NotSentError{Err: errTest, Retryable: true, Permanent: true}
			}
			return later(0)
		}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				c, attempts := &platform{}, 0
				var last time.Time
				pause := time.Duration(0)
				c.failWith(func(string) error {
					attempts++
					if attempts > 1 && attempts < 5 && time.Since(last) < pause {
						t.Errorf("attempt %d after %v, the one before after %v", attempts, time.Since(last), pause)
					}
					if attempts > 1 {
						pause = time.Since(last) / 2 // with its jitter
					}
					last = time.Now()
					return test.fail(attempts)
				})
				var results []channel.Result
				s := start(t, d, "a", c, echo, func(s *process, _ *kernel.QueueOptions) {
					s.handler.Run = func(ctx context.Context, e *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
						r, err := s.runEvent(ctx, e, m)
						results = append(results, r)
						return r, err
					}
				})
				s.send("ann", 1, "one")
				life := 25 * time.Hour
				if test.max == 2 { // it ends long before
					life = time.Hour
				}
				time.Sleep(life)
				synctest.Wait()
				if attempts < test.min || attempts > test.max || len(results) != 1 || results[0].Outcome != channel.OutcomeQueued || c.shown() != "" {
					t.Errorf("%d attempts, %d turns, shown %q", attempts, len(results), c.shown())
				}
				if _, replies, err := s.kernel.Store.Pending(t.Context()); len(replies) != 0 || err != nil {
					t.Errorf("got %v, %v", replies, err)
				}
				s.close()
			})
		})
	}
}

// CH-56: a reply is sent again only if the first send is proven not to have happened, or a copy does no harm. In the end nothing waits.
func TestAReplyThatMayHaveBeenSent(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*process)
		cuts   int    // sends whose receipt is lost
		want   string // the beginning of what is shown
	}{
		"nothing is known":                   {func(*process) {}, 1, "echo one\n" + missing},
		"the key is known":                   {(*process).idempotent, 1, "echo one"},
		"copies do no harm for five minutes": {func(s *process) { s.repeatFor(5 * time.Minute) }, 3, "echo one\necho one\necho one\necho one"},
		"no copy is confirmed":               {func(s *process) { s.repeatFor(5 * time.Minute) }, 100, "echo one\necho one\necho one"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				c, cuts, began := &platform{}, 0, time.Now()
				c.cut = func(text string) error {
					if text == "echo one" && time.Since(began) > 5*time.Minute && test.cuts > 1 {
						t.Errorf("it is sent again after %v", time.Since(began))
					}
					if cuts++; cuts <= test.cuts {
						return errors.New("connection reset")
					}
					return nil
				}
				s := start(t, d, "a", c, echo, func(s *process, _ *kernel.QueueOptions) { test.change(s) })
				s.send("ann", 1, "one")
				time.Sleep(time.Hour)
				if got := c.shown(); !strings.HasPrefix(got, test.want) || strings.Contains(got, missing) != (strings.Contains(test.want, missing) || test.cuts > 10) {
					t.Errorf("got %q", got)
				}
				if _, replies, err := s.kernel.Store.Pending(t.Context()); len(replies) > 0 || err != nil {
					t.Errorf("%v wait at the end, %v", replies, err)
				}
				s.close()
			})
		})
	}
}

// repeatFor lets the platform ignore copies for a while.
func (s *process) repeatFor(d time.Duration) {
	s.handler.Sender.Repeatable = func(_ channel.Outbound, age time.Duration) bool { return age < d }
}

// A few replies are sent at a time, and the channel does not end before they have; what takes longer than the grace period is decided at the next start.
func TestSendsAreBoundedAndEndWithTheirChannel(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		c := &platform{}
		c.failWith(func(string) error { return later(0) })
		var mu sync.Mutex
		sending, most, canceled := 0, 0, 0
		s := start(t, d, "a", c, echo, func(s *process, _ *kernel.QueueOptions) {
			s.handler.Sender.Send = func(ctx context.Context, _ channel.Outbound) (channel.Receipt, error) {
				mu.Lock()
				sending++
				most = max(most, sending)
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				sending--
				canceled++
				mu.Unlock()
				return channel.Receipt{}, ctx.Err()
			}
		})
		for i := range 20 {
			s.send(fmt.Sprint("p", i), 1, "one")
		}
		time.Sleep(30 * time.Second)
		c.failWith(nil)
		began := time.Now()
		s.close()
		if sending != 0 || most > 4 || canceled == 0 || time.Since(began) != time.Second {
			t.Errorf("%d are being sent after the end, %d at a time, %d canceled, after %v", sending, most, canceled, time.Since(began))
		}
		s = start(t, d, "b", c, echo)
		time.Sleep(10 * time.Minute)
		answers, notices := 0, 0
		for _, text := range c.shownTo("") {
			if text == "echo one" {
				answers++
			} else {
				notices++
			}
		}
		if answers+notices != 20 || notices != canceled {
			t.Errorf("%d answers and %d notices, %d sends were canceled", answers, notices, canceled)
		}
		s.close()
	})
}

// A turn that emits more than one end of an answer loses none.
func TestSeveralEndsOfAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		s := start(t, d, "a", &platform{}, func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{}, emitTexts("a", "!b", "!c")(ctx, turn.Sink)
		})
		s.send("ann", 1, "one")
		time.Sleep(time.Minute)
		if got := s.platform.shown(); got != "a\nb\nc" {
			t.Errorf("got %q", got)
		}
		s.close()
	})
}
