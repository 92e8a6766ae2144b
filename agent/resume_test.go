package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// turnID is the id of the turn that goes on.
const turnID = "t-resumed"

// resumed is the envelope of a turn that another process may have begun.
func resumed(text string) *turn.Envelope {
	e := message(text)
	e.Resumed = true
	return e
}

// resume runs the turn, or goes on with it.
func (w *world) resume(ctx context.Context, text string) heard {
	var h heard
	h.Result, h.err = w.f.Process(ctx, resumed(text), turn.WithID(turnID), turn.WithSink(func(e turn.Event, err error) {
		if err == nil {
			h.events = append(h.events, e)
		}
	}))
	return h
}

// cut makes a world in another process, whose tape has these entries.
func (w *world) cut(t *testing.T, entries []tape.Entry, o Options, plugins ...any) *world {
	t.Helper()
	store := tapetest.NewMemory(nil)
	b := tape.Batch{Create: true, Session: "s", Workspace: w.dir, Entries: entries}
	if _, err := store.Append(t.Context(), w.tape().Name(), b); err != nil {
		t.Fatal(err)
	}
	o.Store = store
	return newWorldIn(t, w.dir, w.model, o, plugins...)
}

// text is all text of a stream.
func (h heard) text() (text string) {
	for _, e := range h.events {
		if e.Kind == turn.TextEvent {
			text += e.Delta
		}
	}
	return text
}

// ran counts what tools have done, and with which keys.
type ran struct {
	mu    sync.Mutex
	calls map[string]int
	keys  map[string]string
}

// tool makes a tool that counts its calls by its name and text.
func (r *ran) tool(name string, opts ...tool.Option) *tool.Tool {
	return tool.Must(tool.New(name, "Counts.", func(ctx context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.calls == nil {
			r.calls, r.keys = map[string]int{}, map[string]string{}
		}
		r.calls[name+" "+in.Text]++
		r.keys[name+" "+in.Text] = tool.Key(ctx)
		return name + " did " + in.Text, nil
	}, opts...))
}

// journey is a model whose answer depends on the conversation alone.
func journey(r adapter.Request) say {
	var all strings.Builder
	for _, m := range r.Messages {
		all.WriteString(m.Content + "\n")
	}
	has := func(texts ...string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(all.String(), text) })
	}
	thinks := func(text string, then say) say {
		return func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
			if yield(adapter.Chunk{Reasoning: text}, nil) {
				then(ctx, yield)
			}
		}
	}
	result := func(text string) bool { return has("did "+text) || strings.Contains(all.String(), "unknown_outcome") }
	switch {
	case has("lunch") && result("four") && result("five"):
		return answers("It is done.")
	case has("lunch"):
		return thinks("Two letters.", calls("Now the letters:\n", `c4:send:{"text":"four"}`, `c5:send:{"text":"five"}`))
	case has("did two") || result("two"):
		return calls("", `c3:tape_handoff:{"name":"lunch","summary":"pizza"}`, `c4:read:{"text":"three"}`)
	}
	return thinks("Hm.", calls("Let me see.", `c1:read:{"text":"one"}`, `c2:send:{"text":"two"}`))
}

