package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/turn"
)

// script is what an agent does in a turn.
type script func(ctx context.Context, s channel.Sink) error

// runScript runs a turn whose agent follows a script, in virtual time.
func runScript(t *testing.T, s *rig, does script) (r channel.Result, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { r, err = s.runScript(t.Context(), does) })
	return r, err
}

func (s *rig) runScript(ctx context.Context, does script) (channel.Result, error) {
	s.dispatch = func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		t.Queued()
		return channel.DispatchResult{}, does(ctx, t.Sink)
	}
	return s.kernel.RunPrepared(ctx, kernel.Meta{Channel: "fake", TurnID: "t"}, s.turn())
}

// emitTexts emits blocks. "!" before a text makes it the final block.
func emitTexts(texts ...string) script {
	return func(ctx context.Context, s channel.Sink) (err error) {
		for _, text := range texts {
			kind := channel.ReplyBlock
			if rest, final := strings.CutPrefix(text, "!"); final {
				kind, text = channel.ReplyFinal, rest
			}
			err = errors.Join(err, s.Emit(ctx, kind, channel.Payload{Text: text}))
		}
		return err
	}
}

func want(t *testing.T, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func ask(id string) channel.Payload {
	return channel.Payload{Text: "may " + id + " run?", Question: &channel.Question{ID: id}}
}

// CH-59: the target is that of the plan, and each block has its own key.
func TestABlockGoesWhereThePlanSays(t *testing.T) {
	s := newRig()
	s.facts.Reply = channel.ReplyPlanFacts{To: "42", ReplyToID: channel.None, MessageThreadID: channel.Some("7")}
	if _, err := runScript(t, s, emitTexts("a", "!b")); err != nil {
		t.Fatal(err)
	}
	for i, kind := range []channel.ReplyKind{channel.ReplyBlock, channel.ReplyFinal} {
		if b := s.platform.blocks[i]; b.Target != s.facts.Reply || b.Kind != kind || b.Seq != i+1 || b.Key != fmt.Sprint("t:", i+1) {
			t.Errorf("block %d: %+v", i, b)
		}
	}
}

func TestModeNoneSendsNothing(t *testing.T) {
	s := newRig()
	s.facts.Reply.Mode = channel.ReplyNone
	s.delivery = s.platform.delivery("preview", "working", "rest", "settle")
	r, err := runScript(t, s, func(ctx context.Context, sink channel.Sink) error {
		sink.Preview(channel.Payload{Text: "a"})
		return emitTexts("a", "!b")(ctx, sink)
	})
	if err != nil || r.Outcome != channel.OutcomeSilent || len(s.platform.requests()) != 0 {
		t.Errorf("got %s, %v, calls %q", r.Outcome, err, s.platform.requests())
	}
	// A turn without a delivery sends by itself, and its sink says so.
	s = newRig()
	s.delivery = nil
	_, err = runScript(t, s, emitTexts("a"))
	if !errors.Is(err, channel.ErrNoDelivery) {
		t.Errorf("got %v", err)
	}
}

// CH-53, CH-32: nothing is sent twice, and only the end of the answer fails the stage, behind the agent's error.
func TestAFailedBlockIsNotSentAgainAndStopsNoOther(t *testing.T) {
	s, agentErr := newRig(), errors.New("of the agent")
	s.platform.answer = func(call string) (channel.Receipt, error) {
		switch call {
		case "send b", "send last":
			return channel.Receipt{}, errors.New("connection reset")
		case "send c":
			return channel.Receipt{}, &channel.NotSentError{Err: errTest}
		case "send d":
			return channel.Receipt{}, &channel.PartialError{Receipt: channel.Receipt{MessageIDs: []string{"half"}}, Err: errTest}
		}
		return channel.Receipt{}, nil
	}
	r, err := runScript(t, s, func(ctx context.Context, sink channel.Sink) error {
		return errors.Join(emitTexts("a", "b", "c", "d", "!last")(ctx, sink), agentErr)
	})
	// CH-56, CH-63: something may be missing, and that is said once.
	calls := s.platform.requests()
	want(t, "calls", calls[:5], []string{"send a", "send b", "send c", "send d", "send last"})
	if len(calls) != 6 || !strings.Contains(calls[5], "may be missing") {
		t.Errorf("got the calls %q", calls[5:])
	}
	if text := "channel: dispatch: of the agent\nthe answer was not delivered: connection reset"; err == nil || err.Error() != text {
		t.Errorf("got the error %q", err)
	}
	if !r.Dispatch.Sent || r.Outcome != channel.OutcomePartial {
		t.Errorf("got %+v, %s", r.Dispatch, r.Outcome)
	}
}

// CH-53: after a permanent error nothing is tried, and the sender is told nothing.
func TestAPermanentErrorEndsDelivery(t *testing.T) {
	s := newRig()
	s.delivery = s.platform.delivery("preview", "settle")
	s.platform.answer = func(call string) (channel.Receipt, error) {
		if call == "send b" {
			return channel.Receipt{}, &channel.NotSentError{Err: errTest, Permanent: true}
		}
		return channel.Receipt{}, nil
	}
	_, err := runScript(t, s, func(ctx context.Context, sink channel.Sink) error {
		err := errors.Join(sink.Emit(ctx, channel.ReplyTool, ask("q")), emitTexts("b", "!c")(ctx, sink))
		time.Sleep(time.Second)
		sink.Preview(channel.Payload{Text: "d"})
		return err
	})
	want(t, "calls", s.platform.requests(), []string{"send may q run?", "send b"})
	if !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
}

// CH-27: what waits when a turn is canceled is not sent.
func TestACanceledTurnSendsNothingMore(t *testing.T) {
	s, stop := newRig(), errors.New("stopped")
	s.platform.answer = func(string) (channel.Receipt, error) { time.Sleep(time.Second); return channel.Receipt{}, nil }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var late channel.Sink
		_, err := s.runScript(ctx, func(ctx context.Context, sink channel.Sink) error {
			late = sink
			err := emitTexts("a")(ctx, sink)
			synctest.Wait() // it is being sent
			err = errors.Join(err, emitTexts("b", "c")(ctx, sink))
			cancel(stop)
			return errors.Join(err, stop)
		})
		if !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
		late.Preview(channel.Payload{Text: "x"})
		if err := late.Emit(t.Context(), channel.ReplyBlock, channel.Payload{Text: "x"}); err == nil {
			t.Error("a block is taken after the end")
		}
		want(t, "calls", s.platform.requests(), []string{"send a"})
	})
}

