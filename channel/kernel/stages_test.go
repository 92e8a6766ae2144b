package kernel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/turn"
)

// hookOf are the stages in order, each with the hook of the scene that it calls.
var hookOf = []struct {
	stage channel.Stage
	hook  string
}{
	{channel.StageIngest, "ingest"},
	{channel.StageClassify, "classify"},
	{channel.StagePreflight, "preflight"},
	{channel.StageResolve, "resolve"},
	{channel.StageAuthorize, ""},
	{channel.StageAssemble, ""},
	{channel.StageRecord, "record"},
	{channel.StageDispatch, "dispatch"},
	{channel.StageFinalize, "onFinalize"},
}

// CH-01, CH-03, CH-10, CH-20, CH-21, CH-22, CH-26, CH-27, CH-30, CH-120
func TestEveryWayOfEndingEveryStage(t *testing.T) {
	const finalizeIndex = 8
	stops := map[channel.Stage]func(*rig){
		channel.StageIngest:   func(s *rig) { s.in = nil },
		channel.StageClassify: func(s *rig) { s.class.CanStartAgentTurn = false },
		channel.StagePreflight: func(s *rig) {
			s.pre.Admission = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonUnsupported}
		},
		channel.StageResolve: func(s *rig) {
			s.admission = channel.Admission{Kind: channel.Handled, Reason: channel.ReasonHandledLocally}
		},
		channel.StageAuthorize: func(s *rig) { s.facts.Access = channel.AccessFacts{} },
		channel.StageDispatch: func(s *rig) {
			s.dispatch = func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
				return channel.DispatchResult{}, errors.Join(s.called("dispatch"), turn.ErrBusy)
			}
		},
	}
	gone := errors.New("gone away")
	for i, at := range hookOf {
		for _, way := range []string{"ok", "stop", "error", "panic", "canceled"} {
			if way == "stop" && stops[at.stage] == nil || (way == "error" || way == "panic") && at.hook == "" {
				continue
			}
			t.Run(string(at.stage)+" "+way, func(t *testing.T) {
				s := newRig()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				switch way {
				case "stop":
					stops[at.stage](s)
				case "error":
					s.failAt(at.hook, errTest)
				case "panic":
					s.do = func(hook string) error {
						if hook == at.hook {
							panic("a secret")
						}
						return nil
					}
				case "canceled": // right before the stage
					if i == 0 {
						cancel(gone)
					}
					s.onTrace = func(tr channel.Trace) {
						if i > 0 && tr.Stage == hookOf[i-1].stage && tr.Phase == channel.PhaseDone {
							cancel(gone)
						}
					}
				}
				r, err := s.run(ctx)

				broken := way == "error" || way == "panic" || way == "canceled" && i != finalizeIndex
				if e, ok := errors.AsType[*channel.StageError](err); ok != broken || ok && e.Stage != at.stage {
					t.Errorf("got the error %v", err)
				}
				if _, ok := errors.AsType[*channel.PanicError](err); ok != (way == "panic") || strings.Contains(fmt.Sprint(err), "secret") {
					t.Errorf("got the error %v", err)
				}
				if way == "canceled" && broken && !errors.Is(err, gone) {
					t.Errorf("got %v, expected the cause of the end", err)
				}
				// The traces: start and one end of each stage that ran.
				last, end := i, "done"
				switch {
				case way == "ok" || i == finalizeIndex:
					last = finalizeIndex - 1
				case way == "stop" && (at.stage == channel.StageClassify || at.stage == channel.StageResolve):
					end = "handled"
				case way == "stop":
					end = "drop"
				case way == "canceled":
					last--
				default:
					end = "error"
				}
				var want []string
				for j, st := range hookOf[:last+1] {
					phase := "done"
					if j == i {
						phase = end
					}
					want = append(want, string(st.stage)+":start", string(st.stage)+":"+phase)
				}
				finalized := i > 0 || way == "ok"
				if finalized {
					end = "done"
					if i == finalizeIndex && broken {
						end = "error"
					}
					want = append(want, "finalize:start", "finalize:"+end)
				}
				if diff := cmp.Diff(want, s.phases()); diff != "" {
					t.Errorf("traces (-want +got):\n%s", diff)
				}
				// The hooks: of the stages that ran, then finalize, each once.
				var hooks []string
				for _, st := range hookOf[:last+1] {
					if st.hook != "" {
						hooks = append(hooks, st.hook)
					}
				}
				if at.stage == channel.StageRecord && (way == "error" || way == "panic") {
					hooks = append(hooks, "preDispatchFailure")
				}
				if last > 3 || at.stage == channel.StageResolve && way == "stop" || at.stage == channel.StageAuthorize && way == "canceled" {
					hooks = append(hooks, "onFinalize")
				}
				if finalized {
					hooks = append(hooks, "finalize")
				}
				if diff := cmp.Diff(hooks, s.calls); diff != "" {
					t.Errorf("hooks (-want +got):\n%s", diff)
				}
				dispatched := way == "ok" || i == finalizeIndex || at.stage == channel.StageDispatch && (way == "error" || way == "panic")
				if r.Dispatched != dispatched || len(s.acked) != 1 || s.queued != 1 {
					t.Errorf("dispatched %t, acknowledged %d times, queued %d times", r.Dispatched, len(s.acked), s.queued)
				}
			})
		}
	}
}