// DU-02, DU-03: wherever a process dies, the next one brings the turn to the end that it would have had.
func TestResumedTurnEndsRightBehindEveryEntry(t *testing.T) {
	first := &ran{}
	options := func(r *ran) Options {
		return Options{Models: byRequest(journey), Tools: setOf(t, r.tool("read", tool.WithIdempotent()), r.tool("send"))}
	}
	w := newWorld(t, newFake(), options(first))
	whole := w.resume(t.Context(), "go")
	if whole.err != nil || whole.Output != "Let me see.\n\nNow the letters:\n\nIt is done." {
		t.Fatalf("%q %v\n%s", whole.Output, whole.err, strings.Join(w.lines(), "\n"))
	}
	entries := w.entries()
	full, err := ReadTurn(t.Context(), w.tape(), turnID)
	if err != nil {
		t.Fatal(err)
	}
	if full.Text != whole.Output || full.Reasoning != "Hm.Two letters." || !full.Begun || !full.Ended || len(full.Calls) != 6 || len(full.Results) != 6 {
		t.Errorf("%+v", full)
	}
	anchored := `anchor lunch {"summary":"pizza"}`
	for k := 1; k <= len(entries); k++ {
		if ends := line(entries[k-1]); ends == anchored || ends == "system" && line(entries[k-2]) == anchored {
			continue // the anchor, the prompt and the message are one append, so no process dies between them
		}
		t.Run(fmt.Sprintf("%d %s", k, line(entries[k-1])), func(t *testing.T) {
			second := &ran{}
			next := w.cut(t, entries[:k], options(second))
			past, err := ReadTurn(t.Context(), next.tape(), turnID)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(full.Text, past.Text) || !strings.HasPrefix(full.Reasoning, past.Reasoning) || past.Ended != (k == len(entries)) {
				t.Errorf("%+v", past)
			}
			for i, c := range past.Calls {
				if c.ID != full.Calls[i].ID || past.Results[i] != nil && string(past.Results[i]) != string(full.Results[i]) {
					t.Errorf("call %d: %+v %s", i, c, past.Results[i])
				}
			}
			h := next.resume(t.Context(), "go")
			if h.err != nil {
				t.Fatal(h.err)
			}
			if got := past.Text + h.text(); got != full.Text {
				t.Errorf("the text is %q", got)
			}
			final := h.events[len(h.events)-1]
			if final.Kind != turn.FinalEvent || final.Final.Text != "It is done." || final.Final.Reason != adapter.FinishStop {
				t.Errorf("the end is %+v", final.Final)
			}
			if past.Ended && len(h.events) != 1 {
				t.Errorf("an ended turn says %q", told(h.events))
			}
			checkTape(t, next, entries[:k])
			for i, c := range full.Calls {
				var in struct{ Text string }
				_ = json.Unmarshal(c.Arguments, &in)
				what := c.Name + " " + in.Text
				want := 1
				switch begun := i < len(past.Calls); {
				case begun && past.Results[i] != nil, begun && c.Name == "send", c.Name == "tape_handoff":
					want = 0
				}
				if second.calls[what] != want {
					t.Errorf("%s ran %d times; expected %d", what, second.calls[what], want)
				}
				if want == 1 && second.keys[what] != first.keys[what] {
					t.Errorf("%s ran with the key %q, before with %q", what, second.keys[what], first.keys[what])
				}
			}
		})
	}
}

// checkTape checks that a tape begins with these entries, and that its turn is complete.
func checkTape(t *testing.T, w *world, before []tape.Entry) {
	t.Helper()
	all := w.entries()
	for i, e := range before {
		if line(e) != line(all[i]) {
			t.Fatalf("entry %d was %s and is %s", i, line(e), line(all[i]))
		}
	}
	names := map[string]int{}
	steps := 0
	open := map[string]bool{}
	for _, e := range all {
		name, data := eventOf(e)
		names[name]++
		switch e.Kind {
		case tape.KindEvent:
			var d stepped
			if _ = json.Unmarshal(data, &d); name == entryStep {
				if steps++; d.Step != steps || len(open) > 0 {
					t.Errorf("step %d ends as number %d, with open calls %v", steps, d.Step, open)
				}
			}
		case tape.KindMessage:
			names[strings.SplitN(line(e), ":", 2)[0]]++
		case tape.KindToolCall, tape.KindToolResult:
			var p struct {
				Calls []tape.Call
				IDs   []string
			}
			_ = json.Unmarshal(e.Payload, &p)
			for _, c := range p.Calls {
				open[c.ID] = true
			}
			for _, id := range p.IDs {
				if !open[id] {
					t.Errorf("a second result of %s", id)
				}
				delete(open, id)
			}
		}
	}
	if names[entryStart] != 1 || names[entryEnd] != 1 || names[entryAborted] != 0 || names["user"] != 2 || names["assistant"] != 1 || steps != 4 {
		t.Errorf("%v\n%s", names, strings.Join(w.lines(), "\n"))
	}
}

// cutAt runs a turn and returns its entries up to the first whose line begins with a text, that one included.
func (w *world) cutAt(t *testing.T, prefix string) []tape.Entry {
	t.Helper()
	entries := w.entries()
	for i, e := range entries {
		if strings.HasPrefix(line(e), prefix) {
			return entries[:i+1]
		}
	}
	t.Fatalf("no entry begins with %q:\n%s", prefix, strings.Join(w.lines(), "\n"))
	return nil
}

