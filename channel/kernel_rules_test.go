package channel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/turn"
)

// CH-06, CH-101
func TestAKernelWithAnAgentAloneAdmitsNobody(t *testing.T) {
	asked := false
	k := &channel.Kernel{Agent: agent(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
		asked = true
		return channel.DispatchResult{}, nil
	})}
	f := facts("1", "hi")
	f.Access = channel.AccessFacts{}
	// CH-02
	for name, run := range map[string]func() (channel.Result, error){
		"assembled": func() (channel.Result, error) {
			return k.RunAssembled(t.Context(), channel.Meta{Channel: "fake"}, &channel.Assembled{Common: channel.Common{Facts: f}, Delivery: &platform{}})
		},
		"prepared": func() (channel.Result, error) {
			f := f
			f.MessageID = "2"
			return k.RunPrepared(t.Context(), channel.Meta{Channel: "fake"}, &channel.Prepared{
				Common: channel.Common{Facts: f},
				Dispatch: func(ctx context.Context, t *channel.Turn, a channel.Agent) (channel.DispatchResult, error) {
					return a.Dispatch(ctx, t)
				},
			})
		},
	} {
		r, err := run()
		// CH-10
		if err != nil || r.Admission.Kind != channel.Drop || r.Admission.Reason != channel.ReasonNoPolicy || r.Outcome != channel.OutcomeBlocked {
			t.Errorf("%s: got %+v, %v, expected drop no_policy", name, r.Admission, err)
		}
	}
	if asked {
		t.Error("the agent was asked")
	}
}

// platformSends is the dispatch of a prepared plan: the agent has a sink whose sends are the dispatcher's own.
func (s *scene) platformSends(ctx context.Context, t *channel.Turn, a channel.Agent) (channel.DispatchResult, error) {
	own := *t
	own.Sink = &ownSink{t.Sink, &s.platform}
	return a.Dispatch(ctx, &own)
}

type ownSink struct {
	channel.Sink
	p *platform
}

func (o *ownSink) Emit(ctx context.Context, kind channel.ReplyKind, p channel.Payload) error {
	b := channel.Block{Kind: kind, Payload: p}
	_, err := o.Do(ctx, b, func(ctx context.Context) (channel.Receipt, error) { return o.p.Deliver(ctx, b) })
	return err
}

// CH-11
func TestALaterStageTightensAndNeverLoosens(t *testing.T) {
	observe := channel.Admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver}
	blocked := channel.AccessFacts{}
	for name, test := range map[string]struct {
		pre, plan channel.Admission
		access    channel.AccessFacts
		want      channel.Admission
	}{
		"nothing is said":                      {access: open, want: channel.Admission{Kind: channel.Dispatch}},
		"dispatch does not loosen":             {pre: observe, plan: channel.Admission{Kind: channel.Dispatch}, access: open, want: observe},
		"observing stays where the gates pass": {plan: observe, access: open, want: observe},
		"a gate is stricter":                   {pre: observe, access: blocked, want: channel.Admission{Kind: channel.Drop, Reason: channel.ReasonNoPolicy}},
		"handled is stricter":                  {pre: observe, plan: channel.Admission{Kind: channel.Handled, Reason: channel.ReasonHandledLocally}, access: open, want: channel.Admission{Kind: channel.Handled, Reason: channel.ReasonHandledLocally}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.pre.Admission, s.plan, s.facts.Access = test.pre, test.plan, test.access
			r, err := s.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, r.Admission); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// CH-14
func TestAReasonThatThereIsNotIsAnErrorOfItsStage(t *testing.T) {
	for name, test := range map[string]struct {
		a    channel.Admission
		good bool
	}{
		"one of the set":              {channel.Admission{Kind: channel.Drop, Reason: channel.ReasonTooLarge}, true},
		"its own":                     {channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "not_my_bot_2"}, true},
		"handled, its own":            {channel.Admission{Kind: channel.Handled, Reason: channel.ReasonChannelLocal, Detail: "x"}, true},
		"invented":                    {channel.Admission{Kind: channel.Drop, Reason: "bad_mood"}, false},
		"none":                        {channel.Admission{Kind: channel.Drop}, false},
		"of another kind":             {channel.Admission{Kind: channel.Handled, Reason: channel.ReasonTooLarge}, false},
		"of another stage":            {channel.Admission{Kind: channel.Drop, Reason: channel.ReasonRateLimited}, false},
		"no detail":                   {channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal}, false},
		"a detail with words":         {channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "Hello there"}, false},
		"a detail that is too long":   {channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: strings.Repeat("x", 33)}, false},
		"a detail of a common reason": {channel.Admission{Kind: channel.Drop, Reason: channel.ReasonTooLarge, Detail: "x"}, false},
		"a kind that there is not":    {channel.Admission{Kind: "postpone", Reason: channel.ReasonTooLarge}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.pre.Admission = test.a
			r, err := s.run(t.Context())
			if test.good {
				if err != nil || r.Admission != test.a {
					t.Errorf("got %+v, %v", r.Admission, err)
				}
				return
			}
			if se, ok := errors.AsType[*channel.StageError](err); !ok || se.Stage != channel.StagePreflight {
				t.Errorf("got %v, expected an error of preflight", err)
			}
		})
	}
}

// CH-22, CH-24
func TestAFailureToRecordEndsTheTurnBeforeDispatch(t *testing.T) {
	s := newScene()
	s.do = func(name string) error {
		switch name {
		case "record":
			return errTest
		case "preDispatchFailure":
			panic("this one, too") // is only logged
		}
		return nil
	}
	r, err := s.run(t.Context())
	if !errors.Is(err, errTest) || r.Dispatched || r.Outcome != channel.OutcomeFailed {
		t.Errorf("got %v, dispatched %t", err, r.Dispatched)
	}
	n := 0
	for _, c := range s.calls {
		if c == "dispatch" {
			t.Error("the agent was asked")
		}
		if c == "preDispatchFailure" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("OnPreDispatchFailure ran %d times", n)
	}
	if !slices.Contains(s.phases(), "record:warning") {
		t.Errorf("got %q, expected a warning of its own failure", s.phases())
	}
}

