package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// kept is a workflow that remembers the manager of its last run.
func kept(w flow.Workflow, m **ling.Manager) flow.Workflow {
	info := w.Info()
	return flow.Func(info.Name, "", info.Input, func(ctx context.Context, of *ling.Manager, input map[string]any) error {
		*m = of
		return w.Run(ctx, of, input)
	})
}

const article = `{"article":{"title":"The \"moon\" ½","sections":[{"title":"Tides","body":"About Tides"},{"title":"Phases","body":"About Phases","n":[1,{"x":null}]}]}}`

// sameJSON says whether two texts are the same value.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(x, y)
}

func TestTU_46TheReaderGetsTheDocumentAndTheUsage(t *testing.T) {
	var m *ling.Manager
	w := newWorld(t, kept(spec(t, articles), &m))
	var sink seen
	r, err := w.f.Process(t.Context(), message("the moon"), turn.WithSink(sink.take))
	if err != nil {
		t.Fatal(err)
	}
	if !sameJSON(t, r.Output, article) || r.Output != sink.final(t) {
		t.Errorf("output %s\nfinal %s", r.Output, sink.final(t))
	}
	// The usage of a hidden bot is counted, too.
	if got := sink.kinds(); got != "usage usage usage final" || r.Usage.TotalTokens != 40 || r.Usage.Model != "fake:m" {
		t.Errorf("%s %+v", got, r.Usage)
	}
	if got := strings.Join(w.tape(), "\n"); strings.Contains(got, "some notes") || !strings.Contains(got, "About Tides") {
		t.Error(got)
	}
	if s := m.Peek(true); s.Status != "completed" {
		t.Errorf("the run that was made is not closed: %s", s.Status)
	}
}

