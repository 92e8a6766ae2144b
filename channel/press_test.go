package channel

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tool"
)

// settling is a delivery that changes the messages of questions, and whose sign of work is to be removed.
type settling struct{ *desk }

func (d settling) Settle(_ context.Context, asked Block, sent Receipt, x Decided) error {
	_, err := d.call("settle %v %s: %s", sent.MessageIDs, asked.Question.ID, x.Text(x.By))
	return err
}

func (d settling) Working(context.Context) error {
	_, err := d.call("working")
	return err
}

func (d settling) Rest(context.Context) error {
	_, err := d.call("rest")
	return err
}

func ask(id string) Payload { return Payload{Text: "may " + id + " run?", Question: &Question{ID: id}} }

// DC-15: a question's message is changed once, when it is decided or when its turn ends; the sign of work is removed behind the first text.
func TestDC_15_QuestionsAreSettledAndTheSignIsRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		emit   []Payload
		answer func(call string) (Receipt, error)
		cancel bool
		want   []string
	}{
		"decided": {
			emit: []Payload{ask("q"), {Decided: &Decided{ID: "q", Approved: true, By: "Ann"}}, {Decided: &Decided{ID: "q"}}, {Text: "done"}},
			want: []string{"send may q run?", "settle [m2] q: Approved by Ann.", "send done", "rest"},
		},
		"the turn ends before": {
			emit: []Payload{ask("a"), ask("b"), {Decided: &Decided{ID: "b", Why: "no answer came in time"}}},
			want: []string{"send may a run?", "send may b run?", "settle [m3] b: Not approved: no answer came in time.", "rest", "settle [m2] a: Not approved: the turn has ended."},
		},
		"a question that was not seen": {
			emit:   []Payload{ask("q"), {Decided: &Decided{ID: "q"}}},
			answer: func(string) (Receipt, error) { return Receipt{}, &NotSentError{Err: errors.New("no")} },
			want:   []string{"send may q run?", "rest"},
		},
		"nothing is said": {want: []string{"rest"}},
		"canceled":        {cancel: true, want: []string{"rest"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				k := &desk{answer: test.answer}
				d := newDeliveries(ctx, &Kernel{}, turnOf(settling{k}))
				synctest.Wait()
				for _, p := range test.emit {
					if err := d.Emit(ctx, ReplyTool, p); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if test.cancel {
					cancel()
					synctest.Wait()
				}
				_, _ = d.end(nil)
				if diff := cmp.Diff(append([]string{"working"}, test.want...), k.said()); diff != "" {
					t.Error(diff)
				}
				if k.overlap {
					t.Error("calls overlap")
				}
			})
		})
	}
}

// DN-05: whoever asks is told that a question was certainly not delivered, and nothing where it may have been.
func TestDN_05_AQuestionThatIsNotDeliveredHasFailed(t *testing.T) {
	for name, test := range map[string]struct {
		receipt Receipt
		err     error
		failed  bool
	}{
		"sent":       {Receipt{}, nil, false},
		"not sent":   {Receipt{}, &NotSentError{Err: errors.New("no")}, true},
		"suppressed": {Receipt{}, ErrSuppress, true},
		"unknown":    {Receipt{}, errors.New("the connection broke"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &desk{answer: func(string) (Receipt, error) { return test.receipt, test.err }}
				d := newDeliveries(t.Context(), &Kernel{}, turnOf(k))
				failed := false
				p := ask("q")
				p.Question.Failed = func() { failed = true }
				if err := d.Emit(t.Context(), ReplyTool, p); err != nil {
					t.Fatal(err)
				}
				_, _ = d.end(nil)
				if failed != test.failed {
					t.Errorf("failed: %v", failed)
				}
			})
		})
	}
}

// decider is an agent that takes presses.
type decider struct{ pressed []Press }

func (*decider) Dispatch(context.Context, *Turn) (DispatchResult, error) {
	return DispatchResult{}, errors.New("a press is no message")
}

func (d *decider) Decide(_ context.Context, _ *Turn, p Press) Pressed {
	d.pressed = append(d.pressed, p)
	return PressApproved
}

// presser reads a press.
type presser struct {
	facts Facts
	shown []Pressed
}

func (p *presser) Ingest(context.Context, Press) (*Input, error) {
	return &Input{ID: "p1", ConversationID: "c", SenderID: p.facts.Sender.ID, TextForCommands: ",approve q"}, nil
}

func (*presser) Classify(context.Context, *Input) (EventClass, error) {
	return EventClass{Kind: EventInteraction, CanStartAgentTurn: true}, nil
}

func (p *presser) Resolve(context.Context, *Input, EventClass, Preflight) (Plan, error) {
	return PressPlan(p.facts, Press{ID: "q", Approve: true}, func(_ context.Context, s Pressed) { p.shown = append(p.shown, s) }), nil
}

