package adapter

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// told writes down what an observer is told.
type told []string

func (o *told) Ask(provider, model string, n int) Attempt {
	*o = append(*o, fmt.Sprintf("ask %s:%s %d", provider, model, n))
	return toldOf{o}
}

type toldOf struct{ o *told }

func (a toldOf) Sent()  { *a.o = append(*a.o, "sent") }
func (a toldOf) First() { *a.o = append(*a.o, "first") }
func (a toldOf) End(outcome string, u Usage) {
	*a.o = append(*a.o, fmt.Sprintf("%s %d/%d", outcome, u.PromptTokens, u.CompletionTokens))
}

func TestAnObserverIsToldOfEachAttempt(t *testing.T) {
	unavailable := &Error{Code: CodeUnavailable, Message: "down", Retryable: true}
	use := Chunk{Usage: &Usage{PromptTokens: 3, CompletionTokens: 5}}
	end := Chunk{Finish: FinishStop}
	for _, row := range []struct {
		name    string
		scripts [][]step
		slots   Slots
		leave   bool          // after the first chunk
		cancel  time.Duration // after this time
		panics  bool          // the reader does
		want    []string
	}{
		{
			name: "an answer", scripts: [][]step{{{chunk: Chunk{Model: "m"}}, {chunk: text("a")}, {chunk: text("b")}, {chunk: use}, {chunk: end}}},
			want: []string{"ask p:m 1", "sent", "first", "ok 3/5"},
		},
		{
			name: "one more attempt", scripts: [][]step{{{err: unavailable}}, {{chunk: text("a")}, {chunk: end}}},
			want: []string{"ask p:m 1", "sent", "upstream_unavailable 0/0", "ask p:m 2", "sent", "first", "ok 0/0"},
		},
		{
			name: "an answer that breaks off", scripts: [][]step{{{chunk: text("a")}, {chunk: use}, {err: unavailable}}},
			want: []string{"ask p:m 1", "sent", "first", "upstream_unavailable 3/5"},
		},
		{
			name: "an error of no kind", scripts: [][]step{{{err: fmt.Errorf("odd")}}},
			want: []string{"ask p:m 1", "sent", "upstream_protocol 0/0"},
		},
		{
			name: "a reader that leaves", scripts: [][]step{{{chunk: text("a")}, {chunk: text("b")}, {chunk: end}}}, leave: true,
			want: []string{"ask p:m 1", "sent", "first", "canceled 0/0"},
		},
		{
			name: "a reader that breaks down", scripts: [][]step{{{chunk: text("a")}, {chunk: end}}}, panics: true,
			want: []string{"ask p:m 1", "sent", "first", "canceled 0/0"},
		},
		{
			name: "a request that is canceled", scripts: [][]step{{{wait: time.Hour}}}, cancel: time.Second,
			want: []string{"ask p:m 1", "sent", "canceled 0/0"},
		},
		{
			name: "a limit of time", scripts: [][]step{{{wait: time.Hour}}},
			want: []string{"ask p:m 1", "sent", "upstream_timeout 0/0"},
		},
		{
			name: "no slot", scripts: [][]step{{{chunk: end}}}, slots: Slots{Max: 1, Wait: time.Second},
			want: []string{"ask p:m 1", "overloaded 0/0"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o told
				r := &Registry{Observer: &o, Slots: row.slots}
				r.Register("p", provider{"m": newFake(row.scripts...)})
				if row.slots.Max > 0 { // somebody else has it
					if err := r.slotsOf("p").acquire(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				m, err := r.Model("p:m")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if row.cancel > 0 {
					time.AfterFunc(row.cancel, cancel)
				}
				func() {
					defer func() { recover() }()
					for range m.Stream(ctx, Request{}) {
						if row.panics {
							panic("broken")
						}
						if row.leave {
							break
						}
					}
				}()
				if diff := cmp.Diff(row.want, []string(o)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAChainIsObservedModelByModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o told
		r := &Registry{Observer: &o, Retries: Retries{Attempts: 1}}
		r.Register("a", provider{"x": newFake([]step{{err: &Error{Code: CodeAuth, Message: "no"}}})})
		r.Register("b", provider{"y": newFake([]step{{chunk: text("hi")}, {chunk: Chunk{Finish: FinishStop}}})})
		m, err := r.Model("a:x,b:y")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := collect(m.Stream(t.Context(), Request{})); got != "hi" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if want := []string{"ask a:x 1", "sent", "upstream_auth 0/0", "ask b:y 1", "sent", "first", "ok 0/0"}; !slices.Equal(o, want) {
			t.Errorf("%v", o)
		}
	})
}
