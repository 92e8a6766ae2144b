package bot

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
)

// provider is a provider of one model.
type provider struct{ script }

func (provider) Names() []string { return nil }

// DN-04: a pause after a provider's refusal is an event, which names the bot. Clients do not see that of a quiet bot.
func TestAPauseBeforeARetryIsAnEvent(t *testing.T) {
	for _, row := range []struct {
		name   string
		quiet  bool
		prefix string
	}{{name: "a bot"}, {"a quiet bot", true, "hidden "}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refused := false
				models := &adapter.Registry{Default: "fake:m"}
				models.Register("fake", provider{func(ctx context.Context, r adapter.Request, yield func(adapter.Chunk, error) bool) {
					if !refused {
						refused = true
						yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeRateLimited, Retryable: true, RetryAfter: 7200 * time.Millisecond})
						return
					}
					says("stop", "fine")(ctx, r, yield)
				}})
				w := newWorld(t, nil)
				w.Models = models
				if _, err := chat(t, New(w.Env, "outline", "x", Config{Format: Text, Quiet: row.quiet})); err != nil {
					t.Fatal(err)
				}
				want := row.prefix + `{"event":"retrying","data":{"bot":"outline","reason":"upstream_rate_limited","seconds":8,"attempt":2,"of":3}}`
				if diff := cmp.Diff(want, w.lines()[0]); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
