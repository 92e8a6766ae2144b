package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// post is a platform that the outbox sends to.
type post struct {
	mu     sync.Mutex
	sent   []string
	at     []time.Time
	answer func(Outbound) (Receipt, error)
	lacks  Capabilities
	canErr error
}

func (p *post) Can(need Capabilities) (bool, error) {
	return !(need.Thread && p.lacks.Thread || need.Media && p.lacks.Media), p.canErr
}

func (p *post) Send(_ context.Context, out Outbound) (Receipt, error) {
	p.mu.Lock()
	p.sent, p.at = append(p.sent, fmt.Sprintf("%s %s %d", out.Block.Key, out.Block.Text, out.Attempt)), append(p.at, time.Now())
	p.mu.Unlock()
	if p.answer == nil {
		return Receipt{MessageIDs: []string{"m"}}, nil
	}
	return p.answer(out)
}

func (p *post) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.sent...)
}

// asked is a post that can be asked what became of a send.
type asked struct {
	*post
	reconcile func(Outbound) (Receipt, error)
}

func (p asked) Reconcile(_ context.Context, out Outbound) (Receipt, error) { return p.reconcile(out) }

// keyed is a post whose platform knows keys.
type keyed struct{ *post }

func (keyed) HonoursKey() bool { return true }

// lasting is a delivery whose final blocks are durable.
type lasting struct {
	*desk
	needs Capabilities
}

func (d lasting) Durable(b Block) *Durable { return &Durable{Sender: "fake", Needs: d.needs} }

func openOutbox(t *testing.T, options OutboxOptions, s Sender) *Outbox {
	t.Helper()
	o, err := OpenOutbox(&options)
	if err != nil {
		t.Fatal(err)
	}
	if s != nil {
		o.Register("fake", s)
	}
	return o
}

func closeOutbox(t *testing.T, o *Outbox) {
	t.Helper()
	if err := o.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func later(what string) error { return &NotSentError{Err: errors.New(what), Retryable: true} }

func unsent(n int) func(Outbound) (Receipt, error) {
	return func(out Outbound) (Receipt, error) {
		if out.Attempt <= n {
			return Receipt{}, later("503")
		}
		return Receipt{}, nil
	}
}

// durableTurn says one final text through an outbox.
func durableTurn(t *testing.T, o *Outbox, d Delivery, turn, text string) (DispatchResult, tally, error) {
	t.Helper()
	s := turnOf(d)
	s.Turn, s.Event = turn, "event-"+turn
	ds := newDeliveries(t.Context(), &Kernel{Outbox: o}, s)
	speak(t, ds, ReplyFinal, text)
	got, err := ds.end(nil)
	return got, ds.came(), err
}

// CH-57: a reply that a crash can lose is better than none.
func TestWhatTheOutboxCannotTakeIsDeliveredDirectly(t *testing.T) {
	for name, p := range map[string]*post{"nobody is registered": {}, "it lacks threads": {lacks: Capabilities{Thread: true}}, "it is full": {answer: unsent(100)}} {
		t.Run(name, func(t *testing.T) {
			var sender Sender
			if name != "nobody is registered" {
				sender = p
			}
			o, room := openOutbox(t, OutboxOptions{MaxBlocks: 1}, sender), &desk{}
			defer closeOutbox(t, o)
			for i := range 2 {
				if _, _, err := durableTurn(t, o, lasting{room, Capabilities{Thread: true}}, fmt.Sprint(i), fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			}
			if said := room.said(); len(said)+len(p.said()) != 2 || said[len(said)-1] != "send 1" {
				t.Errorf("directly %q", said)
			}
		})
	}
}

// CH-58: again with backoff, and the turn is queued meanwhile.
func TestAnUnsentBlockIsTriedAgainWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{answer: unsent(3)}
		o := openOutbox(t, OutboxOptions{}, p)
		o.Start()
		got, came, err := durableTurn(t, o, lasting{desk: &desk{}}, "t", "a")
		if err != nil || !came.Queued || came.Visible || len(got.Receipts) != 0 {
			t.Errorf("%v, %+v, %q", err, came, states(got))
		}
		if !o.Holds("event-t") || o.Pending()["fake"] != 1 {
			t.Errorf("holds %v, pending %v", o.Holds("event-t"), o.Pending())
		}
		time.Sleep(time.Minute)
		closeOutbox(t, o)
		if diff := cmp.Diff([]string{"t:1 a 1", "t:1 a 2", "t:1 a 3", "t:1 a 4"}, p.said()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for i, wait := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second} {
			if got := p.at[i+1].Sub(p.at[i]); got > wait {
				t.Errorf("attempt %d after %v, want %v at most", i+2, got, wait)
			}
		}
		if o.Holds("event-t") {
			t.Error("it is still held")
		}
	})
}