// CH-23
func TestRecordOptions(t *testing.T) {
	key, blank := "kept", "  "
	for name, test := range map[string]struct {
		options   channel.RecordOptions
		route     channel.RouteFacts
		recordErr error
		routeErr  error
		owner     string
		wantKey   string
		wantRoute bool
		wantErr   bool
		told      bool
	}{
		"the key of the turn":                   {wantKey: "fake:42"},
		"the persisted key":                     {route: channel.RouteFacts{PersistedSessionKey: "stored"}, wantKey: "stored"},
		"a key of its own":                      {options: channel.RecordOptions{SessionKey: &key}, route: channel.RouteFacts{PersistedSessionKey: "stored"}, wantKey: "kept"},
		"a blank key":                           {options: channel.RecordOptions{SessionKey: &blank}, wantErr: true},
		"the last route":                        {options: channel.RecordOptions{UpdateLastRoute: true}, wantKey: "fake:42", wantRoute: true},
		"a row that fails":                      {recordErr: errTest, wantErr: true},
		"a row that fails, with OnError":        {options: channel.RecordOptions{OnError: func(context.Context, error) {}, UpdateLastRoute: true}, recordErr: errTest, told: true, wantRoute: true},
		"a route that fails, with OnError":      {options: channel.RecordOptions{OnError: func(context.Context, error) {}, UpdateLastRoute: true}, routeErr: errTest, wantKey: "fake:42", wantErr: true},
		"a main session, the pinned owner":      {options: channel.RecordOptions{UpdateLastRoute: true}, route: channel.RouteFacts{MainSessionKey: "main"}, owner: "42", wantKey: "fake:42", wantRoute: true},
		"a main session, somebody else":         {options: channel.RecordOptions{UpdateLastRoute: true}, route: channel.RouteFacts{MainSessionKey: "main"}, owner: "43", wantKey: "fake:42"},
		"a main session that nobody has pinned": {options: channel.RecordOptions{UpdateLastRoute: true}, route: channel.RouteFacts{MainSessionKey: "main"}, wantKey: "fake:42"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			rec := &rows{record: test.recordErr, route: test.routeErr, owner: test.owner}
			s.kernel.Recorder = rec
			s.options = test.options
			told := false
			if test.options.OnError != nil {
				s.options.OnError = func(_ context.Context, err error) { told = errors.Is(err, errTest) }
			}
			test.route.AgentID, test.route.RouteSessionKey = "assistant", "fake:42"
			s.facts.Route = test.route
			r, err := s.run(t.Context())
			if (err != nil) != test.wantErr || told != test.told {
				t.Fatalf("got %v, told %t", err, told)
			}
			if r.SessionKey != "fake:42" {
				t.Errorf("the turn is of the session %q", r.SessionKey)
			}
			var want []string
			if test.wantKey != "" {
				want = []string{test.wantKey}
			}
			if diff := cmp.Diff(want, rec.keys); diff != "" {
				t.Error(diff)
			}
			if rec.routed != test.wantRoute {
				t.Errorf("the last route was written: %t", rec.routed)
			}
		})
	}
}

type rows struct {
	record, route error
	owner         string
	keys          []string
	routed        bool
}

func (r *rows) Record(_ context.Context, row channel.Row) error {
	if r.record != nil {
		return r.record
	}
	r.keys = append(r.keys, row.SessionKey)
	return nil
}

func (r *rows) LastRoute(context.Context, channel.Row) error {
	r.routed = r.route == nil
	return r.route
}

func (r *rows) Owner(context.Context, string) (string, error) { return r.owner, nil }

// CH-28
func TestAFailingObserverOrTracerChangesNothing(t *testing.T) {
	var log bytes.Buffer
	s := newScene()
	s.kernel.Log = slog.New(slog.NewTextHandler(&log, nil))
	s.told = func(channel.Trace) { panic("observer") }
	s.kernel.Tracer = tracer(func(context.Context, string) (context.Context, func(error)) { panic("tracer") })
	if r, err := s.run(t.Context()); err != nil || r.Outcome != channel.OutcomeVisible {
		t.Errorf("got %+v, %v", r.Outcome, err)
	}
	if !strings.Contains(log.String(), "observer failed") || !strings.Contains(log.String(), "tracer failed") {
		t.Errorf("got the log %s", log.String())
	}
}

type tracer func(context.Context, string) (context.Context, func(error))

func (f tracer) Span(ctx context.Context, name string) (context.Context, func(error)) {
	return f(ctx, name)
}

// challenger is a scene that tells senders how to be paired.
type challenger struct {
	*scene
	told []string
	do   func(context.Context) error
}

func (c *challenger) Challenge(ctx context.Context, s channel.SenderFacts) error {
	c.told = append(c.told, s.ID)
	if c.do != nil {
		return c.do(ctx)
	}
	return nil
}