// CH-55: the newest text, at the platform's pace, and the block takes the preview's place.
func TestPreviewsShowTheNewestTextAtThePlatformsPace(t *testing.T) {
	s := newRig()
	s.delivery = s.platform.delivery("preview")
	began := time.Time{}
	_, _ = runScript(t, s, func(ctx context.Context, sink channel.Sink) error {
		began = time.Now()
		for i := range 25 { // 2.5 s
			sink.Preview(channel.Payload{Text: fmt.Sprint("text ", i)})
			time.Sleep(100 * time.Millisecond)
		}
		return emitTexts("!all")(ctx, sink)
	})
	calls := s.platform.requests()
	if len(calls) != 4 || calls[0] != "preview [] text 0" || calls[3] != "edit m1 all" || !strings.HasPrefix(calls[1], "preview [m1] text ") {
		t.Errorf("got %q", calls)
	}
	for i, at := range s.platform.at[:3] {
		if at.Sub(began) != time.Duration(i)*time.Second {
			t.Errorf("preview %d after %v", i, at.Sub(began))
		}
	}
	// The platform's own pace, and a longer one after a 429; the last text is finished with a mark.
	s, slow, warned := newRig(), false, 0
	s.delivery = s.platform.delivery("preview")
	s.delivery.PreviewEvery = 3 * time.Second
	s.onTrace = func(tr channel.Trace) {
		if tr.Phase == channel.PhaseWarning {
			warned++
		}
	}
	s.platform.answer = func(call string) (channel.Receipt, error) {
		if strings.HasPrefix(call, "preview [m") && !slow {
			slow = true
			return channel.Receipt{}, &channel.NotSentError{Err: errTest, Retryable: true, RetryAfter: 7 * time.Second}
		}
		return channel.Receipt{}, nil
	}
	_, _ = runScript(t, s, func(ctx context.Context, sink channel.Sink) error {
		began = time.Now()
		for i := range 115 {
			sink.Preview(channel.Payload{Text: fmt.Sprint(i)})
			time.Sleep(100 * time.Millisecond)
		}
		return errTest
	})
	var at []time.Duration
	for i, call := range s.platform.requests() {
		if strings.HasPrefix(call, "preview") {
			at = append(at, s.platform.at[i].Sub(began))
		}
	}
	if !slices.Equal(at, []time.Duration{0, 3 * time.Second, 10 * time.Second}) || warned != 1 {
		t.Errorf("previews at %v, %d warnings", at, warned)
	}
	calls = s.platform.requests()
	if last := calls[len(calls)-1]; !strings.HasPrefix(last, "edit m1 ") || !strings.HasSuffix(last, " […]") {
		t.Errorf("the last call is %q", last)
	}
}

