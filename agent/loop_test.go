package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"

	"github.com/google/go-cmp/cmp"
)

// AG-20, AG-21, AG-22, AG-27: what happens, in the order in which it happens.
func TestATurnWithAToolGoesToTheTapeStepByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(calls("Let me see.", `c1:echo:{"text":"sunny"}`), answers("It is sunny.")), Options{Tools: setOf(t, echoTool(t))})
		h := w.say("天气?")
		if h.Output != "Let me see.\n\nIt is sunny." || h.Usage.TotalTokens != 14 {
			t.Errorf("output %q, usage %+v", h.Output, h.Usage)
		}
		if diff := cmp.Diff([]string{
			`anchor session/start {"owner":"human"}`,
			`event turn.start`,
			`system`,
			`user: "天气?"`,
			`call "Let me see." c1:echo{"text":"sunny"}`,
			`result c1="sunny"`,
			`event loop.step ok`,
			`assistant: "It is sunny."`,
			`event loop.step ok`,
			`event turn.end ok`,
		}, w.lines()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`text Let me see.`,
			`call c1:echo{"text":"sunny"}`,
			`usage 7`,
			`result c1="sunny"`,
			"text \n\nIt is sunny.",
			`usage 7`,
			`final true "It is sunny." stop`,
		}, told(h.events)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`system`,
			`user: 天气?`,
			`assistant: Let me see. →c1:echo{"text":"sunny"}`,
			`tool: sunny ←c1`,
		}, seen(w.model.requests()[1])); diff != "" {
			t.Error(diff)
		}
	})
}

// AG-20, AG-24: steering is taken before a model call, by the prompt's hooks, and a turn with something in its inbox goes on.
func TestWhatIsSteeredIsReadBeforeTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		w = newWorld(t, newFake(
			func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
				w.steer(t, "in German")
				e := message("please")
				e.Context = []turn.Fact{{Key: "from", Value: "Ann"}}
				if _, err := w.f.Submit(t.Context(), e, turn.WithPolicy(turn.Steer)); err != nil {
					t.Error(err)
				}
				answers("Hello")(ctx, yield)
			},
			answers("Hallo"),
		), Options{})
		h := w.submit(t, message("hi"))
		if h.Output != "Hello\n\nHallo" || h.err != nil {
			t.Errorf("%q %v", h.Output, h.err)
		}
		want := []string{
			`event turn.start`, `system`, `user: "hi"`, `assistant: "Hello"`, `event loop.step ok`,
			`user: "in German" steered`,
			`user: "from: Ann\ndate: 2000-01-01T00:00:00Z\n\nplease" steered`,
			`assistant: "Hallo"`, `event loop.step ok`, `event turn.end ok`,
		}
		if diff := cmp.Diff(want, w.lines()[1:]); diff != "" {
			t.Error(diff)
		}
		finals := 0
		for _, e := range h.events {
			if e.Kind == turn.FinalEvent {
				finals++
			}
		}
		if finals != 1 {
			t.Errorf("%d finals", finals)
		}
	})
}

