package agent

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// outage is a store that cannot be written to while it is away.
type outage struct {
	tape.Store
	away atomic.Bool
}

func (o *outage) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	if o.away.Load() {
		return 0, tape.ErrAway
	}
	return o.Store.Append(ctx, name, b)
}

// DV-06, RU-13: an answer whose text was shown is on the tape, though the store is away for 20 s at its end.
func TestAnAnswerIsOnTheTapeThoughTheStoreIsAwayAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &outage{Store: tapetest.NewMemory(nil)}
		leave := say(func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
			store.away.Store(true)
			time.AfterFunc(20*time.Second, func() { store.away.Store(false) })
			answers("the whole answer")(ctx, yield)
		})
		w := newWorld(t, newFake(leave), Options{Store: store})
		h := w.process(t.Context(), message("go"))
		if h.err != nil || !slices.Contains(w.lines(), `assistant: "the whole answer"`) {
			t.Errorf("%v %q", h.err, w.lines())
		}
	})
}
