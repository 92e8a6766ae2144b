package agent

import (
	"context"
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

// mortal is a store that takes so many appends. It writes down what it has acknowledged, per tape.
type mortal struct {
	tape.Store

	mu    sync.Mutex
	left  int // -1 is no limit
	acked map[string][]string
}

var errDisk = errors.New("no space left on the device")

func newMortal(store tape.Store, left int) *mortal {
	return &mortal{Store: store, left: left, acked: map[string][]string{}}
}

func (m *mortal) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		return 0, errDisk
	}
	if m.left > 0 {
		m.left--
	}
	first, err := m.Store.Append(ctx, name, b)
	if err == nil {
		for i, e := range b.Entries {
			m.acked[name] = append(m.acked[name], fmt.Sprintf("%d %s", first+int64(i), e.Payload))
		}
	}
	return first, err
}

// kept checks that everything that was acknowledged is there, where it was said to be.
func (m *mortal) kept(t testing.TB, name string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var got []string
	for e, err := range m.Read(context.Background(), name, tape.Query{}) {
		if err != nil {
			if len(m.acked[name]) > 0 {
				t.Error(err)
			}
			return
		}
		got = append(got, fmt.Sprintf("%d %s", e.ID, e.Payload))
	}
	if diff := cmp.Diff(m.acked[name], got); diff != "" {
		t.Error(diff)
	}
}

// busy is a script that does most of what a turn can do.
func busy() *fake {
	return newFake(
		calls("Let me see.", `c1:echo:{"text":"a"}`, `c2:echo:{"text":"b"}`),
		calls("", `c3:tape_handoff:{"name":"lunch","summary":"pizza"}`, `c4:subagent:{"task":"x"}`),
		calls("", `d1:echo:{"text":"sub"}`),
		answers("sub"),
		fails(tooLongError),
		calls("", `c5:echo:{"text":"c"}`),
		fails(downError, adapter.Chunk{Text: "It is"}),
	)
}

// AG-21, AG-23: wherever a turn is cut off, what was acknowledged is there, and the next turn works with a view that a provider
// accepts.
func TestTheNextTurnWorksAfterEveryPrefix(t *testing.T) {
	for left := 0; ; left++ {
		store := tapetest.NewMemory(nil)
		m := newMortal(store, left)
		w := newWorld(t, busy(), Options{Store: m, Tools: setOf(t, echoTool(t))})
		h := w.process(t.Context(), message("go"))
		if h.err == nil {
			t.Fatalf("after %d appends: no error", left)
		}
		for _, r := range w.model.requests() {
			accepted(t, r)
		}
		m.kept(t, tape.Name(w.dir, "s"))

		next := newWorldIn(t, w.dir, newFake(calls("", `e1:echo:{"text":"z"}`), answers("ok")), Options{Store: store, Tools: setOf(t, echoTool(t))})
		if h := next.process(t.Context(), message("again")); h.err != nil || h.Output != "ok" {
			t.Fatalf("after %d appends: %q %v", left, h.Output, h.err)
		}
		for _, r := range next.model.requests() {
			accepted(t, r)
			if got := seen(r); !slices.Contains(got, "user: again") {
				t.Errorf("after %d appends the prompt is missing: %q", left, got)
			}
		}
		began, ended, aborted := 0, 0, 0
		next.dir = w.dir
		for _, e := range next.entries() {
			switch name, _ := eventOf(e); name {
			case "turn.start":
				began++
			case "turn.end":
				ended++
			case "turn.aborted":
				aborted++
			}
		}
		if began != ended+aborted {
			t.Errorf("after %d appends: %d turns began, %d ended and %d were aborted", left, began, ended, aborted)
		}
		if errors.Is(h.err, downError) {
			if left < 15 {
				t.Errorf("the turn took %d appends", left)
			}
			return
		}
		if !errors.Is(h.err, errDisk) {
			t.Fatalf("after %d appends: %v", left, h.err)
		}
	}
}

// script draws what a model does in one call.
func script(t *rapid.T, i int) say {
	pieces := func() (list []adapter.Chunk) {
		for range rapid.IntRange(0, 3).Draw(t, "pieces") {
			if rapid.Bool().Draw(t, "thinks") {
				list = append(list, adapter.Chunk{Reasoning: "hm "})
			} else {
				list = append(list, adapter.Chunk{Text: "天气 "})
			}
		}
		return list
	}
	callPieces := func() (list []adapter.Chunk) {
		for n := range rapid.IntRange(1, 4).Draw(t, "calls") {
			id := rapid.SampledFrom([]string{"", "same", fmt.Sprintf("c%d_%d", i, n)}).Draw(t, "id")
			name := rapid.SampledFrom([]string{"echo", "slow", "boom", "ghost", "", "tape_handoff", "subagent", "tape_info", "ask"}).Draw(t, "name")
			arguments := rapid.SampledFrom([]string{"", "{}", `{"text":"x"}`, `{"te`, "[]", `{"name":"n","summary":"s"}`, `{"task":"t"}`}).Draw(t, "arguments")
			index := n
			if rapid.IntRange(0, 9).Draw(t, "index") == 0 {
				index = 0
			}
			list = append(list, adapter.Chunk{ToolCall: &adapter.ToolCall{Index: index, ID: id, Name: name}})
			for len(arguments) > 0 {
				k := rapid.IntRange(1, len(arguments)).Draw(t, "cut")
				list = append(list, adapter.Chunk{ToolCall: &adapter.ToolCall{Index: index, Arguments: arguments[:k]}})
				arguments = arguments[k:]
			}
		}
		return list
	}
	usage := adapter.Chunk{Usage: &some}
	slowly := func(list []adapter.Chunk, end func(func(adapter.Chunk, error) bool)) say {
		wait := time.Duration(rapid.IntRange(0, 3).Draw(t, "wait")) * time.Second
		return func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
			for _, c := range list {
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					yield(adapter.Chunk{}, context.Cause(ctx))
					return
				}
				if !yield(c, nil) {
					return
				}
			}
			if end != nil {
				end(yield)
			}
		}
	}
	failing := func(err error) func(func(adapter.Chunk, error) bool) {
		return func(yield func(adapter.Chunk, error) bool) { yield(adapter.Chunk{}, err) }
	}
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0, 1:
		return slowly(append(pieces(), adapter.Chunk{Finish: adapter.FinishStop}, usage), nil)
	case 2, 3, 4:
		return slowly(append(append(pieces(), callPieces()...), adapter.Chunk{Finish: adapter.FinishToolCalls}, usage), nil)
	case 5:
		return slowly(nil, failing(tooLongError))
	case 6:
		return slowly(append(pieces(), callPieces()...), failing(rapid.SampledFrom([]error{downError, tooLongError, errBroken}).Draw(t, "error")))
	case 7:
		return slowly(pieces(), func(func(adapter.Chunk, error) bool) { panic("a model has broken down") })
	default:
		return hangs(pieces()...)
	}
}