// CH-55, CH-63: no preview is left as it is.
func TestAPreviewWithoutItsBlockIsFinishedWithAMark(t *testing.T) {
	emit := func(kind channel.ReplyKind, text string) script {
		return func(ctx context.Context, s channel.Sink) error { return s.Emit(ctx, kind, channel.Payload{Text: text}) }
	}
	for name, test := range map[string]struct {
		then script
		want []string
	}{
		"the agent failed":    {func(context.Context, channel.Sink) error { return errTest }, []string{"edit m1 p […]"}},
		"a person stopped":    {func(context.Context, channel.Sink) error { return turn.ErrStopped }, []string{"edit m1 p […]"}},
		"no block comes":      {func(context.Context, channel.Sink) error { return nil }, []string{"edit m1 p […]"}},
		"the block of a tool": {emit(channel.ReplyTool, "t"), []string{"send t", "edit m1 p […]"}},
		"a block, not sent":   {emit(channel.ReplyBlock, "no"), []string{"edit m1 no", "edit m1 p […]"}},
		"a block, sent":       {emit(channel.ReplyBlock, "yes"), []string{"edit m1 yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig()
			s.delivery = s.platform.delivery("preview")
			s.platform.answer = func(call string) (channel.Receipt, error) {
				if call == "edit m1 no" {
					return channel.Receipt{}, &channel.NotSentError{Err: errTest}
				}
				return channel.Receipt{}, nil
			}
			r, _ := runScript(t, s, func(ctx context.Context, sink channel.Sink) error {
				sink.Preview(channel.Payload{Text: "p"})
				synctest.Wait()
				return test.then(ctx, sink)
			})
			want(t, "calls", s.platform.requests(), append([]string{"preview [] p"}, test.want...))
			if r.Outcome != channel.OutcomeVisible && r.Outcome != channel.OutcomePartial {
				t.Errorf("got %s: a preview is visible", r.Outcome)
			}
		})
	}
}

func TestAPreviewOfUnknownFateIsTheLastOfItsBlock(t *testing.T) {
	s := newRig()
	s.delivery = s.platform.delivery("preview")
	s.platform.answer = func(call string) (channel.Receipt, error) {
		if call == "preview [] 0" {
			return channel.Receipt{}, errors.New("reset")
		}
		return channel.Receipt{}, nil
	}
	_, _ = runScript(t, s, func(ctx context.Context, sink channel.Sink) error {
		for i := range 5 {
			sink.Preview(channel.Payload{Text: fmt.Sprint(i)})
			time.Sleep(time.Second)
		}
		err := emitTexts("a")(ctx, sink)
		time.Sleep(time.Second)
		sink.Preview(channel.Payload{Text: "next"})
		time.Sleep(time.Second)
		return errors.Join(err, emitTexts("!b")(ctx, sink))
	})
	want(t, "calls", s.platform.requests(), []string{"preview [] 0", "send a", "preview [] next", "edit m3 b"})
}