// AG-22: the system prompt is on the tape once, until it changes or an anchor comes.
func TestTheSystemPromptIsWrittenWhereItChanged(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{})
	count := func() (n int) {
		for _, l := range w.lines() {
			if l == "system" {
				n++
			}
		}
		return n
	}
	w.say("one")
	w.say("two")
	if n := count(); n != 1 {
		t.Errorf("%d system entries, want 1", n)
	}
	file := filepath.Join(w.dir, "AGENTS.md")
	if err := os.WriteFile(file, []byte("Be brief.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.say("three")
	w.say("four")
	if n := count(); n != 2 {
		t.Errorf("%d system entries, want 2", n)
	}
	if _, err := w.tape().Handoff(t.Context(), "here", nil); err != nil {
		t.Fatal(err)
	}
	w.say("five")
	w.say("six")
	if n := count(); n != 3 {
		t.Errorf("%d system entries, want 3", n)
	}
}

// AG-22: what there is of a reply that was cut off stays, marked.
func TestAReplyThatWasCutOffStaysOnTheTape(t *testing.T) {
	begun := []adapter.Chunk{
		{Reasoning: "hm"},
		{Text: "I will"},
		{ToolCall: &adapter.ToolCall{Index: 0, ID: "c1", Name: "echo", Arguments: `{"text":"a"}`}},
		{ToolCall: &adapter.ToolCall{Index: 1, ID: "c2", Name: "echo", Arguments: `{"te`}},
	}
	for name, test := range map[string]struct {
		say    say
		cancel bool
		status string
		err    []string
	}{
		"by an error":        {fails(downError, begun...), false, "error", []string{"error upstream_unavailable the model's server is down"}},
		"by a cancellation":  {hangs(begun...), true, "canceled", nil},
		"without an ending":  {chunks(begun...), false, "error", []string{"error upstream_protocol the model's answer ended too early"}},
		"by too many calls":  {chunks(append(begun, manyCalls()...)...), false, "error", []string{"error upstream_protocol the model called too many tools at once"}},
		"by too much reason": {chunks(append(begun, adapter.Chunk{ToolCall: &adapter.ToolCall{Index: 1, Arguments: strings.Repeat("x", defaultMaxReply)}})...), false, "error", []string{"error too_large the model's answer is longer than 1048576 bytes (turn.max_reply)"}},
		"by a panic": {func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
			chunks(begun...)(ctx, yield)
			panic("broken")
		}, false, "error", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, newFake(test.say, answers("fine")), Options{Tools: setOf(t, echoTool(t))})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if test.cancel {
					time.AfterFunc(time.Second, func() { cancel(turn.ErrStopped) })
				}
				h := w.process(ctx, message("go"))
				if h.err == nil || test.cancel && !errors.Is(h.err, turn.ErrStopped) {
					t.Errorf("error %v", h.err)
				}
				lines := w.lines()
				if name == "by too many calls" {
					lines = slices.Concat(lines[:6], lines[len(lines)-2:])
					lines[5] = `call "I will" c1:echo{"text":"a"} partial`
				} else {
					lines = slices.Delete(lines, 6, 7)
				}
				if diff := cmp.Diff(slices.Concat([]string{
					`anchor session/start {"owner":"human"}`, `event turn.start`, `system`, `user: "go"`,
					`reasoning hm partial`,
					`call "I will" c1:echo{"text":"a"} partial`,
				}, test.err, []string{"event turn.end " + test.status}), lines); diff != "" {
					t.Error(diff)
				}
				if name == "by too many calls" {
					return
				}
				open := map[string]bool{}
				for _, e := range h.events {
					for _, c := range e.Calls {
						open[c.ID] = true
					}
					for _, r := range e.Results {
						delete(open, r.ID)
					}
				}
				if len(open) > 0 && !test.cancel && name != "by a panic" { // nobody reads any more what comes after a cancellation
					t.Errorf("calls without result: %v", open)
				}
				w.say("again")
				got := seen(w.model.requests()[1])
				if want := `tool: {"error":{"kind":"interrupted","message":"the answer was cut off before the tool ran"}} ←c1`; got[3] != want {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

func manyCalls() (list []adapter.Chunk) {
	for i := range maxCalls {
		list = append(list, adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i + 2, Name: "echo", Arguments: "{}"}})
	}
	return list
}

// AG-24
func TestTheLastCallOfATurnHasNoTools(t *testing.T) {
	again := calls("", `c:echo:{"text":"x"}`)
	t.Run("and its answer is the answer", func(t *testing.T) {
		w := newWorld(t, newFake(again, again, answers("enough")), Options{Tools: setOf(t, echoTool(t)), MaxSteps: 3})
		if h := w.say("go"); h.Output != "enough" {
			t.Errorf("%q", h.Output)
		}
		for i, r := range w.model.requests() {
			if (len(r.Tools) == 0) != (i == 2) || strings.Contains(r.Messages[0].Content, lastStep) != (i == 2) {
				t.Errorf("request %d has %d tools: %q", i, len(r.Tools), r.Messages[0].Content)
			}
		}
	})
	t.Run("and calls there are an error", func(t *testing.T) {
		w := newWorld(t, newFake(again), Options{Tools: setOf(t, echoTool(t)), MaxSteps: 3})
		h := w.process(t.Context(), message("go"))
		if !errors.Is(h.err, ErrMaxSteps) || w.f.Code(h.err) != turn.CodeOutput || len(w.model.requests()) != 3 {
			t.Errorf("%v after %d calls", h.err, len(w.model.requests()))
		}
		if diff := cmp.Diff([]string{
			`call "" c:echo{"text":"x"}`,
			`result c={"error":{"kind":"denied","message":"the turn reached its limit of tool calls"}}`,
			`event loop.step error`,
			`error output_invalid the model kept calling tools and did not answer`,
			`event turn.end error`,
		}, w.lines()[len(w.lines())-5:]); diff != "" {
			t.Error(diff)
		}
	})
}

// AG-25: tools of a step run at once, one's failure touches no other, and a cancellation waits for them.
func TestToolsOfAStepRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(calls("", "c1:slow:{}", "c2:fast:{}", "c3:late:{}"), answers("ok")), Options{
			Tools: setOf(t, waitTool("slow", 3*time.Second), waitTool("fast", time.Second), waitTool("late", time.Hour, tool.WithTimeout(5*time.Second))),
		})
		begin := time.Now()
		w.say("go")
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
		if diff := cmp.Diff([]string{
			`result c2="fast waited"`,
			`result c1="slow waited"`,
			`result c3={"error":{"kind":"timeout","message":"the tool did not finish within 5s"}}`,
		}, w.lines()[5:8]); diff != "" {
			t.Error(diff)
		}
		for i, e := range w.entries()[5:8] { // each when its tool ended
			if want := begin.Add([]time.Duration{1, 3, 5}[i] * time.Second); !e.Date.Equal(want.UTC()) {
				t.Errorf("result %d came at %v, want %v", i, e.Date, want)
			}
		}
	})
}

