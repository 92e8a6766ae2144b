package ling

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
)

func TestSettleWaitsForAllWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{}, nil)
		began := time.Now()
		broken := errors.New("broken")
		for _, d := range []time.Duration{time.Second, 3 * time.Second, 2 * time.Second} {
			m.Go(func(context.Context) error {
				time.Sleep(d)
				if d == 2*time.Second {
					return broken
				}
				return nil
			})
		}
		early, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := m.Settle(early); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if err := m.Settle(t.Context()); !errors.Is(err, broken) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := m.Close(); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

func TestTheHistoryIsWhatWasSet(t *testing.T) {
	m := New(t.Context(), bot.Config{}, nil)
	defer m.Close()
	said := []adapter.Message{{Role: adapter.User, Content: "hello"}, {Role: adapter.Assistant, Content: "hi"}}
	m.SetHistory(said...)
	if diff := cmp.Diff(said, m.History()); diff != "" {
		t.Error(diff)
	}
}