// CH-62
func TestTheSignOfWorkIsShownUntilThereIsText(t *testing.T) {
	count := func(s *rig) (n int) {
		for _, call := range s.platform.requests() {
			if call == "working" {
				n++
			}
		}
		return n
	}
	for name, test := range map[string]struct {
		every time.Duration
		fails bool
		does  script
		want  int
		rests bool
	}{
		"every 5 s, and not behind a text": {0, false, func(ctx context.Context, s channel.Sink) error {
			time.Sleep(11 * time.Second)
			err := emitTexts("a")(ctx, s)
			time.Sleep(time.Minute)
			return err
		}, 3, true},
		"not behind its first error": {0, true, func(context.Context, channel.Sink) error { time.Sleep(time.Minute); return nil }, 1, true},
		"the platform's own pace":    {4 * time.Second, false, func(context.Context, channel.Sink) error { time.Sleep(9 * time.Second); return nil }, 3, true},
		"not behind a cancellation":  {0, false, func(ctx context.Context, _ channel.Sink) error { time.Sleep(6 * time.Second); return errTest }, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig()
			s.delivery = s.platform.delivery("working", "rest")
			s.delivery.WorkingEvery = test.every
			if test.fails {
				s.platform.answer = func(string) (channel.Receipt, error) { return channel.Receipt{}, errTest }
			}
			_, _ = runScript(t, s, test.does)
			rests := strings.Count(strings.Join(s.platform.requests(), " "), "rest")
			if n := count(s); n != test.want || (rests == 1) != test.rests {
				t.Errorf("got %d signs, %d times removed: %q", n, rests, s.platform.requests())
			}
		})
	}
	// It goes when the turn is canceled, though its agent takes long to end.
	s := newRig()
	s.delivery = s.platform.delivery("working", "rest")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = s.runScript(ctx, func(context.Context, channel.Sink) error {
			synctest.Wait()
			cancel()
			synctest.Wait()
			want(t, "calls", s.platform.requests(), []string{"working", "rest"})
			time.Sleep(time.Hour)
			return nil
		})
	})
	want(t, "calls", s.platform.requests(), []string{"working", "rest"})
}

// The message of a question is changed once: when the question is decided, or when its turn ends. Failed is called if it was certainly not sent.
func TestQuestionsAreSettledOnce(t *testing.T) {
	notSent := func(string) (channel.Receipt, error) { return channel.Receipt{}, &channel.NotSentError{Err: errTest} }
	unknown := func(string) (channel.Receipt, error) { return channel.Receipt{}, errTest }
	suppressed := func(string) (channel.Receipt, error) { return channel.Receipt{State: channel.Suppressed}, nil }
	for name, test := range map[string]struct {
		emit   []channel.Payload
		answer func(string) (channel.Receipt, error)
		failed int
		want   []string
	}{
		"decided": {
			emit: []channel.Payload{ask("q"), {Decided: &channel.Decided{ID: "q", Approved: true, By: "Ann"}}, {Decided: &channel.Decided{ID: "q"}}, {Text: "done"}},
			want: []string{"send may q run?", "settle [m1] q: Approved by Ann.", "send done"},
		},
		"the turn ends before": {
			emit: []channel.Payload{ask("a"), ask("b"), {Decided: &channel.Decided{ID: "b", Why: "no answer came in time"}}},
			want: []string{"send may a run?", "send may b run?", "settle [m2] b: Not approved: no answer came in time.", "settle [m1] a: Not approved: the turn has ended."},
		},
		"not sent":   {emit: []channel.Payload{ask("q"), {Decided: &channel.Decided{ID: "q"}}}, answer: notSent, failed: 1, want: []string{"send may q run?"}},
		"suppressed": {emit: []channel.Payload{ask("q")}, answer: suppressed, failed: 1, want: []string{"send may q run?"}},
		"unknown":    {emit: []channel.Payload{ask("q")}, answer: unknown, want: []string{"send may q run?", "send A part of this answer may be missing, because the platform did not confirm it. If it is, please ask again."}},
	} {
		t.Run(name, func(t *testing.T) {
			s, failed := newRig(), 0
			s.delivery, s.platform.answer = s.platform.delivery("settle"), test.answer
			_, _ = runScript(t, s, func(ctx context.Context, sink channel.Sink) (err error) {
				for _, p := range test.emit {
					if p.Question != nil {
						p.Question.Failed = func() { failed++ }
					}
					err = errors.Join(err, sink.Emit(ctx, channel.ReplyTool, p))
				}
				return err
			})
			want(t, "calls", s.platform.requests(), test.want)
			if failed != test.failed || s.platform.overlap {
				t.Errorf("failed %d times, calls overlap: %t", failed, s.platform.overlap)
			}
		})
	}
}

// CH-60: one notice, after the end, and only if nothing was shown.
func TestTheNoticeOfAnAgentIsHeldToTheEnd(t *testing.T) {
	sorry, again := channel.Payload{Text: "sorry", IsError: true}, channel.Payload{Text: "again", IsError: true}
	for name, test := range map[string]struct {
		said   []string
		answer func(string) (channel.Receipt, error)
		want   []string
	}{
		"no answer":       {nil, nil, []string{"send sorry"}},
		"after an answer": {[]string{"a"}, nil, []string{"send a"}},
		"after an answer that was not sent": {[]string{"a"}, func(call string) (channel.Receipt, error) {
			if call == "send a" {
				return channel.Receipt{}, &channel.NotSentError{Err: errTest}
			}
			return channel.Receipt{}, nil
		}, []string{"send a", "send sorry"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig()
			s.platform.answer = test.answer
			_, _ = runScript(t, s, func(ctx context.Context, sink channel.Sink) error {
				return errors.Join(sink.Emit(ctx, channel.ReplyFinal, sorry), sink.Emit(ctx, channel.ReplyFinal, again), emitTexts(test.said...)(ctx, sink))
			})
			want(t, "calls", s.platform.requests(), test.want)
		})
	}
}