func TestTU_46TheFinalTextIsTheDocument(t *testing.T) {
	for name, row := range map[string]struct {
		send         []tube.Event
		filter, want string
	}{
		"an object":          {[]tube.Event{{Kind: tube.Set, URI: []byte("a"), Value: []byte("1")}, {URI: []byte("b"), Value: []byte(`x\n`)}}, "", `{"a":1,"b":"x\n"}`},
		"a text":             {[]tube.Event{{Value: []byte(`one\n`)}, {Value: []byte(`\"two\" ½`)}}, "", "one\n\"two\" ½"},
		"a number":           {[]tube.Event{{Kind: tube.Set, Value: []byte("1.50")}}, "", "1.50"},
		"nothing":            {nil, "", ""},
		"nothing to be seen": {[]tube.Event{{URI: []byte("a"), Value: []byte(`x`)}}, "a", ""},
		"reserved beside it": {[]tube.Event{{URI: []byte("$reasoning_context"), Value: []byte(`hm`)}, {URI: []byte("a"), Value: []byte(`x`)}}, "", `{"a":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, flow.Func("sends", "", question, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
				if row.filter != "" {
					m.Tube().AddFilter(tube.Filter{Exclude: []tube.Matcher{tube.URI(row.filter)}})
				}
				for _, e := range row.send {
					if _, err := m.Tube().Send(e); err != nil {
						return err
					}
				}
				return nil
			}))
			var s seen
			r, err := w.f.Process(t.Context(), message("go"), turn.WithSink(s.take))
			if err != nil || r.Output != row.want || s.final(t) != row.want {
				t.Errorf("%+v %v, expected %q", r, err, row.want)
			}
			// The same where nobody looks on.
			if r, err := w.f.Process(t.Context(), message("go")); err != nil || r.Output != row.want {
				t.Errorf("%+v %v, expected %q", r, err, row.want)
			}
		})
	}
}

func TestASecondTurnKnowsTheFirst(t *testing.T) {
	w := newWorld(t, echo(""))
	for _, text := range []string{"one", "two"} {
		if r, err := w.f.Process(t.Context(), message(text)); err != nil || r.Output != text {
			t.Fatalf("%+v %v", r, err)
		}
	}
	var said []string
	for _, m := range w.models.asked[1].Messages {
		said = append(said, m.Role+" "+m.Content)
	}
	if diff := cmp.Diff([]string{"user one", "assistant one", "user two"}, said); diff != "" {
		t.Error(diff)
	}
	want := []string{
		`anchor {"name":"session/start","state":{"owner":"human"}}`,
		`event {"name":"turn.start","data":{"workflow":"echo"}}`,
		`message {"role":"user","content":"one"}`,
		`message {"role":"assistant","content":"one"}`,
		`event {"name":"turn.end","data":{"status":"ok","usage":{"prompt_tokens":4,"completion_tokens":6,"total_tokens":10}}}`,
		`event {"name":"turn.start","data":{"workflow":"echo"}}`,
		`message {"role":"user","content":"two"}`,
		`message {"role":"assistant","content":"two"}`,
		`event {"name":"turn.end","data":{"status":"ok","usage":{"prompt_tokens":4,"completion_tokens":6,"total_tokens":10}}}`,
	}
	if diff := cmp.Diff(want, w.tape()); diff != "" {
		t.Error(diff)
	}
}

// TU-50, TU-52
func TestATurnThatIsCanceledEndsTheWorkflowInMidStream(t *testing.T) {
	errStop := errors.New("enough of that")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, echo("text"))
		var s seen
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := w.f.Process(ctx, message("wait: a part"), turn.WithSink(s.take))
			if !errors.Is(err, errStop) || !r.Partial {
				t.Errorf("%+v %v", r, err)
			}
		}()
		<-w.models.waits
		cancel(errStop)
		<-done
		if w.models.running() != 0 || s.err == nil {
			t.Errorf("%d models are still being asked, %v", w.models.running(), s.err)
		}
		got := w.tape()
		want := []string{`message {"role":"assistant","content":"{\"text\":\"a part\"}"} partial`, `event {"name":"turn.end","data":{"status":"canceled"}}`}
		if diff := cmp.Diff(want, got[len(got)-2:]); diff != "" {
			t.Error(diff)
		}
	})
}

// TU-44: wherever a reader stops, the work is over, and the tape is whole.
func TestAReaderThatStopsFindsTheWorkOver(t *testing.T) {
	for _, panics := range []bool{false, true} {
		for n := range 5 {
			var w *world
			stopped := false
			reads := streamer(func(ctx context.Context, p turn.Prompt, id turn.SessionID, s turn.State) (turn.Stream, bool, error) {
				stream, _, err := w.stage.RunModelStream(ctx, p, id, s)
				return func(yield func(turn.Event, error) bool) {
					at := 0
					for e, err := range stream {
						if at++; at == n+1 {
							if stopped = true; panics {
								panic("no more")
							}
							return
						}
						yield(e, err)
					}
				}, true, err
			})
			w = newWorld(t, spec(t, articles), reads)
			if _, err := w.f.Process(t.Context(), message("the moon")); (err != nil) != (stopped && panics) {
				t.Errorf("at %d: %v", n, err)
			}
			if got := w.tape(); w.models.running() != 0 || !strings.Contains(got[len(got)-1], `turn.end","data":{"status":"ok"`) {
				t.Errorf("at %d: %d models are still being asked, %q", n, w.models.running(), got)
			}
		}
	}
}

// host runs a turn as the only task of a run of its own, as package web does.
func (w *world) host(t *testing.T, a *workflow.Answer, text string, opts ...turn.Option) (*turn.Result, *ling.Manager, error) {
	t.Helper()
	m := ling.New(t.Context(), bot.Config{}, &ling.Options{Models: w.models})
	_ = m.SendEvent("queued", map[string]int{"position": 1})
	a.Manager = m
	r, err := w.f.Process(m.Context(), message(text), opts...)
	m.Close()
	return r, m, err
}

// bound is a plugin that answers as it is told.
func bound(a *workflow.Answer) streamer {
	return func(ctx context.Context, _ turn.Prompt, _ turn.SessionID, s turn.State) (turn.Stream, bool, error) {
		return a.Stream(ctx, s), true, nil
	}
}

func TestARunThatIsBoundHasItsOwnReader(t *testing.T) {
	a := &workflow.Answer{Workflow: spec(t, articles), Input: map[string]any{"question": "the moon"}}
	w := newWorld(t, echo(""), bound(a))
	var s seen
	r, m, err := w.host(t, a, "the moon", turn.WithSink(s.take))
	if err != nil || s.final(t) != r.Output || !sameJSON(t, r.Output, article) || r.Usage.TotalTokens != 40 {
		t.Fatalf("%+v %v", r, err)
	}
	if made := m.Peek(false); made.Status != "completed" || string(made.Result) != r.Output {
		t.Errorf("%s %s", made.Status, made.Result)
	}
}