// CH-101, CH-28
func TestASenderIsToldOnceAnHourHowToBePaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &challenger{scene: newScene()}
		c.facts.Access = channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyPairing, Paired: channel.No}}
		run := func(id, sender string) channel.Result {
			c.in = &channel.Input{ID: id, ConversationID: sender, SenderID: sender}
			c.facts.MessageID, c.facts.Sender.ID = id, sender
			r, err := channel.Run(t.Context(), c.kernel, channel.Event[string]{Meta: channel.Meta{Channel: "fake"}, Adapter: c})
			if err != nil || r.Admission.Reason != channel.ReasonPairingRequired || r.Admission.Kind != channel.Handled {
				t.Fatalf("got %+v, %v", r.Admission, err)
			}
			return r
		}
		run("1", "42")
		run("2", "42")
		run("3", "43")
		time.Sleep(time.Hour - time.Second)
		run("3a", "42")
		time.Sleep(time.Second)
		c.do = func(ctx context.Context) error {
			<-ctx.Done() // one that hangs has 15 s
			return ctx.Err()
		}
		began := time.Now()
		run("4", "42")
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("a challenge that hangs took %v", took)
		}
		if diff := cmp.Diff([]string{"42", "43", "42"}, c.told); diff != "" {
			t.Error(diff)
		}
		if !slices.Contains(c.phases(), "authorize:warning") {
			t.Errorf("got %q, expected a warning", c.phases())
		}
	})
}

// CH-101: whoever was let in and removed again within the hour is told a code that works.
func TestWhoWasRemovedIsToldAnew(t *testing.T) {
	pairs := channel.NewPairs(nil)
	c := &challenger{scene: newScene()}
	c.kernel.Pairing = pairs
	c.facts.Access = channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyPairing, Paired: channel.No}}
	var codes []string
	c.do = func(ctx context.Context) error {
		code, tell, err := pairs.Request(ctx, "fake", "", channel.SenderFacts{ID: "42"})
		if codes = append(codes, code); !tell {
			t.Error("told twice")
		}
		return err
	}
	say := func(id string) {
		c.in = &channel.Input{ID: id, ConversationID: "42", SenderID: "42"}
		c.facts.MessageID, c.facts.Sender.ID = id, "42"
		if _, err := channel.Run(t.Context(), c.kernel, channel.Event[string]{Meta: channel.Meta{Channel: "fake"}, Adapter: c}); err != nil {
			t.Fatal(err)
		}
	}
	say("1")
	say("2")
	if _, err := pairs.Approve(t.Context(), "fake", codes[0]); err != nil {
		t.Fatal(err)
	}
	if ok, err := pairs.Remove(t.Context(), "fake", "", "42"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	say("3")
	say("4")
	if len(codes) != 2 || codes[0] == codes[1] {
		t.Errorf("told %q, expected two codes", codes)
	}
}

// CH-31, CH-32
func TestEveryPartOfFinalizeRunsAndTheFirstErrorStaysFirst(t *testing.T) {
	second, third := errors.New("the plan's"), errors.New("the adapter's")
	s := newScene()
	s.do = func(name string) error {
		switch name {
		case "dispatch":
			return errTest
		case "onFinalize":
			return second
		case "finalize":
			return third
		}
		return nil
	}
	r, err := s.run(t.Context())
	for _, want := range []error{errTest, second, third} {
		if !errors.Is(err, want) {
			t.Errorf("got %v, expected %v in it", err, want)
		}
	}
	if at := strings.Index(err.Error(), errTest.Error()); at < 0 || at > strings.Index(err.Error(), second.Error()) {
		t.Errorf("got %q, expected the first error first", err)
	}
	if len(s.final) != 2 || s.final[0].Outcome != s.final[1].Outcome || s.final[0].Outcome != r.Outcome {
		t.Errorf("got the results %+v", s.final)
	}
	// A finalize that fails behind a reply changes nothing of it.
	s = newScene()
	s.do = func(name string) error {
		if name == "onFinalize" {
			panic("x")
		}
		return nil
	}
	r, err = s.run(t.Context())
	if err == nil || !r.Dispatched || r.Outcome != channel.OutcomeVisible || !slices.Contains(s.calls, "finalize") {
		t.Errorf("got %+v, %v, calls %q", r.Outcome, err, s.calls)
	}
	if diff := cmp.Diff([]string{"commit visible"}, s.journal.states); diff != "" {
		t.Error(diff)
	}
}

// CH-30
func TestFinalizeSurvivesTheCallerForTenSecondsEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newScene()
		hangs := &hanging{scene: s}
		s.told = func(tr channel.Trace) {
			if tr.Stage == channel.StageDispatch && tr.Phase == channel.PhaseDone {
				cancel()
			}
		}
		began := time.Now()
		_, err := channel.Run(ctx, s.kernel, channel.Event[string]{Meta: s.meta(), Adapter: hangs})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second || hangs.dead {
			t.Errorf("got %v after %v, canceled at once: %t", err, time.Since(began), hangs.dead)
		}
	})
}

type hanging struct {
	*scene
	dead bool
}

func (h *hanging) Finalize(ctx context.Context, _ channel.Result) error {
	h.dead = ctx.Err() != nil
	<-ctx.Done()
	return ctx.Err()
}

// accepted is the claim of an event that the door has accepted.
type accepted struct {
	states []string
	again  bool
}

func (a *accepted) Commit(_ context.Context, o channel.Outcome) error {
	a.states = append(a.states, "commit "+string(o))
	return nil
}

func (a *accepted) Release(context.Context, error) error {
	a.states = append(a.states, "release")
	return nil
}

func (a *accepted) Again() bool { return a.again }

