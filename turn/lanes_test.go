package turn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/turn"
)

func TestLanesTellWhatRunsWhatWaitsAndWhatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{Concurrency: 2, Queue: 1})
		expect := func(want turn.Lanes) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, l.Lanes()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		expect(turn.Lanes{})
		l.submit("1", "a", "")
		l.submit("2", "b", "")
		l.submit("3", "c", "") // for want of a slot
		l.submit("1", "d", "")
		expect(turn.Lanes{Running: 2, Waiting: 2})
		for _, refused := range []struct {
			policy turn.Policy
			want   error
		}{{turn.Reject, turn.ErrBusy}, {turn.Queue, turn.ErrQueueFull}, {turn.Queue, turn.ErrQueueFull}} {
			if _, err := l.try(t.Context(), "1", "x", refused.policy); !errors.Is(err, refused.want) {
				t.Errorf("%v", err)
			}
		}
		expect(turn.Lanes{Running: 2, Waiting: 2, Refused: turn.Refusals{Busy: 1, Full: 2}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Drain(ctx); err == nil {
			t.Error("everything has ended by itself")
		}
		if _, err := l.try(t.Context(), "9", "x", ""); !errors.Is(err, turn.ErrDraining) {
			t.Errorf("%v", err)
		}
		expect(turn.Lanes{Refused: turn.Refusals{Busy: 1, Full: 2, Draining: 1}})
	})
}
