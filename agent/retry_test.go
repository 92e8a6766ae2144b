package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
)

// provider has a fake for every model.
type provider struct{ *fake }

func (provider) Names() []string { return nil }

// DN-04: the pauses of an agent's model, and of a helper's, are events of its turn.
func TestAPauseBeforeARetryIsAnEventOfTheTurn(t *testing.T) {
	limited := fails(&adapter.Error{Code: adapter.CodeRateLimited, Retryable: true, RetryAfter: 7200 * time.Millisecond})
	for _, row := range []struct {
		name   string
		script []say
	}{
		{"the agent's model", []say{limited, answers("fine")}},
		{"a helper's model", []say{calls("", `c1:subagent:{"task":"find out"}`), limited, answers("It is 42."), answers("fine")}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(row.script...)
				models := &adapter.Registry{}
				models.Register("fake", provider{f})
				h := newWorld(t, f, Options{Name: "assistant", Models: models}).say("hello")
				var got []string
				for _, e := range h.events {
					if e.Kind == RetryingEvent {
						got = append(got, string(e.Value))
					}
				}
				if diff := cmp.Diff([]string{`{"bot":"assistant","reason":"upstream_rate_limited","seconds":8,"attempt":2,"of":3}`}, got); diff != "" || h.Output != "fine" {
					t.Errorf("%s%q", diff, h.Output)
				}
			})
		})
	}
}