// Whatever a model answers, tools do and callers want: one end, no call without its result, nothing lost (AG-20 to AG-27,
// section 8 of the specification).
func TestNothingBreaksATurn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var scripts []say
		for i := range rapid.IntRange(1, 8).Draw(rt, "answers") {
			scripts = append(scripts, script(rt, i))
		}
		cancelAfter := time.Duration(rapid.IntRange(0, 30).Draw(rt, "cancel")) * 700 * time.Millisecond
		steerAfter := time.Duration(rapid.IntRange(0, 10).Draw(rt, "steer")) * 900 * time.Millisecond
		maxSteps := rapid.IntRange(1, 6).Draw(rt, "steps")
		appends := rapid.SampledFrom([]int{-1, -1, -1, 3, 6, 9}).Draw(rt, "appends")
		summarize := rapid.Bool().Draw(rt, "summarize")
		synctest.Test(t, func(t *testing.T) {
			store := tapetest.NewMemory(nil)
			m := newMortal(store, appends)
			boom := tool.Must(tool.New("boom", "Breaks.", func(context.Context, struct{}) (string, error) { panic("x") }))
			set := setOf(t, echoTool(t), boom, waitTool("slow", 3*time.Second), waitTool("ask", time.Second, tool.WithApproval(tool.Always)))
			w := newWorld(t, newFake(scripts...), Options{Store: m, Tools: set, MaxSteps: maxSteps, Summarize: summarize, Fallback: []string{"fake:b"}})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, turn.ErrTimeout)
			defer cancel()
			ctx, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			if cancelAfter > 0 {
				time.AfterFunc(cancelAfter, func() { stop(turn.ErrStopped) })
			}
			if steerAfter > 0 {
				time.AfterFunc(steerAfter, func() { w.steer(t, "and?") })
			}
			ends, open := 0, map[string]int{}
			ticket, err := w.f.Submit(ctx, message("go"), turn.WithSink(func(e turn.Event, err error) {
				if err != nil || e.Kind == turn.FinalEvent {
					ends++
				} else if ends > 0 {
					t.Errorf("%s after the end", e.Kind)
				}
				if e.Kind == turn.ToolCallEvent { // the answer to a question names its call, too
					for _, c := range e.Calls {
						open[c.ID]++
					}
				}
				for _, r := range e.Results {
					if open[r.ID]--; open[r.ID] < 0 {
						t.Errorf("a result without its call: %s", r.ID)
					}
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			_, failure := ticket.Wait(t.Context())
			synctest.Wait()
			// Steering that came too late is a turn of its own, which nobody cancels.
			drain, done := context.WithTimeout(t.Context(), time.Minute)
			defer done()
			_ = w.f.Drain(drain) // what has to be canceled is no error here
			if ends != 1 {
				t.Errorf("the stream ended %d times", ends)
			}
			for id, n := range open {
				if n > 0 && failure == nil {
					t.Errorf("the call %q has no result", id)
				}
			}
			for _, r := range w.model.requests() {
				accepted(t, r)
			}
			m.kept(t, tape.Name(w.dir, "s"))
			next := newWorldIn(t, w.dir, newFake(answers("ok")), Options{Store: store})
			next.dir = w.dir
			if h := next.process(t.Context(), message("again")); h.err != nil || h.Output != "ok" {
				t.Fatalf("the next turn: %q %v", h.Output, h.err)
			}
			accepted(t, next.model.requests()[0])
			state := map[string]int{}
			for _, e := range next.entries() {
				id := tape.MetaOf(e).Turn
				switch name, _ := eventOf(e); name {
				case "turn.start":
					state[id]++
				case "turn.end":
					state[id] += 10
				case "turn.aborted":
					state["aborted"]++
				}
			}
			for id, n := range state {
				if n != 11 && appends < 0 && !strings.HasPrefix(id, "aborted") {
					t.Errorf("the turn %s began %d times and ended %d times: %q", id, n%10, n/10, next.lines())
				}
			}
			if state["aborted"] > 0 && appends < 0 {
				t.Errorf("a turn was aborted: %q", next.lines())
			}
		})
	})
}
