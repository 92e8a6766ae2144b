package channel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

// scene is a turn whose every callback can be told what to do, and that notes what was called.
type scene struct {
	mu    sync.Mutex
	calls []string
	// do is asked by every callback, by its name; nil does nothing.
	do func(name string) error

	kernel   *channel.Kernel
	facts    channel.Facts
	in       *channel.Input // nil: ingest gives none
	class    channel.EventClass
	pre      channel.Preflight
	plan     channel.Admission
	trigger  channel.Trigger
	prepared func(context.Context, *channel.Turn, channel.Agent) (channel.DispatchResult, error)
	options  channel.RecordOptions
	traces   []channel.Trace
	told     func(channel.Trace)
	journal  journal
	platform platform
	acked    []channel.Result
	queued   int
	claim    *accepted
	final    []channel.Result
}

func newScene() *scene {
	s := &scene{
		facts: facts("1", "hi"), class: channel.EventClass{Kind: channel.EventMessage, CanStartAgentTurn: true},
		in: &channel.Input{ID: "1", RawText: "hi", ConversationID: "42", SenderID: "42"},
	}
	s.kernel = &channel.Kernel{Journal: &s.journal, Observer: s, Recorder: s, Agent: agent(s.answer)}
	return s
}

func (s *scene) called(name string) error {
	s.mu.Lock()
	s.calls = append(s.calls, name)
	s.mu.Unlock()
	if s.do == nil {
		return nil
	}
	return s.do(name)
}

func (s *scene) Observe(_ context.Context, t channel.Trace) {
	s.traces = append(s.traces, t)
	if s.told != nil {
		s.told(t)
	}
}

func (s *scene) Ingest(context.Context, string) (*channel.Input, error) {
	return s.in, s.called("ingest")
}

func (s *scene) Classify(context.Context, *channel.Input) (channel.EventClass, error) {
	err := s.called("classify")
	return s.class, err
}

func (s *scene) Preflight(context.Context, *channel.Input, channel.EventClass) (channel.Preflight, error) {
	err := s.called("preflight")
	return s.pre, err
}

func (s *scene) Resolve(context.Context, *channel.Input, channel.EventClass, channel.Preflight) (channel.Plan, error) {
	if err := s.called("resolve"); err != nil {
		return nil, err
	}
	return s.Plan(), nil
}

func (s *scene) common() channel.Common {
	return channel.Common{
		Facts: s.facts, Admission: s.plan, Trigger: s.trigger, Record: s.options,
		OnPreDispatchFailure: func(context.Context, error) { _ = s.called("preDispatchFailure") },
		OnFinalize: func(_ context.Context, r channel.Result) error {
			s.final = append(s.final, r)
			return s.called("onFinalize")
		},
	}
}

func (s *scene) Plan() channel.Plan {
	if s.prepared != nil {
		return &channel.Prepared{Common: s.common(), Dispatch: s.prepared}
	}
	return &channel.Assembled{Common: s.common(), Delivery: &s.platform}
}

func (s *scene) Finalize(_ context.Context, r channel.Result) error {
	s.final = append(s.final, r)
	return s.called("finalize")
}

func (s *scene) Record(context.Context, channel.Row) error    { return s.called("record") }
func (s *scene) LastRoute(context.Context, channel.Row) error { return s.called("lastRoute") }

func (s *scene) answer(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	if err := s.called("dispatch"); err != nil {
		return channel.DispatchResult{}, err
	}
	t.Queued()
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "hello"})
}

func (s *scene) meta() channel.Meta {
	return channel.Meta{
		Channel: "fake",
		Ack:     func(_ context.Context, r channel.Result) { s.acked = append(s.acked, r) },
		Queued:  func() { s.queued++ },
	}
}

func (s *scene) run(ctx context.Context) (channel.Result, error) {
	return channel.Run(ctx, s.kernel, channel.Event[string]{Meta: s.meta(), Raw: "raw", Adapter: s})
}

// journal is one in memory that notes how claims end.
type journal struct {
	channel.MemoryJournal
	once   sync.Once
	inner  *channel.MemoryJournal
	states []string
}

