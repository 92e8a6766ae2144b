package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// A tape that was erased while its turn runs ends the turn, and is not brought back (TA-41, TU-35).
func TestATurnWhoseTapeIsErasedIsGone(t *testing.T) {
	store := tapetest.NewMemory(nil)
	var w *world
	w = newWorld(t, newFake(calls("", `c1:echo:{"text":"x"}`), answers("ok")), Options{Store: store, Tools: setOf(t, echoTool(t))},
		beforeTool(func(context.Context, *tool.Tool, tool.Call) (Verdict, error) {
			return Verdict{}, w.tape().Delete(context.Background())
		}))
	h := w.process(t.Context(), message("go"))
	if !errors.Is(h.err, tape.ErrDeleted) || w.f.Code(h.err) != turn.CodeGone {
		t.Error(h.err)
	}
	if _, err := tape.Lookup(t.Context(), store, w.dir, "s"); !errors.Is(err, tape.ErrNotFound) {
		t.Error(err)
	}
}

// BenchmarkTurn is one turn without a tool, on a store in memory, with a model that answers at once.
func BenchmarkTurn(b *testing.B) {
	w := newWorld(b, newFake(answers("ok")), Options{})
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		e := message("hi")
		e.SessionID = fmt.Sprint(n / 10) // so that views stay short
		if _, err := w.f.Process(b.Context(), e); err != nil {
			b.Fatal(err)
		}
		w.model.asked, w.model.names = nil, nil
	}
}