// CH-12, CH-14, CH-20: each admission comes with its reason.
func TestAdmissionsAndReasonsOfEachStage(t *testing.T) {
	type admission = channel.Admission
	dispatch := admission{Kind: channel.Dispatch}
	observe := admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver}
	handled := admission{Kind: channel.Handled, Reason: channel.ReasonHandledLocally}
	for name, test := range map[string]struct {
		set  func(*rig)
		want admission
	}{
		"no admission":      {func(*rig) {}, dispatch},
		"ingest gives none": {func(s *rig) { s.in = nil }, admission{Kind: channel.Drop, Reason: channel.ReasonIngestNull}},
		"it is no turn":     {func(s *rig) { s.class.CanStartAgentTurn = false }, admission{Kind: channel.Handled, Reason: channel.ReasonNotATurn}},
		"no route": {func(s *rig) {
			s.kernel.Settings, s.facts.Route.AgentID = &openSettings{policy: openPolicy()}, ""
		}, admission{Kind: channel.Drop, Reason: channel.ReasonNoRoute}},
		"no policy": {func(s *rig) { s.facts.Access = channel.AccessFacts{} }, admission{Kind: channel.Drop, Reason: channel.ReasonNoPolicy}},
		"missing mention": {func(s *rig) {
			s.group(false)
			s.facts.Access.Group.RequireMention = true
		}, admission{Kind: channel.Drop, Reason: channel.ReasonMissingMention, RecordHistory: true}},
		"unmentioned, observe": {func(s *rig) {
			s.group(false)
			s.facts.Access.Group.RequireMention, s.facts.Access.Group.Unmentioned = true, channel.UnmentionedObserve
		}, admission{Kind: channel.ObserveOnly, Reason: channel.ReasonUnmentioned}},
		"itself":              {func(s *rig) { s.facts.Sender.IsSelf = true }, admission{Kind: channel.Drop, Reason: channel.ReasonSelfEcho}},
		"a lane that is full": {func(s *rig) { s.failAt("dispatch", turn.ErrQueueFull) }, admission{Kind: channel.Drop, Reason: channel.ReasonOverloaded}},
		// CH-11: the stricter one wins.
		"dispatch does not loosen": {func(s *rig) { s.pre.Admission, s.admission = observe, dispatch }, observe},
		"observing stays":          {func(s *rig) { s.admission = observe }, observe},
		"a gate is stricter":       {func(s *rig) { s.pre.Admission, s.facts.Access = observe, channel.AccessFacts{} }, admission{Kind: channel.Drop, Reason: channel.ReasonNoPolicy}},
		"handled is stricter":      {func(s *rig) { s.pre.Admission, s.admission = observe, handled }, handled},
		"a channel's own": {func(s *rig) {
			s.admission = admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "not_my_bot_2"}
		}, admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "not_my_bot_2"}},
		"an invented reason": {func(s *rig) { s.pre.Admission = admission{Kind: channel.Drop, Reason: "in a bad mood"} }, admission{}},
		"no reason":          {func(s *rig) { s.pre.Admission = admission{Kind: channel.Drop} }, admission{}},
		"a detail with words": {func(s *rig) {
			s.pre.Admission = admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "Hello there"}
		}, admission{}},
		"a detail of another reason": {func(s *rig) {
			s.pre.Admission = admission{Kind: channel.Drop, Reason: channel.ReasonTooLarge, Detail: "x"}
		}, admission{}},
		"an unknown kind": {func(s *rig) { s.pre.Admission = admission{Kind: "postpone", Reason: channel.ReasonTooLarge} }, admission{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig()
			s.delivery = nil
			s.dispatch = func(ctx context.Context, _ *channel.Turn) (channel.DispatchResult, error) {
				return channel.DispatchResult{}, s.called("dispatch")
			}
			test.set(s)
			r, err := s.run(t.Context())
			if test.want == (admission{}) {
				if e, ok := errors.AsType[*channel.StageError](err); !ok || e.Stage != channel.StagePreflight {
					t.Errorf("got %v, expected an error of preflight", err)
				}
				return
			}
			if diff := cmp.Diff(test.want, r.Admission); diff != "" || err != nil {
				t.Error(err, diff)
			}
			if stopped := r.Admission.Stops(); stopped != (r.Outcome == channel.OutcomeBlocked || r.Outcome == "") || stopped && r.Dispatched {
				t.Errorf("outcome %q, dispatched %t", r.Outcome, r.Dispatched)
			}
		})
	}
}