// TU-19, TU-33
func TestWhatAWorkflowFailsOfIsTheTurnsError(t *testing.T) {
	fails := func(handled bool) flow.Workflow {
		return flow.Func("fails", "", question, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
			if _, err := m.Tube().Send(tube.Event{URI: []byte("a"), Value: []byte("before")}); err != nil {
				return err
			}
			b, err := m.CreateBot("writer", "b", nil)
			if err != nil {
				return err
			}
			if handled {
				m.OnFailure(b, func(error) bool { return true })
			}
			return b.Chat(bot.Message{Text: "fail"})
		})
	}
	t.Run("all of it", func(t *testing.T) {
		w := newWorld(t, fails(false))
		var s seen
		r, err := w.f.Process(t.Context(), message("go"), turn.WithSink(s.take))
		if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeAuth || r.Output != `{"a":"before"}` || !r.Partial {
			t.Errorf("%+v %v", r, err)
		}
		if s.err == nil || s.kinds() != "error" {
			t.Errorf("%s %v", s.kinds(), s.err)
		}
		if len(w.told) != 2 || !strings.HasPrefix(w.told[0], "run_model: the model's server refused the key") || !strings.HasPrefix(w.told[1], "turn: ") {
			t.Errorf("%q", w.told)
		}
		got := w.tape()
		want := []string{
			`message {"role":"assistant","content":"{\"a\":\"before\"}"} partial`,
			`error {"kind":"upstream_auth","message":"the model's server refused the key"}`,
			`event {"name":"turn.end","data":{"status":"error"}}`,
		}
		if diff := cmp.Diff(want, got[len(got)-3:]); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a part that something else makes up for", func(t *testing.T) {
		w := newWorld(t, fails(true))
		r, err := w.f.Process(t.Context(), message("go"))
		if err != nil || r.Output != `{"a":"before"}` || r.Partial || len(w.told) != 1 || !strings.HasPrefix(w.told[0], "run_model: ") {
			t.Errorf("%+v %v %q", r, err, w.told)
		}
	})
	t.Run("of a run that is bound", func(t *testing.T) {
		a := &workflow.Answer{Workflow: fails(false)}
		w := newWorld(t, echo(""), bound(a))
		_, m, err := w.host(t, a, "go")
		if !a.Told(err) || a.Told(errors.New("another")) || len(m.Peek(false).Errors) != 1 {
			t.Errorf("%v %+v", err, m.Peek(false).Errors)
		}
	})
	t.Run("of a limit of the run", func(t *testing.T) {
		w := newWorld(t, echo(""))
		w.stage.Run.MaxResult = 4
		_, err := w.f.Process(t.Context(), message("too much"))
		if f, ok := errors.AsType[*bot.Failure](err); !ok || f.Code != bot.CodeTooLarge {
			t.Error(err)
		}
		if got := w.tape(); got[len(got)-1] != `event {"name":"turn.end","data":{"status":"error"}}` {
			t.Errorf("%q", got)
		}
		// The same in a run that is bound: nobody has canceled that.
		a := &workflow.Answer{Workflow: flow.Func("many", "", nil, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
			for range ling.DefaultMaxBots + 1 {
				if _, err := m.CreateBot("one", "a", nil); err != nil {
					return err
				}
			}
			return nil
		})}
		w = newWorld(t, echo(""), bound(a))
		if _, _, err := w.host(t, a, "go"); !a.Told(err) {
			t.Error(err)
		}
		if got := w.tape(); got[len(got)-1] != `event {"name":"turn.end","data":{"status":"error"}}` {
			t.Errorf("%q", got)
		}
	})
}

