package turn_test

import (
	"context"
	"fmt"
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
	for end, items := range ends {
		for _, lane := range []bool{false, true} {
			t.Run(fmt.Sprint(end, ", ", lane), func(t *testing.T) {
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
					if !lane {
						f.Process(ctx, &turn.Envelope{}, withReader)
					} else if k, err := f.Submit(ctx, &turn.Envelope{}, withReader); err == nil {
						k.Wait(t.Context())
					}
				})
			})
		}
	}
}
