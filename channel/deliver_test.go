package channel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// desk is a channel's delivery that writes down what it is asked. What it can do beside is in the types that embed it.
type desk struct {
	mu      sync.Mutex
	calls   []string
	at      []time.Time
	inside  int
	overlap bool
	// answer says what becomes of a call; nil is sent, with an id.
	answer func(call string) (Receipt, error)
}

func (d *desk) call(format string, args ...any) (Receipt, error) {
	call := fmt.Sprintf(format, args...)
	d.mu.Lock()
	d.calls, d.at = append(d.calls, call), append(d.at, time.Now())
	d.inside++
	d.overlap = d.overlap || d.inside > 1
	id, answer := fmt.Sprint("m", len(d.calls)), d.answer
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.inside--
		d.mu.Unlock()
	}()
	if answer == nil {
		return Receipt{MessageIDs: []string{id}}, nil
	}
	r, err := answer(call)
	if err == nil && r.State == Sent && r.MessageIDs == nil {
		r.MessageIDs = []string{id}
	}
	return r, err
}

func (d *desk) said() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.calls...)
}

func (d *desk) Deliver(_ context.Context, b Block) (Receipt, error) {
	if b.Preview != nil && len(b.Preview.MessageIDs) > 0 {
		return d.call("edit %s %s", b.Preview.MessageIDs[0], b.Text)
	}
	return d.call("send %s", b.Text)
}

// previewing shows what is not finished.
type previewing struct{ *desk }

func (d previewing) Preview(_ context.Context, b Block, prev Receipt) (Receipt, error) {
	return d.call("preview %v %s", prev.MessageIDs, b.Text)
}

func (d previewing) Abandon(_ context.Context, prev Receipt, cause error) error {
	_, err := d.call("abandon %v %v", prev.MessageIDs, cause)
	return err
}

// working shows that it works.
type working struct{ *desk }

func (d working) Working(context.Context) error {
	_, err := d.call("working")
	return err
}

// paced is previewing and working, in its own time.
type paced struct {
	*desk
	preview, work time.Duration
}

func (d paced) Preview(ctx context.Context, b Block, prev Receipt) (Receipt, error) {
	return previewing{d.desk}.Preview(ctx, b, prev)
}

func (d paced) Abandon(ctx context.Context, prev Receipt, cause error) error {
	return previewing{d.desk}.Abandon(ctx, prev, cause)
}
func (d paced) Working(ctx context.Context) error { return working{d.desk}.Working(ctx) }
func (d paced) PreviewEvery(Block) time.Duration  { return d.preview }
func (d paced) WorkingEvery() time.Duration       { return d.work }

func turnOf(d Delivery) sending {
	return sending{Turn: "t", Channel: "fake", Conversation: "c", Delivery: d, Target: ReplyPlanFacts{To: "c"}}
}

// speak emits texts and fails the test where one is refused.
func speak(t *testing.T, s Sink, kind ReplyKind, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := s.Emit(t.Context(), kind, Payload{Text: text}); err != nil {
			t.Fatalf("emit %q: %v", text, err)
		}
	}
}

func states(r DispatchResult) (s []string) {
	for _, r := range r.Receipts {
		s = append(s, r.State.String())
	}
	return s
}

type targets struct {
	*desk
	blocks []Block
}

func (d *targets) Deliver(_ context.Context, b Block) (Receipt, error) {
	d.blocks = append(d.blocks, b)
	return Receipt{}, nil
}

// CH-59, CH-58: the target is the plan's, and the key the block's own.
func TestNothingChangesWhereABlockGoes(t *testing.T) {
	to := &targets{desk: &desk{}}
	s := turnOf(to)
	s.Target = ReplyPlanFacts{To: "42", ReplyToID: None, MessageThreadID: Some("7")}
	d := newDeliveries(t.Context(), &Kernel{}, s)
	speak(t, d, ReplyBlock, "a")
	speak(t, d, ReplyFinal, "b")
	if _, err := d.end(nil); err != nil {
		t.Fatal(err)
	}
	for i, kind := range []ReplyKind{ReplyBlock, ReplyFinal} {
		b := to.blocks[i]
		if b.Target != s.Target || b.Kind != kind || b.Seq != i+1 || b.Key != fmt.Sprintf("t:%d", i+1) {
			t.Errorf("block %d: %+v", i, b)
		}
	}
}