// CH-58: ten attempts, or a day; then it is given up, and logged without its words.
func TestABlockThatCannotBeSentIsGivenUp(t *testing.T) {
	for name, row := range map[string]struct {
		answer   func(Outbound) (Receipt, error)
		attempts int
	}{
		"attempts": {unsent(1000), 10},
		"a day": {func(Outbound) (Receipt, error) {
			return Receipt{}, &NotSentError{Err: errors.New("429"), Retryable: true, RetryAfter: 7 * time.Hour}
		}, 4},
		"it is refused on the way": {func(out Outbound) (Receipt, error) {
			if out.Attempt == 2 {
				return Receipt{}, &NotSentError{Err: errors.New("400")}
			}
			return Receipt{}, later("503")
		}, 2},
		"it is not known on the way": {func(out Outbound) (Receipt, error) {
			if out.Attempt == 2 {
				return Receipt{}, errors.New("reset")
			}
			return Receipt{}, later("503")
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				p := &post{answer: row.answer}
				o := openOutbox(t, OutboxOptions{Log: slog.New(slog.NewTextHandler(&log, nil))}, p)
				o.Start()
				_, _, _ = durableTurn(t, o, lasting{desk: &desk{}}, "t", "canary")
				time.Sleep(48 * time.Hour)
				closeOutbox(t, o)
				if len(p.said()) != row.attempts || len(o.Pending()) != 0 {
					t.Errorf("%d attempts, want %d; pending %v", len(p.said()), row.attempts, o.Pending())
				}
				if !strings.Contains(log.String(), "turn=t") || strings.Contains(log.String(), "canary") {
					t.Errorf("log: %s", log.String())
				}
			})
		})
	}
}

// CH-58: one behind the other for each target, whatever waits elsewhere.
func TestBlocksOfOneTargetKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{}
		p.answer = func(out Outbound) (Receipt, error) {
			if out.Block.Text == "a" && out.Attempt <= 2 {
				return Receipt{}, later("503")
			}
			return Receipt{}, nil
		}
		o := openOutbox(t, OutboxOptions{}, p)
		o.Start()
		for _, text := range []string{"a", "b", "c"} {
			if _, came, _ := durableTurn(t, o, lasting{desk: &desk{}}, "t-"+text, text); !came.Queued {
				t.Errorf("%s is not queued: %+v", text, came)
			}
		}
		s := turnOf(lasting{desk: &desk{}})
		s.Turn, s.Target = "t-x", ReplyPlanFacts{To: "other"}
		ds := newDeliveries(t.Context(), &Kernel{Outbox: o}, s)
		speak(t, ds, ReplyFinal, "x")
		if got, err := ds.end(nil); err != nil || got.Final != 1 {
			t.Errorf("another target: %+v, %v", got, err)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"t-a:1 a 1", "t-x:1 x 1", "t-a:1 a 2", "t-a:1 a 3", "t-b:1 b 1", "t-c:1 c 1"}, p.said()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		closeOutbox(t, o)
	})
}

