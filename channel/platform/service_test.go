package platform_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// newService returns a channel that does not serve yet.
func newService(t *testing.T) *platform.Service {
	t.Helper()
	s := new(platform.Service)
	s.Init(&platform.Settings{Account: "a"}, "fake", "")
	return s
}

// bad is a refusal that lasts.
var bad = &platform.Kind{Text: "the platform refuses"}

func options(connect func(context.Context) error) platform.ServiceOptions {
	return platform.ServiceOptions{
		Run:      func(context.Context, *platform.Event) (channel.Result, error) { return channel.Result{}, nil },
		Identify: connect, Lasting: []*platform.Kind{bad}, Bot: func() string { return "ling" },
	}
}

// newQueue returns a queue, which ends before the bubble of the test does.
func newQueue(t *testing.T, only channel.Exclusive) *kernel.Queue {
	t.Helper()
	q := kernel.NewQueue(&kernel.Kernel{Store: channeltest.Store(t)}, kernel.QueueOptions{Replica: "test", Only: only})
	t.Cleanup(func() { q.Close() })
	return q
}

// CH-179
func TestAChannelServesUntilSomebodyEndsItOrItCannotWork(t *testing.T) {
	lost, refused := errors.New("the token is none"), error(&platform.Refusal{Kind: bad})
	connected := func(context.Context) error { return nil }
	for name, test := range map[string]struct {
		connect     func(context.Context) error
		end         func(s *platform.Service, stop context.CancelFunc)
		want, ready error
	}{
		"somebody ends it":            {connected, func(_ *platform.Service, stop context.CancelFunc) { stop() }, nil, nil},
		"it fails while it serves":    {connected, func(s *platform.Service, _ context.CancelFunc) { s.Fail(lost) }, lost, lost},
		"it fails while it connects":  {waits, func(s *platform.Service, _ context.CancelFunc) { s.Fail(lost) }, lost, lost},
		"it is ended while it begins": {waits, func(_ *platform.Service, stop context.CancelFunc) { stop() }, nil, nil},
		"it cannot connect":           {func(context.Context) error { return refused }, nil, refused, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				q := newQueue(t, nil)
				done := make(chan error, 1)
				go func() { done <- s.Serve(ctx, q, options(test.connect)) }()
				synctest.Wait()
				if test.end != nil {
					if s.Queue() == nil || s.Ready() != nil {
						t.Errorf("queue %v, ready %v while it serves", s.Queue(), s.Ready())
					}
					test.end(s, stop)
				}
				if err := <-done; !errors.Is(err, test.want) || test.want == nil && err != nil {
					t.Errorf("got %v, expected %v", err, test.want)
				}
				if s.Queue() != nil || s.Ready() != test.ready {
					t.Errorf("queue %v, ready %v at the end, expected %v", s.Queue(), s.Ready(), test.ready)
				}
			})
		})
	}
}

func waits(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// turnstile lets one in, until it takes the place away.
type turnstile struct {
	names chan string
	free  chan struct{}
	taken func()
}

func (f *turnstile) Only(ctx context.Context, name string) (context.Context, func(), error) {
	f.names <- name
	select {
	case <-f.free:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	alone, cancel := context.WithCancel(ctx)
	f.taken = cancel
	return alone, func() { cancel(); f.free <- struct{}{} }, nil
}

// CL-02, CH-170: of several processes one asks the platform.
func TestOneProcessReceivesAndTheOthersStandBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &turnstile{names: make(chan string, 10), free: make(chan struct{}, 1)}
		s := newService(t)
		ctx, stop := context.WithCancel(t.Context())
		q, receiving := newQueue(t, f), 0
		o := options(func(context.Context) error { return nil })
		o.Exclusive = true
		o.Receive = func(ctx context.Context) error {
			receiving++
			defer func() { receiving-- }()
			return waits(ctx)
		}
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, q, o) }()
		is := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if receiving != want {
				t.Errorf("%d receive %s, expected %d", receiving, when, want)
			}
		}
		is(0, "while another process does")
		if s.Queue() == nil {
			t.Error("a process that stands by has no queue; it takes webhooks, and what others have left")
		}
		f.free <- struct{}{}
		is(1, "when the other process is gone")
		f.taken()
		synctest.Wait()
		is(1, "when it was taken away and is free again")
		if len(f.names) != 2 || <-f.names != "fake@a" {
			t.Errorf("it has asked %d times", len(f.names))
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		is(0, "at the end")
	})
}

func TestWhatIsForAllProcessesWaitsForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("failed")
		for name, only := range map[string]channel.Exclusive{"alone": nil, "shared": &turnstile{}} {
			s := newService(t)
			o := options(func(context.Context) error { return nil })
			o.Exclusive = only == nil
			o.Receive = func(context.Context) error { return failed }
			if err := s.Serve(t.Context(), newQueue(t, only), o); !errors.Is(err, failed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