// CH-02, CH-06
func TestEveryEntryPointIsAuthorized(t *testing.T) {
	for _, by := range []string{"run", "assembled", "prepared"} {
		s := newRig()
		s.facts.Access = channel.AccessFacts{}
		r, err := s.enter(t.Context(), by)
		if err != nil || r.Admission.Reason != channel.ReasonNoPolicy || slices.Contains(s.calls, "dispatch") || slices.Contains(s.calls, "record") || r.TurnID == "" {
			t.Errorf("%s: got %+v, %v, calls %q", by, r.Admission, err, s.calls)
		}
	}
}

// CH-82: only what passes every gate is counted.
func TestDeniedMessagesTakeNothingOfTheRates(t *testing.T) {
	s := newRig()
	s.kernel.Settings = &openSettings{policy: channel.Policy{SenderRate: 1}}
	for i, want := range []channel.Reason{channel.ReasonNoPolicy, channel.ReasonNoPolicy, "", channel.ReasonRateLimited} {
		id := fmt.Sprint(i)
		s.in = &channel.Input{ID: id, ConversationID: "42", SenderID: "42"}
		s.facts.MessageID, s.facts.Access = id, openAccess
		if i < 2 {
			s.facts.Access = channel.AccessFacts{}
		}
		r, err := s.run(t.Context())
		if err != nil || r.Admission.Reason != want || (r.RetryAfter > 0) != (want == channel.ReasonRateLimited) {
			t.Errorf("%d: got %+v after %v, %v", i, r.Admission, r.RetryAfter, err)
		}
	}
}

// rows is a recorder.
type rows struct {
	kernel.Recorder
	err    error
	rows   []channel.Row
	routed bool
}

func (r *rows) Record(_ context.Context, row channel.Row, lastRoute bool) error {
	r.rows, r.routed = append(r.rows, row), lastRoute
	return r.err
}

// CH-23
func TestRecordOptions(t *testing.T) {
	own, blank := "kept", ""
	for name, test := range map[string]struct {
		options kernel.RecordOptions
		route   channel.RouteFacts
		rows    rows
		key     string
		routed  bool
		fails   bool
	}{
		"the key of the turn":       {key: "fake:42"},
		"a row that may be made":    {route: channel.RouteFacts{CreateIfMissing: true}, key: "fake:42"},
		"the persisted key":         {route: channel.RouteFacts{PersistedSessionKey: "stored"}, key: "stored"},
		"the key of the options":    {options: kernel.RecordOptions{SessionKey: &own}, route: channel.RouteFacts{PersistedSessionKey: "stored"}, key: "kept"},
		"a blank key":               {options: kernel.RecordOptions{SessionKey: &blank}, fails: true},
		"the last route":            {options: kernel.RecordOptions{UpdateLastRoute: true}, key: "fake:42", routed: true},
		"a row fails":               {rows: rows{err: errTest}, key: "fake:42", fails: true},
		"a row fails, with OnError": {options: kernel.RecordOptions{UpdateLastRoute: true, OnError: func(context.Context, error) {}}, rows: rows{err: errTest}, key: "fake:42", routed: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig()
			s.kernel.Recorder, s.record = &test.rows, test.options
			test.route.AgentID, test.route.RouteSessionKey = "a", "fake:42"
			s.facts.Route = test.route
			r, err := s.run(t.Context())
			if (err != nil) != test.fails || r.SessionKey != "fake:42" || test.rows.routed != test.routed {
				t.Errorf("got %v, session %s, last route %t", err, r.SessionKey, test.rows.routed)
			}
			switch got := test.rows.rows; {
			case test.key == "" && len(got) == 0:
			case len(got) != 1 || got[0].SessionKey != test.key || got[0].CreateIfMissing != test.route.CreateIfMissing || got[0].Sender != "42":
				t.Errorf("got the rows %+v", got)
			}
		})
	}
	// The group is that of the options, or the conversation. A task is waited for, and its failure changes nothing.
	s, rec, ended := newRig(), &rows{}, false
	s.group(true)
	s.kernel.Recorder = rec
	s.record = kernel.RecordOptions{GroupResolution: &channel.SessionGroup{Kind: channel.Group, ID: "7", Label: "Kitchen"}, CreateIfMissing: true, TrackTask: func(context.Context, channel.Row) error {
		ended = true
		return errTest
	}}
	if r, err := s.run(t.Context()); err != nil || r.Outcome != channel.OutcomeVisible || !ended || rec.rows[0].Group.Label != "Kitchen" || !rec.rows[0].CreateIfMissing {
		t.Errorf("got %s, %v, %+v, task ended: %t", r.Outcome, err, rec.rows, ended)
	}
}

