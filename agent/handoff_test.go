package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/turn"
)

// AG-01, AG-02: the anchor comes behind the results, and what the turn is about behind the anchor.
func TestAHandoffOfAToolIsWrittenAfterTheResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(
			calls("", `c1:tape_handoff:{"name":"lunch\nbreak","summary":"pizza it is"}`, `c2:echo:{"text":"x"}`),
			answers("Done."),
		), Options{Tools: setOf(t, echoTool(t))})
		h := w.say("what now?")
		var order []string
		for _, l := range w.lines()[4:] {
			order = append(order, strings.SplitN(l, "=", 2)[0])
		}
		if order[1] > order[2] { // the two results come in any order
			order[1], order[2] = order[2], order[1]
		}
		if diff := cmp.Diff([]string{
			`call "" c1:tape_handoff{"name":"lunch\nbreak","summary":"pizza it is"} c2:echo{"text":"x"}`,
			`result c1`, `result c2`,
			`anchor lunch break {"summary":"pizza it is"}`,
			`system`,
			`user: "what now?" refs[4]`,
			`event loop.step ok`,
			`assistant: "Done."`,
			`event loop.step ok`,
			`event turn.end ok`,
		}, order); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`system`,
			`assistant: [Anchor created: lunch break]: {"summary":"pizza it is"}`,
			`user: what now?`,
		}, seen(w.model.requests()[1])); diff != "" {
			t.Error(diff)
		}
		found := 0
		for _, e := range h.events {
			if e.Kind == HandoffEvent && string(e.Value) == `{"name":"lunch break"}` {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d handoff events: %q", found, told(h.events))
		}
	})
}

// Behind an anchor a model does not see its call any more. One that makes it again is told, and can come to an end.
func TestAHandoffRightBehindAnotherIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := `:tape_handoff:{"name":"lunch","summary":"pizza"}`
		w := newWorld(t, newFake(
			calls("", "c1"+again), calls("", "c2"+again), answers("Done."),
			calls("", "c3"+again), calls("", `c4:echo:{"text":"x"}`), calls("", "c5"+again), answers("Done."),
		), Options{Tools: setOf(t, echoTool(t))})
		for i, want := range []int{1, 2} { // in the second turn a step lies between the two
			w.say("begin a new chapter")
			anchors := 0
			for _, l := range w.lines() {
				if strings.HasPrefix(l, "anchor lunch") {
					anchors++
				}
			}
			want += i // those of the first turn, too
			if anchors != want {
				t.Errorf("turn %d: %d anchors, want %d: %q", i+1, anchors, want, w.lines())
			}
		}
		if told := seen(w.model.requests()[2]); !strings.Contains(strings.Join(told, "\n"), "has begun just now") {
			t.Errorf("the model sees %q", told)
		}
	})
}

// AG-03: what does not fit is left behind, once, and the same prompt is asked again.
func TestAnOverflowLeavesThePastBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := &adapter.Error{Code: adapter.CodeInvalid, ContextLength: true, Message: "too long: key=sk-abcdefghijkl " + strings.Repeat("天", 600)}
		w := newWorld(t, newFake(answers("Hello."), fails(long), answers("Again.")), Options{})
		w.say("one")
		h := w.say("two")
		if h.Output != "Again." {
			t.Errorf("output %q", h.Output)
		}
		lines := w.lines()[len(w.lines())-9:]
		if !strings.HasPrefix(lines[2], `anchor auto_handoff/context_overflow {"error":"too long: key=`) {
			t.Errorf("%q", lines[2])
		}
		var state struct{ Reason, Error string }
		if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[2], "anchor auto_handoff/context_overflow ")), &state); err != nil {
			t.Error(err)
		}
		if state.Reason != "context_length_exceeded" || len([]rune(state.Error)) != 500 || strings.Contains(state.Error, "sk-abc") {
			t.Errorf("%+v", state)
		}
		lines[2] = "anchor"
		if diff := cmp.Diff([]string{
			`event turn.start`,
			`user: "two"`,
			`anchor`,
			`event loop.step auto_handoff`,
			`system`,
			`user: "two" refs[9]`,
			`assistant: "Again."`,
			`event loop.step ok`,
			`event turn.end ok`,
		}, lines); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"handoff {\"name\":\"auto_handoff/context_overflow\"}", "text Again.", "usage 7", `final true "Again." stop`}, told(h.events)); diff != "" {
			t.Error(diff)
		}
		if got := seen(w.model.requests()[2]); len(got) != 3 || got[2] != "user: two" {
			t.Errorf("%q", got)
		}
	})
}

// DV-08: what a turn has done before it leaves its past behind, it is not to do again.
func TestAnOverflowTellsWhatTheTurnHasDone(t *testing.T) {
	w := newWorld(t, newFake(calls("", `c1:echo:{"text":"sent"}`), fails(tooLongError), answers("done")), Options{Tools: setOf(t, echoTool(t))})
	w.say("send it")
	asked := w.model.requests()
	text := strings.Join(seen(asked[len(asked)-1]), "\n")
	if want := `echo {\"text\":\"sent\"}: \"sent\"`; !strings.Contains(text, "done so far in this turn") || !strings.Contains(text, want) {
		t.Errorf("the model sees\n%s\nwant %s in it", text, want)
	}
}