// The finalize matrix, row by row (section 4, CH-30, CH-130, CH-131).
func TestTheFinalizeMatrix(t *testing.T) {
	refuse := func(err error) func(*scene) {
		return func(s *scene) {
			s.kernel.Agent = agent(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
				return channel.DispatchResult{}, err
			})
		}
	}
	failsAfter := func(deliver, err error) func(*scene) {
		return func(s *scene) {
			s.platform.err = deliver
			s.kernel.Agent = agent(func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
				t.Queued()
				_ = t.Sink.Emit(ctx, channel.ReplyBlock, channel.Payload{Text: "half"})
				return channel.DispatchResult{}, err
			})
		}
	}
	result := func(r channel.DispatchResult) func(*scene) {
		return func(s *scene) {
			s.kernel.Agent = agent(func(context.Context, *channel.Turn) (channel.DispatchResult, error) { return r, nil })
		}
	}
	delivers := func(err error) func(*scene) { return func(s *scene) { s.platform.err = err } }
	fails := func(at string) func(*scene) {
		return func(s *scene) {
			s.do = func(name string) error {
				if name == at {
					return errTest
				}
				return nil
			}
		}
	}
	notSent := &channel.NotSentError{Err: errTest}
	for name, test := range map[string]struct {
		set      func(*scene)
		finalize bool
		claim    string
		consumed bool
		err      bool
		outcome  channel.Outcome
	}{
		"ingest nil":                       {func(s *scene) { s.in = nil }, false, "commit blocked", false, false, ""},
		"ingest error":                     {fails("ingest"), false, "release", false, true, ""},
		"stop in classify":                 {func(s *scene) { s.class.CanStartAgentTurn = false }, true, "commit blocked", false, false, channel.OutcomeBlocked},
		"stop in authorize":                {func(s *scene) { s.facts.Access = channel.AccessFacts{} }, true, "commit blocked", false, false, channel.OutcomeBlocked},
		"session_busy":                     {refuse(turn.ErrBusy), true, "commit blocked", false, false, channel.OutcomeBlocked},
		"overloaded":                       {refuse(turn.ErrQueueFull), true, "release", false, false, channel.OutcomeBlocked},
		"draining":                         {refuse(turn.ErrDraining), true, "release", false, false, channel.OutcomeBlocked},
		"error in resolve":                 {fails("resolve"), true, "release", false, true, channel.OutcomeFailed},
		"error in record":                  {fails("record"), true, "release", false, true, channel.OutcomeFailed},
		"dispatch error, nothing sent":     {fails("dispatch"), true, "release", false, true, channel.OutcomeFailed},
		"dispatch error, proven unsent":    {delivers(notSent), true, "release", false, true, channel.OutcomeFailed},
		"dispatch error, permanent":        {delivers(&channel.NotSentError{Err: errTest, Permanent: true}), true, "commit failed", false, true, channel.OutcomeFailed},
		"an error that lasts":              {refuse(&adapter.Error{Code: adapter.CodeProtocol, Refused: true}), true, "commit failed", false, true, channel.OutcomeFailed},
		"an error that passes":             {refuse(&adapter.Error{Code: adapter.CodeUnavailable, Retryable: true}), true, "release", false, true, channel.OutcomeFailed},
		"a dispatch's own permanent error": {refuse(&channel.NotSentError{Err: errTest, Permanent: true}), true, "commit failed", false, true, channel.OutcomeFailed},
		"busy behind its place in the lane": {func(s *scene) {
			s.kernel.Agent = agent(func(_ context.Context, t *channel.Turn) (channel.DispatchResult, error) {
				t.Queued()
				return channel.DispatchResult{}, turn.ErrBusy
			})
		}, true, "release", false, true, channel.OutcomeFailed},
		"busy behind something visible": {func(s *scene) {
			s.kernel.Agent = agent(func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
				_ = t.Sink.Emit(ctx, channel.ReplyBlock, channel.Payload{Text: "half"})
				return channel.DispatchResult{}, turn.ErrBusy
			})
		}, true, "commit partial", true, true, channel.OutcomePartial},
		"dispatch error after visible":  {failsAfter(nil, errTest), true, "commit partial", true, true, channel.OutcomePartial},
		"dispatch error, some was seen": {delivers(&channel.PartialError{Err: errTest}), true, "commit partial", true, true, channel.OutcomePartial},
		"dispatch error, unknown":       {delivers(errTest), true, "commit unknown", false, true, channel.OutcomeUnknown},
		"canceled by a person":          {failsAfter(notSent, turn.ErrStopped), true, "commit canceled", false, true, channel.OutcomeCanceled},
		"canceled by the lane":          {failsAfter(notSent, turn.ErrInterrupted), true, "commit canceled", false, true, channel.OutcomeCanceled},
		"canceled by draining":          {failsAfter(notSent, turn.ErrDraining), true, "release", false, true, channel.OutcomeCanceled},
		"canceled after visible":        {failsAfter(nil, turn.ErrStopped), true, "commit partial", true, true, channel.OutcomePartial},
		"observed":                      {func(s *scene) { s.plan = channel.Admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver} }, true, "commit observed", false, false, channel.OutcomeObserved},
		"silent":                        {result(channel.DispatchResult{NoReply: true}), true, "commit silent", false, false, channel.OutcomeSilent},
		"deferred":                      {result(channel.DispatchResult{Deferred: true}), true, "commit deferred", false, false, channel.OutcomeDeferred},
		"visible":                       {func(*scene) {}, true, "commit visible", true, false, channel.OutcomeVisible},
		"visible by counts alone":       {result(channel.DispatchResult{Final: 1}), true, "commit visible", true, false, channel.OutcomeVisible},
		"receipts overrule counts":      {result(channel.DispatchResult{Final: 1, Receipts: []channel.Receipt{{State: channel.Suppressed}}}), true, "commit silent", false, false, channel.OutcomeSilent},
		"unknown without an error":      {result(channel.DispatchResult{Receipts: []channel.Receipt{{State: channel.UnknownWhether}}}), true, "commit unknown", false, false, channel.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.facts.Conversation.Kind = channel.Group
			s.facts.Access = channel.AccessFacts{Group: channel.GroupFacts{Policy: channel.PolicyOpen, RouteAllowed: true}}
			key := channel.WindowKey{Channel: "fake", Conversation: "42"}
			s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
			if err := s.kernel.Window.Record(t.Context(), channel.Recording{Key: key, MessageID: "0", Message: channel.MessageFacts{RawBody: "before"}}); err != nil {
				t.Fatal(err)
			}
			test.set(s)
			claim := &accepted{}
			m := s.meta()
			m.Claim = claim
			r, err := channel.Run(t.Context(), s.kernel, channel.Event[string]{Meta: m, Adapter: s})
			if (err != nil) != test.err {
				t.Errorf("got the error %v", err)
			}
			if got := slices.Contains(s.calls, "finalize"); got != test.finalize {
				t.Errorf("finalize ran: %t", got)
			}
			if diff := cmp.Diff([]string{test.claim}, claim.states); diff != "" {
				t.Errorf("claim (-want +got):\n%s", diff)
			}
			if left := len(s.kernel.Window.Snapshot(t.Context(), key, 0).Entries); (left == 0) != test.consumed {
				t.Errorf("%d messages are left in the window", left)
			}
			if r.Outcome != test.outcome {
				t.Errorf("the outcome is %q, expected %q", r.Outcome, test.outcome)
			}
			if len(s.acked) != 1 || s.queued != 1 {
				t.Errorf("Ack was called %d times and Queued %d times", len(s.acked), s.queued)
			}
			if n := len(s.traces); test.finalize && s.traces[n-1].Outcome != test.outcome {
				t.Errorf("the trace has the outcome %q", s.traces[n-1].Outcome)
			}
		})
	}
}