func (j *journal) make() *channel.MemoryJournal {
	j.once.Do(func() { j.inner = channel.NewJournal(nil) })
	return j.inner
}

func (j *journal) Claim(ctx context.Context, k channel.EventKey) (channel.Claim, channel.ClaimState, error) {
	c, state, err := j.make().Claim(ctx, k)
	if c == nil {
		return nil, state, err
	}
	return &claim{c, j}, state, err
}

func (j *journal) Peek(ctx context.Context, k channel.EventKey) (channel.ClaimState, error) {
	return j.make().Peek(ctx, k)
}

type claim struct {
	channel.Claim
	journal *journal
}

func (c *claim) Commit(ctx context.Context, o channel.Outcome) error {
	c.journal.states = append(c.journal.states, "commit "+string(o))
	return c.Claim.Commit(ctx, o)
}

func (c *claim) Release(ctx context.Context, why error) error {
	c.journal.states = append(c.journal.states, "release")
	return c.Claim.Release(ctx, why)
}

// phases are what the observer was told, as stage:phase.
func (s *scene) phases() []string {
	var out []string
	for _, t := range s.traces {
		out = append(out, string(t.Stage)+":"+string(t.Phase))
	}
	return out
}

// stages in order, each with the callback of the scene that it calls.
var stages = []struct {
	stage    channel.Stage
	callback string
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

// CH-190, CH-01, CH-20, CH-26, CH-27, CH-30, CH-75, CH-05, CH-120: what each way of ending a stage comes to.
func TestEveryWayOfEndingEveryStage(t *testing.T) {
	for i, at := range stages {
		for _, way := range []string{"ok", "stop", "error", "panic", "canceled"} {
			if at.stage == channel.StageAuthorize && (way == "error" || way == "panic") {
				continue // it has no callback in this scene: the pairing and the settings have tests of their own
			}
			t.Run(string(at.stage)+" "+way, func(t *testing.T) {
				s := newScene()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				gone := errors.New("gone away")
				stops := way == "stop"
				switch {
				case way == "error" && at.callback != "":
					s.do = func(name string) error {
						if name == at.callback {
							return errTest
						}
						return nil
					}
				case way == "panic" && at.callback != "":
					s.do = func(name string) error {
						if name == at.callback {
							panic("a secret")
						}
						return nil
					}
				case way == "canceled": // right before the stage
					if i == 0 {
						cancel(gone)
						break
					}
					s.told = func(tr channel.Trace) {
						if tr.Stage == stages[i-1].stage && tr.Phase == channel.PhaseDone {
							cancel(gone)
						}
					}
				case way == "error": // assemble
					s.facts.Route.AgentID = ""
				case way == "panic":
					t.Skip("nothing of anybody else is called there")
				}
				if stops {
					switch at.stage {
					case channel.StageIngest:
						s.in = nil
					case channel.StageClassify:
						s.class.CanStartAgentTurn = false
					case channel.StagePreflight:
						s.pre.Admission = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonUnsupported}
					case channel.StageResolve:
						s.plan = channel.Admission{Kind: channel.Handled, Reason: channel.ReasonHandledLocally}
					case channel.StageAuthorize:
						s.facts.Access = channel.AccessFacts{}
					case channel.StageDispatch:
						s.kernel.Agent = agent(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
							return channel.DispatchResult{}, channel.ErrDraining
						})
					default:
						t.Skip("the stage cannot stop a turn")
					}
				}
				r, err := s.run(ctx)
				s.check(t, i, way, gone, r, err)
			})
		}
	}
}

