package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const never1 = 1000 * time.Hour

// inBubble runs each row in a bubble of its own.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// AD-07, FT-03, FT-04: each limit is an error of its own, at its time.
func TestEachTimeLimitIsItsOwnError(t *testing.T) {
	limits := Timeouts{Connect: time.Second, FirstToken: 20 * time.Second, Idle: 5 * time.Second, Total: time.Minute}
	for _, row := range []struct {
		name   string
		limits Timeouts
		script []step
		at     time.Duration
		text   string
		says   string
	}{
		{"first token", limits, []step{{wait: never1}}, 20 * time.Second, "", "sent no token within 20s"},
		{"idle", limits, []step{{3 * time.Second, text("a"), nil}, {wait: never1}}, 8 * time.Second, "a", "sent nothing for 5s"},
		{"idle is shorter than what is left for the first token", limits, []step{{chunk: text("a")}, {wait: never1}}, 5 * time.Second, "a", "sent nothing for 5s"},
		{
			"idle counts from the last token", limits,
			[]step{{3 * time.Second, text("a"), nil}, {4 * time.Second, text("b"), nil}, {4 * time.Second, text("c"), nil}, {wait: never1}},
			16 * time.Second, "abc", "sent nothing for 5s",
		},
		{"what is no token does not count", limits, []step{{chunk: Chunk{Model: "m"}}, {19 * time.Second, Chunk{Usage: &Usage{}}, nil}, {wait: never1}}, 20 * time.Second, "", "sent no token"},
		{"total", limits, append(repeat(step{4 * time.Second, text("x"), nil}, 14), step{wait: never1}), time.Minute, strings.Repeat("x", 14), "did not finish its answer within 1m0s"},
		{"default of the first token", Timeouts{}, []step{{wait: never1}}, time.Minute, "", "within 1m0s"},
		{"default of idle", Timeouts{}, []step{{chunk: text("a")}, {wait: never1}}, time.Minute, "a", "nothing for 1m0s"},
		{"default of total", Timeouts{}, repeat(step{time.Minute - 1, text("x"), nil}, 20), 10 * time.Minute, strings.Repeat("x", 10), "within 10m0s"},
		{"none but total", Timeouts{FirstToken: -1, Idle: -1, Total: time.Hour}, []step{{20 * time.Minute, text("a"), nil}, {wait: never1}}, time.Hour, "a", "within 1h0m0s"},
		{"none but idle", Timeouts{FirstToken: -1, Idle: time.Second, Total: -1}, []step{{20 * time.Minute, text("a"), nil}, {wait: never1}}, 20*time.Minute + time.Second, "a", "nothing for 1s"},
	} {
		for _, blind := range []bool{false, true} {
			inBubble(t, row.name, func(t *testing.T) {
				f := newFake(row.script)
				f.blind = blind
				got, err := collect((&guarded{Registry: new(Registry), model: f, timeouts: row.limits}).Stream(t.Context(), Request{}))
				e, ok := errors.AsType[*Error](err)
				if !ok || e.Code != CodeTimeout || !strings.Contains(e.Message, row.says) || !e.Retryable {
					t.Errorf("error %v, want one that says %q", err, row.says)
				}
				if at := time.Since(f.start); at != row.at {
					t.Errorf("after %v, want %v", at, row.at)
				}
				if got != row.text {
					t.Errorf("text %q", got)
				}
				if len(f.asked) != 1 || f.open != 0 {
					t.Errorf("asked %d times, %d open: waiting is not repeated", len(f.asked), f.open)
				}
			})
		}
	}
}

func repeat(s step, n int) []step {
	all := make([]step, n)
	for i := range all {
		all[i] = s
	}
	return all
}

// AD-07: a reader that takes its time is not the provider's fault.
func TestTimeSpentInTheReaderDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake([]step{{chunk: Chunk{Model: "m"}}, {time.Second, text("a"), nil}, {4 * time.Second, text("b"), nil}, {4 * time.Second, text("c"), nil}, {wait: never1}})
		g := &guarded{Registry: new(Registry), model: f, timeouts: Timeouts{FirstToken: 2 * time.Second, Idle: 5 * time.Second, Total: 12 * time.Second}}
		var last error
		n := 0
		for c, err := range g.Stream(t.Context(), Request{}) {
			last = err
			if err == nil {
				n++
				time.Sleep(time.Hour)
			}
			_ = c
		}
		if e, ok := errors.AsType[*Error](last); !ok || !strings.Contains(e.Message, "did not finish its answer within 12s") {
			t.Errorf("%v", last)
		}
		// Four pauses of an hour; 1+4+4 seconds of tokens, and 3 that were left of the 12.
		if at := time.Since(f.start); at != 4*time.Hour+12*time.Second || n != 4 {
			t.Errorf("after %v, %d chunks", at, n)
		}
	})
}