// The row of an event that comes twice.
func TestASecondEventLeavesTheFirstOnesClaimAlone(t *testing.T) {
	s := newScene()
	if _, err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := s.run(t.Context())
	if err != nil || r.Admission.Reason != channel.ReasonDedupe || r.Outcome != channel.OutcomeBlocked {
		t.Errorf("got %+v, %v", r.Admission, err)
	}
	if diff := cmp.Diff([]string{"commit visible"}, s.journal.states); diff != "" {
		t.Error(diff)
	}
	// CH-72: by another entry point, too.
	if r, err := s.kernel.RunAssembled(t.Context(), s.meta(), s.Plan().(*channel.Assembled)); err != nil || r.Admission.Reason != channel.ReasonDedupe {
		t.Errorf("got %+v, %v", r.Admission, err)
	}
	if r, err := s.kernel.RunPrepared(t.Context(), s.meta(), &channel.Prepared{Common: s.common(), Dispatch: s.platformSends}); err != nil || r.Admission.Reason != channel.ReasonDedupe {
		t.Errorf("got %+v, %v", r.Admission, err)
	}
}

// busy is a platform that counts all it is asked for.
type busy struct{ calls atomic.Int32 }

func (b *busy) Deliver(context.Context, channel.Block) (channel.Receipt, error) {
	b.calls.Add(1)
	return channel.Receipt{}, nil
}

func (b *busy) Working(context.Context) error {
	b.calls.Add(1)
	return nil
}

func (b *busy) Preview(context.Context, channel.Block, channel.Receipt) (channel.Receipt, error) {
	b.calls.Add(1)
	return channel.Receipt{}, nil
}

func (b *busy) Abandon(context.Context, channel.Receipt, error) error {
	b.calls.Add(1)
	return nil
}

// CH-40, CH-41, CH-42, CH-43, CH-44
func TestAnObservingTurnDoesNothingVisible(t *testing.T) {
	observe := channel.Admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver}
	broken := errors.New("broken")
	for _, end := range []error{nil, broken} {
		for _, prepared := range []bool{false, true} {
			for _, by := range []string{"preflight", "resolve", "authorize", "caller"} {
				t.Run(fmt.Sprintf("%s, prepared %t, ends with %v", by, prepared, end), func(t *testing.T) {
					s := newScene()
					b := &busy{}
					ran := false
					s.kernel.Agent = agent(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
						ran = true
						if channel.FromContext(ctx) == nil || channel.FromContext(ctx).Sink == nil {
							t.Error("a tool does not find the turn")
						}
						turn.Sink.Preview(channel.Payload{Text: "half"})
						err := turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "whole"})
						if want := prepared; errors.Is(err, channel.ErrNoDelivery) != want {
							t.Errorf("Emit: %v", err)
						}
						r, err := channel.FromContext(ctx).Sink.Do(ctx, channel.Block{}, func(context.Context) (channel.Receipt, error) {
							b.calls.Add(1)
							return channel.Receipt{}, nil
						})
						if err != nil || r.State != channel.Suppressed {
							t.Errorf("Do: %v, %v", r, err)
						}
						return channel.DispatchResult{Final: 1, Receipts: []channel.Receipt{{}}}, end
					})
					s.facts.Conversation.Kind = channel.Group
					s.facts.Access = channel.AccessFacts{Group: channel.GroupFacts{Policy: channel.PolicyOpen, RouteAllowed: true}}
					s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
					key := channel.WindowKey{Channel: "fake", Conversation: "42"}
					_ = s.kernel.Window.Record(t.Context(), channel.Recording{Key: key, MessageID: "0", Message: channel.MessageFacts{RawBody: "before"}})
					switch by {
					case "preflight":
						s.pre.Admission = observe
					case "authorize":
						s.facts.Access.Group.RequireMention, s.facts.Access.Group.Unmentioned = true, channel.UnmentionedObserve
						s.facts.Access.Mentions.CanDetect = true
					default:
						s.plan = observe
					}
					var plan channel.Plan
					common := s.common()
					if prepared {
						plan = &channel.Prepared{Common: common, Dispatch: func(ctx context.Context, t *channel.Turn, a channel.Agent) (channel.DispatchResult, error) {
							return a.Dispatch(ctx, t)
						}}
					} else {
						plan = &channel.Assembled{Common: common, Delivery: b}
					}
					var r channel.Result
					var err error
					switch p := plan.(type) {
					case *channel.Assembled:
						if by == "caller" {
							r, err = s.kernel.RunAssembled(t.Context(), s.meta(), p)
						} else {
							r, err = channel.Run(t.Context(), s.kernel, channel.Event[string]{Meta: s.meta(), Adapter: &planned{s, p}})
						}
					case *channel.Prepared:
						if by == "caller" {
							r, err = s.kernel.RunPrepared(t.Context(), s.meta(), p)
						} else {
							r, err = channel.Run(t.Context(), s.kernel, channel.Event[string]{Meta: s.meta(), Adapter: &planned{s, p}})
						}
					}
					if !errors.Is(err, end) || !ran || !r.Dispatched {
						t.Fatalf("got %+v, %v, ran %t", r, err, ran)
					}
					if end == nil && r.Outcome != channel.OutcomeObserved {
						t.Errorf("the outcome is %s", r.Outcome)
					}
					if n := b.calls.Load(); n != 0 {
						t.Errorf("the channel was asked for %d things", n)
					}
					if d := r.Dispatch; d.Tool+d.Block+d.Final+len(d.Receipts) != 0 {
						t.Errorf("got %+v, expected nothing counted", d)
					}
					if !r.Context.ObserveOnly || !slices.Contains(s.calls, "record") {
						t.Errorf("the turn did not run to its end: %q", s.calls)
					}
					if slices.Contains(s.phases(), "dispatch:warning") {
						t.Error("there is a warning")
					}
					if len(s.kernel.Window.Snapshot(t.Context(), key, 0).Entries) != 1 {
						t.Error("the history was consumed")
					}
				})
			}
		}
	}
}