// result returns the line of a call's result.
func (w *world) result(id string) string {
	for _, l := range w.lines() {
		if text, ok := strings.CutPrefix(l, "result "+id+"="); ok {
			return text
		}
	}
	return ""
}

const unknownResult = `{"error":{"kind":"unknown_outcome","message":"the server stopped while the tool ran, so the outcome is unknown: the call may have had its effect"}}`

// DU-02
func TestResumedCallRunsOrHasAnUnknownOutcome(t *testing.T) {
	always := tool.WithApproval(tool.Always)
	for name, test := range map[string]struct {
		before     []tool.Option
		after      []tool.Option // nil: as before
		answer     *Answer       // of the first process
		cut        string
		ask        bool // on_unknown
		second     *Answer
		want       string
		ran, asked int
	}{
		"a call that had begun":                    {cut: "call", want: unknownResult},
		"an idempotent call":                       {before: []tool.Option{tool.WithIdempotent()}, cut: "call", want: `"send did it"`, ran: 1},
		"a question that was open":                 {before: []tool.Option{always}, answer: &Answer{Approve: true}, cut: "call", second: &Answer{Approve: true}, want: `"send did it"`, ran: 1, asked: 1},
		"a question that is denied now":            {before: []tool.Option{always}, answer: &Answer{Approve: true}, cut: "call", second: &Answer{Reason: "no"}, want: `{"error":{"kind":"denied","message":"a person denied the call: no"}}`, asked: 1},
		"an approved call":                         {before: []tool.Option{always}, answer: &Answer{Approve: true}, cut: "event approval", want: unknownResult},
		"an approved idempotent call":              {before: []tool.Option{always, tool.WithIdempotent()}, answer: &Answer{Approve: true}, cut: "event approval", want: `"send did it"`, ran: 1},
		"a denied call":                            {before: []tool.Option{always}, answer: &Answer{Reason: "no", By: "ann"}, cut: "event approval", want: `{"error":{"kind":"denied","message":"a person denied the call: no"}}`},
		"a denied call of a tool that is free now": {before: []tool.Option{always}, after: []tool.Option{}, answer: &Answer{Reason: "no", By: "ann"}, cut: "event approval", want: `{"error":{"kind":"denied","message":"a person denied the call: no"}}`},
		"nobody could answer":                      {before: []tool.Option{always}, answer: &Answer{NoPerson: true}, cut: "event approval", want: `{"error":{"kind":"denied","message":"the call was not run: this conversation has no approver"}}`},
		"a person lets it run again":               {cut: "call", ask: true, second: &Answer{Approve: true}, want: `"send did it"`, ran: 1, asked: 1},
		"a person does not let it run again":       {cut: "call", ask: true, second: &Answer{}, want: unknownResult, asked: 1},
		"nobody says whether it runs again":        {cut: "call", ask: true, want: unknownResult, asked: 1},
		"a remembered approval is none to repeat":  {before: []tool.Option{always}, answer: &Answer{Approve: true, Remember: true}, cut: "event setting", ask: true, second: &Answer{}, want: unknownResult, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := newFake(calls("", `c1:send:{"text":"it"}`), answers("ok"))
				first, second := &ran{}, &ran{}
				w := newWorld(t, model, Options{Tools: setOf(t, first.tool("send", test.before...))})
				answering := func(w *world, a *Answer, asked *[]Question) heard {
					var h heard
					h.Result, h.err = w.f.Process(t.Context(), resumed("go"), turn.WithID(turnID), turn.WithSink(func(e turn.Event, err error) {
						if err == nil {
							h.events = append(h.events, e)
						}
						if e.Kind != ApprovalRequiredEvent {
							return
						}
						q := w.Questions("s")[0]
						if *asked = append(*asked, q); a != nil {
							a.Turn, a.ID, a.Role = turnID, q.ID, tool.Admin
							if err := w.Answer(t.Context(), *a); err != nil {
								t.Error(err)
							}
						}
					}))
					return h
				}
				var before, after []Question
				if h := answering(w, test.answer, &before); h.err != nil {
					t.Fatal(h.err)
				}
				opts := test.before
				if test.after != nil {
					opts = test.after
				}
				model.script = []say{answers("ok")}
				next := w.cut(t, w.cutAt(t, test.cut), Options{Tools: setOf(t, second.tool("send", opts...)), AskUnknown: test.ask})
				h := answering(next, test.second, &after)
				if h.err != nil || h.Output != "ok" {
					t.Fatalf("%q %v", h.Output, h.err)
				}
				if got := next.result("c1"); got != test.want || second.calls["send it"] != test.ran || len(after) != test.asked {
					t.Errorf("%s, ran %d times, asked %d times", got, second.calls["send it"], len(after))
				}
				if test.ran == 1 && first.keys["send it"] != "" && second.keys["send it"] != first.keys["send it"] {
					t.Errorf("the keys are %v and %v", first.keys, second.keys)
				}
				if len(after) == 1 && after[0].Repeat != test.ask {
					t.Errorf("%+v", after[0])
				}
				if len(before) == 1 && len(after) == 1 && (before[0].ID == after[0].ID) != !test.ask {
					t.Errorf("asked as %s and as %s", before[0].ID, after[0].ID)
				}
				if n := strings.Count(strings.Join(told(h.events), "\n"), "result c1="); n != 1 {
					t.Errorf("%d results were told: %q", n, told(h.events))
				}
			})
		})
	}
}

