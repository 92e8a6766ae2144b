package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

type where struct {
	City string `json:"city" jsonschema:"the name of a city"`
	Days int    `json:"days,omitempty"`
}

// weather is a tool that cannot go wrong.
func weather(opts ...Option) *Tool {
	return Must(New("weather", "says how the weather is", func(_ context.Context, w where) (string, error) {
		return "sunny in " + w.City, nil
	}, opts...))
}

// does is a tool without arguments.
func does(name string, run func(context.Context) (string, error), opts ...Option) *Tool {
	return Must(New(name, "", func(ctx context.Context, _ struct{}) (string, error) { return run(ctx) }, opts...))
}

func call(name, arguments string) Call {
	return Call{ID: "c-" + name, Name: name, Arguments: json.RawMessage(arguments)}
}

// all runs calls, and returns the results in the calls' order.
func all(t *testing.T, ctx context.Context, r *Runner, tools []*Tool, calls ...Call) []Result {
	t.Helper()
	out := make([]Result, len(calls))
	var order []int
	for i, result := range r.Run(ctx, tools, calls) {
		order = append(order, i)
		out[i] = result
	}
	slices.Sort(order)
	for i := range calls {
		if i >= len(order) || order[i] != i {
			t.Fatalf("each call has one result, got those of %v", order)
		}
		if out[i].ID != calls[i].ID {
			t.Errorf("the result of call %d has the id %q, want %q", i, out[i].ID, calls[i].ID)
		}
	}
	return out
}

func one(t *testing.T, r *Runner, tools []*Tool, c Call) Result {
	t.Helper()
	return all(t, t.Context(), r, tools, c)[0]
}