// CH-59: mode none suppresses every block, and shows nothing else.
func TestReplyModeNoneSuppressesEverything(t *testing.T) {
	room := &desk{}
	s := turnOf(paced{desk: room})
	s.Target.Mode = ReplyNone
	d := newDeliveries(t.Context(), &Kernel{}, s)
	d.Preview(Payload{Text: "a"})
	speak(t, d, ReplyBlock, "a")
	speak(t, d, ReplyFinal, "b")
	r, err := d.Do(t.Context(), Block{}, func(context.Context) (Receipt, error) { return room.call("own") })
	if err != nil || r.State != Suppressed {
		t.Errorf("own send: %v, %v", r.State, err)
	}
	got, err := d.end(nil)
	if err != nil || len(room.said()) != 0 {
		t.Errorf("%v, calls %q", err, room.said())
	}
	if diff := cmp.Diff([]string{"suppressed", "suppressed", "suppressed"}, states(got)); diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
	if d.came() != (tally{}) {
		t.Errorf("%+v", d.came())
	}
}

// CH-52: what a send returns says one of five things.
func TestReceiptsOfWhatASendReturns(t *testing.T) {
	why := errors.New("why")
	for name, row := range map[string]struct {
		receipt Receipt
		err     error
		want    ReceiptState
		fails   bool
	}{
		"nothing said":            {want: Sent},
		"ids":                     {receipt: Receipt{MessageIDs: []string{"1"}}, want: Sent},
		"suppressed":              {receipt: Receipt{State: Suppressed}, want: Suppressed},
		"suppressed by an error":  {err: fmt.Errorf("%w: empty", ErrSuppress), want: Suppressed},
		"not sent, without error": {receipt: Receipt{State: NotSent}, want: NotSent, fails: true},
		"unknown, without error":  {receipt: Receipt{State: UnknownWhether}, want: UnknownWhether, fails: true},
		"partial, without error":  {receipt: Receipt{State: Partial}, want: Partial, fails: true},
		"partial":                 {err: &PartialError{Receipt: Receipt{MessageIDs: []string{"1"}}, Err: why}, want: Partial, fails: true},
		"not sent":                {err: fmt.Errorf("x: %w", &NotSentError{Err: why}), want: NotSent, fails: true},
		"any other error":         {err: why, want: UnknownWhether, fails: true},
		"a claim beside an error": {receipt: Receipt{State: Sent}, err: why, want: UnknownWhether, fails: true},
		"a state of no meaning":   {receipt: Receipt{State: 77}, want: UnknownWhether, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ReceiptOf(row.receipt, row.err)
			if r.State != row.want || (err != nil) != row.fails {
				t.Errorf("%v, %v; want %v, failing %v", r.State, err, row.want, row.fails)
			}
		})
	}
}

// CH-53: no block goes twice, and only a final one fails the stage.
func TestAFailedBlockIsNotSentAgainAndStopsNoOther(t *testing.T) {
	room := &desk{answer: func(call string) (Receipt, error) {
		if call == "send b" || call == "send last" {
			return Receipt{}, errors.New("connection reset")
		}
		return Receipt{}, nil
	}}
	d := newDeliveries(t.Context(), &Kernel{}, turnOf(room))
	speak(t, d, ReplyBlock, "a", "b", "c")
	speak(t, d, ReplyFinal, "last")
	agent := errors.New("the agent's")
	got, err := d.end(agent)
	if diff := cmp.Diff([]string{"send a", "send b", "send c", "send last"}, room.said()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if want := "the agent's\nthe answer was not delivered: connection reset"; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want) // CH-54: the agent's first
	}
	if diff := cmp.Diff([]string{"sent", "unknown", "sent", "unknown"}, states(got)); diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
	if c := d.came(); !c.Unknown || !c.Visible || c.Failed != 2 {
		t.Errorf("%+v", c)
	}
}

