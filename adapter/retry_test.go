package adapter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// DN-04: pauses that a person notices are reported before they begin; the last attempt and short pauses are not.
func TestPausesOfAtLeastASecondAreReported(t *testing.T) {
	limited := func(after time.Duration) []step {
		return []step{{err: &Error{Code: CodeRateLimited, Status: 429, Retryable: true, RetryAfter: after}}}
	}
	for _, row := range []struct {
		name    string
		scripts [][]step
		want    []Retry
	}{
		{
			"two pauses",
			[][]step{limited(7200 * time.Millisecond), limited(4200 * time.Millisecond), {{chunk: text("fine")}}},
			[]Retry{{CodeRateLimited, 8, 2, 4}, {CodeRateLimited, 5, 3, 4}},
		},
		{
			"other failures, and no pause after the last attempt",
			[][]step{{{err: &Error{Code: CodeUnavailable, Retryable: true, RetryAfter: 2200 * time.Millisecond}}}},
			[]Retry{{CodeUnavailable, 3, 2, 4}, {CodeUnavailable, 3, 3, 4}, {CodeUnavailable, 3, 4, 4}},
		},
		{"a short pause", [][]step{limited(900 * time.Millisecond), {{chunk: text("fine")}}}, nil},
		{"no retry", [][]step{limited(time.Hour)}, nil},
	} {
		inBubble(t, row.name, func(t *testing.T) {
			f := newFake(row.scripts...)
			chain := &Chain{links: []link{{name: "x", model: newFake([]step{{err: &Error{Code: CodeAuth}}})}, {name: "y", model: &guarded{Registry: &Registry{Retries: Retries{Attempts: 4}}, model: f}}}}
			var got []Retry
			_, _ = collect(chain.Stream(OnRetry(t.Context(), func(r Retry) {
				if r.Attempt != len(f.asked)+1 {
					t.Errorf("%+v came after %d attempts", r, len(f.asked))
				}
				got = append(got, r)
			}), Request{}))
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
