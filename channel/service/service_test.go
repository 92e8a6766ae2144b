package service_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/service"
)

func options(connect func(context.Context) error) service.Options {
	return service.Options{
		Door: channel.DoorOptions{Channel: "fake", Run: func(context.Context, channel.JournalEntry, channel.Meta) (channel.Result, error) {
			return channel.Result{}, nil
		}},
		Connect: connect,
	}
}

// CH-179
func TestAChannelServesUntilSomebodyEndsItOrItCannotWork(t *testing.T) {
	lost, refused := errors.New("the token is none"), errors.New("the platform refuses")
	connected := func(context.Context) error { return nil }
	for name, test := range map[string]struct {
		connect     func(context.Context) error
		end         func(s *service.Service, stop context.CancelFunc)
		want, ready error
	}{
		"somebody ends it":            {connected, func(_ *service.Service, stop context.CancelFunc) { stop() }, nil, nil},
		"it fails while it serves":    {connected, func(s *service.Service, _ context.CancelFunc) { s.Fail(lost) }, lost, lost},
		"it fails while it connects":  {waits, func(s *service.Service, _ context.CancelFunc) { s.Fail(lost) }, lost, lost},
		"it is ended while it begins": {waits, func(_ *service.Service, stop context.CancelFunc) { stop() }, nil, nil},
		"it cannot connect":           {func(context.Context) error { return refused }, nil, refused, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s service.Service
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				s.Fail(errors.New("of before"))
				k := &channel.Kernel{}
				done := make(chan error, 1)
				go func() { done <- s.Serve(ctx, k, options(test.connect)) }()
				synctest.Wait()
				if test.end != nil {
					if s.Door() == nil || s.Ready() != nil {
						t.Errorf("door %v, ready %v while it serves", s.Door(), s.Ready())
					}
					if err := s.Serve(ctx, k, options(connected)); err == nil {
						t.Error("it serves twice")
					}
					test.end(&s, stop)
				}
				if err := <-done; !errors.Is(err, test.want) || test.want == nil && err != nil {
					t.Errorf("got %v, expected %v", err, test.want)
				}
				if s.Door() != nil || s.Ready() != test.ready {
					t.Errorf("door %v, ready %v at the end, expected %v", s.Door(), s.Ready(), test.ready)
				}
			})
		})
	}
}

func waits(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