// CH-53: where nothing can be sent any more, nothing is tried.
func TestAPermanentErrorSuppressesTheRest(t *testing.T) {
	blocked := &NotSentError{Err: errors.New("blocked by the user"), Permanent: true}
	room := &desk{answer: func(call string) (Receipt, error) {
		if call == "send a" {
			return Receipt{}, blocked
		}
		return Receipt{}, nil
	}}
	d := newDeliveries(t.Context(), &Kernel{}, turnOf(room))
	speak(t, d, ReplyBlock, "a", "b")
	speak(t, d, ReplyFinal, "c")
	got, err := d.end(nil)
	if !errors.Is(err, blocked) {
		t.Errorf("the stage failed of %v, want the cause", err)
	}
	if diff := cmp.Diff([]string{"send a"}, room.said()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"not_sent", "suppressed", "suppressed"}, states(got)); diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
	if !d.came().Permanent {
		t.Errorf("%+v", d.came())
	}
}

// CH-04, CH-27: what waits when a turn is canceled is not sent, and is known not to be.
func TestACanceledTurnSendsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		spoken := make(chan struct{}) // no block is sent before all wait
		room := &desk{answer: func(string) (Receipt, error) { <-spoken; cancel(stop); return Receipt{}, nil }}
		d := newDeliveries(ctx, &Kernel{}, turnOf(room))
		speak(t, d, ReplyBlock, "a", "b", "c")
		close(spoken)
		got, err := d.end(stop)
		if diff := cmp.Diff([]string{"sent", "not_sent", "not_sent"}, states(got)); diff != "" {
			t.Errorf("receipts (-want +got):\n%s", diff)
		}
		if !errors.Is(err, stop) || len(room.said()) != 1 {
			t.Errorf("%v, calls %q", err, room.said())
		}
		if err := d.Emit(t.Context(), ReplyBlock, Payload{Text: "x"}); err == nil {
			t.Error("a block was taken after the end")
		}
	})
}

// CH-55: previews are conflated, and the first one's receipt goes to those behind it and to the block.
func TestPreviewsAreConflatedAndEditedInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := &desk{}
		d := newDeliveries(t.Context(), &Kernel{}, turnOf(previewing{room}))
		start := time.Now()
		for i := range 25 { // 2.5 s of a model that writes
			d.Preview(Payload{Text: strings.Repeat("x", i+1)})
			time.Sleep(100 * time.Millisecond)
		}
		speak(t, d, ReplyFinal, "whole")
		if _, err := d.end(nil); err != nil {
			t.Fatal(err)
		}
		want := []string{"preview [] x", "preview [m1] " + strings.Repeat("x", 10), "preview [m1] " + strings.Repeat("x", 20), "edit m1 whole"}
		got := room.said()
		if len(got) != 4 || got[0] != want[0] || got[3] != want[3] || !strings.HasPrefix(got[1], "preview [m1] xxxxxxxxxx") {
			t.Errorf("calls %q, want about %q", got, want)
		}
		for i, at := range room.at[1:3] {
			if since := at.Sub(start); since != time.Duration(i+1)*time.Second {
				t.Errorf("preview %d after %v", i+2, since)
			}
		}
	})
}

// CH-55: a channel has its own interval, and one that answers 429 has a longer one.
func TestPreviewsKeepTheChannelsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := &desk{}
		slow := false
		room.answer = func(call string) (Receipt, error) {
			if strings.HasPrefix(call, "preview [m") && !slow {
				slow = true
				return Receipt{}, &NotSentError{Err: errors.New("429"), Retryable: true, RetryAfter: 7 * time.Second}
			}
			return Receipt{}, nil
		}
		warned := 0
		s := turnOf(paced{desk: room, preview: 3 * time.Second, work: time.Hour})
		s.Warn = func(context.Context, string, error) { warned++ }
		d := newDeliveries(t.Context(), &Kernel{}, s)
		start := time.Now()
		for i := range 115 {
			d.Preview(Payload{Text: fmt.Sprint(i)})
			time.Sleep(100 * time.Millisecond)
		}
		_, _ = d.end(errors.New("the agent failed"))
		var at []time.Duration
		for i, call := range room.said() {
			if strings.HasPrefix(call, "preview") {
				at = append(at, room.at[i].Sub(start))
			}
		}
		if diff := cmp.Diff([]time.Duration{0, 3 * time.Second, 10 * time.Second}, at); diff != "" {
			t.Errorf("previews (-want +got):\n%s", diff)
		}
		if warned != 1 {
			t.Errorf("%d warnings, want 1", warned)
		}
		if last := room.said()[len(room.said())-1]; !strings.HasPrefix(last, "abandon [") || !strings.HasSuffix(last, "the agent failed") {
			t.Errorf("the last call is %q", last)
		}
	})
}