// planned is a scene with a plan of its own.
type planned struct {
	*scene
	plan channel.Plan
}

func (p *planned) Resolve(context.Context, *channel.Input, channel.EventClass, channel.Preflight) (channel.Plan, error) {
	return p.plan, nil
}

// CH-75
func TestAnEventThatCannotWaitIsAcknowledgedBeforeDispatch(t *testing.T) {
	for _, at := range []bool{true, false} {
		s := newScene()
		s.class.RequiresImmediateAck = at
		s.told = func(tr channel.Trace) {
			if tr.Stage == channel.StagePreflight && tr.Phase == channel.PhaseStart && (len(s.acked) == 1) != at {
				t.Errorf("immediate %t: acknowledged %d times before preflight", at, len(s.acked))
			}
		}
		r, err := s.run(t.Context())
		if err != nil || len(s.acked) != 1 {
			t.Fatalf("got %v, acknowledged %d times", err, len(s.acked))
		}
		if !at && s.acked[0].Outcome != r.Outcome {
			t.Errorf("the door was told %q", s.acked[0].Outcome)
		}
	}
}

// CH-60
func TestANoticeGoesOutOnlyWhereItIsWanted(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(*scene)
		fail string
		want bool
	}{
		"a direct conversation":  {func(*scene) {}, "dispatch", true},
		"before dispatch":        {func(*scene) {}, "record", true},
		"a group, addressed":     {func(s *scene) { s.group(true) }, "dispatch", true},
		"a group, not addressed": {func(s *scene) { s.group(false) }, "dispatch", false},
		"it will run again":      {func(s *scene) { s.claim = &accepted{again: true} }, "dispatch", false},
		"it was the last time":   {func(s *scene) { s.claim = &accepted{} }, "dispatch", true},
		"nothing is wanted":      {func(s *scene) { s.kernel.Settings = settings{} }, "dispatch", false},
		"the sender is denied":   {func(s *scene) { s.facts.Access = channel.AccessFacts{} }, "dispatch", false},
		"somebody has stopped it": {func(s *scene) {
			s.kernel.Agent = agent(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
				return channel.DispatchResult{}, turn.ErrStopped
			})
		}, "", false},
		"before it is known who asks": {func(*scene) {}, "resolve", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			test.set(s)
			s.do = func(name string) error {
				if name == test.fail {
					return errors.New("canary")
				}
				return nil
			}
			m := s.meta()
			if s.claim != nil {
				m.Claim = s.claim
			}
			r, _ := channel.Run(t.Context(), s.kernel, channel.Event[string]{Meta: m, Adapter: s})
			said := s.platform.said()
			if !test.want {
				if len(said) != 0 {
					t.Errorf("got %q", said)
				}
				return
			}
			if len(said) != 1 || !strings.Contains(said[0], r.TurnID) || strings.Contains(said[0], "canary") {
				t.Errorf("got %q, expected one notice with the turn's id", said)
			}
		})
	}
}

func (s *scene) group(mentioned bool) {
	s.facts.Conversation.Kind = channel.Group
	s.facts.Access = channel.AccessFacts{
		Group:    channel.GroupFacts{Policy: channel.PolicyOpen, RouteAllowed: true},
		Mentions: channel.MentionFacts{CanDetect: true, WasMentioned: mentioned},
	}
}

type settings channel.Policy

func (s settings) Policy(channel.PolicyQuery) channel.Policy { return channel.Policy(s) }

// changing is settings that can be another generation.
type changing struct {
	now atomic.Pointer[channel.Policy]
}

func (c *changing) Policy(channel.PolicyQuery) channel.Policy { return *c.now.Load() }

// CH-61
func TestWhoIsDeniedMeanwhileGetsNoReply(t *testing.T) {
	c := &changing{}
	c.now.Store(&channel.Policy{DM: channel.PolicyOpen, ErrorNotice: true, Generation: 1})
	s := newScene()
	s.kernel.Settings = c
	s.kernel.Agent = agent(func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		c.now.Store(&channel.Policy{DM: channel.PolicyDisabled, ErrorNotice: true, Generation: 2})
		return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "secret"})
	})
	_, _ = s.run(t.Context())
	if said := s.platform.said(); len(said) != 0 {
		t.Errorf("got %q, expected nothing: the sender may not talk any more", said)
	}
}