// action is an action of an agent, and a fault of its platform.
type action struct {
	What  string
	Fault string // of the calls from here on
}

// CH-50, CH-53: whatever an agent says and a platform answers, the order holds, and nothing is sent twice.
func TestOrderHoldsAndNothingIsSentTwiceWhateverHappens(t *testing.T) {
	actions := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) action {
		return action{
			rapid.SampledFrom([]string{"text", "text", "text", "tool", "final", "preview", "preview", "wait", "cancel"}).Draw(t, "what"),
			rapid.SampledFrom([]string{"", "", "", "", "", "unsent", "unknown", "partial", "permanent", "panic", "slow"}).Draw(t, "fault"),
		}
	}), 1, 40)
	rapid.Check(t, func(rt *rapid.T) {
		list := actions.Draw(rt, "actions")
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = runActions(t.Context(), list) })
		if len(wrong) > 0 {
			rt.Fatal(strings.Join(wrong, "; "))
		}
	})
}

func runActions(ctx context.Context, list []action) (wrong []string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, fault := newRig(), ""
	s.delivery = s.platform.delivery("preview", "working", "rest")
	s.platform.answer = func(string) (channel.Receipt, error) {
		s.mu.Lock()
		now := fault
		s.mu.Unlock()
		switch now {
		case "unsent":
			return channel.Receipt{}, &channel.NotSentError{Err: errTest}
		case "unknown":
			return channel.Receipt{}, errTest
		case "partial":
			return channel.Receipt{}, &channel.PartialError{Err: errTest}
		case "permanent":
			return channel.Receipt{}, &channel.NotSentError{Err: errTest, Permanent: true}
		case "panic":
			panic("of the channel")
		case "slow":
			time.Sleep(3 * time.Second)
		}
		return channel.Receipt{}, nil
	}
	var taken []string
	permanent := false
	_, _ = s.runScript(ctx, func(ctx context.Context, sink channel.Sink) error {
		for i, action := range list {
			s.mu.Lock()
			fault = action.Fault
			s.mu.Unlock()
			permanent = permanent || fault == "permanent"
			text, kind := fmt.Sprintf("<%d>", i), channel.ReplyBlock
			switch action.What {
			case "preview":
				sink.Preview(channel.Payload{Text: text})
				continue
			case "wait":
				time.Sleep(700 * time.Millisecond)
				continue
			case "cancel":
				if i%4 == 0 { // seldom, else little happens
					cancel()
				}
				continue
			case "tool":
				kind = channel.ReplyTool
			case "final":
				kind = channel.ReplyFinal
			}
			if err := sink.Emit(ctx, kind, channel.Payload{Text: text}); err == nil {
				taken = append(taken, text)
			} else if ctx.Err() == nil {
				wrong = append(wrong, fmt.Sprint(text, " was refused: ", err))
			}
		}
		return context.Cause(ctx)
	})
	calls := s.platform.requests()
	time.Sleep(time.Minute)
	if len(s.platform.requests()) != len(calls) || s.platform.overlap {
		wrong = append(wrong, "calls overlap, or come after the end")
	}
	var sent []string
	for _, call := range calls {
		verb, _, _ := strings.Cut(call, " ")
		if at := strings.IndexByte(call, '<'); at > 0 && (verb == "send" || verb == "edit") && !strings.HasSuffix(call, "[…]") {
			sent = append(sent, call[at:])
		}
	}
	next := 0
	for _, text := range sent { // a part of what was taken, in its order, and nothing twice
		at := slices.Index(taken[next:], text)
		if at < 0 {
			return append(wrong, fmt.Sprintf("%s was sent out of order or twice: taken %q, sent %q", text, taken, sent))
		}
		next += at + 1
	}
	if ctx.Err() == nil && !permanent && len(sent) < len(taken) {
		wrong = append(wrong, fmt.Sprintf("taken %q, sent %q", taken, sent))
	}
	return wrong
}