// AD-06, FT-01, FT-02: what is tried again, and how long that is waited for.
func TestRetries(t *testing.T) {
	fails := func(e Error) []step { return []step{{err: &e}} }
	down := Error{Code: CodeUnavailable, Status: 503, Retryable: true, Message: "down"}
	slow := func(d time.Duration) Error {
		return Error{Code: CodeRateLimited, Status: 429, Retryable: true, RetryAfter: d, Message: "slow"}
	}
	fine := []step{{chunk: text("fine")}}
	for _, row := range []struct {
		name     string
		retries  Retries
		scripts  [][]step
		asked    int
		text     string
		code     string
		min, max time.Duration // of all waiting
	}{
		{"the third attempt works", Retries{}, [][]step{fails(down), fails(down), fine}, 3, "fine", "", 750 * time.Millisecond, 1500 * time.Millisecond},
		{"three attempts by default", Retries{}, [][]step{fails(down)}, 3, "", CodeUnavailable, 750 * time.Millisecond, 1500 * time.Millisecond},
		{"as many as set", Retries{Attempts: 5, Base: time.Second, Max: 3 * time.Second}, [][]step{fails(down)}, 5, "", CodeUnavailable, 4500 * time.Millisecond, 9 * time.Second},
		{"one is none again", Retries{Attempts: 1}, [][]step{fails(down), fine}, 1, "", CodeUnavailable, 0, 0},
		{"Retry-After is honoured", Retries{}, [][]step{fails(slow(7 * time.Second)), fine}, 2, "fine", "", 7 * time.Second, 7700 * time.Millisecond},
		{"limits the rate twice and then works", Retries{}, [][]step{fails(slow(time.Second)), fails(slow(2 * time.Second)), fine}, 3, "fine", "", 3 * time.Second, 3300 * time.Millisecond},
		{"Retry-After beyond the maximum fails at once", Retries{}, [][]step{fails(slow(21 * time.Second)), fine}, 1, "", CodeRateLimited, 0, 0},
		{"what is not retryable fails at once", Retries{}, [][]step{fails(Error{Code: CodeAuth, Status: 401}), fine}, 1, "", CodeAuth, 0, 0},
		{"nothing after a chunk was passed on", Retries{}, [][]step{{{chunk: text("a")}, {err: &down}}, fine}, 1, "a", CodeUnavailable, 0, 0},
		{"an error that is not ours", Retries{}, [][]step{{{err: io.ErrUnexpectedEOF}}, fine}, 1, "", CodeProtocol, 0, 0},
		{"a backoff that would overflow", Retries{Attempts: 70, Max: time.Second}, [][]step{fails(down)}, 70, "", CodeUnavailable, 30 * time.Second, 70 * time.Second},
	} {
		inBubble(t, row.name, func(t *testing.T) {
			f := newFake(row.scripts...)
			got, err := collect((&guarded{Registry: &Registry{Retries: row.retries}, model: f}).Stream(t.Context(), Request{}))
			if got != row.text || len(f.asked) != row.asked {
				t.Errorf("text %q, asked %d times", got, len(f.asked))
			}
			if e, _ := errors.AsType[*Error](err); (e == nil) != (row.code == "") || e != nil && e.Code != row.code {
				t.Errorf("error %v", err)
			}
			if d := time.Since(f.start); d < row.min || d > row.max {
				t.Errorf("waited %v, want %v to %v", d, row.min, row.max)
			}
		})
	}
}