func (s *scene) check(t *testing.T, at int, way string, gone error, r channel.Result, err error) {
	t.Helper()
	stage := stages[at].stage
	isFinalize := stage == channel.StageFinalize

	// The error.
	broken := way == "error" || way == "panic" || way == "canceled" && !isFinalize
	if stage == channel.StageFinalize && way == "canceled" || way == "ok" || way == "stop" {
		if err != nil {
			t.Fatalf("got the error %v, expected none", err)
		}
	}
	last := at
	if broken {
		se, ok := errors.AsType[*channel.StageError](err)
		if !ok || se.Stage != stages[last].stage {
			t.Fatalf("got the error %v, expected one of the stage %s", err, stages[last].stage)
		}
		if way == "canceled" && !errors.Is(err, gone) {
			t.Errorf("got %v, expected the cause of the end", err)
		}
		if _, ok := errors.AsType[*channel.PanicError](err); ok != (way == "panic") {
			t.Errorf("got %v, a panic: %t", err, ok)
		}
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("the error %q has what was panicked with", err)
		}
	}

	// The trace: start and then one end of each stage that ran, and nothing of the others.
	var want []string
	for i, st := range stages[:len(stages)-1] {
		if i > last || i == last && way == "canceled" {
			break
		}
		phase := "done"
		switch {
		case i < last || way == "ok" || isFinalize:
		case way == "error" || way == "panic":
			phase = "error"
		case way == "stop" && (stage == channel.StageClassify || stage == channel.StageResolve):
			phase = "handled"
		case way == "stop":
			phase = "drop"
		}
		want = append(want, string(st.stage)+":start", string(st.stage)+":"+phase)
		if i == last && (way != "ok" && !isFinalize) {
			break
		}
	}
	if way == "ok" {
		want = nil
		for _, st := range stages[:len(stages)-1] {
			want = append(want, string(st.stage)+":start", string(st.stage)+":done")
		}
	}
	finalizes := !(stage == channel.StageIngest && way != "ok")
	if finalizes {
		end := "done"
		if isFinalize && (way == "error" || way == "panic") {
			end = "error"
		}
		want = append(want, "finalize:start", "finalize:"+end)
	}
	if diff := cmp.Diff(want, s.phases()); diff != "" {
		t.Errorf("traces (-want +got):\n%s", diff)
	}

	// Callbacks: those of the stages that ran, then finalize, each once.
	count := map[string]int{}
	for _, c := range s.calls {
		count[c]++
	}
	for c, n := range count {
		if n != 1 {
			t.Errorf("%s was called %d times", c, n)
		}
	}
	if got := count["finalize"]; (got == 1) != finalizes {
		t.Errorf("finalize ran %d times, expected it to run: %t", got, finalizes)
	}
	planned := last > 3 || way == "ok" || way == "stop" && stage == channel.StageResolve
	if got := count["onFinalize"]; (got == 1) != planned {
		t.Errorf("the plan's finalize ran %d times, expected it to run: %t", got, planned)
	}
	for i, st := range stages[:len(stages)-1] {
		ran := way == "ok" || i < last || i == last && way != "canceled"
		if way == "stop" && stage == channel.StageDispatch && st.callback == "dispatch" {
			continue // another agent
		}
		if st.callback != "" && (count[st.callback] == 1) != ran {
			t.Errorf("%s was called %d times, expected it to be called: %t", st.callback, count[st.callback], ran)
		}
	}
	dispatched := way == "ok" || isFinalize || stage == channel.StageDispatch && (way == "error" || way == "panic")
	if r.Dispatched != dispatched {
		t.Errorf("Dispatched is %t, expected %t", r.Dispatched, dispatched)
	}

	// The claim.
	wantClaim := map[string]string{"ok": "commit visible", "stop": "commit blocked", "error": "release", "panic": "release", "canceled": "commit canceled"}[way]
	switch {
	case way == "ok":
	case last < 2 || last == 2 && way == "canceled":
		wantClaim = "" // nobody has claimed it
	case isFinalize:
		wantClaim = "commit visible"
	case stage == channel.StageDispatch && way == "stop":
		wantClaim = "release"
	}
	var claims []string
	if wantClaim != "" {
		claims = []string{wantClaim}
	}
	if diff := cmp.Diff(claims, s.journal.states); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}

	// The door.
	if len(s.acked) != 1 || s.queued != 1 {
		t.Errorf("Ack was called %d times and Queued %d times, expected once each", len(s.acked), s.queued)
	}
}