// CH-91
func TestOnlyTheWordsOfThoseWhoMayTalkWait(t *testing.T) {
	key := channel.WindowKey{Channel: "fake", Conversation: "42"}
	group := channel.AccessFacts{
		Group:    channel.GroupFacts{Policy: channel.PolicyAllowlist, RouteAllowed: true, Sender: true, AllowFrom: []string{"42"}, RequireMention: true},
		Mentions: channel.MentionFacts{CanDetect: true},
	}
	stranger := group
	stranger.Group.Sender = false
	drop := channel.Admission{Kind: channel.Drop, Reason: channel.ReasonMissingMention, RecordHistory: true}
	for name, test := range map[string]struct {
		set  func(*scene)
		want bool
	}{
		"a missing mention":               {func(s *scene) { s.facts.Access = group }, true},
		"a stranger":                      {func(s *scene) { s.facts.Access = stranger }, false},
		"a missing mention, drop":         {func(s *scene) { s.facts.Access = group; s.facts.Access.Group.Unmentioned = channel.UnmentionedDrop }, false},
		"preflight, without access facts": {func(s *scene) { s.pre = channel.Preflight{Admission: drop} }, false},
		"preflight, with access facts":    {func(s *scene) { s.pre = channel.Preflight{Admission: drop, Access: &group} }, true},
		"preflight, a stranger":           {func(s *scene) { s.pre = channel.Preflight{Admission: drop, Access: &stranger} }, false},
		"preflight, a direct conversation": {func(s *scene) {
			s.pre = channel.Preflight{Admission: drop, Access: &open}
			s.pre.History.Conversation.Kind = channel.Direct
		}, false},
		"resolve drops what a stranger sends": {func(s *scene) {
			s.facts.Access = stranger
			s.plan = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonUnsupported, RecordHistory: true}
		}, false},
		"resolve drops what is not supported": {func(s *scene) {
			s.facts.Access = group
			s.plan = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonUnsupported, RecordHistory: true}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
			s.facts.Conversation.Kind = channel.Group
			s.pre.History.Conversation.Kind = channel.Group
			test.set(s)
			if s.pre.Access != nil && s.pre.History.Conversation.Kind == "" {
				s.pre.History.Conversation = channel.ConversationFacts{Kind: channel.Group, ID: "42"}
			}
			r, err := s.run(t.Context())
			if err != nil || r.Outcome != channel.OutcomeBlocked {
				t.Fatalf("got %+v, %v", r, err)
			}
			if got := len(s.kernel.Window.Snapshot(t.Context(), key, 0).Entries) == 1; got != test.want {
				t.Errorf("it waits: %t", got)
			}
		})
	}
}

// CH-96
func TestAReadyContextIsCheckedAndBringsItsOwnSnapshot(t *testing.T) {
	s := newScene()
	s.facts.Conversation.Kind = channel.Group
	s.facts.Access = channel.AccessFacts{Group: channel.GroupFacts{Policy: channel.PolicyOpen, RouteAllowed: true}}
	k := s.kernel
	k.Window = channel.NewWindow(nil, channel.WindowOptions{})
	key := channel.WindowKey{Channel: "fake", Conversation: "42"}
	_ = k.Window.Record(t.Context(), channel.Recording{Key: key, MessageID: "0", Message: channel.MessageFacts{RawBody: "before"}})
	c, err := channel.BuildContext(s.facts)
	if err != nil {
		t.Fatal(err)
	}
	c.Media = []channel.MediaFact{{Path: "/etc/passwd", Kind: channel.MediaImage}}
	common := s.common()
	common.Context, common.Snapshot = c, k.Window.Snapshot(t.Context(), key, 0)
	r, err := k.RunAssembled(t.Context(), s.meta(), &channel.Assembled{Common: common, Delivery: &s.platform})
	if err != nil || r.Outcome != channel.OutcomeVisible {
		t.Fatalf("got %+v, %v", r, err)
	}
	if left := len(k.Window.Snapshot(t.Context(), key, 0).Entries); left != 0 {
		t.Errorf("%d messages are left", left)
	}
	// CH-95
	if r.Context.Media[0].Path != "" || c.Media[0].Path == "" || !slices.Contains(s.phases(), "assemble:warning") {
		t.Errorf("got the media %+v, expected no path and a warning, and the caller's left as it is", r.Context.Media)
	}
	bad := *c
	bad.SessionKey = ""
	common.Context, common.Facts.MessageID = &bad, "2"
	_, err = k.RunAssembled(t.Context(), s.meta(), &channel.Assembled{Common: common, Delivery: &s.platform})
	if m, ok := errors.AsType[*channel.MissingError](err); !ok || m.Field != "TurnContext.SessionKey" {
		t.Errorf("got %v", err)
	}
}

// CH-120, CH-121
func TestTracesSayWhatTheTurnIs(t *testing.T) {
	s := newScene()
	s.facts.Access = channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyAllowlist, AllowFrom: []string{"canary"}}}
	s.facts.Route.AccountID = "work"
	if _, err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tr := range s.traces {
		if tr.Channel != "fake" || tr.TurnID == "" {
			t.Errorf("got %+v", tr)
		}
		known := tr.Stage == channel.StageAuthorize || tr.Stage == channel.StageFinalize
		if known && (tr.SessionKey != "fake:42" || tr.Account != "work" || tr.MessageID != "1" || tr.Conversation != "42") {
			t.Errorf("got %+v", tr)
		}
		if strings.Contains(fmt.Sprintf("%+v", tr), "canary") {
			t.Errorf("a trace has an entry of a list: %+v", tr)
		}
		if tr.Phase == channel.PhaseDrop && (tr.Setting == "" || tr.Hint == "" || tr.Admission.Reason != channel.ReasonDMNotAllowed) {
			t.Errorf("a denial does not say what made it: %+v", tr)
		}
	}
}