// AG-04: a second overflow is the turn's error.
func TestASecondOverflowIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(fails(tooLongError)), Options{})
		h := w.process(t.Context(), message("long"))
		if !errors.Is(h.err, ErrTooLong) || w.f.Code(h.err) != turn.CodeTooLarge || len(w.model.requests()) != 2 {
			t.Errorf("%v after %d calls", h.err, len(w.model.requests()))
		}
		anchors := 0
		for _, l := range w.lines() {
			if strings.HasPrefix(l, "anchor auto_handoff") {
				anchors++
			}
		}
		if last := w.lines()[len(w.lines())-1]; anchors != 1 || last != "event turn.end error" {
			t.Errorf("%d anchors, %q", anchors, last)
		}
	})
}

// AG-06
func TestWhatIsLeftBehindIsSummedUp(t *testing.T) {
	for name, test := range map[string]struct {
		summary say
		want    string
	}{
		"a summary":            {answers("They like pizza."), `"summary":"They like pizza."} source[1 9]`},
		"a model that fails":   {fails(downError), `"reason":"context_length_exceeded"}`},
		"a model that hangs":   {hangs(adapter.Chunk{Text: "They"}), `"reason":"context_length_exceeded"}`},
		"a model that is mute": {answers(" "), `"reason":"context_length_exceeded"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, newFake(answers("Pizza!"), fails(tooLongError), test.summary, answers("Again.")), Options{Summarize: true})
				w.say("lunch?")
				begin := time.Now()
				if h := w.say("two"); h.Output != "Again." {
					t.Errorf("%q", h.Output)
				}
				if took := time.Since(begin); took > 20*time.Second {
					t.Errorf("took %v", took)
				}
				var anchor string
				for _, l := range w.lines() {
					if strings.HasPrefix(l, "anchor auto") {
						anchor = l
					}
				}
				if !strings.HasSuffix(anchor, test.want) {
					t.Errorf("%q", anchor)
				}
				asked := w.model.requests()[2]
				if len(asked.Tools) > 0 || !strings.Contains(asked.Messages[1].Content, "user: lunch?\nassistant: Pizza!") {
					t.Errorf("%+v", asked.Messages)
				}
			})
		})
	}
}

// DC-14: with a limit, a session is summed up before a request is larger, and no model has to refuse one.
func TestALimitOfTokensSumsUpBeforeAModelRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(answers("Pizza!"), answers("They like pizza."), answers("At noon."), answers("Yes.")),
			Options{Bare: true, Instructions: "Be brief.", Summarize: true, MaxContext: 1000})
		w.say("lunch? " + strings.Repeat("x", 3800)) // with the instructions less than 1000 tokens
		if h := w.say("when? " + strings.Repeat("y", 400)); h.Output != "At noon." {
			t.Errorf("%q %v", h.Output, h.err)
		}
		if h := w.say("sure?"); h.Output != "Yes." { // there is room again
			t.Errorf("%q %v", h.Output, h.err)
		}
		requests := w.model.requests()
		if len(requests) != 4 {
			t.Fatalf("%d requests", len(requests))
		}
		for i, r := range requests {
			if n := r.Tokens(); n > 1000 {
				t.Errorf("request %d has %d tokens", i, n)
			}
		}
		if got := strings.Join(seen(requests[2]), "\n"); !strings.Contains(got, "auto_handoff/context_limit") || !strings.Contains(got, "They like pizza.") || strings.Contains(got, "lunch?") {
			t.Error(got)
		}
		if got := strings.Join(w.lines(), "\n"); strings.Count(got, "anchor auto_handoff/context_limit") != 1 || strings.Contains(got, "error") {
			t.Error(got)
		}
	})
}

// DC-14: what is too large by itself is asked all the same: leaving more behind would not make it smaller.
func TestAMessageLargerThanTheLimitIsAskedBehindOneAnchor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(answers("one"), calls("", `c1:echo:{"text":"x"}`), calls("", `c2:echo:{"text":"x"}`), answers("two")),
			Options{Bare: true, Tools: setOf(t, echoTool(t)), MaxContext: 100})
		w.say("short")
		if h := w.say(strings.Repeat("x", 4000)); h.Output != "two" {
			t.Errorf("%q %v", h.Output, h.err)
		}
		if got := strings.Join(w.lines(), "\n"); strings.Count(got, "anchor auto_handoff") != 1 {
			t.Error(got)
		}
	})
}

// AG-02: what was steered stays visible, too.
func TestSteeringIsRepeatedBehindAnAnchor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		script := newFake(
			func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
				w.steer(t, "and quickly")
				answers("one")(ctx, yield)
			},
			fails(tooLongError),
			answers("two"),
		)
		w = newWorld(t, script, Options{})
		h := w.submit(t, message("go"))
		if h.err != nil {
			t.Fatal(h.err)
		}
		if diff := cmp.Diff([]string{`user: go`, `user: and quickly`}, seen(w.model.requests()[2])[2:]); diff != "" {
			t.Error(diff)
		}
		if got := strings.Join(w.lines(), "\n"); !strings.Contains(got, `user: "and quickly" steered refs[7]`) {
			t.Error(got)
		}
	})
}

// submit runs a turn in its lane.
func (w *world) submit(t *testing.T, e *turn.Envelope) heard {
	t.Helper()
	var h heard
	ticket, err := w.f.Submit(t.Context(), e, turn.WithSink(func(e turn.Event, err error) {
		if err == nil {
			h.events = append(h.events, e)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	h.Result, h.err = ticket.Wait(t.Context())
	return h
}

func (w *world) steer(t *testing.T, text string) {
	if _, err := w.f.Submit(t.Context(), message(text), turn.WithPolicy(turn.Steer)); err != nil {
		t.Error(err)
	}
}