// AG-25, FT-35: what a call that was canceled has done is unknown, and said so on the tape, once; what it returns later is dropped with
// a line in the log, and the next turn does not call it again.
func TestToolsAreInterruptedByACancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := make(chan struct{})
		var ran atomic.Int64
		ignores := tool.Must(tool.New("deaf", "Hears nothing.", func(context.Context, struct{}) (string, error) {
			ran.Add(1)
			<-deaf
			return "late", nil
		}))
		w := newWorld(t, newFake(calls("", "c1:slow:{}", "c2:deaf:{}"), answers("done")), Options{Tools: setOf(t, waitTool("slow", time.Hour), ignores)})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(turn.ErrStopped) })
		begin := time.Now()
		h := w.process(ctx, message("go"))
		if took := time.Since(begin); !errors.Is(h.err, turn.ErrStopped) || took != 6*time.Second {
			t.Errorf("%v after %v", h.err, took)
		}
		lines := w.lines()
		for _, l := range lines[5:7] {
			if !strings.Contains(l, `{"error":{"kind":"interrupted"`) {
				t.Errorf("%q", l)
			}
		}
		if last := lines[len(lines)-1]; last != "event turn.end canceled" {
			t.Errorf("%q", last)
		}
		close(deaf)
		synctest.Wait()
		if got := w.lines(); len(got) != len(lines) {
			t.Errorf("what came late has changed the tape: %q", got)
		}
		if said := w.log.String(); strings.Count(said, "dropped a tool's result") != 1 || !strings.Contains(said, "tool=deaf") {
			t.Errorf("the log: %s", said)
		}
		if h := w.process(t.Context(), message("and now")); h.err != nil || ran.Load() != 1 {
			t.Errorf("the next turn: %v, the call ran %d times", h.err, ran.Load())
		}
	})
}