// CH-122
func TestSendersAreToldAsTheSettingsSay(t *testing.T) {
	for ids, want := range map[string]func(string) bool{
		"plain": func(s string) bool { return s == "42" },
		"":      func(s string) bool { return s == "42" },
		"hash":  func(s string) bool { return s != "" && s != "42" },
		"none":  func(s string) bool { return s == "" },
	} {
		s := newScene()
		s.kernel.Settings = settings{SenderIDs: ids, Previews: ids == "plain"}
		s.facts.Message.Preview = "hi"
		if _, err := s.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tr := range s.traces[3:] {
			if !want(tr.Sender) {
				t.Errorf("%q: got %q", ids, tr.Sender)
			}
		}
		if last := s.traces[len(s.traces)-1]; (last.Preview != "") != (ids == "plain") {
			t.Errorf("%q: got the preview %q", ids, last.Preview)
		}
	}
}

// CH-123: whoever stops a turn, and a server that ends, are no errors of the server.
func TestATurnThatWasCanceledIsNoErrorInTheLog(t *testing.T) {
	reason := errors.New("the reader has gone")
	for name, test := range map[string]struct {
		cancel   error // of the turn's context, while the agent works; nil does not
		err      error // of the agent
		finalize error
		level    string
	}{
		"somebody has stopped it":           {err: fmt.Errorf("dispatch: %w", turn.ErrStopped), level: "INFO"},
		"a later message has":               {err: turn.ErrInterrupted, level: "INFO"},
		"the server ends":                   {err: channel.ErrDraining, level: "INFO"},
		"its context was canceled":          {cancel: reason, err: reason, level: "INFO"},
		"and that is all that is known":     {cancel: reason, err: context.Canceled, level: "INFO"},
		"it took too long":                  {cancel: context.DeadlineExceeded, err: context.DeadlineExceeded, level: "ERROR"},
		"it failed":                         {err: errors.New("broken"), level: "ERROR"},
		"its session could not be had":      {err: away{}, level: "WARN"},
		"it failed, and then was canceled":  {cancel: reason, err: errors.New("broken"), level: "ERROR"},
		"something of its own was canceled": {err: context.Canceled, level: "ERROR"},
		"its end failed":                    {cancel: reason, finalize: context.Canceled, level: "ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := newScene()
			s.kernel.Observer = channel.NewSlogObserver(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo})))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s.kernel.Agent = agent(func(_ context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
				turn.Queued() // the lane has it
				if test.cancel != nil {
					cancel(test.cancel)
				}
				return channel.DispatchResult{}, test.err
			})
			s.do = func(name string) error {
				if name == "finalize" {
					return test.finalize
				}
				return nil
			}
			_, _ = s.run(ctx)
			lines := strings.Count(log.String(), "event=error") // beside the warning that nothing was visible
			if lines != 1 || !strings.Contains(log.String(), "level="+test.level) {
				t.Errorf("expected one line of level %s:\n%s", test.level, log.String())
			}
		})
	}
}

// away is an error of a store of sessions that does not answer.
type away struct{}

func (away) Error() string     { return "the sessions cannot be reached" }
func (away) ErrorCode() string { return turn.CodeOverloaded }

// metrics counts.
type metrics map[string]int

func (m metrics) Turn(ch string, o channel.Outcome, r channel.Reason) {
	m[ch+" "+string(o)+" "+string(r)]++
}
func (m metrics) Stage(ch string, s channel.Stage, _ time.Duration) { m[ch+" "+string(s)]++ }

// CH-124
func TestTurnsAreCountedByChannelOutcomeAndReason(t *testing.T) {
	s, m := newScene(), metrics{}
	s.kernel.Observer = channel.Observers{s, nil, channel.Count(m)}
	_, _ = s.run(t.Context())
	_, _ = s.run(t.Context())
	if m["fake visible "] != 1 || m["fake blocked dedupe"] != 1 || m["fake ingest"] != 2 || m["fake finalize"] != 2 || m["fake dispatch"] != 1 {
		t.Errorf("got %v", m)
	}
	journal, _, err := s.kernel.Pending(t.Context())
	if err != nil || len(journal) != 0 {
		t.Errorf("got %v, %v", journal, err)
	}
}

// CH-82, CH-02: budgets are used only by what passed every gate, and not by the server itself.
func TestBudgetsAreUsedByWhatPassedTheGates(t *testing.T) {
	s := newScene()
	s.kernel.Limits.SenderRate = channel.Rate{PerMinute: 1, Burst: 1}
	run := func(id string, access channel.AccessFacts, trigger channel.Trigger) channel.Result {
		s.in = &channel.Input{ID: id, ConversationID: "42", SenderID: "42"}
		s.facts.MessageID, s.facts.Access, s.trigger = id, access, trigger
		r, err := s.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	run("1", channel.AccessFacts{}, "")
	run("2", channel.AccessFacts{}, "")
	if r := run("3", open, channel.TriggerResume); r.Outcome != channel.OutcomeVisible {
		t.Errorf("got %+v, expected the server's own turn to pass", r.Admission)
	}
	if r := run("4", open, ""); r.Outcome != channel.OutcomeVisible {
		t.Errorf("got %+v, expected that denied events used nothing", r.Admission)
	}
	if r := run("5", open, ""); r.Admission.Reason != channel.ReasonRateLimited || r.RetryAfter <= 0 {
		t.Errorf("got %+v, again after %v", r.Admission, r.RetryAfter)
	}
}

// CH-22
func TestRecordSurvivesTheCallerForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		s.kernel.Recorder = recorder(func(ctx context.Context, _ channel.Row) error {
			cancel()
			if ctx.Err() != nil {
				t.Error("the caller's end has ended record")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		_, err := s.run(ctx)
		if se, ok := errors.AsType[*channel.StageError](err); !ok || se.Stage != channel.StageRecord {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("record took %v", took)
		}
	})
}

type recorder func(context.Context, channel.Row) error

func (f recorder) Record(ctx context.Context, r channel.Row) error { return f(ctx, r) }
func (recorder) LastRoute(context.Context, channel.Row) error      { return nil }