// TU-61, TU-63: a workflow reads no steering, so what is steered has a turn of its own.
func TestASteeredMessageWaitsForATurnOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, echo(""))
		ctx, cancel := context.WithCancel(t.Context())
		first, err := w.f.Submit(ctx, message("wait: first"))
		if err != nil {
			t.Fatal(err)
		}
		<-w.models.waits
		second, err := w.f.Submit(t.Context(), message("second"), turn.WithPolicy(turn.Steer))
		if err != nil {
			t.Fatal(err)
		}
		if s := second.Status(); s.Phase != turn.Queued {
			t.Errorf("%+v", s)
		}
		cancel()
		if _, err := first.Wait(t.Context()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if r, err := second.Wait(t.Context()); err != nil || r.Output != "second" {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// failing is a store that takes no more after some batches.
type failing struct {
	tape.Store
	left int
}

var errFull = errors.New("the disk is full")

func (f *failing) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	if f.left == 0 {
		return 0, errFull
	}
	f.left--
	return f.Store.Append(ctx, name, b)
}

func TestWhatCannotBeWrittenFailsTheTurn(t *testing.T) {
	for name, row := range map[string]struct {
		text      string
		batches   int
		asked     int
		also      string // what it has failed of before
		partially bool
	}{
		"not the tape":        {"hello", 0, 0, "", false},
		"not the beginning":   {"hello", 1, 0, "", false},
		"not the answer":      {"hello", 2, 1, "", true},
		"not the failure":     {"fail", 2, 1, "the model's server refused the key", false},
		"all can be written":  {"hello", 3, 1, "", false},
		"the failure can, so": {"fail", 3, 1, "the model's server refused the key", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, echo(""))
			store := &failing{Store: w.store, left: row.batches}
			if err := w.f.Register("store", provider{store}); err != nil {
				t.Fatal(err)
			}
			r, err := w.f.Process(t.Context(), message(row.text))
			if errors.Is(err, errFull) != (row.batches < 3) || (err == nil) != (row.batches == 3 && row.also == "") {
				t.Errorf("%+v %v", r, err)
			}
			if row.also != "" && !strings.Contains(err.Error(), row.also) {
				t.Error(err)
			}
			if len(w.models.asked) != row.asked || r.Partial != (err != nil) || row.partially && r.Output != "hello" {
				t.Errorf("asked %d times, %+v", len(w.models.asked), r)
			}
		})
	}
	bare := turn.New(turn.Options{})
	all := new(flow.Registry)
	all.Register(echo(""))
	if err := bare.Register("stage", &workflow.Stage{Workflow: "echo", Workflows: all}); err != nil {
		t.Fatal(err)
	}
	if _, err := bare.Process(t.Context(), message("hello")); err == nil || !strings.Contains(err.Error(), "no plugin provides a store of tapes") {
		t.Error(err)
	}
}

// A run that has been canceled before its turn has come to the model.
func TestARunThatIsOverAnswersNothing(t *testing.T) {
	a := &workflow.Answer{Workflow: echo("")}
	w := newWorld(t, echo(""), bound(a))
	m := ling.New(t.Context(), bot.Config{}, &ling.Options{Models: w.models})
	m.Cancel(errors.New("canceled by request"))
	a.Manager = m
	if _, err := w.f.Process(t.Context(), message("hello")); !errors.Is(err, ling.ErrEnded) || len(w.models.asked) != 0 {
		t.Error(err)
	}
	if got := w.tape(); got[len(got)-1] != `event {"name":"turn.end","data":{"status":"canceled"}}` {
		t.Errorf("%q", got)
	}
}

func TestATurnThatCannotBeAnsweredSaysWhy(t *testing.T) {
	object := flow.Func("object", "", json.RawMessage(`{"type":"object","required":["a","b"],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`),
		func(context.Context, *ling.Manager, map[string]any) error { return nil })
	for name, row := range map[string]struct {
		w          flow.Workflow
		text, code string
		want       string
	}{
		"not there":         {nil, "hello", turn.CodeInternal, `workflow: unknown workflow "articles"`},
		"more than a text":  {object, "hello", turn.CodeInternal, "workflow object cannot answer messages, because its input is more than one text: the input does not match its schema: got a string"},
		"a text too long":   {spec(t, articles), strings.Repeat("x", 50), turn.CodeInvalid, "workflow articles: the input does not match its schema: /question:"},
		"nothing was said":  {echo(""), "", turn.CodeInvalid, turn.ErrNoPrompt.Error()},
		"looks like object": {spec(t, articles), `{"question":"` + strings.Repeat("x", 50) + `"}`, turn.CodeInvalid, "workflow articles"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, echo(""))
			if row.w == nil {
				w.stage.Workflow = "articles"
			} else {
				w.stage.Workflow = row.w.Info().Name
				w.stage.Workflows.(*flow.Registry).Register(row.w)
			}
			_, err := w.f.Process(t.Context(), message(row.text))
			if err == nil || !strings.Contains(err.Error(), row.want) || w.f.Code(err) != row.code {
				t.Errorf("%v, code %s", err, w.f.Code(err))
			}
			if !strings.Contains(w.log.String(), "turn failed") {
				t.Error(w.log)
			}
		})
	}
	if _, _, err := new(workflow.Stage).RunModelStream(t.Context(), turn.Prompt{}, "", nil); err == nil {
		t.Error("it answers without a turn")
	}
}