// AG-26: what goes wrong with a call is something that the model reads.
func TestWhatGoesWrongWithACallIsAResult(t *testing.T) {
	boom := tool.Must(tool.New("boom", "Breaks.", func(context.Context, struct{}) (string, error) { panic("secret") }))
	bad := tool.Must(tool.New("bad", "Fails.", func(context.Context, struct{}) (string, error) {
		return "", errors.New("no access with key sk-abcdefghijklmnop")
	}))
	none := tool.Must(tool.New("none", "Takes nothing.", func(context.Context, struct{}) (string, error) { return "fine", nil }))
	for name, test := range map[string]struct{ call, want, arguments string }{
		"unknown tool":       {`c:ecko:{}`, `{"error":{"kind":"unknown_tool","message":"unknown tool`, "{}"},
		"no JSON":            {`c:echo:{"text"`, `{"error":{"kind":"invalid_arguments","message":"the arguments are not valid JSON`, "{}"},
		"no fit":             {`c:echo:{"text":1}`, `{"error":{"kind":"invalid_arguments","message":"invalid arguments: /text: expected a string`, `{"text":1}`},
		"an error, redacted": {`c:bad:{}`, `{"error":{"kind":"failed","message":"no access with key sk-***"}}`, "{}"},
		"a panic":            {`c:boom:{}`, `{"error":{"kind":"panic","message":"the tool crashed"}}`, "{}"},
		"no arguments":       {`c:none:`, `fine`, "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newFake(calls("", test.call), answers("ok")), Options{Tools: setOf(t, boom, bad, none, echoTool(t))})
			w.say("go")
			m := w.model.requests()[1].Messages
			last := m[len(m)-1]
			if !strings.HasPrefix(last.Content, test.want) || last.ToolCallID != "c" {
				t.Errorf("got %q", last.Content)
			}
			if got := m[len(m)-2].ToolCalls[0].Arguments; got != test.arguments {
				t.Errorf("the history has the arguments %q", got)
			}
			if name == "unknown tool" && !strings.Contains(last.Content, "echo") {
				t.Errorf("no close name: %q", last.Content)
			}
		})
	}
}

// A reader that leaves ends the model's stream and the tools, and what was said stays (AG-22, TU-44).
func TestAReaderThatLeavesEndsTheTurn(t *testing.T) {
	for after := range 6 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, newFake(calls("text", "c1:slow:{}", `c2:echo:{"text":"x"}`), answers("ok")),
				Options{Tools: setOf(t, waitTool("slow", time.Hour), echoTool(t))}, leaving(after))
			if _, err := w.f.Process(t.Context(), message("go")); err == nil {
				t.Error("no error")
			}
			lines := w.lines()
			if last := lines[len(lines)-1]; last != "event turn.end canceled" {
				t.Errorf("after %d events: %q", after, lines)
			}
			next := newWorldIn(t, w.dir, newFake(answers("ok")), Options{Store: w.store})
			next.say("again")
			accepted(t, next.model.requests()[0])
		})
	}
}

// leaving is a plugin whose model stage reads so many events of the next one's stream, and then leaves it.
type leaving int

func (l leaving) RunModel(ctx context.Context, p turn.Prompt, id turn.SessionID, s turn.State) (string, bool, error) {
	t := turn.FromContext(ctx)
	for _, m := range turn.PluginsOf[turn.ModelStreamer](t) {
		stream, ok, err := m.Hook.RunModelStream(ctx, p, id, s)
		if !ok || err != nil {
			return "", false, err
		}
		n := 0
		for range stream {
			if n++; n > int(l) {
				return "", true, errors.New("left")
			}
		}
	}
	return "", true, nil
}

// accepted checks that a provider would take a request: each call has one result, right behind it, and each result its call.
func accepted(t testing.TB, r adapter.Request) {
	t.Helper()
	var open []string
	for i, m := range r.Messages {
		if m.Role == adapter.ToolRole {
			n := slices.Index(open, m.ToolCallID)
			if n < 0 {
				t.Errorf("message %d is a result without a call: %q", i, seen(r))
				return
			}
			open = slices.Delete(open, n, n+1)
			continue
		}
		if len(open) > 0 {
			t.Errorf("message %d comes while the calls %q have no result: %q", i, open, seen(r))
			return
		}
		for _, c := range m.ToolCalls {
			open = append(open, c.ID)
			if !json.Valid([]byte(c.Arguments)) {
				t.Errorf("arguments %q", c.Arguments)
			}
		}
		if m.Role == adapter.System && i > 0 {
			t.Errorf("message %d is a system message", i)
		}
	}
	if len(open) > 0 {
		t.Errorf("the calls %q have no result: %q", open, seen(r))
	}
}