func (p *presser) Finalize(_ context.Context, r Result) error {
	if s, ok := RefusedPress(r); ok {
		p.shown = append(p.shown, s)
	}
	return nil
}

// DC-15: a press passes the gates of the command that it stands for, is no message, and takes nothing from the window.
func TestDC_15_APressPassesTheGatesOfItsCommand(t *testing.T) {
	operators := func(allowed bool) CommandFacts {
		return CommandFacts{Authorizers: []Authorizer{{Name: "operators", Role: tool.Operator, Configured: true, Allowed: allowed}}}
	}
	for name, test := range map[string]struct {
		commands CommandFacts
		policy   PolicyKind
		observe  bool
		shown    []Pressed
		pressed  int
		outcome  Outcome
	}{
		"an operator":          {operators(true), PolicyOpen, false, []Pressed{PressApproved}, 1, OutcomeSilent},
		"not on the list":      {operators(false), PolicyOpen, false, []Pressed{PressRefused}, 0, OutcomeBlocked},
		"may not talk here":    {operators(false), PolicyDisabled, false, []Pressed{PressRefused}, 0, OutcomeBlocked},
		"commands are off":     {CommandFacts{Mode: CommandsOff, Authorizers: operators(true).Authorizers}, PolicyOpen, false, []Pressed{PressRefused}, 0, OutcomeSilent},
		"the turn is observed": {operators(true), PolicyOpen, true, nil, 0, OutcomeObserved},
	} {
		t.Run(name, func(t *testing.T) {
			a := &decider{}
			k := &Kernel{Agent: a, Window: NewWindow(nil, WindowOptions{})}
			key := WindowKey{Channel: "fake", Conversation: "c"}
			k.Window.Record(t.Context(), Recording{Key: key, MessageID: "m", Time: time.Unix(1, 0), Message: MessageFacts{RawBody: "before"}})
			p := &presser{facts: Facts{
				MessageID: "p1", Sender: SenderFacts{ID: "7"}, Conversation: ConversationFacts{Kind: Group, ID: "c"}, Reply: ReplyPlanFacts{To: "c"},
				Route:  RouteFacts{RouteSessionKey: "fake:c", AgentID: "a"},
				Access: AccessFacts{Commands: test.commands, Group: GroupFacts{Policy: test.policy, RouteAllowed: true, RequireMention: true}},
			}}
			var adapter Adapter[Press] = p
			if test.observe {
				adapter = observed{p}
			}
			r, err := Run(t.Context(), k, Event[Press]{Meta: Meta{Channel: "fake"}, Adapter: adapter})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.shown, test.shown) || len(a.pressed) != test.pressed || r.Outcome != test.outcome {
				t.Errorf("shown %v, pressed %v, outcome %s", p.shown, a.pressed, r.Outcome)
			}
			if s := k.Window.Snapshot(t.Context(), key, 0); len(s.Entries) != 1 {
				t.Errorf("the window has %d messages", len(s.Entries))
			}
		})
	}
}

// observed is a presser in a conversation that is observed.
type observed struct{ *presser }

func (o observed) Resolve(ctx context.Context, in *Input, c EventClass, pf Preflight) (Plan, error) {
	plan, err := o.presser.Resolve(ctx, in, c, pf)
	plan.common().Admission = Admission{Kind: ObserveOnly, Reason: ReasonObserver}
	return plan, err
}

// DC-15: a press that comes again, or will run again, is not answered; every state has a short answer.
func TestDC_15_WhatAPressIsAnsweredWith(t *testing.T) {
	for reason, want := range map[Reason]Pressed{
		ReasonDedupe: 99, ReasonDraining: 99, ReasonOverloaded: 99, ReasonNotATurn: 99, ReasonRateLimited: PressTooMany, ReasonDMNotAllowed: PressRefused,
	} {
		if s, ok := RefusedPress(Result{Admission: drop(reason)}); ok != (want != 99) || ok && s != want {
			t.Errorf("%s: %d, %v", reason, s, ok)
		}
	}
	seen := map[string]bool{}
	for s := PressRefused; s <= PressDenied; s++ {
		text := s.Text()
		if seen[text] || len(text) > 100 || !strings.HasSuffix(text, ".") { // Telegram takes 200 characters
			t.Errorf("%d: %q", s, text)
		}
		seen[text] = true
	}
	for _, b := range (&Question{ID: "q"}).Buttons() {
		if p, ok := ReadPress(b.Word, "q"); !ok || p != b.Press || !IsCommand(p.Command()) {
			t.Errorf("%+v is read as %+v", b, p)
		}
	}
	if _, ok := ReadPress("approve", ""); ok {
		t.Error("a button without an id is one")
	}
}