// CH-22, CH-30: record and each part of finalize have ten seconds, whatever ends the caller.
func TestRecordAndFinalizeOutliveTheirCaller(t *testing.T) {
	for at, stage := range map[string]channel.Stage{"record": channel.StageRecord, "onFinalize": channel.StageFinalize, "finalize": channel.StageFinalize} {
		synctest.Test(t, func(t *testing.T) {
			s := newRig()
			ctx, cancel := context.WithCancel(t.Context())
			hang := func(inside context.Context) error {
				cancel()
				if inside.Err() != nil {
					t.Errorf("%s is ended with its caller", at)
				}
				<-inside.Done()
				return inside.Err()
			}
			turn := s.turn()
			a := s.adapter()
			a.Resolve = func(context.Context, *channel.Input, channel.EventClass, channel.Preflight) (*kernel.Turn, error) {
				return turn, nil
			}
			switch at {
			case "record":
				s.kernel.Recorder = hanging{do: hang}
			case "onFinalize":
				turn.OnFinalize = func(ctx context.Context, _ channel.Result) error { return hang(ctx) }
			case "finalize":
				a.Finalize = func(ctx context.Context, _ channel.Result) error { return hang(ctx) }
			}
			began := time.Now()
			_, err := kernel.Run(ctx, s.kernel, s.meta(), "raw", a)
			if e, ok := errors.AsType[*channel.StageError](err); !ok || e.Stage != stage || time.Since(began) != 10*time.Second {
				t.Errorf("%s: got %v after %v", at, err, time.Since(began))
			}
		})
	}
}

type hanging struct {
	kernel.Recorder
	do func(context.Context) error
}

func (h hanging) Record(ctx context.Context, _ channel.Row, _ bool) error { return h.do(ctx) }

// CH-32
func TestEveryPartOfFinalizeRunsAndTheFirstErrorStaysFirst(t *testing.T) {
	second, third := errors.New("of the turn"), errors.New("of the adapter")
	s := newRig()
	s.do = func(hook string) error {
		return map[string]error{"dispatch": errTest, "onFinalize": second, "finalize": third}[hook]
	}
	r, err := s.run(t.Context())
	if !errors.Is(err, errTest) || !errors.Is(err, second) || !errors.Is(err, third) || strings.Index(err.Error(), errTest.Error()) > strings.Index(err.Error(), second.Error()) {
		t.Errorf("got %v", err)
	}
	if len(s.final) != 2 || s.final[0].Outcome != r.Outcome || s.final[1].Outcome != r.Outcome {
		t.Errorf("got the results %+v", s.final)
	}
	// A failure behind a reply sends nothing more.
	s = newRig()
	s.failAt("onFinalize", second)
	r, err = s.run(t.Context())
	if err == nil || r.Outcome != channel.OutcomeVisible || len(s.platform.requests()) != 1 || !slices.Contains(s.calls, "finalize") {
		t.Errorf("got %s, %v, sent %q", r.Outcome, err, s.platform.requests())
	}
}