func TestWhatGoesWrongIsAResult(t *testing.T) { // AG-26
	tools := []*Tool{
		weather(),
		does("fails", func(context.Context) (string, error) { return "", errors.New("no such thing") }),
		does("gone", func(context.Context) (string, error) { return "", &Error{KindUnavailable, "the server is away"} }),
		does("panics", func(context.Context) (string, error) { panic("at the disco") }),
		does("exits", func(context.Context) (string, error) { runtime.Goexit(); return "", nil }),
		{Name: "garbage", Run: func(context.Context, Call) (Result, error) { return Result{Content: json.RawMessage(`{"a":`)}, nil }},
		{Name: "huge", Run: func(context.Context, Call) (Result, error) { return Text(strings.Repeat("x", maxResult)), nil }},
		{Name: "anything", Run: func(_ context.Context, c Call) (Result, error) { return Result{Content: c.Arguments}, nil }},
		does("asks", func(context.Context) (string, error) { t.Error("it ran without approval"); return "", nil }, WithApproval(Always)),
		{Name: "broken", Schema: json.RawMessage(`{"type":"what"}`), Run: func(context.Context, Call) (Result, error) { return Text("ran"), nil }},
	}
	for _, row := range []struct{ name, tool, arguments, kind, want string }{
		{"all is well", "weather", `{"city":"Lima"}`, "", `"sunny in Lima"`},
		{"an unknown tool", "wether", `{}`, KindUnknown, `unknown tool "wether"; did you mean weather?`},
		{"an unknown tool that is like none", "submarine", `{}`, KindUnknown, `unknown tool "submarine"`},
		{"no JSON", "weather", `{"city":`, KindArguments, "the arguments are not valid JSON: unexpected end of JSON input"},
		{"two values", "weather", `{"city":"Lima"} {}`, KindArguments, "the arguments are not valid JSON: invalid character '{' after top-level value"},
		{"empty arguments are an object", "weather", ``, KindArguments, "invalid arguments: /city: this property is required"},
		{"white space is empty, too", "anything", " \n", "", `{}`},
		{"empty arguments", "anything", "", "", `{}`},
		{"null is not empty", "anything", "null", KindArguments, "invalid arguments: expected an object"},
		{"a wrong type", "weather", `{"city":7}`, KindArguments, "invalid arguments: /city: expected a string, got a number"},
		{"two wrong ones", "weather", `{"city":7,"wind":1}`, KindArguments, "invalid arguments: /city: expected a string, got a number; /wind: unknown property"},
		{"a list", "weather", `[]`, KindArguments, "invalid arguments: expected an object, got an array"},
		{"a number that Go cannot hold", "weather", `{"city":"Lima","days":1e30}`, KindArguments, "invalid arguments: /days: expected a value that fits int, got number 1e30"},
		{"an error", "fails", ``, KindFailed, "no such thing"},
		{"an error with a kind", "gone", ``, KindUnavailable, "the server is away"},
		{"a panic", "panics", ``, KindPanic, "the tool crashed"},
		{"a goroutine that ends", "exits", ``, KindPanic, "the tool crashed"},
		{"a result that is no JSON", "garbage", ``, KindFailed, "the tool returned invalid JSON"},
		{"a result without bounds", "huge", ``, KindFailed, "the tool returned 16777218 bytes; expected at most 16777216"},
		{"nobody who could approve", "asks", ``, KindDenied, "this tool needs approval, but this conversation has no approver"},
		{"a schema that is none", "broken", ``, KindFailed, `cannot use the tool: tool broken: the schema of its arguments: /type: invalid JSON Schema (2020-12): expected one of "array", "boolean", "integer", "null", "number", "object", "string"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := one(t, &Runner{}, tools, call(row.tool, row.arguments))
			if row.kind == "" {
				if got.Err != nil || string(got.Value()) != row.want {
					t.Errorf("got %s, want %s", got.Value(), row.want)
				}
				return
			}
			if diff := cmp.Diff(&Error{row.kind, row.want}, got.Err); diff != "" {
				t.Error(diff)
			}
			var read struct {
				Error struct{ Kind, Message string }
			}
			if err := json.Unmarshal(got.Value(), &read); err != nil || read.Error.Kind != row.kind || read.Error.Message != row.want {
				t.Errorf("the model reads %s", got.Value())
			}
		})
	}
}

func TestErrorsAreRedactedAndBounded(t *testing.T) { // AG-26
	long := strings.Repeat("天", 2000)
	for _, row := range []struct{ name, message, want string }{
		{"a secret", "the key sk-123 is wrong", "the key … is wrong"},
		{"a long one", long, long[:maxMessage/3*3] + "…"},
		{"half a character", "a\xffb", "a\uFFFDb"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := &Runner{Redact: func(s string) string { return strings.ReplaceAll(s, "sk-123", "…") }}
			got := one(t, r, []*Tool{does("fails", func(context.Context) (string, error) { return "", errors.New(row.message) })}, call("fails", ""))
			if got.Err == nil || got.Err.Message != row.want {
				t.Errorf("got %.80q, want %.80q", got.Err.Message, row.want)
			}
		})
	}
}

func TestOnlyTheLogSeesAPanic(t *testing.T) { // AG-26
	var log bytes.Buffer
	r := &Runner{Log: slog.New(slog.NewTextHandler(&log, nil))}
	got := one(t, r, []*Tool{does("panics", func(context.Context) (string, error) { panic("the secret reason") })}, call("panics", ""))
	if text := got.Text(); strings.Contains(text, "secret") || strings.Contains(text, "goroutine") {
		t.Errorf("the model reads %s", text)
	}
	if !strings.Contains(log.String(), "the secret reason") || !strings.Contains(log.String(), "run_test.go") {
		t.Errorf("the log has neither reason nor place: %s", log.String())
	}
}

func TestOneFailureTouchesNoOther(t *testing.T) { // AG-25
	synctest.Test(t, func(t *testing.T) {
		tools := []*Tool{
			weather(),
			does("panics", func(context.Context) (string, error) { panic("now") }),
			does("slow", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }, WithTimeout(time.Second)),
			does("late", func(context.Context) (string, error) { time.Sleep(2 * time.Second); return "done", nil }),
		}
		got := all(t, t.Context(), &Runner{}, tools, call("panics", ""), call("slow", ""), call("late", ""), call("weather", `{"city":"Rome"}`), call("none", ""))
		var words []string
		for _, r := range got {
			if r.Err != nil {
				words = append(words, r.Err.Kind)
			} else {
				words = append(words, r.Text())
			}
		}
		if diff := cmp.Diff([]string{KindPanic, KindTimeout, "done", "sunny in Rome", KindUnknown}, words); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCallsRunAtOnceEightAtMost(t *testing.T) { // AG-25
	for _, row := range []struct {
		name           string
		parallel, most int
		took           time.Duration
	}{
		{"by default", 0, 8, 3 * time.Second},
		{"as told", 2, 2, 10 * time.Second},
		{"one by one", 1, 1, 20 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, most atomic.Int64
				tool := does("busy", func(context.Context) (string, error) {
					n := running.Add(1)
					defer running.Add(-1)
					for {
						m := most.Load()
						if n <= m || most.CompareAndSwap(m, n) {
							break
						}
					}
					time.Sleep(time.Second)
					return "", nil
				})
				start := time.Now()
				all(t, t.Context(), &Runner{Parallel: row.parallel}, []*Tool{tool}, slices.Repeat([]Call{call("busy", "")}, 20)...)
				if int(most.Load()) != row.most || time.Since(start) != row.took {
					t.Errorf("%d ran at once, in %v; want %d in %v", most.Load(), time.Since(start), row.most, row.took)
				}
			})
		})
	}
}

func TestASerialToolRunsAlone(t *testing.T) { // AG-25
	synctest.Test(t, func(t *testing.T) {
		var (
			mu  sync.Mutex
			log []string
		)
		start := time.Now()
		note := func(name string) func(context.Context) (string, error) {
			return func(context.Context) (string, error) {
				say := func(what string) {
					mu.Lock()
					defer mu.Unlock()
					log = append(log, fmt.Sprintf("%v %s %s", time.Since(start), name, what))
				}
				say("begins")
				time.Sleep(time.Second)
				say("ends")
				return "", nil
			}
		}
		tools := []*Tool{does("a", note("a")), does("s", note("s"), WithSerial())}
		all(t, t.Context(), &Runner{}, tools, call("a", ""), call("s", ""), call("a", ""), call("a", ""), call("s", ""), call("s", ""))
		want := []string{
			"0s a begins", "1s a ends", "1s s begins", "2s s ends",
			"2s a begins", "2s a begins", "3s a ends", "3s a ends",
			"3s s begins", "4s s ends", "4s s begins", "5s s ends",
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEachCallHasItsOwnTimeout(t *testing.T) { // AG-25
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", fmt.Errorf("reading: %w", ctx.Err())
		}
		tools := []*Tool{does("plain", hang), does("short", hang, WithTimeout(time.Second)), does("long", hang, WithTimeout(10*time.Minute))}
		start := time.Now()
		took := map[string]string{}
		for _, r := range (&Runner{}).Run(t.Context(), tools, []Call{call("long", ""), call("plain", ""), call("short", "")}) {
			took[r.Name] = fmt.Sprintf("%v: %s: %s", time.Since(start), r.Err.Kind, r.Err.Message)
		}
		want := map[string]string{
			"short": "1s: timeout: the tool did not finish within 1s",
			"plain": "1m0s: timeout: the tool did not finish within 1m0s",
			"long":  "10m0s: timeout: the tool did not finish within 10m0s",
		}
		if diff := cmp.Diff(want, took); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWaitingForASlotIsNotTimeOfTheCall(t *testing.T) { // AG-25
	synctest.Test(t, func(t *testing.T) {
		tool := does("busy", func(ctx context.Context) (string, error) { time.Sleep(50 * time.Second); return "done", ctx.Err() })
		for i, r := range all(t, t.Context(), &Runner{Parallel: 1}, []*Tool{tool}, slices.Repeat([]Call{call("busy", "")}, 5)...) {
			if r.Text() != "done" {
				t.Errorf("call %d: %s", i, r.Text())
			}
		}
	})
}

func TestAfterCancellationToolsGetFiveSeconds(t *testing.T) { // AG-25, TU-52
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		tools := []*Tool{
			does("obeys", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }),
			does("tidies", func(ctx context.Context) (string, error) {
				<-ctx.Done()
				time.Sleep(4 * time.Second)
				return "half", nil
			}),
			does("ignores", func(context.Context) (string, error) { <-free; return "late", nil }),
			does("waits", func(context.Context) (string, error) { t.Error("it began after the end"); return "", nil }, WithSerial()),
		}
		var log bytes.Buffer
		r := &Runner{Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("enough")) })
		start := time.Now()
		got := all(t, ctx, r, tools, call("obeys", ""), call("tidies", ""), call("ignores", ""), call("waits", ""))
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("it took %v, want one second and the five", took)
		}
		var texts []string
		for _, r := range got {
			texts = append(texts, r.Text())
		}
		want := []string{
			`{"error":{"kind":"interrupted","message":"` + stopped + `"}}`, "half",
			`{"error":{"kind":"interrupted","message":"` + stopped + `"}}`,
			`{"error":{"kind":"interrupted","message":"` + notRun + `"}}`,
		}
		if diff := cmp.Diff(want, texts); diff != "" {
			t.Error(diff)
		}
		close(free)
		synctest.Wait()
		if n := strings.Count(log.String(), "dropped a tool's result"); n != 1 {
			t.Errorf("the log has %d, want the one that ignores its end", n)
		}
	})
}

func TestAToolThatIgnoresItsTimeoutIsLeftBehind(t *testing.T) { // AG-25, TU-52
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		defer close(free)
		tools := []*Tool{does("ignores", func(context.Context) (string, error) { <-free; return "late", nil }, WithSerial()), weather()}
		start := time.Now()
		got := all(t, t.Context(), &Runner{}, tools, call("ignores", ""), call("weather", `{"city":"Rome"}`))
		if got[0].Err == nil || got[0].Err.Kind != KindTimeout || got[1].Text() != "sunny in Rome" || time.Since(start) != 65*time.Second {
			t.Errorf("got %s and %s after %v", got[0].Text(), got[1].Text(), time.Since(start))
		}
	})
}

func TestLeavingTheLoopEndsTheCalls(t *testing.T) { // TU-44, TU-52
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		begun := make(chan struct{})
		tools := []*Tool{does("quick", func(context.Context) (string, error) { <-begun; return "", nil }), does("hangs", func(ctx context.Context) (string, error) {
			close(begun)
			<-ctx.Done()
			time.Sleep(time.Second)
			ended.Store(true)
			return "", ctx.Err()
		})}
		for range (&Runner{}).Run(t.Context(), tools, []Call{call("hangs", ""), call("quick", "")}) {
			break
		}
		if !ended.Load() {
			t.Error("a call was still running when the loop was left")
		}
	})
}

func TestAResultComesWhenItsCallEnds(t *testing.T) { // AG-21
	synctest.Test(t, func(t *testing.T) {
		sleep := func(d time.Duration) func(context.Context) (string, error) {
			return func(context.Context) (string, error) { time.Sleep(d); return "", nil }
		}
		tools := []*Tool{does("three", sleep(3*time.Second)), does("one", sleep(time.Second)), does("two", sleep(2*time.Second))}
		start := time.Now()
		var got []string
		for i, r := range (&Runner{}).Run(t.Context(), tools, []Call{call("three", ""), call("one", ""), call("two", "")}) {
			got = append(got, fmt.Sprint(i, " ", r.Name, " ", time.Since(start)))
		}
		if diff := cmp.Diff([]string{"1 one 1s", "2 two 2s", "0 three 3s"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestASlowReaderKeepsNoCallFromRunning(t *testing.T) { // AG-25
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var last time.Duration
		var mu sync.Mutex
		tool := does("busy", func(context.Context) (string, error) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			last = time.Since(start)
			return "", nil
		})
		for range (&Runner{Parallel: 1}).Run(t.Context(), []*Tool{tool}, slices.Repeat([]Call{call("busy", "")}, 5)) {
			time.Sleep(time.Hour)
		}
		if last != 5*time.Second {
			t.Errorf("the last call ended after %v", last)
		}
	})
}

func TestApproval(t *testing.T) { // AG-40
	allow := func(context.Context, *Tool, Call) error { return nil }
	for _, row := range []struct {
		name    string
		approve func(context.Context, *Tool, Call) error
		want    string // the text, or kind and message
		took    time.Duration
	}{
		{"given", allow, "sunny in Lima", 0},
		{"denied", func(context.Context, *Tool, Call) error { return errors.New("not on Sundays") }, "denied: not on Sundays", 0},
		{"no answer", func(ctx context.Context, _ *Tool, _ Call) error { <-ctx.Done(); return ctx.Err() }, "denied: no approval came within 5m0s", 5 * time.Minute},
		{"given too late", func(ctx context.Context, _ *Tool, _ Call) error {
			<-ctx.Done()
			return nil
		}, "denied: no approval came within 5m0s", 5 * time.Minute},
		{"no way to ask", func(context.Context, *Tool, Call) error {
			return &Error{KindDenied, "nobody is listening"}
		}, "denied: nobody is listening", 0},
		{"a question that panics", func(context.Context, *Tool, Call) error { panic("no") }, "denied: the question for approval could not be delivered", 0},
		{"just in time", func(ctx context.Context, _ *Tool, _ Call) error {
			expires, _ := ctx.Deadline()
			time.Sleep(time.Until(expires) - time.Second)
			return nil
		}, "sunny in Lima", 5*time.Minute - time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				got := one(t, &Runner{Approve: row.approve}, []*Tool{weather(WithApproval(Always))}, call("weather", `{"city":"Lima"}`))
				text := got.Text()
				if got.Err != nil {
					text = got.Err.Kind + ": " + got.Err.Message
				}
				if text != row.want || time.Since(start) != row.took {
					t.Errorf("got %q after %v, want %q after %v", text, time.Since(start), row.want, row.took)
				}
			})
		})
	}
}

func TestOtherCallsGoOnWhileOneWaitsForApproval(t *testing.T) { // AG-40
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var order []string
		tools := []*Tool{
			weather(WithApproval(Always), WithSerial()),
			does("busy", func(context.Context) (string, error) { time.Sleep(time.Second); return "", nil }),
			does("alone", func(context.Context) (string, error) { time.Sleep(time.Second); return "", nil }, WithSerial()),
		}
		r := &Runner{Parallel: 1, Approve: func(context.Context, *Tool, Call) error {
			time.Sleep(time.Minute)
			return nil
		}}
		for _, result := range r.Run(t.Context(), tools, []Call{call("weather", `{"city":"Lima"}`), call("busy", ""), call("alone", ""), call("busy", "")}) {
			order = append(order, fmt.Sprint(result.Name, " ", time.Since(start)))
		}
		if diff := cmp.Diff([]string{"busy 1s", "alone 2s", "busy 3s", "weather 1m0s"}, order); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatRunsIsWhatWasShown(t *testing.T) { // AG-40
	var ran []string
	tool := &Tool{Name: "write", Approval: Always, Run: func(_ context.Context, c Call) (Result, error) {
		ran = append(ran, string(c.Arguments))
		return Text("ok"), nil
	}}
	var shown []string
	arguments := json.RawMessage(`{"path":"a"}`)
	c := Call{ID: "1", Name: "write", Arguments: arguments}
	r := &Runner{
		Before: func(_ context.Context, _ *Tool, c Call) (json.RawMessage, *Result, error) {
			return json.RawMessage(strings.Replace(string(c.Arguments), "a", "b", 1)), nil, nil
		},
		Approve: func(_ context.Context, _ *Tool, c Call) error {
			shown = append(shown, string(c.Arguments))
			copy(c.Arguments, `{"path":"X"}`) // nobody can change what was shown by what he got
			copy(arguments, `{"path":"Y"}`)
			return nil
		},
	}
	for range r.Run(t.Context(), []*Tool{tool}, []Call{c}) {
	}
	if want := []string{`{"pbth":"a"}`}; !slices.Equal(ran, want) || !slices.Equal(shown, want) {
		t.Errorf("shown %q, ran %q, want %q", shown, ran, want)
	}
}

func TestNobodyIsAskedAboutWhatCannotRun(t *testing.T) { // AG-26, AG-40
	r := &Runner{Approve: func(context.Context, *Tool, Call) error {
		t.Error("a question")
		return nil
	}}
	for _, arguments := range []string{`{`, `{}`, `{"city":1}`} {
		if got := one(t, r, []*Tool{weather(WithApproval(Always))}, call("weather", arguments)); got.Err == nil || got.Err.Kind != KindArguments {
			t.Errorf("%s: got %s", arguments, got.Text())
		}
	}
}

func TestACancellationEndsTheWaitingForApproval(t *testing.T) { // AG-25, AG-40
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := &Runner{Approve: func(ctx context.Context, _ *Tool, _ Call) error {
			<-ctx.Done()
			return nil
		}}
		got := all(t, ctx, r, []*Tool{weather(WithApproval(Always))}, call("weather", `{"city":"Lima"}`))[0]
		if got.Err == nil || got.Err.Kind != KindInterrupted {
			t.Errorf("got %s", got.Text())
		}
	})
}

func TestHooksAroundACall(t *testing.T) { // AG-28
	answer := Text("from the hook")
	for _, row := range []struct {
		name   string
		before func(context.Context, *Tool, Call) (json.RawMessage, *Result, error)
		after  func(context.Context, *Tool, Call, Result) (Result, error)
		want   string
	}{
		{name: "change the arguments", before: func(context.Context, *Tool, Call) (json.RawMessage, *Result, error) {
			return json.RawMessage(`{"city":"Oslo"}`), nil, nil
		}, want: "sunny in Oslo"},
		{name: "change them into something that does not fit", before: func(context.Context, *Tool, Call) (json.RawMessage, *Result, error) {
			return json.RawMessage(`{"town":"Oslo"}`), nil, nil
		}, want: `{"error":{"kind":"invalid_arguments","message":"invalid arguments: /city: this property is required; /town: unknown property"}}`},
		{name: "change them into no JSON", before: func(context.Context, *Tool, Call) (json.RawMessage, *Result, error) {
			return json.RawMessage(`{`), nil, nil
		}, want: `{"error":{"kind":"failed","message":"the call did not run: a check before it returned arguments that are not valid JSON"}}`},
		{name: "answer", before: func(context.Context, *Tool, Call) (json.RawMessage, *Result, error) { return nil, &answer, nil }, want: "from the hook"},
		{name: "deny", before: func(context.Context, *Tool, Call) (json.RawMessage, *Result, error) {
			return nil, nil, errors.New("not this one")
		}, want: `{"error":{"kind":"denied","message":"not this one"}}`},
		{name: "panic before", before: func(context.Context, *Tool, Call) (json.RawMessage, *Result, error) { panic("no") }, want: `{"error":{"kind":"failed","message":"the call did not run: a check before it failed"}}`},
		{name: "change the result", after: func(_ context.Context, _ *Tool, _ Call, r Result) (Result, error) {
			return Text(strings.ToUpper(r.Text())), nil
		}, want: "SUNNY IN LIMA"},
		{name: "panic after", after: func(context.Context, *Tool, Call, Result) (Result, error) { panic("no") }, want: "sunny in Lima"},
		{name: "fail after", after: func(context.Context, *Tool, Call, Result) (Result, error) {
			return Result{}, errors.New("the result is not fit to be seen")
		}, want: `{"error":{"kind":"failed","message":"the result is not fit to be seen"}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := one(t, &Runner{Before: row.before, After: row.after}, []*Tool{weather()}, call("weather", `{"city":"Lima"}`))
			if got.Text() != row.want {
				t.Errorf("got %s, want %s", got.Text(), row.want)
			}
		})
	}
}

func TestCallsOfNothingEnd(t *testing.T) {
	for range (&Runner{}).Run(t.Context(), nil, nil) {
		t.Error("a result of no call")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, r := range all(t, ctx, &Runner{}, []*Tool{weather()}, call("weather", `{"city":"Lima"}`), call("none", "")) {
		if r.Err == nil || r.Err.Kind != []string{KindInterrupted, KindUnknown}[i] {
			t.Errorf("call %d of a turn that has ended: %s", i, r.Text())
		}
	}
}

// FuzzArguments: whatever a model writes as name and arguments, there is a result, it is JSON, and the tool only ever sees what fits.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"city":"Lima"}`, `{"city":"\ud800"}`, "{\"city\":\"\xff\"}", `{"city":"a","city":1}`, `{"City":"a"}`, `[[[[`, `1e999999`, `{"city":"a","days":1.0}`} {
		f.Add("weather", s)
		f.Add("wether", s)
	}
	schemed := weather()
	tools := []*Tool{
		Must(New("weather", "", func(_ context.Context, w where) (where, error) { return w, nil })),
		{Name: "raw.echo", Run: func(_ context.Context, c Call) (Result, error) { return Result{Content: c.Arguments}, nil }},
	}
	f.Fuzz(func(t *testing.T, name, arguments string) {
		for _, name := range []string{name, "weather", "raw_echo"} {
			for _, r := range (&Runner{}).Run(t.Context(), tools, []Call{{ID: "1", Name: name, Arguments: json.RawMessage(arguments)}}) {
				value := r.Value()
				if !json.Valid(value) || !utf8.Valid(value) {
					t.Fatalf("%q(%q): the value %q is no JSON", name, arguments, value)
				}
				if r.Err == nil && r.Name == "weather" && schemed.fits(r.Content) != nil {
					t.Fatalf("the tool ran with %s", r.Content)
				}
			}
		}
	})
}

// FuzzResults: whatever a tool returns, there is one JSON value of it.
func FuzzResults(f *testing.F) {
	f.Add(`"text"`, "a part", "")
	f.Add(`{"a":1}`, "", "an error")
	f.Add("{\"a\":\"\xff\"}", "\xff", "\xff")
	f.Add(`{`, "", "")
	f.Add(``, "data:image/png;base64,AA==", "")
	f.Fuzz(func(t *testing.T, content, part, message string) {
		tool := &Tool{Name: "any", Run: func(context.Context, Call) (Result, error) {
			r := Result{Content: json.RawMessage(content)}
			if part != "" {
				r.Parts = []Part{{Type: "text", Text: part}, {Type: "image_url", Image: part}}
			}
			if message != "" {
				return r, errors.New(message)
			}
			return r, nil
		}}
		for _, r := range (&Runner{}).Run(t.Context(), []*Tool{tool}, []Call{{Name: "any"}}) {
			if value := r.Value(); !json.Valid(value) || !utf8.Valid(value) {
				t.Fatalf("the value %q is no JSON", value)
			}
			if text := r.Text(); r.Err != nil && len(r.Err.Message) > maxMessage+3 || !utf8.ValidString(text) {
				t.Fatalf("the text %q", text)
			}
		}
	})
}

func BenchmarkRun(b *testing.B) {
	tools := []*Tool{weather()}
	calls := []Call{call("weather", `{"city":"Lima"}`)}
	r := &Runner{}
	b.ReportAllocs()
	for b.Loop() {
		for range r.Run(b.Context(), tools, calls) {
		}
	}
}

func TestCallsFindTheirKeys(t *testing.T) {
	key := func(ctx context.Context) (string, error) { return "<" + Key(ctx) + ">", nil }
	tools := []*Tool{does("one", key), does("other", key)}
	one, other := call("one", "{}"), call("other", "{}")
	one.Key, other.Key = "k1", "k2"
	var asked string
	r := &Runner{Before: func(ctx context.Context, _ *Tool, c Call) (json.RawMessage, *Result, error) {
		if c.Key != Key(ctx) {
			asked += c.Key
		}
		return c.Arguments, nil, nil
	}}
	var got []string
	for _, result := range all(t, t.Context(), r, tools, one, other, call("one", "{}")) {
		got = append(got, result.Text())
	}
	if diff := cmp.Diff([]string{"<k1>", "<k2>", "<>"}, got); diff != "" || asked != "" {
		t.Error(diff, asked)
	}
	if text, err := json.Marshal(one); err != nil || strings.Contains(string(text), "k1") {
		t.Errorf("%s %v", text, err)
	}
}

// What a call interrupts the loop for happens in the loop's goroutine, before the call's result, and not when the loop was left.
func TestACallInterruptsTheLoop(t *testing.T) {
	for _, leave := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var order []string
			says := func(name string, after time.Duration) *Tool {
				return does(name, func(ctx context.Context) (string, error) {
					time.Sleep(after)
					Interrupt(ctx, func() { order = append(order, name+" says") })
					return "", nil
				})
			}
			tools := []*Tool{says("first", time.Second), says("second", 2*time.Second)}
			for i := range new(Runner).Run(t.Context(), tools, []Call{call("first", ""), call("second", "")}) {
				if order = append(order, fmt.Sprint("result ", i)); leave {
					break
				}
			}
			want := []string{"first says", "result 0", "second says", "result 1"}
			if leave {
				want = want[:2]
			}
			if !slices.Equal(order, want) {
				t.Errorf("got %q, want %q", order, want)
			}
		})
	}
}