// CH-55: a preview whose block never comes is given up, once, and so is one whose block is not sent.
func TestAPreviewWithoutItsBlockIsAbandoned(t *testing.T) {
	cause := errors.New("stopped")
	for name, row := range map[string]struct {
		then func(*testing.T, *deliveries)
		ends error
		last string
	}{
		"the agent failed":    {func(*testing.T, *deliveries) {}, cause, "abandon [m1] stopped"},
		"no block, no reason": {func(*testing.T, *deliveries) {}, nil, "abandon [m1] " + ErrSuppress.Error()},
		"a tool's block":      {func(t *testing.T, d *deliveries) { speak(t, d, ReplyTool, "t") }, cause, "abandon [m1] stopped"},
		"not sent":            {func(t *testing.T, d *deliveries) { speak(t, d, ReplyBlock, "no") }, nil, "abandon [m1] channel: not sent: no"},
		"sent":                {func(t *testing.T, d *deliveries) { speak(t, d, ReplyBlock, "yes") }, nil, "edit m1 yes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				room := &desk{answer: func(call string) (Receipt, error) {
					if call == "edit m1 no" {
						return Receipt{}, &NotSentError{Err: errors.New("no")}
					}
					return Receipt{}, nil
				}}
				d := newDeliveries(t.Context(), &Kernel{}, turnOf(previewing{room}))
				d.Preview(Payload{Text: "p"})
				synctest.Wait()
				row.then(t, d)
				_, _ = d.end(row.ends)
				calls := room.said()
				if calls[len(calls)-1] != row.last {
					t.Errorf("calls %q, want %q last", calls, row.last)
				}
				if !d.came().Visible {
					t.Error("a preview that is shown is visible (CH-131)")
				}
			})
		})
	}
}

// CH-55: nobody knows whether the first one stands there, so there is no second.
func TestAPreviewOfUnknownFateIsTheLastOfItsBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := &desk{answer: func(call string) (Receipt, error) {
			if strings.HasPrefix(call, "preview") {
				return Receipt{}, errors.New("reset")
			}
			return Receipt{}, nil
		}}
		s, warned := turnOf(previewing{room}), 0
		s.Warn = func(context.Context, string, error) { warned++ }
		d := newDeliveries(t.Context(), &Kernel{}, s)
		for i := range 5 {
			d.Preview(Payload{Text: fmt.Sprint(i)})
			time.Sleep(time.Second)
		}
		speak(t, d, ReplyBlock, "a")
		synctest.Wait()
		d.Preview(Payload{Text: "next"})
		time.Sleep(time.Second)
		_, _ = d.end(nil)
		if diff := cmp.Diff([]string{"preview [] 0", "send a", "preview [] next"}, room.said()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if warned != 1 {
			t.Errorf("%d warnings, want 1", warned)
		}
	})
}