// AD-01: the end of a context is told as it is, and ends a wait between attempts too.
func TestACanceledContextEndsEverything(t *testing.T) {
	cause := errors.New("the run was canceled")
	for name, script := range map[string][]step{
		"while waiting for a token":      {{wait: never1}},
		"while waiting to try again":     {{err: &Error{Retryable: true, RetryAfter: 15 * time.Second}}},
		"with an error of its own":       {{wait: 10 * time.Second, err: &Error{Code: CodeUnavailable}}},
		"in the middle of an answer":     {{chunk: text("a")}, {wait: never1}},
		"while an attempt fails forever": {{wait: 11 * time.Second, err: &Error{Retryable: true}}},
	} {
		inBubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			f := newFake(script)
			time.AfterFunc(10*time.Second-1, func() { cancel(cause) })
			r := &Registry{}
			r.Register("a", provider{"m": f})
			m, err := r.Model("a:m,a:m")
			if err != nil {
				t.Fatal(err)
			}
			_, err = collect(m.Stream(ctx, Request{}))
			if err != cause || time.Since(f.start) != 10*time.Second-1 || f.open != 0 {
				t.Errorf("%v after %v, %d open", err, time.Since(f.start), f.open)
			}
		})
	}
}

// AD-01: a reader that leaves ends the model's stream before the next line runs.
func TestLeavingTheLoopEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake([]step{{chunk: text("a")}, {wait: never1}})
		for range (&Chain{links: []link{{name: "x", model: &guarded{Registry: new(Registry), model: f}}}}).Stream(t.Context(), Request{}) {
			break
		}
		if f.open != 0 || time.Since(f.start) != 0 {
			t.Errorf("%d open after %v", f.open, time.Since(f.start))
		}
	})
}

// A panic of the reader passes through, and leaves nothing behind: the bubble would not end.
func TestAPanicInTheReaderLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake([]step{{chunk: text("a")}, {wait: never1}})
		defer func() {
			if recover() == nil || f.open != 0 {
				t.Errorf("%d open", f.open)
			}
		}()
		for range (&guarded{Registry: new(Registry), model: f}).Stream(t.Context(), Request{}) {
			panic("in the loop")
		}
	})
}

func TestAChainAsksTheNextModelOnlyWhileNothingWasPassedOn(t *testing.T) {
	first, second, third := errors.New("cause 1"), errors.New("cause 2"), errors.New("cause 3")
	for _, row := range []struct {
		name   string
		models [3][]step
		text   string
		asked  [3]int
		code   string
		causes []error
	}{
		{"the first answers", [3][]step{{{chunk: text("1")}}, {{chunk: text("2")}}, nil}, "1", [3]int{1, 0, 0}, "", nil},
		{"the second answers", [3][]step{{{err: &Error{Code: CodeAuth}}}, {{chunk: text("2")}}, nil}, "2", [3]int{1, 1, 0}, "", nil},
		{"a short wait for the first token goes on to the next", [3][]step{{{wait: never1}}, {{chunk: text("2")}}, nil}, "2", [3]int{1, 1, 0}, "", nil},
		{"not after a chunk", [3][]step{{{chunk: text("1")}, {err: &Error{Code: CodeProtocol, Cause: first}}}, {{chunk: text("2")}}, nil}, "1", [3]int{1, 0, 0}, CodeProtocol, []error{first}},
		{"none answers", [3][]step{
			{{err: &Error{Code: CodeAuth, Cause: first}}},
			{{err: &Error{Code: CodeProtocol, Cause: second}}},
			{{err: &Error{Code: CodeUnavailable, Status: 500, Cause: third}}},
		}, "", [3]int{1, 1, 1}, CodeUnavailable, []error{first, second, third}},
		{"none answers, and it helps to try the second again", [3][]step{
			{{err: &Error{Code: CodeAuth, Cause: first}}},
			{{err: &Error{Code: CodeRateLimited, Retryable: true, RetryAfter: time.Hour, Cause: second}}},
			{{err: &Error{Code: CodeProtocol, Cause: third}}},
		}, "", [3]int{1, 1, 1}, CodeRateLimited, []error{first, second, third}},
	} {
		inBubble(t, row.name, func(t *testing.T) {
			fakes := provider{}
			var r Registry
			for i, name := range []string{"1", "2", "3"} {
				fakes[name] = newFake(row.models[i])
			}
			r.Register("x", fakes)
			m, err := r.Model(" x:1, x:2 ,x:3")
			if err != nil {
				t.Fatal(err)
			}
			got, err := collect(m.Stream(t.Context(), Request{}))
			if got != row.text {
				t.Errorf("text %q", got)
			}
			for i, name := range []string{"1", "2", "3"} {
				if n := len(fakes[name].(*fake).asked); n != row.asked[i] {
					t.Errorf("model %s was asked %d times", name, n)
				}
			}
			e, _ := errors.AsType[*Error](err)
			if (e == nil) != (row.code == "") || e != nil && e.Code != row.code {
				t.Fatalf("error %v", err)
			}
			for _, cause := range row.causes {
				if !errors.Is(err, cause) {
					t.Errorf("%v has lost %v", err, cause)
				}
			}
			if row.name == "none answers" && e.Status != 500 {
				t.Errorf("status %d", e.Status)
			}
		})
	}
}