// A person has let a call run again, and the server has stopped once more: that is asked anew.
func TestEachRepeatIsAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newFake(calls("", `c1:send:{"text":"it"}`), answers("ok"))
		o := Options{Tools: setOf(t, (&ran{}).tool("send")), AskUnknown: true}
		w := newWorld(t, model, o)
		w.resume(t.Context(), "go")
		model.script = []say{answers("ok")}
		entries := w.cutAt(t, "call")
		ids := map[string]bool{}
		for range 3 {
			next := w.cut(t, entries, o)
			_, err := next.f.Process(t.Context(), resumed("go"), turn.WithID(turnID), turn.WithSink(func(e turn.Event, err error) {
				if e.Kind == ApprovalRequiredEvent {
					q := next.Questions("s")[0]
					ids[q.ID] = true
					if err := next.Answer(t.Context(), Answer{Turn: turnID, ID: q.ID, Approve: true, Remember: true}); err != nil {
						t.Error(err)
					}
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			all := next.entries()
			last := 0
			for i, e := range all {
				switch name, _ := eventOf(e); name {
				case entryApproval:
					last = i
				case tape.EventSetting:
					t.Error("the approval of a repeat is remembered")
				}
			}
			entries = all[:last+1]
		}
		if len(ids) != 3 {
			t.Errorf("asked %v", ids)
		}
	})
}

// A tool that is not there yet, because its server is still being connected to, may have run.
func TestResumedCallOfAnUnknownToolHasAnUnknownOutcome(t *testing.T) {
	model := newFake(calls("", `c1:send:{"text":"it"}`), answers("ok"))
	w := newWorld(t, model, Options{Tools: setOf(t, (&ran{}).tool("send"))})
	w.resume(t.Context(), "go")
	model.script = []say{answers("ok")}
	next := w.cut(t, w.cutAt(t, "call"), Options{})
	if h := next.resume(t.Context(), "go"); h.err != nil || next.result("c1") != unknownResult {
		t.Errorf("%v %q", h.err, next.lines())
	}
}

// An approval holds for the arguments that a hook has made of the model's, and for no others.
func TestApprovalOfAnEarlierProcessHoldsForItsArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newFake(calls("", `c1:send:{"text":"it"}`), answers("ok"))
		did := &ran{}
		o := Options{Tools: setOf(t, did.tool("send", tool.WithApproval(tool.Always), tool.WithIdempotent()))}
		changes := func(text string) beforeTool {
			return func(context.Context, *tool.Tool, tool.Call) (Verdict, error) {
				return Verdict{Arguments: encode(map[string]string{"text": text})}, nil
			}
		}
		approving := func(w *world) (asked int) {
			_, err := w.f.Process(t.Context(), resumed("go"), turn.WithID(turnID), turn.WithSink(func(e turn.Event, err error) {
				if e.Kind == ApprovalRequiredEvent {
					asked++
					_ = w.Answer(t.Context(), Answer{Session: "s", ID: w.Questions("s")[0].ID, Approve: true})
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			return asked
		}
		w := newWorld(t, model, o, changes("this"))
		approving(w)
		for text, want := range map[string]int{"this": 0, "that": 1} {
			model.script = []say{answers("ok")}
			next := w.cut(t, w.cutAt(t, "event approval"), o, changes(text))
			if asked := approving(next); asked != want || next.result("c1") != `"send did `+text+`"` {
				t.Errorf("%s: asked %d times, %s", text, asked, next.result("c1"))
			}
		}
	})
}

// DU-03: keys and questions are derived, and no two calls have the same.
func TestKeysOfCallsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, scope := range []string{"t1", "t2"} {
		for steps := range 3 {
			r := run{scope: scope, progress: progress{steps: steps}}
			for i := range 3 {
				key := r.callKey(i)
				for _, id := range []string{key, questionID(key, 0), questionID(key, 1)} {
					if _, ok := ReadQuestionID(id); !ok || seen[id] {
						t.Errorf("%s %d %d: %s", scope, steps, i, id)
					}
					seen[id] = true
				}
			}
		}
	}
}

func TestSubagentsCallsHaveKeysOfTheirOwn(t *testing.T) {
	did := &ran{}
	model := byRequest(func(r adapter.Request) say {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case last.Role == "tool":
			return answers("done")
		case last.Content == "go":
			return calls("", `c1:send:{"text":"turn"}`, `c2:subagent:{"task":"one"}`, `c3:subagent:{"task":"two"}`)
		}
		return calls("", `c1:send:{"text":"`+last.Content+`"}`)
	})
	w := newWorld(t, newFake(), Options{Models: model, Tools: setOf(t, did.tool("send"))})
	if h := w.resume(t.Context(), "go"); h.err != nil {
		t.Fatal(h.err)
	}
	keys := map[string]bool{}
	for _, key := range did.keys {
		keys[key] = true
	}
	if len(keys) != 3 || keys[""] {
		t.Errorf("%v", did.keys)
	}
}

