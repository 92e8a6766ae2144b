package workflow_test

import (
	"context"
	"testing"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// BenchmarkDelta is what a token of a workflow's document costs that is sent to the tube: where nobody looks on, where somebody does and
// the model is fast, and where the model writes the next one only when the last was seen, so that the reader is woken for each.
func BenchmarkDelta(b *testing.B) {
	for _, row := range []struct {
		name              string
		looksOn, oneByOne bool
	}{{"alone", false, false}, {"seen", true, false}, {"one by one", true, true}} {
		b.Run(row.name, func(b *testing.B) {
			seen, next := 0, make(chan struct{}, 1)
			uri, value := []byte("article/body"), []byte("word ")
			w := newWorld(b, flow.Func("long", "", question, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
				for range b.N {
					if _, err := m.Tube().Send(tube.Event{URI: uri, Value: value}); err != nil {
						return err
					}
					if row.oneByOne {
						<-next
					}
				}
				return nil
			}))
			w.stage.Run.MaxLog = 1 << 30
			opts := []turn.Option{turn.WithSink(func(e turn.Event, _ error) {
				if e.Kind == turn.DeltaEvent {
					seen++
					if row.oneByOne {
						next <- struct{}{}
					}
				}
			})}
			if !row.looksOn {
				opts = nil
			}
			b.ReportAllocs()
			if _, err := w.f.Process(b.Context(), message("go"), opts...); err != nil {
				b.Fatal(err)
			}
			if row.looksOn && seen != b.N {
				b.Fatalf("%d deltas of %d were seen", seen, b.N)
			}
		})
	}
}