// CH-62: the sign is given at dispatch and by interval, until the first visible text.
func TestTheSignOfWorkIsGivenUntilThereIsText(t *testing.T) {
	count := func(d *desk) (n int) {
		for _, call := range d.said() {
			if call == "working" {
				n++
			}
		}
		return n
	}
	synctest.Test(t, func(t *testing.T) {
		room := &desk{}
		d := newDeliveries(t.Context(), &Kernel{}, turnOf(working{room}))
		synctest.Wait()
		if n := count(room); n != 1 {
			t.Errorf("%d at dispatch, want 1", n)
		}
		time.Sleep(11 * time.Second)
		if n := count(room); n != 3 {
			t.Errorf("%d after 11 s, want 3", n)
		}
		speak(t, d, ReplyBlock, "a")
		time.Sleep(time.Minute)
		if n := count(room); n != 3 {
			t.Errorf("%d after a text, want 3", n)
		}
		_, _ = d.end(nil)
	})
	synctest.Test(t, func(t *testing.T) {
		room := &desk{answer: func(string) (Receipt, error) { return Receipt{}, errors.New("no") }}
		s := turnOf(working{room})
		s.Warn = func(context.Context, string, error) { t.Error("a warning") }
		d := newDeliveries(t.Context(), &Kernel{}, s)
		time.Sleep(time.Minute)
		_, _ = d.end(nil)
		if n := count(room); n != 1 {
			t.Errorf("%d after an error, want 1", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		room := &desk{}
		s := turnOf(working{room})
		s.NoSign = true
		d := newDeliveries(t.Context(), &Kernel{}, s)
		time.Sleep(time.Minute)
		_, _ = d.end(nil)
		if n := count(room); n != 0 {
			t.Errorf("%d where nothing works, want none", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		room := &desk{}
		d := newDeliveries(t.Context(), &Kernel{}, turnOf(paced{desk: room, work: 4 * time.Second}))
		time.Sleep(9 * time.Second)
		_, _ = d.end(nil)
		if n := count(room); n != 3 {
			t.Errorf("%d in 9 s of every 4, want 3", n)
		}
	})
}

// CH-60: one notice, after the end, and only where nothing was shown.
func TestANoticeIsHeldToTheEnd(t *testing.T) {
	sorry := Payload{Text: "Something went wrong. (reference t)", IsError: true}
	for name, row := range map[string]struct {
		said   []string // before it
		notice []Payload
		answer func(string) (Receipt, error)
		want   []string
	}{
		"the agent's":             {nil, []Payload{sorry, {Text: "again", IsError: true}}, nil, []string{"send " + sorry.Text}},
		"the kernel's own":        {nil, nil, nil, []string{"send own"}},
		"after an answer":         {[]string{"a"}, []Payload{sorry}, nil, []string{"send a"}},
		"after an unknown answer": {[]string{"a"}, []Payload{sorry}, func(string) (Receipt, error) { return Receipt{}, errors.New("reset") }, []string{"send a"}},
		"after one proven unsent": {[]string{"a"}, nil, func(call string) (Receipt, error) {
			if call == "send a" {
				return Receipt{}, &NotSentError{Err: errors.New("400")}
			}
			return Receipt{}, nil
		}, []string{"send a", "send own"}},
	} {
		t.Run(name, func(t *testing.T) {
			room := &desk{answer: row.answer}
			ctx, cancel := context.WithCancel(t.Context())
			d := newDeliveries(ctx, &Kernel{}, turnOf(room))
			for _, p := range row.notice {
				if err := d.Emit(t.Context(), ReplyFinal, p); err != nil {
					t.Fatal(err)
				}
			}
			speak(t, d, ReplyBlock, row.said...)
			got, _ := d.end(nil)
			cancel() // the turn's life is over
			for range 2 {
				if _, err := d.notice(t.Context(), "own"); err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(row.want, room.said()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if len(got.Receipts) != len(row.said) {
				t.Errorf("a notice is no reply, but there are receipts %q", states(got))
			}
		})
	}
}

type keptLedger struct{ lines []string }

func (l *keptLedger) Sending(_ context.Context, event string) error {
	l.lines = append(l.lines, "sending "+event)
	return nil
}

func (l *keptLedger) Sent(_ context.Context, event string, s ReceiptState) error {
	l.lines = append(l.lines, s.String()+" "+event)
	return nil
}

func (*keptLedger) Seen(context.Context, string) (ReceiptState, error) { return NotSent, nil }
func (*keptLedger) Forget(context.Context, string) error               { return nil }

// CH-74: sends and previews are marked before and after, until it is known that something was seen.
func TestSendsOfAnAcceptedEventAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room, l := &desk{}, &keptLedger{}
		room.answer = func(call string) (Receipt, error) {
			l.lines = append(l.lines, call)
			if call == "preview [] p" {
				return Receipt{}, &NotSentError{Err: errors.New("429")}
			}
			return Receipt{}, nil
		}
		s := turnOf(previewing{room})
		s.Ledger, s.Event = l, "e"
		d := newDeliveries(t.Context(), &Kernel{}, s)
		d.Preview(Payload{Text: "p"})
		synctest.Wait()
		speak(t, d, ReplyBlock, "a", "b")
		_, _ = d.end(nil)
		want := []string{"sending e", "preview [] p", "not_sent e", "sending e", "send a", "sent e", "send b"}
		if diff := cmp.Diff(want, l.lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