func TestResumedTurnThatFailedFailsOfTheSame(t *testing.T) {
	model := newFake(fails(&adapter.Error{Code: adapter.CodeAuth, Message: "the key is wrong"}, adapter.Chunk{Text: "It is"}))
	w := newWorld(t, model, Options{})
	before := w.resume(t.Context(), "go")
	if before.err == nil {
		t.Fatal("no error")
	}
	entries := w.entries()
	for _, n := range []int{len(entries), len(entries) - 1} { // with the turn's end, and without
		model.script = []say{answers("never asked")}
		asked := len(model.requests())
		next := w.cut(t, entries[:n], Options{})
		h := next.resume(t.Context(), "go")
		if w.f.Code(h.err) != adapter.CodeAuth || !strings.Contains(h.err.Error(), "the key is wrong") || len(model.requests()) != asked {
			t.Errorf("%d entries: %v", n, h.err)
		}
		if diff := cmp.Diff(w.lines(), next.lines()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestResumedTurnThatWasStoppedIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		time.AfterFunc(time.Second, func() { cancel(turn.ErrStopped) })
		w := newWorld(t, newFake(hangs(adapter.Chunk{Text: "It is"})), Options{})
		w.resume(ctx, "go")
		entries := w.entries()
		for _, n := range []int{len(entries), len(entries) - 1} {
			next := w.cut(t, entries[:n], Options{})
			if h := next.resume(t.Context(), "go"); !errors.Is(h.err, turn.ErrStopped) {
				t.Errorf("%d entries: %v", n, h.err)
			}
			if diff := cmp.Diff(w.lines(), next.lines()); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestResumedTurnKeepsItsCountOfSteps(t *testing.T) {
	model := newFake(calls("", `c1:read:{"text":"a"}`), calls("", `c2:read:{"text":"b"}`), answers("ok"))
	o := Options{MaxSteps: 3, Tools: setOf(t, (&ran{}).tool("read", tool.WithIdempotent()))}
	w := newWorld(t, model, o)
	w.resume(t.Context(), "go")
	model.script = []say{answers("ok")}
	next := w.cut(t, w.cutAt(t, "result c2="), o)
	asked := len(model.requests())
	h := next.resume(t.Context(), "go")
	last := model.requests()[asked]
	if h.err != nil || len(last.Tools) > 0 || !strings.Contains(last.Messages[0].Content, "used up") {
		t.Errorf("%v, %d tools", h.err, len(last.Tools))
	}
	if diff := cmp.Diff(w.lines(), next.lines()); diff != "" {
		t.Error(diff)
	}
	usage, _, err := Usage(t.Context(), next.tape())
	if err != nil || usage.TotalTokens != 2*some.TotalTokens { // the last answer, and the first two but one: that of the step that was cut off is lost
		t.Errorf("%+v %v", usage, err)
	}
}

// A model that has refused the length of a request once, before the crash, is not asked a third time.
func TestResumedTurnKeepsItsCountOfHandoffs(t *testing.T) {
	model := newFake(answers("ok"), fails(tooLongError), answers("ok"))
	w := newWorld(t, model, Options{})
	w.say("before")
	w.resume(t.Context(), "go")
	model.script = []say{fails(tooLongError)}
	entries := w.entries()
	for i, e := range entries {
		if e.Kind == tape.KindAnchor && i > 0 {
			entries = entries[:i+4] // loop.step, system, user
			break
		}
	}
	next := w.cut(t, entries, Options{})
	asked := len(model.requests())
	if h := next.resume(t.Context(), "go"); !errors.Is(h.err, ErrTooLong) || len(model.requests()) != asked+1 {
		t.Errorf("%v after %d requests\n%s", h.err, len(model.requests())-asked, strings.Join(next.lines(), "\n"))
	}
}

func TestResumedCommandIsNotRunAgain(t *testing.T) {
	w := newWorld(t, newFake(), Options{})
	first := w.resume(t.Context(), ",tape.handoff name=lunch")
	if first.err != nil {
		t.Fatal(first.err)
	}
	next := w.cut(t, w.entries(), Options{})
	second := next.resume(t.Context(), ",tape.handoff name=lunch")
	if second.err != nil || second.Output != first.Output || len(second.events) != 1 {
		t.Errorf("%q, before %q, %v", second.Output, first.Output, second.err)
	}
	if diff := cmp.Diff(w.lines(), next.lines()); diff != "" {
		t.Error(diff)
	}
}

// The text of a step does not depend on its pieces, so the tape knows where line breaks were added.
func TestLineBreaksBetweenParagraphsDoNotDependOnPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pieces, whole paragraphs
		var got, want string
		for step := range rapid.IntRange(1, 4).Draw(t, "steps") {
			text := ""
			for range rapid.IntRange(0, 4).Draw(t, "pieces") {
				piece := rapid.SampledFrom([]string{"a", "\n", "b\n", "\n\nc", "\n\n"}).Draw(t, "piece")
				text += piece
				got += pieces.add(step+1, piece) + piece
			}
			if text != "" {
				want += whole.add(step+1, text) + text
			}
		}
		if strings.ReplaceAll(got, "\n", "|") != strings.ReplaceAll(want, "\n", "|") {
			t.Errorf("%q in pieces, %q as a whole", got, want)
		}
	})
}

// A turn that is handed over writes nothing more but the results of tools that have ended, and the other process goes on.
func TestTurnThatIsHandedOverGoesOnElsewhere(t *testing.T) {
	type given struct {
		model *fake
		tools []*tool.Tool
	}
	did := &ran{}
	for name, test := range map[string]struct {
		script []say
		lines  []string // of the turn behind its prompt, when it is handed over
		want   []string // what the other process adds
	}{
		"while the model writes": {
			script: []say{hangs(adapter.Chunk{Text: "It is"}, adapter.Chunk{ToolCall: &adapter.ToolCall{ID: "c1", Name: "send", Arguments: "{}"}},
				adapter.Chunk{ToolCall: &adapter.ToolCall{Index: 1, ID: "c2", Name: "send", Arguments: "{}"}})},
			want: []string{`assistant: "ok"`, `event loop.step ok`, `event turn.end ok`},
		},
		"while tools run": {
			script: []say{calls("", `c1:slow:{}`, `c2:stubborn:{}`, `c3:send:{"text":"it"}`, `c4:ask:{"text":"x"}`)},
			lines:  []string{`call "" c1:slow{} c2:stubborn{} c3:send{"text":"it"} c4:ask{"text":"x"}`, `result c3="send did it"`, `result c2="finished"`},
			want: []string{
				`result c1=` + unknownResult, `event approval deny`, `result c4={"error":{"kind":"denied","message":"no approval came within 5m0s"}}`,
				`event loop.step ok`, `assistant: "ok"`, `event loop.step ok`, `event turn.end ok`,
			},
		},
		"before an anchor": {
			script: []say{calls("", `c1:tape_handoff:{"name":"lunch","summary":"pizza"}`, `c2:slow:{}`)},
			lines:  []string{`call "" c1:tape_handoff{"name":"lunch","summary":"pizza"} c2:slow{}`, `result c1="The anchor \"lunch\" is written when this step is over."`},
			want: []string{
				`result c2=` + unknownResult, `anchor lunch {"summary":"pizza"}`, `system`, `user: "go" refs[4]`,
				`event loop.step ok`, `assistant: "ok"`, `event loop.step ok`, `event turn.end ok`,
			},
		},
		"while a subagent works": {
			script: []say{calls("", `c1:subagent:{"task":"x"}`), hangs(adapter.Chunk{Text: "Hm"})},
			lines:  []string{`call "" c1:subagent{"task":"x"}`},
			want:   []string{`result c1=` + unknownResult, `event loop.step ok`, `assistant: "ok"`, `event loop.step ok`, `event turn.end ok`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stubborn := tool.Must(tool.New("stubborn", "Ends when it is done.", func(context.Context, struct{}) (string, error) {
					time.Sleep(3 * time.Second)
					return "finished", nil
				}))
				g := given{newFake(test.script...), []*tool.Tool{waitTool("slow", time.Hour), stubborn, did.tool("send"), did.tool("ask", tool.WithApproval(tool.Always))}}
				w := newWorld(t, g.model, Options{Tools: setOf(t, g.tools...), ToolTimeout: 2 * time.Hour})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				time.AfterFunc(time.Second, func() { cancel(turn.ErrHandedOver) })
				h := w.resume(ctx, "go")
				if h.err != turn.ErrHandedOver { //nolint:errorlint // it is the very value
					t.Errorf("the turn ended with %v", h.err)
				}
				for _, e := range h.events {
					switch e.Kind {
					case turn.FinalEvent, ApprovalResolvedEvent:
						t.Errorf("it says %s", e.Kind)
					case turn.ToolResultEvent:
						if r := e.Results[0]; r.Err != nil {
							t.Errorf("the call %s has the error %v", r.ID, r.Err)
						}
					case ApprovalRequiredEvent:
						var q Question
						_ = json.Unmarshal(e.Value, &q)
						if err := w.Answer(t.Context(), Answer{Turn: turnID, ID: q.ID, Approve: true}); !errors.Is(err, ErrNoQuestion) {
							t.Errorf("an answer gets the error %v", err)
						}
					}
				}
				begin := []string{"anchor session/start {\"owner\":\"human\"}", "event turn.start", "system", `user: "go"`}
				if diff := cmp.Diff(append(begin, test.lines...), w.lines()); diff != "" {
					t.Error(diff)
				}
				g.model.script = []say{answers("ok")}
				next := w.cut(t, w.entries(), Options{Tools: setOf(t, g.tools...)})
				if h := next.resume(t.Context(), "go"); h.err != nil {
					t.Fatal(h.err)
				}
				if diff := cmp.Diff(slices.Concat(begin, test.lines, test.want), next.lines()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// Whatever a turn does, and wherever its process dies: the next one ends it, every call has one result, and the model gets what providers accept.
func TestResumedTurnEndsAfterEveryPrefix(t *testing.T) {
	for left := 1; ; left++ {
		store := tapetest.NewMemory(nil)
		w := newWorld(t, busy(), Options{Store: newMortal(store, left), Tools: setOf(t, echoTool(t))})
		before := w.resume(t.Context(), "go")
		next := newWorldIn(t, w.dir, newFake(calls("", `e1:echo:{"text":"z"}`), answers("ok")), Options{Store: store, Tools: setOf(t, echoTool(t))})
		h := next.resume(t.Context(), "go")
		ended := !errors.Is(before.err, errDisk)
		if ended && h.err == nil || h.err != nil && !errors.Is(before.err, downError) {
			t.Fatalf("after %d appends: %v, then %v", left, before.err, h.err)
		}
		for _, r := range next.model.requests() {
			accepted(t, r)
		}
		names := map[string]int{}
		results := map[string]int{}
		for _, e := range next.entries() {
			name, _ := eventOf(e)
			names[name]++
			var p struct {
				Calls []tape.Call
				IDs   []string
			}
			_ = json.Unmarshal(e.Payload, &p)
			for _, c := range p.Calls {
				results[c.ID]++
			}
			for _, id := range p.IDs {
				results[id]--
			}
		}
		for id, n := range results {
			if n != 0 {
				t.Errorf("after %d appends: %d results of %s are missing", left, n, id)
			}
		}
		if names[entryStart] != 1 || names[entryEnd] != 1 || names[entryAborted] != 0 {
			t.Errorf("after %d appends: %v", left, names)
		}
		if ended {
			return
		}
	}
}

// A message that came after the answer is answered, too.
func TestResumedTurnAnswersWhatWasSteered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(text string) say {
			return func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
				time.Sleep(time.Second)
				answers(text)(ctx, yield)
			}
		}
		model := newFake(slow("one"), slow("two"))
		w := newWorld(t, model, Options{})
		ticket, err := w.f.Submit(t.Context(), resumed("go"), turn.WithID(turnID))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second / 2)
		w.steer(t, "and?")
		if _, err := ticket.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := w.cut(t, w.cutAt(t, `user: "and?"`), Options{})
		asked := len(model.requests())
		h := next.resume(t.Context(), "go")
		if diff := cmp.Diff(w.lines(), next.lines()); diff != "" || h.text() != "\n\ntwo" || len(model.requests()) != asked+1 {
			t.Errorf("%q %s", h.text(), diff)
		}
	})
}

// A turn that a later one has declared over is not begun again.
func TestTurnThatALaterOneHasAbortedIsOver(t *testing.T) {
	w := newWorld(t, newFake(answers("one"), answers("two")), Options{})
	w.resume(t.Context(), "go")
	next := w.cut(t, w.cutAt(t, `user: "go"`), Options{})
	next.say("later")
	before := next.lines()
	if h := next.resume(t.Context(), "go"); !errors.Is(h.err, turn.ErrStopped) {
		t.Errorf("%q %v", h.Output, h.err)
	}
	if diff := cmp.Diff(before, next.lines()); diff != "" {
		t.Error(diff)
	}
}

// A model that has begun a chapter does not see that, so that it is told; and its message is repeated behind each anchor once.
func TestResumedTurnKnowsItsChapter(t *testing.T) {
	handoff := func(id string) say { return calls("", id+`:tape_handoff:{"name":"lunch","summary":"pizza"}`) }
	for _, end := range []string{`user: "go" refs`, "event loop.step"} {
		model := newFake(handoff("c1"), answers("ok"))
		w := newWorld(t, model, Options{})
		w.resume(t.Context(), "go")
		next := w.cut(t, w.cutAt(t, end), Options{})
		model.script, model.asked = []say{handoff("c2"), calls("", "c3:tape_info:{}"), handoff("c4"), answers("ok")}, nil
		if h := next.resume(t.Context(), "go"); h.err != nil {
			t.Fatal(h.err)
		}
		if got := next.result("c2"); !strings.Contains(got, "has begun just now") {
			t.Errorf("behind %s: %s", end, got)
		}
		copies := 0
		for _, l := range next.lines() {
			if strings.HasPrefix(l, `user: "go" refs`) {
				copies++
			}
		}
		if copies != 2 {
			t.Errorf("behind %s the message is repeated %d times: %q", end, copies, next.lines())
		}
	}
}