// AD-06: who has three providers wants to know of all three what is wrong.
func TestTheErrorOfAChainSaysOfEachModelWhy(t *testing.T) {
	chainOf := func(failures ...error) *Error {
		c := new(Chain)
		for i, err := range failures {
			c.links = append(c.links, link{name: fmt.Sprintf("p%d:m", i), model: newFake([]step{{err: err}})})
		}
		_, err := collect(c.Stream(t.Context(), Request{}))
		e, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("%v", err)
		}
		return e
	}
	e := chainOf(
		&Error{Code: CodeAuth, Message: "the key is refused", Cause: errors.New("status 401")},
		errors.New("of no kind, with CANARY in it"),
		&Error{Code: CodeUnavailable, Message: strings.Repeat("é", 1000)},
	)
	want := "none of the 3 models answered: p0:m: the key is refused; p1:m: the model failed; p2:m: " + strings.Repeat("é", 100) + "…"
	if e.Message != want || e.Code != CodeUnavailable {
		t.Errorf("%s: %s", e.Code, e.Message)
	}
	for _, said := range []string{"p0:m: the key is refused (status 401)", "CANARY"} { // for the log
		if !strings.Contains(e.Cause.Error(), said) {
			t.Errorf("%q is not in %q", said, e.Cause)
		}
	}
	many := chainOf(slices.Repeat([]error{&Error{Message: "no"}}, 20)...)
	if !strings.HasPrefix(many.Message, "none of the 20 models answered: p0:m: no; ") || !strings.HasSuffix(many.Message, "p7:m: no; and 12 more") {
		t.Error(many.Message)
	}
}

// AD-07: every kind of content is a sign of life, and nothing else is.
func TestWhatIsAToken(t *testing.T) {
	for _, row := range []struct {
		name  string
		chunk Chunk
		token bool
	}{
		{"text", Chunk{Text: "x"}, true},
		{"reasoning", Chunk{Reasoning: "x"}, true},
		{"a part of a call", Chunk{ToolCall: &ToolCall{}}, true},
		{"a result of the provider's own call", Chunk{ToolResult: &ToolResult{}}, true},
		{"the model's name", Chunk{Model: "x:y"}, false},
		{"usage", Chunk{Usage: &Usage{}}, false},
	} {
		inBubble(t, row.name, func(t *testing.T) {
			f := newFake([]step{{19 * time.Second, row.chunk, nil}, {wait: never1}})
			g := &guarded{Registry: new(Registry), model: f, timeouts: Timeouts{FirstToken: 20 * time.Second, Idle: 5 * time.Second}}
			_, err := collect(g.Stream(t.Context(), Request{}))
			says, at := "sent no token within 20s", 20*time.Second
			if row.token {
				says, at = "sent nothing for 5s", 24*time.Second
			}
			if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Message, says) || time.Since(f.start) != at {
				t.Errorf("%v after %v", err, time.Since(f.start))
			}
		})
	}
}

// The time limits cost a token two looks at the clock.
func BenchmarkGuardedChunk(b *testing.B) {
	b.ReportAllocs()
	m := &guarded{Registry: new(Registry), model: endless{text("word"), b.N}}
	n := 0
	for range m.Stream(b.Context(), Request{}) {
		n++
	}
	if n != b.N {
		b.Fatal(n)
	}
}

type endless struct {
	chunk Chunk
	n     int
}

func (e endless) Stream(context.Context, Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for range e.n {
			if !yield(e.chunk, nil) {
				return
			}
		}
	}
}