// What each outcome comes to: the store, the window, the error.
func TestTheFinalizeMatrix(t *testing.T) {
	returns := func(r channel.DispatchResult, err error) func(*rig) {
		return func(s *rig) {
			s.dispatch = func(context.Context, *channel.Turn) (channel.DispatchResult, error) { return r, err }
		}
	}
	refuses := func(err error) func(*rig) { return returns(channel.DispatchResult{}, err) }
	failsAfter := func(deliver, err error) func(*rig) {
		return func(s *rig) {
			s.platform.answer = func(string) (channel.Receipt, error) { return channel.Receipt{}, deliver }
			s.dispatch = func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
				t.Queued()
				_ = t.Sink.Emit(ctx, channel.ReplyBlock, channel.Payload{Text: "half"})
				return channel.DispatchResult{}, err
			}
		}
	}
	delivers := func(err error) func(*rig) {
		return func(s *rig) {
			s.platform.answer = func(string) (channel.Receipt, error) { return channel.Receipt{}, err }
		}
	}
	fails := func(at string) func(*rig) { return func(s *rig) { s.failAt(at, errTest) } }
	notSent, permanent := &channel.NotSentError{Err: errTest}, &channel.NotSentError{Err: errTest, Permanent: true}
	for name, test := range map[string]struct {
		set      func(*rig)
		store    string
		consumed bool
		err      bool
		outcome  channel.Outcome
	}{
		"ingest nil":                    {func(s *rig) { s.in = nil }, "end blocked", false, false, ""},
		"ingest error":                  {fails("ingest"), "retry", false, true, ""},
		"stop in classify":              {func(s *rig) { s.class.CanStartAgentTurn = false }, "end blocked", false, false, channel.OutcomeBlocked},
		"stop in authorize":             {func(s *rig) { s.facts.Access = channel.AccessFacts{} }, "end blocked", false, false, channel.OutcomeBlocked},
		"session_busy":                  {refuses(turn.ErrBusy), "end blocked", false, false, channel.OutcomeBlocked},
		"overloaded":                    {refuses(turn.ErrQueueFull), "retry", false, false, channel.OutcomeBlocked},
		"draining":                      {refuses(turn.ErrDraining), "hand over", false, false, channel.OutcomeBlocked},
		"error in resolve":              {fails("resolve"), "retry", false, true, channel.OutcomeFailed},
		"error in record":               {fails("record"), "retry", false, true, channel.OutcomeFailed},
		"dispatch error, nothing sent":  {fails("dispatch"), "retry", false, true, channel.OutcomeFailed},
		"dispatch error, proven unsent": {delivers(notSent), "retry", false, true, channel.OutcomeFailed},
		"dispatch error, permanent":     {delivers(permanent), "end failed", false, true, channel.OutcomeFailed},
		"an error that lasts":           {refuses(&adapter.Error{Code: adapter.CodeProtocol, Refused: true}), "end failed", false, true, channel.OutcomeFailed},
		"an error that passes":          {refuses(&adapter.Error{Code: adapter.CodeUnavailable, Retryable: true}), "retry", false, true, channel.OutcomeFailed},
		"busy behind its place": {func(s *rig) {
			s.dispatch = func(_ context.Context, t *channel.Turn) (channel.DispatchResult, error) {
				t.Queued()
				return channel.DispatchResult{}, turn.ErrBusy
			}
		}, "retry", false, true, channel.OutcomeFailed},
		"dispatch error after visible":                         {failsAfter(nil, errTest), "end partial", true, true, channel.OutcomePartial},
		"dispatch error, some was seen":                        {delivers(&channel.PartialError{Err: errTest}), "end partial", true, true, channel.OutcomePartial},
		"dispatch error, some was seen, and the rest not sent": {delivers(&channel.PartialError{Err: &channel.NotSentError{Err: errTest}}), "end partial", true, true, channel.OutcomePartial},
		"dispatch error, unknown":                              {delivers(errTest), "end unknown", false, true, channel.OutcomeUnknown},
		"canceled by a person":                                 {failsAfter(notSent, turn.ErrStopped), "end canceled", false, true, channel.OutcomeCanceled},
		"canceled by the lane":                                 {failsAfter(notSent, turn.ErrInterrupted), "end canceled", false, true, channel.OutcomeCanceled},
		"ended by draining":                                    {failsAfter(notSent, turn.ErrDraining), "hand over", false, true, channel.OutcomeCanceled},
		"handed over after visible":                            {failsAfter(nil, turn.ErrHandedOver), "hand over", false, true, channel.OutcomePartial},
		"canceled after visible":                               {failsAfter(nil, turn.ErrStopped), "end partial", true, true, channel.OutcomePartial},
		"observed": {func(s *rig) {
			s.admission = channel.Admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver}
		}, "end observed", false, false, channel.OutcomeObserved},
		"silent":                  {returns(channel.DispatchResult{NoReply: true}, nil), "end silent", false, false, channel.OutcomeSilent},
		"deferred":                {returns(channel.DispatchResult{Deferred: true}, nil), "end deferred", false, false, channel.OutcomeDeferred},
		"visible":                 {func(*rig) {}, "end visible", true, false, channel.OutcomeVisible},
		"visible by its own word": {returns(channel.DispatchResult{Sent: true}, nil), "end visible", true, false, channel.OutcomeVisible},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				s := newRig()
				s.group(true)
				key := channel.WindowKey{Channel: "fake", Conversation: "42"}
				s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
				if err := s.kernel.Window.Record(t.Context(), channel.Recording{HistoryHint: channel.HistoryHint{Key: key}, MessageID: "0", Message: channel.MessageFacts{RawBody: "before"}}); err != nil {
					t.Fatal(err)
				}
				test.set(s)
				r, state, err := s.runQueued(t, d)
				if (err != nil) != test.err || state != test.store || r.Outcome != test.outcome {
					t.Errorf("got %v, the store has %q, the outcome is %q", err, state, r.Outcome)
				}
				if left := len(s.kernel.Window.Snapshot(t.Context(), key, 0).Entries); (left == 0) != test.consumed {
					t.Errorf("%d messages are left in the window", left)
				}
				if s.queued != 1 || slices.Contains(s.calls, "finalize") == (test.outcome == "") {
					t.Errorf("queued %d times, calls %q", s.queued, s.calls)
				}
				if n := len(s.traces); test.outcome != "" && s.traces[n-1].Outcome != test.outcome {
					t.Errorf("the trace has the outcome %q", s.traces[n-1].Outcome)
				}
			})
		})
	}
}

