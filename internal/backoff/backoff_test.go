package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
)

func TestPausesDoubleUpToTheLongestWithJitter(t *testing.T) {
	different := map[time.Duration]bool{}
	for range 100 {
		pauses := backoff.New(time.Second, 5*time.Second)
		for n, longest := range []time.Duration{1, 2, 4, 5, 5} {
			longest *= time.Second
			after := backoff.After(n+1, time.Second, 5*time.Second)
			for _, d := range []time.Duration{pauses.NextBackOff(), after} {
				if d < longest/2 || d > longest {
					t.Fatalf("pause %d is %s, expected %s to %s", n+1, d, longest/2, longest)
				}
				different[d] = true
			}
		}
	}
	if len(different) < 500 {
		t.Errorf("only %d different pauses of 1000", len(different))
	}
}

func TestSleepEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := errors.New("somebody has stopped it")
		ctx, cancel := context.WithCancelCause(t.Context())
		begin := time.Now()
		if err := backoff.Sleep(ctx, time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		time.AfterFunc(time.Second, func() { cancel(stopped) })
		if err := backoff.Sleep(ctx, time.Minute); !errors.Is(err, stopped) || time.Since(begin) != 61*time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}
