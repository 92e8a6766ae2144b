package turn_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/turn"
)

// A bubble fails by itself when a goroutine is left in it that waits for something.
func TestTU_52NoGoroutineIsLeftAfterATurn(t *testing.T) {
	ends := map[string][]any{
		"ends": {"a", "b"}, "fails": {"a", errTest}, "panics": {"a", func() { panic(errTest) }}, "is empty": {}, "goes on for ever": nil,
	}
	wrappers := map[string]func(turn.Stream) turn.Stream{
		"unwrapped":   nil,
		"passed on":   func(s turn.Stream) turn.Stream { return s },
		"never read":  func(turn.Stream) turn.Stream { return streamOf("x") },
		"pulled from": pulling,
		"panics":      func(turn.Stream) turn.Stream { panic(errTest) },
	}
	for end, items := range ends {
		for wrapper, wrap := range wrappers {
			for _, lane := range []bool{false, true} {
				t.Run(fmt.Sprint(end, ", ", wrapper, ", ", lane), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						f := build(t, streamer(func(ctx context.Context, _ turn.Prompt, _ string, _ turn.State) (turn.Stream, bool, error) {
							if items != nil {
								return streamOf(items...), true, nil
							}
							return func(yield func(turn.Event, error) bool) {
								for yield(turn.Text("x"), nil) {
									time.Sleep(time.Millisecond)
								}
							}, true, nil
						}))
						if wrap != nil {
							defer f.Bind(router{wrap})()
						}
						if !lane {
							f.Process(ctx, &turn.Envelope{}, turn.WithStreaming())
						} else if k, err := f.Submit(ctx, &turn.Envelope{}, turn.WithStreaming()); err == nil {
							k.Wait(t.Context())
						}
					})
				})
			}
		}
	}
}

// pulling is a wrapper that reads with iter.Pull and leaves after an event.
func pulling(s turn.Stream) turn.Stream {
	return func(yield func(turn.Event, error) bool) {
		next, stop := iter.Pull2(s)
		defer stop()
		if e, err, ok := next(); ok {
			yield(e, err)
		}
	}
}