// selects is a plugin that lets bots know one thing of the past.
type selects struct{}

func (selects) BuildTapeContext(context.Context, turn.SessionID, turn.State) (tape.Selector, bool, error) {
	return selects{}, true, nil
}

func (selects) Select(context.Context, iter.Seq2[tape.Entry, error]) ([]tape.Message, error) {
	return []tape.Message{{Role: adapter.User, JSON: json.RawMessage(`{"role":"user","content":"chosen"}`)}}, nil
}

func TestTheWorkflowsModelGoesBeforeTheStages(t *testing.T) {
	const text = "name: one\ninput: {type: object, required: [q], properties: {q: {type: string}}}\nbots: {b: {root: b, format: text}}\n"
	for file, want := range map[string]string{text: "fake:stage", "model: fake:own\n" + text: "fake:own"} {
		w := newWorld(t, spec(t, file))
		w.stage.Bot.Model = "fake:stage"
		if r, err := w.f.Process(t.Context(), message("hello")); err != nil || r.Output != `{"b":"hello"}` || !slices.Equal(w.models.named, []string{want}) {
			t.Errorf("%+v %v %q, expected %s", r, err, w.models.named, want)
		}
	}
}

// TA-54: what a plugin chooses of the past is what bots know of it.
func TestAPluginChoosesWhatTheBotsKnow(t *testing.T) {
	w := newWorld(t, echo(""), selects{})
	for _, text := range []string{"one", "two"} {
		if _, err := w.f.Process(t.Context(), message(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.models.asked[1].Messages; !slices.ContainsFunc(got, func(m adapter.Message) bool { return m.Content == "chosen" }) || len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// again is the envelope of a turn that another process may have begun.
func again(text string) *turn.Envelope {
	e := message(text)
	e.Resumed = true
	return e
}

// A turn that is handed over leaves no end, and goes on elsewhere with one beginning; its own message is no history.
func TestAWorkflowsTurnThatIsHandedOverGoesOnElsewhere(t *testing.T) {
	w := newWorld(t, echo(""))
	if _, err := w.f.Process(t.Context(), message("earlier")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		<-w.models.waits
		cancel(turn.ErrHandedOver)
	}()
	var s seen
	if _, err := w.f.Process(ctx, again("wait: now"), turn.WithID("t1"), turn.WithSink(s.take)); err != turn.ErrHandedOver { //nolint:errorlint // it is the very value
		t.Errorf("the turn ended with %v", err)
	}
	if strings.Contains(s.kinds(), "final") {
		t.Error("it says that it has ended")
	}
	before := w.tape()
	if last := before[len(before)-1]; !strings.HasPrefix(last, `message {"role":"user"`) {
		t.Errorf("the tape ends with %s", last)
	}
	for range 2 { // goes on, and has ended
		r, err := w.f.Process(t.Context(), again("now"), turn.WithID("t1"))
		if err != nil || r.Output != "now" {
			t.Errorf("%+v %v", r, err)
		}
	}
	after := w.tape()
	if len(after) != len(before)+2 || !strings.Contains(after[len(after)-1], `"status":"ok"`) {
		t.Errorf("%q", after)
	}
	if n := len(w.models.asked); n != 3 {
		t.Errorf("models were asked %d times", n)
	}
	var said []string
	for _, m := range w.models.asked[2].Messages {
		said = append(said, m.Role+": "+m.Content)
	}
	if diff := cmp.Diff([]string{"user: earlier", "assistant: earlier", "user: now"}, said); diff != "" {
		t.Error(diff)
	}
}

func TestAWorkflowsResumedTurnThatFailedFailsOfTheSame(t *testing.T) {
	w := newWorld(t, echo(""))
	for range 2 {
		_, err := w.f.Process(t.Context(), again("fail"), turn.WithID("t1"))
		if w.f.Code(err) != adapter.CodeAuth && !strings.Contains(err.Error(), "refused the key") {
			t.Errorf("%v", err)
		}
	}
	if n := len(w.models.asked); n != 1 {
		t.Errorf("models were asked %d times", n)
	}
}
