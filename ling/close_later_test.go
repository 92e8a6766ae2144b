package ling

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/bot"
)

func TestCloseLaterEndsTheRunWithItsLastWork(t *testing.T) {
	broken := errors.New("broken")
	sleep := func(d time.Duration, err error) func(context.Context) error {
		return func(context.Context) error { time.Sleep(d); return err }
	}
	for name, c := range map[string]struct {
		start func(m *Manager)
		takes time.Duration
		err   error
	}{
		"nothing":             {func(*Manager) {}, 0, nil},
		"tasks":               {func(m *Manager) { m.Go(sleep(time.Second, broken)); m.Go(sleep(3*time.Second, nil)) }, 3 * time.Second, broken},
		"a task that is over": {func(m *Manager) { m.Go(sleep(0, nil)); synctest.Wait() }, 0, nil},
		"a task of a task":    {func(m *Manager) { m.Go(func(context.Context) error { return m.Go(sleep(time.Second, nil)) }) }, time.Second, nil},
		"a bot of another kind": {func(m *Manager) {
			d := new(drawing)
			m.AddBot(d)
			d.draw(m, 2*time.Second, nil)
		}, 2 * time.Second, nil},
		"a stopped run": {func(m *Manager) {
			m.Go(func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return nil })
			m.Stop(broken)
		}, time.Second, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(t.Context(), bot.Config{}, nil)
				began := time.Now()
				c.start(m)
				closed := make(chan error, 1)
				m.CloseLater(func(err error) { closed <- err })
				if err := <-closed; !errors.Is(err, c.err) || time.Since(began) != c.takes {
					t.Errorf("closed after %v with %v, expected %v with %v", time.Since(began), err, c.takes, c.err)
				}
				select {
				case <-m.Tube().Ended():
				default:
					t.Error("the run has not ended")
				}
			})
		})
	}
}