// CH-58: unknown is never sent again, unless the platform can be asked or knows the key.
func TestABlockOfUnknownFate(t *testing.T) {
	reset := func(out Outbound) (Receipt, error) {
		if out.Attempt == 1 {
			return Receipt{}, errors.New("connection reset")
		}
		return Receipt{}, nil
	}
	for name, row := range map[string]struct {
		sender func(*post) Sender
		want   []string
		queued bool
	}{
		"nobody can say":   {func(p *post) Sender { return p }, []string{"t:1 a 1"}, false},
		"the key is known": {func(p *post) Sender { return keyed{p} }, []string{"t:1 a 1", "t:1 a 2"}, true},
		"it was sent": {func(p *post) Sender {
			return asked{p, func(Outbound) (Receipt, error) { return Receipt{MessageIDs: []string{"m"}}, nil }}
		}, []string{"t:1 a 1"}, true},
		"it was not sent": {func(p *post) Sender {
			return asked{p, func(Outbound) (Receipt, error) { return Receipt{State: NotSent}, nil }}
		}, []string{"t:1 a 1", "t:1 a 3"}, true},
		"the platform does not answer": {func(p *post) Sender {
			return asked{p, func(Outbound) (Receipt, error) { return Receipt{}, errors.New("503") }}
		}, []string{"t:1 a 1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &post{answer: reset}
				o := openOutbox(t, OutboxOptions{}, row.sender(p))
				o.Start()
				_, came, err := durableTurn(t, o, lasting{desk: &desk{}}, "t", "a")
				if came.Queued != row.queued || (err == nil) != row.queued || !row.queued && !came.Unknown {
					t.Errorf("%v, %+v", err, came)
				}
				time.Sleep(48 * time.Hour)
				closeOutbox(t, o)
				if diff := cmp.Diff(row.want, p.said()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if len(o.Pending()) != 0 {
					t.Errorf("pending: %v", o.Pending())
				}
			})
		})
	}
}

// CH-61: whoever is no longer let in gets nothing of what waits.
func TestTheGatesAreAskedBeforeARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{answer: unsent(1)}
		o := openOutbox(t, OutboxOptions{}, p)
		var who []string
		o.bind(func(_ context.Context, out Outbound) error {
			who = append(who, out.Origin.Sender.ID)
			return errors.New("dm_disabled")
		}, nil, nil)
		o.Start()
		s := turnOf(lasting{desk: &desk{}})
		s.Origin.Sender.ID = "42"
		ds := newDeliveries(t.Context(), &Kernel{Outbox: o}, s)
		speak(t, ds, ReplyFinal, "a")
		_, _ = ds.end(nil)
		time.Sleep(time.Hour)
		closeOutbox(t, o)
		if len(p.said()) != 1 || len(o.Pending()) != 0 {
			t.Errorf("sent %q, pending %v", p.said(), o.Pending())
		}
		if diff := cmp.Diff([]string{"42"}, who); diff != "" {
			t.Errorf("asked about (-want +got):\n%s", diff)
		}
	})
}

// outdatedLedger takes no mark: another process has the event.
type outdatedLedger struct{ keptLedger }

func (*outdatedLedger) Sending(context.Context, string) error { return errors.New("outdated") }

// CH-73, CH-74: what may not be sent now is not sent later either.
func TestABlockOfAnEventThatSomebodyElseHasIsNotKept(t *testing.T) {
	p := &post{}
	o := openOutbox(t, OutboxOptions{}, p)
	defer closeOutbox(t, o)
	s := turnOf(lasting{desk: &desk{}})
	s.Ledger, s.Event = &outdatedLedger{}, "e"
	ds := newDeliveries(t.Context(), &Kernel{Outbox: o}, s)
	_ = ds.Emit(t.Context(), ReplyFinal, Payload{Text: "b"})
	if _, err := ds.end(nil); len(p.said()) != 0 {
		t.Errorf("%q was sent: %v", p.said(), err)
	}
	if len(o.Pending()) != 0 || o.Holds("e") {
		t.Errorf("the outbox has %v, expected nothing", o.Pending())
	}
}