// CH-40, CH-44: by every entry point and at every stage that can decide it.
func TestAnObservingTurnWritesNothing(t *testing.T) {
	observe := channel.Admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver}
	for _, fails := range []error{nil, errTest} {
		for _, by := range []string{"preflight", "resolve", "authorize", "assembled", "prepared"} {
			t.Run(fmt.Sprint(by, " ", fails), func(t *testing.T) {
				s := newRig()
				s.group(false)
				s.delivery = s.platform.delivery("preview", "working", "rest", "settle")
				s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
				key := channel.WindowKey{Channel: "fake", Conversation: "42"}
				_ = s.kernel.Window.Record(t.Context(), channel.Recording{HistoryHint: channel.HistoryHint{Key: key}, MessageID: "0", Message: channel.MessageFacts{RawBody: "before"}})
				s.kernel.Agent = agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					inside := channel.FromContext(ctx) // what a tool finds
					inside.Sink.Preview(channel.Payload{Text: "half"})
					for _, p := range []channel.Payload{{Text: "whole"}, {Text: "sorry", IsError: true}, ask("q"), {Decided: &channel.Decided{ID: "q"}}} {
						if err := inside.Sink.Emit(ctx, channel.ReplyFinal, p); err != nil {
							t.Error(err)
						}
					}
					return channel.DispatchResult{Sent: true}, fails
				})
				entry := "run"
				switch by {
				case "preflight":
					s.pre.Admission = observe
				case "authorize":
					s.facts.Access.Group.RequireMention, s.facts.Access.Group.Unmentioned = true, channel.UnmentionedObserve
				case "assembled", "prepared":
					entry, s.admission = by, observe
				default:
					s.admission = observe
				}
				r, err := s.enter(t.Context(), entry)
				if !errors.Is(err, fails) || !r.Dispatched || fails == nil && r.Outcome != channel.OutcomeObserved || !r.Context.ObserveOnly || !slices.Contains(s.calls, "record") {
					t.Errorf("got %+v, %v", r, err)
				}
				if calls := s.platform.requests(); len(calls) != 0 {
					t.Errorf("the platform was asked for %q", calls)
				}
				if d := r.Dispatch; d.Sent {
					t.Errorf("got %+v, expected nothing counted", d)
				}
				if slices.Contains(s.phases(), "dispatch:warning") || len(s.kernel.Window.Snapshot(t.Context(), key, 0).Entries) != 1 {
					t.Errorf("got %q, expected no warning and the history left", s.phases())
				}
			})
		}
	}
}

// CH-60
func TestANoticeIsSentOnlyWhereItIsWanted(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(*rig)
		fail string
		want bool
	}{
		"a direct conversation":  {func(*rig) {}, "dispatch", true},
		"before dispatch":        {func(*rig) {}, "record", true},
		"a group, addressed":     {func(s *rig) { s.group(true) }, "dispatch", true},
		"a group, not addressed": {func(s *rig) { s.group(false) }, "dispatch", false},
		"the settings want none": {func(s *rig) { s.kernel.Settings = s }, "dispatch", false},
		"the sender is denied":   {func(s *rig) { s.facts.Access = channel.AccessFacts{} }, "dispatch", false},
		"no reply is planned":    {func(s *rig) { s.facts.Reply.Mode = channel.ReplyNone }, "dispatch", false},
		"a person stopped it":    {func(s *rig) { s.failAt("dispatch", turn.ErrStopped) }, "", false},
		"before it is known who": {func(*rig) {}, "resolve", false},
		"something was shown": {func(s *rig) {
			s.dispatch = func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
				return channel.DispatchResult{Sent: true}, errTest
			}
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig()
			test.set(s)
			if test.fail != "" {
				s.failAt(test.fail, errors.New("canary"))
			}
			r, _ := s.run(t.Context())
			said := s.platform.requests()
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

// CH-28
func TestAFailingObserverChangesNothing(t *testing.T) {
	var log bytes.Buffer
	s := newRig()
	s.kernel.Log = slog.New(slog.NewTextHandler(&log, nil))
	s.onTrace = func(channel.Trace) { panic("observer") }
	if r, err := s.run(t.Context()); err != nil || r.Outcome != channel.OutcomeVisible {
		t.Errorf("got %s, %v", r.Outcome, err)
	}
	if !strings.Contains(log.String(), "observer failed") {
		t.Errorf("got the log %s", &log)
	}
}

// A message begins a trace, unless it is part of one.
func TestAMessageBeginsATrace(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("")
	s := newRig()
	s.kernel.Tracer = tracer
	s.failAt("dispatch", errTest)
	_, _ = s.run(t.Context())
	ctx, span := tracer.Start(t.Context(), "outer")
	_, _ = s.run(ctx)
	span.End()
	ended := recorder.Ended()
	if len(ended) != 2 || ended[0].Name() != "message fake" || ended[0].Status().Code != codes.Error || s.traces[0].TraceID != ended[0].SpanContext().TraceID().String() {
		t.Errorf("got %d spans: %+v", len(ended), ended)
	}
}

// CH-21, CH-28, CH-93: media of a dropped message are loaded once the gates have passed, and a loader that fails or hangs costs nothing else.
func TestMediaLoaders(t *testing.T) {
	key := channel.WindowKey{Channel: "fake", Conversation: "42"}
	for name, test := range map[string]struct {
		load    func(context.Context) ([]channel.MediaFact, error)
		denied  bool
		entries int
	}{
		"fails":  {func(context.Context) ([]channel.MediaFact, error) { return nil, errTest }, false, 1},
		"panics": {func(context.Context) ([]channel.MediaFact, error) { panic("x") }, false, 1},
		"hangs": {func(ctx context.Context) ([]channel.MediaFact, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, false, 1},
		"of a stranger": {func(context.Context) ([]channel.MediaFact, error) { panic("it is called") }, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRig()
				s.group(false)
				s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
				if test.denied {
					s.facts.Access.Group.Policy = channel.PolicyDisabled
				}
				access := s.facts.Access
				s.pre = channel.Preflight{
					Admission: channel.Admission{Kind: channel.Drop, Reason: channel.ReasonMissingMention, RecordHistory: true}, Access: &access, Message: s.facts.Message,
					History: channel.HistoryHint{Sender: s.facts.Sender, Conversation: channel.ConversationFacts{Kind: channel.Group, ID: "42"}, LoadMedia: test.load},
				}
				r, err := s.run(t.Context())
				if err != nil || r.Outcome != channel.OutcomeBlocked {
					t.Errorf("got %s, %v", r.Outcome, err)
				}
				if n := len(s.kernel.Window.Snapshot(t.Context(), key, 0).Entries); n != test.entries {
					t.Errorf("%d messages wait", n)
				}
			})
		})
	}
}

// CH-91
func TestOnlyMessagesOfAdmittedSendersWait(t *testing.T) {
	key := channel.WindowKey{Channel: "fake", Conversation: "42"}
	listed := channel.AccessFacts{
		Group:    channel.GroupFacts{Policy: channel.PolicyAllowlist, RouteAllowed: true, Sender: true, AllowFrom: []string{"42"}, RequireMention: true},
		Mentions: channel.MentionFacts{CanDetect: true},
	}
	stranger, dropping := listed, listed
	stranger.Group.Sender, dropping.Group.Unmentioned = false, channel.UnmentionedDrop
	missing := channel.Admission{Kind: channel.Drop, Reason: channel.ReasonMissingMention, RecordHistory: true}
	unsupported := channel.Admission{Kind: channel.Drop, Reason: channel.ReasonUnsupported, RecordHistory: true}
	for name, test := range map[string]struct {
		access    channel.AccessFacts
		pre       channel.Preflight
		admission channel.Admission
		want      bool
	}{
		"a missing mention":               {access: listed, want: true},
		"a stranger":                      {access: stranger},
		"a missing mention, drop":         {access: dropping},
		"preflight, without access facts": {pre: channel.Preflight{Admission: missing}},
		"preflight":                       {pre: channel.Preflight{Admission: missing, Access: &listed}, want: true},
		"preflight, a stranger":           {pre: channel.Preflight{Admission: missing, Access: &stranger}},
		"preflight, not to be recorded":   {pre: channel.Preflight{Admission: channel.Admission{Kind: channel.Drop, Reason: channel.ReasonMissingMention}, Access: &listed}},
		"preflight, recorded by the hint": {pre: channel.Preflight{Admission: channel.Admission{Kind: channel.Drop, Reason: channel.ReasonMissingMention}, Access: &listed, History: channel.HistoryHint{RecordOnDrop: true}}, want: true},
		"resolve, a stranger":             {access: stranger, admission: unsupported},
		"resolve":                         {access: listed, admission: unsupported, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig()
			s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
			s.facts.Conversation.Kind, s.facts.Access, s.admission, s.pre = channel.Group, test.access, test.admission, test.pre
			s.pre.History.Conversation = channel.ConversationFacts{Kind: channel.Group, ID: "42"}
			if r, err := s.run(t.Context()); err != nil || r.Outcome != channel.OutcomeBlocked {
				t.Fatalf("got %s, %v", r.Outcome, err)
			}
			if got := len(s.kernel.Window.Snapshot(t.Context(), key, 0).Entries) == 1; got != test.want {
				t.Errorf("it waits: %t", got)
			}
		})
	}
}

// CH-95
func TestOnlyCheckedFilesReachTheAgent(t *testing.T) {
	s := newRig()
	s.facts.Media = []channel.MediaFact{{Path: "/etc/passwd", Kind: channel.MediaImage}}
	r, err := s.run(t.Context())
	if err != nil || r.Context.Media[0].Path != "" || !slices.Contains(s.phases(), "assemble:warning") {
		t.Errorf("got %v, media %+v, %q", err, r.Context.Media, s.phases())
	}
}

// CH-80
func TestAMessageThatWasSentFromHereIsDropped(t *testing.T) {
	s := newRig()
	if _, err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.in = &channel.Input{ID: "m1", ConversationID: "42", SenderID: "someone"} // the id that the answer got
	if r, err := s.run(t.Context()); err != nil || r.Admission.Reason != channel.ReasonSelfEcho {
		t.Errorf("got %+v, %v", r.Admission, err)
	}
}

func TestAnEventThatCannotWaitIsAcknowledgedBeforeDispatch(t *testing.T) {
	for _, immediate := range []bool{true, false} {
		s := newRig()
		s.class.RequiresImmediateAck = immediate
		s.onTrace = func(tr channel.Trace) {
			if tr.Stage == channel.StagePreflight && tr.Phase == channel.PhaseStart && (len(s.acked) == 1) != immediate {
				t.Errorf("immediate %t: acknowledged %d times before preflight", immediate, len(s.acked))
			}
		}
		if r, err := s.run(t.Context()); err != nil || len(s.acked) != 1 || !immediate && s.acked[0].Outcome != r.Outcome {
			t.Errorf("got %v, acknowledged with %+v", err, s.acked)
		}
	}
}

// CH-103, CH-120
func TestTracesSayWhatTheTurnIs(t *testing.T) {
	s := newRig()
	s.facts.Access = channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyAllowlist, AllowFrom: []string{"canary"}}}
	s.facts.Route.AccountID = "work"
	if _, err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tr := range s.traces {
		known := tr.Stage == channel.StageAuthorize || tr.Stage == channel.StageFinalize
		if tr.Channel != "fake" || tr.TurnID == "" || known && (tr.SessionKey != "fake:42" || tr.Account != "work" || tr.MessageID != "1" || tr.Conversation != "42") {
			t.Errorf("got %+v", tr)
		}
		if tr.Phase == channel.PhaseDrop && (tr.Setting == "" || tr.Admission.Reason != channel.ReasonDMNotAllowed) || strings.Contains(fmt.Sprintf("%+v", tr), "canary") {
			t.Errorf("a denial does not say what made it, or has an entry of a list: %+v", tr)
		}
	}
	// log.sender_ids and log.previews
	for ids, want := range map[string]func(string) bool{
		"plain": func(s string) bool { return s == "42" }, "": func(s string) bool { return s == "42" },
		"none": func(s string) bool { return s == "" },
	} {
		s := newRig()
		s.kernel.Settings = &openSettings{policy: channel.Policy{SenderIDs: ids, Previews: ids == "plain"}}
		s.facts.Message.Preview = "hi"
		if _, err := s.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tr := range s.traces[3:] {
			if !want(tr.Sender) {
				t.Errorf("%q: got the sender %q", ids, tr.Sender)
			}
		}
		if last := s.traces[len(s.traces)-1]; (last.Preview != "") != (ids == "plain") {
			t.Errorf("%q: got the preview %q", ids, last.Preview)
		}
	}
}

// A turn that a person or a shutdown ends is no error.
func TestLevelsOfErrorsInTheLog(t *testing.T) {
	reason := errors.New("the reader has gone")
	for name, test := range map[string]struct {
		cancel, err error
		level       string
	}{
		"a person stopped it":          {nil, fmt.Errorf("dispatch: %w", turn.ErrStopped), "INFO"},
		"a later message has":          {nil, turn.ErrInterrupted, "INFO"},
		"the server ends":              {nil, channel.ErrDraining, "INFO"},
		"another process goes on":      {nil, turn.ErrHandedOver, "INFO"},
		"its context was canceled":     {reason, reason, "INFO"},
		"that is all that is known":    {reason, context.Canceled, "INFO"},
		"it took too long":             {context.DeadlineExceeded, context.DeadlineExceeded, "ERROR"},
		"it failed":                    {nil, errTest, "ERROR"},
		"it failed, then was canceled": {reason, errTest, "ERROR"},
		"a part of it was canceled":    {nil, context.Canceled, "ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := newRig()
			s.kernel.Observer = channel.NewSlogObserver(slog.New(slog.NewTextHandler(&log, nil)))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s.kernel.Agent = agentFunc(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
				cancel(test.cancel)
				return channel.DispatchResult{}, test.err
			})
			if test.cancel == nil {
				cancel = func(error) {}
			}
			_, _ = s.run(ctx)
			if strings.Count(log.String(), "event=error") != 1 || !strings.Contains(log.String(), "level="+test.level) {
				t.Errorf("expected one line of level %s:\n%s", test.level, &log)
			}
		})
	}
}
