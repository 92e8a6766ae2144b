package ling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/tube"
)

// All tests run in bubbles: a goroutine that outlives its test fails it (LI-04).

// LI-01, LI-03: the way that Ling is used. Strings of one bot start others while it still writes.
func TestABotsStringsStartOthersWhileItWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{}, &Options{Workflow: "encyclopedia", Session: "s", Model: "fake:m", Models: models{
			"outline": {text: `{"topics":["sky","sea","sun"]}`, pace: 10 * time.Millisecond},
			"sky":     {text: `{"body":"It is blue."}`, pace: time.Second},
			"sea":     {text: `{"body":"It is wet."}`, pace: time.Millisecond},
			"sun":     {text: `{"body":"It is hot."}`},
		}})
		start := time.Now()
		var began []time.Duration
		ask(t, m, "outline", "outline", "outline", bot.Listener{String: func(v bot.StringValue) {
			began = append(began, time.Since(start))
			ask(t, m, "topic", "topics/"+v.Value, v.Value, bot.Listener{})
		}})
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		// 22 characters are six tokens: the slowest bot began with the second or third token of the first.
		if took := time.Since(start); took != began[0]+6*time.Second {
			t.Errorf("took %v, the first topic began at %v", took, began[0])
		}
		if began[0] >= began[2] {
			t.Errorf("the topics did not begin while the outline was written: %v", began)
		}
		r, err := m.Result(t.Context())
		want := `{"outline":{"topics":["sky","sea","sun"]},"topics":{"sky":{"body":"It is blue."},"sea":{"body":"It is wet."},"sun":{"body":"It is hot."}}}`
		if err != nil || r.Status != "completed" {
			t.Fatal(r.Status, err)
		}
		if !equal(t, want, r.Result) {
			t.Errorf("%s", r.Result)
		}
		usage := map[string]adapter.Usage{
			"outline": {PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3}, "topic": {PromptTokens: 3, CompletionTokens: 6, TotalTokens: 9},
		}
		if diff := cmp.Diff(usage, r.Usage); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`{"event":"started","data":{"run":"RUN","workflow":"encyclopedia","session":"s","model":"fake:m"}}`,
			`{"event":"finished","data":{"status":"completed"}}`,
		}, named(m)); diff != "" {
			t.Error(diff)
		}
	})
}

// LI-03: the stream ends with no time passing after the last bot.
func TestCloseReturnsWithTheLastOfWhatRuns(t *testing.T) {
	quick := models{"q": {text: `{"a":1}`, pace: time.Second}} // two tokens
	for _, c := range []struct {
		name  string
		start func(t *testing.T, m *Manager)
		took  time.Duration
	}{
		{"nothing", func(*testing.T, *Manager) {}, 0},
		{"a bot that is never started", func(t *testing.T, m *Manager) { m.CreateBot("b", "", nil) }, 0},
		{"a bot", func(t *testing.T, m *Manager) { ask(t, m, "b", "", "q", bot.Listener{}) }, 2 * time.Second},
		{"a bot started by a callback at the end", func(t *testing.T, m *Manager) {
			ask(t, m, "b", "x", "q", bot.Listener{Response: func(bot.Response) { ask(t, m, "c", "y", "q", bot.Listener{}) }})
		}, 4 * time.Second},
		{"a bot started when another failed", func(t *testing.T, m *Manager) {
			ask(t, m, "b", "x", "unknown", bot.Listener{Error: func(error) { ask(t, m, "c", "y", "q", bot.Listener{}) }})
		}, 2 * time.Second},
		{"a slow callback", func(t *testing.T, m *Manager) {
			ask(t, m, "b", "", "q", bot.Listener{Response: func(bot.Response) { time.Sleep(time.Minute) }})
		}, 62 * time.Second},
		{"a task", func(t *testing.T, m *Manager) {
			m.Go(func(context.Context) error { time.Sleep(time.Second); return nil })
		}, time.Second},
		{"a task that starts a task that starts a bot", func(t *testing.T, m *Manager) {
			m.Go(func(context.Context) error {
				time.Sleep(time.Second)
				return m.Go(func(context.Context) error {
					time.Sleep(time.Second)
					ask(t, m, "b", "", "q", bot.Listener{})
					return nil
				})
			})
		}, 4 * time.Second},
		{"a custom bot", func(t *testing.T, m *Manager) {
			b := new(drawing)
			if err := m.AddBot(b); err != nil {
				t.Fatal(err)
			}
			b.draw(m, 3*time.Second, nil)
		}, 3 * time.Second},
		{"a custom bot that was started before it was added", func(t *testing.T, m *Manager) {
			b := new(drawing)
			b.draw(m, 3*time.Second, nil)
			if err := m.AddBot(b); err != nil {
				t.Fatal(err)
			}
		}, 3 * time.Second},
		{"a custom bot that has ended before it was added", func(t *testing.T, m *Manager) {
			b := new(drawing)
			b.draw(m, time.Second, nil)
			time.Sleep(2 * time.Second)
			if err := m.AddBot(b); err != nil {
				t.Fatal(err)
			}
		}, 2 * time.Second},
		{"a custom bot that is never started", func(t *testing.T, m *Manager) { m.AddBot(new(drawing)) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(t.Context(), bot.Config{}, &Options{Models: quick})
				start := time.Now()
				c.start(t, m)
				m.Close()
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v, not %v", took, c.took)
				}
				select {
				case <-m.Tube().Ended():
				default:
					t.Error("the tube has not ended")
				}
				if m.Context().Err() == nil {
					t.Error("the context has not ended")
				}
			})
		})
	}
}

// drawing is a custom bot.
type drawing struct{ bot.Machine }

func (d *drawing) draw(m *Manager, takes time.Duration, err error) {
	d.To(bot.Chatting)
	go func() {
		select {
		case <-time.After(takes):
		case <-m.Context().Done():
			d.Fail(context.Cause(m.Context()))
			return
		}
		if err != nil {
			d.Fail(err)
			return
		}
		d.To(bot.InferenceDone)
		d.To(bot.Finished)
	}()
}

// LI-02
func TestResultIsTheFoldOfAllEventsAnyTimeAndAnyNumberOfTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{}, &Options{Models: models{
			"a": {text: `{"a":1,"secret":"x"}`, pace: time.Second}, "b": {text: `{"b":[1]}`, pace: 2 * time.Second},
		}})
		m.Tube().AddFilter(tube.Filter{Exclude: []tube.Matcher{tube.URI("secret")}})
		var wg sync.WaitGroup
		want := `{"a":1,"secret":"x","quiet":{"b":[1]}}`
		result := func(when string) {
			r, err := m.Result(t.Context())
			if err != nil || !equal(t, want, r.Result) {
				t.Errorf("%s: %s, %v", when, r.Result, err)
			}
		}
		for range 3 {
			wg.Go(func() { result("asked before the start") })
		}
		synctest.Wait()
		ask(t, m, "a", "", "a", bot.Listener{})
		quiet, err := m.CreateBot("b", "quiet", func(c *bot.Config) { c.Quiet = true })
		if err != nil {
			t.Fatal(err)
		}
		quiet.Chat(bot.Message{Text: "b"})
		time.Sleep(1500 * time.Millisecond)
		if r := m.Peek(true); r.Status != "running" {
			t.Errorf("while it runs: %+v", r)
		}
		wg.Go(func() { result("asked in the middle") })
		m.Close()
		wg.Wait()
		result("asked after the end")
		result("asked again")
		if r := m.Peek(false); string(r.Result) != `{"a":1}` || r.Status != "completed" {
			t.Errorf("clients see %+v", r)
		}
	})
	t.Run("until its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := New(t.Context(), bot.Config{}, &Options{Models: models{"a": {text: `{"a":"b`, hang: true}}})
			ask(t, m, "a", "", "a", bot.Listener{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r, err := m.Result(ctx)
			if !errors.Is(err, context.DeadlineExceeded) || string(r.Result) != `{"a":"b"}` {
				t.Errorf("%s, %v", r.Result, err)
			}
			m.Cancel(nil)
		})
	})
}

// LI-02: an error still carries the partial result, and ends nothing else.
func TestABotThatFailsEndsNothingButItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := &adapter.Error{Code: adapter.CodeRateLimited, Message: "too many requests", Retryable: true}
		m := New(t.Context(), bot.Config{}, &Options{Models: models{
			"bad": {text: `{"x":"half`, err: limited}, "good": {text: `{"y":1}`, pace: time.Second},
		}})
		ask(t, m, "bad", "a", "bad", bot.Listener{})
		ask(t, m, "good", "b", "good", bot.Listener{})
		r, err := m.Result(t.Context())
		if got, _ := errors.AsType[*adapter.Error](err); got != limited || err.Error() != "bot bad: too many requests" {
			t.Errorf("got %v", err)
		}
		if !equal(t, `{"a":{"x":"half"},"b":{"y":1}}`, r.Result) {
			t.Errorf("%s", r.Result)
		}
		if err := m.Close(); err == nil {
			t.Error("Close does not say that the run has failed")
		}
		want := []ErrorData{{Code: "upstream_rate_limited", Message: "too many requests", Bot: "bad", Retryable: true, Failed: true}}
		if diff := cmp.Diff(want, m.Peek(true).Errors); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`{"event":"started","data":{"run":"RUN"}}`,
			`{"event":"error","data":{"code":"upstream_rate_limited","message":"too many requests","bot":"bad","retryable":true,"fatal":false,"failed":true}}`,
			`{"event":"finished","data":{"status":"failed"}}`,
		}, named(m)); diff != "" {
			t.Error(diff)
		}
	})
}

// DW-04: the "error" event and the result say that the failure was handled.
func TestAFailureThatWasHandledDoesNotFailTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{}, &Options{Models: models{"plan b": {text: `{"y":1}`}}})
		var b *bot.ChatBot
		b, _ = m.CreateBot("first", "a", nil)
		m.OnFailure(b, func(err error) bool { return err.Error() == `no answer to "unknown"` })
		b.Listen(bot.Listener{Error: func(error) { ask(t, m, "second", "a", "plan b", bot.Listener{}) }})
		b.Chat(bot.Message{Text: "unknown"})
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if r := m.Peek(true); r.Status != "completed" || len(r.Errors) != 1 || !r.Errors[0].Handled || string(r.Result) != `{"a":{"y":1}}` {
			t.Errorf("%+v", r)
		}
		if diff := cmp.Diff([]string{
			`{"event":"started","data":{"run":"RUN"}}`,
			`{"event":"error","data":{"code":"invalid_request","message":"no answer to \"unknown\"","bot":"first","retryable":false,"fatal":false,"failed":true,"handled":true}}`,
			`{"event":"finished","data":{"status":"completed"}}`,
		}, named(m)); diff != "" {
			t.Error(diff)
		}
	})
}

// LI-05
func TestTasksAndCustomBotsFailAsBotsDo(t *testing.T) {
	secret := errors.New("Get https://internal.example/?key=sk-CANARY: refused")
	for _, c := range []struct {
		name    string
		start   func(m *Manager)
		message *regexp.Regexp
		code    string
	}{
		{"an error that may be shown", func(m *Manager) {
			m.Go(func(context.Context) error {
				return &bot.Failure{Code: bot.CodeInvalid, Message: "no such city", Cause: secret}
			})
		}, regexp.MustCompile(`^no such city$`), "invalid_request"},
		{"an error that may not be shown", func(m *Manager) {
			m.Go(func(context.Context) error { return secret })
		}, regexp.MustCompile(`^internal error; find it in the server's log as [0-9a-f]{12}$`), "internal"},
		{"a panic in a task", func(m *Manager) {
			m.Go(func(context.Context) error { panic(secret) })
		}, regexp.MustCompile(`^internal error; find it in the server's log as [0-9a-f]{12}$`), "internal"},
		{"a panic in a callback", func(m *Manager) {
			b, _ := m.CreateBot("b", "", nil)
			b.Listen(bot.Listener{String: func(bot.StringValue) { panic(secret) }})
			b.Chat(bot.Message{Text: "q"})
		}, regexp.MustCompile(`^internal error; find it in the server's log as [0-9a-f]{12}$`), "internal"},
		{"a panic in the model", func(m *Manager) {
			b, _ := m.CreateBot("b", "", nil)
			b.Chat(bot.Message{Text: "panics"})
		}, regexp.MustCompile(`^internal error; find it in the server's log as [0-9a-f]{12}$`), "internal"},
		{"a custom bot", func(m *Manager) {
			b := new(drawing)
			m.AddBot(b)
			b.draw(m, time.Second, &bot.Failure{Message: "no paint"})
		}, regexp.MustCompile(`^no paint$`), "internal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				m := New(t.Context(), bot.Config{}, &Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Models: models{"q": {text: `{"a":"b"}`}, "panics": {text: `{"a":"b"}`, panic: "sk-CANARY"}, "other": {text: `{"c":1}`, pace: time.Second}}})
				c.start(m)
				ask(t, m, "other", "other", "other", bot.Listener{})
				err := m.Close()
				r := m.Peek(true)
				if err == nil || r.Status != "failed" || len(r.Errors) != 1 || !strings.Contains(string(r.Result), `"other":{"c":1}`) {
					t.Fatalf("%v %+v", err, r)
				}
				if e := r.Errors[0]; !c.message.MatchString(e.Message) || e.Code != c.code || e.Fatal {
					t.Errorf("%+v", e)
				}
				if all := strings.Join(named(m), "\n"); strings.Contains(all, "CANARY") || strings.Contains(all, "goroutine") {
					t.Errorf("it shows %s", all)
				}
				if e := r.Errors[0]; !strings.Contains(log.String(), m.ID()) || e.Code == "internal" && e.Bot == "" && strings.HasPrefix(e.Message, "internal") &&
					(!strings.Contains(log.String(), "CANARY") || !strings.Contains(log.String(), e.Message[len(e.Message)-12:])) {
					t.Errorf("the log does not say what happened:\n%s", log.String())
				}
			})
		})
	}
}

// LI-04, FT-35
func TestCancelStopsEverythingAndWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		m := New(t.Context(), bot.Config{}, &Options{Models: models{
			"hangs": {text: `{"a":"b`, hang: true, open: &open}, "slow": {text: `{"c":"dddddddddd"}`, pace: time.Minute, open: &open},
		}})
		stopped := false
		ask(t, m, "hangs", "x", "hangs", bot.Listener{Error: func(error) { time.Sleep(time.Second); stopped = true }})
		ask(t, m, "slow", "y", "slow", bot.Listener{})
		m.Go(func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		d := new(drawing)
		m.AddBot(d)
		d.draw(m, time.Hour, nil)
		time.Sleep(90 * time.Second)
		if open.Load() != 2 {
			t.Fatalf("%d streams are open", open.Load())
		}
		start := time.Now()
		closed := make(chan error)
		go func() { closed <- m.Close() }()
		synctest.Wait()
		gone := errors.New("the client has gone")
		if err := m.Cancel(gone); err != nil {
			t.Error(err)
		}
		if open.Load() != 0 || !stopped || time.Since(start) != time.Second {
			t.Errorf("%d streams are open, callback done %v, took %v", open.Load(), stopped, time.Since(start))
		}
		if err := <-closed; !errors.Is(err, gone) {
			t.Errorf("Close says %v", err)
		}
		if err := m.Cancel(nil); !errors.Is(err, tube.ErrEnded) {
			t.Errorf("a second Cancel says %v", err)
		}
		r, err := m.Result(t.Context())
		if !errors.Is(err, gone) || r.Status != "canceled" || !equal(t, `{"x":{"a":"b"},"y":{}}`, r.Result) || len(r.Errors) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if diff := cmp.Diff([]string{
			`{"event":"started","data":{"run":"RUN"}}`, `{"event":"canceled","data":{"reason":"the client has gone"}}`,
		}, named(m)); diff != "" {
			t.Error(diff)
		}
		if _, err := m.CreateBot("late", "", nil); !errors.Is(err, ErrEnded) {
			t.Errorf("a bot was made after the end: %v", err)
		}
		if err := m.Go(func(context.Context) error { return nil }); !errors.Is(err, ErrEnded) {
			t.Errorf("a task was started after the end: %v", err)
		}
		if err := m.SendEvent("late", nil); !errors.Is(err, tube.ErrEnded) {
			t.Errorf("an event was sent after the end: %v", err)
		}
	})
}

// CL-08: who cancels a run that has come to its end, though nobody is shown that yet, is not told that it is canceled.
func TestARunWhoseEndWaitsToBeShownIsNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{}, &Options{HoldEnd: true})
		m.Close()
		select {
		case <-m.Tube().Ended():
			t.Fatal("the end is shown")
		default:
		}
		if m.Stop(errors.New("too late")) {
			t.Error("it was stopped behind its end")
		}
		m.Tube().ShowEnd()
		if lines := named(m); lines[len(lines)-1] != `{"event":"finished","data":{"status":"completed"}}` {
			t.Errorf("it has ended with %s", lines[len(lines)-1])
		}
	})
}

func TestTheEndSaysWhy(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(m *Manager, cancel context.CancelCauseFunc)
		want string
	}{
		{"canceled without a cause", func(m *Manager, _ context.CancelCauseFunc) { m.Cancel(nil) }, `{"event":"canceled","data":{"reason":"canceled"}}`},
		{"the context", func(m *Manager, cancel context.CancelCauseFunc) { cancel(errors.New("shutting down")) }, `{"event":"canceled","data":{"reason":"shutting down"}}`},
		{"interrupted", func(m *Manager, _ context.CancelCauseFunc) { m.Cancel(fmt.Errorf("deploy: %w", ErrInterrupted)) }, `{"event":"finished","data":{"status":"interrupted"}}`},
		{"stopped by a task", func(m *Manager, _ context.CancelCauseFunc) {
			m.Go(func(context.Context) error { m.Stop(errors.New("not allowed")); return nil })
		}, `{"event":"canceled","data":{"reason":"not allowed"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				m := New(ctx, bot.Config{}, &Options{Models: models{"q": {text: `{"a":1`, hang: true}}})
				ask(t, m, "b", "", "q", bot.Listener{})
				synctest.Wait()
				c.end(m, cancel)
				m.Close()
				lines := named(m)
				if diff := cmp.Diff(c.want, lines[len(lines)-1]); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A run that is interrupted says why before its end, and whether to ask again; a cause that is made to be shown says it itself.
func TestAnInterruptedRunSaysWhy(t *testing.T) {
	for cause, want := range map[error]string{
		fmt.Errorf("deploy: %w", ErrInterrupted):                                    `{"event":"error","data":{"code":"draining","message":"the server is shutting down; the run's events so far are kept","retryable":true,"fatal":true}}`,
		&bot.Failure{Code: "draining", Message: "come back", Cause: ErrInterrupted}: `{"event":"error","data":{"code":"draining","message":"come back","retryable":false,"fatal":true}}`,
	} {
		m := New(t.Context(), bot.Config{}, nil)
		m.Cancel(cause)
		lines := named(m)
		if diff := cmp.Diff([]string{want, `{"event":"finished","data":{"status":"interrupted"}}`}, lines[len(lines)-2:]); diff != "" {
			t.Error(diff)
		}
		if r := m.Peek(true); r.Status != "interrupted" || len(r.Errors) != 1 || !r.Errors[0].Fatal {
			t.Errorf("%+v", r)
		}
	}
}

// TB-04: one terminal event, whoever ends the run.
func TestCloseAndCancelRaceForOneEnd(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			m := New(t.Context(), bot.Config{}, &Options{Models: models{"q": {text: `{"a":1}`}}})
			ask(t, m, "b", "", "q", bot.Listener{})
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { m.Close() })
				wg.Go(func() { m.Cancel(nil) })
			}
			wg.Wait()
			ends := 0
			for e := range m.Tube().AllEvents(t.Context(), 0) {
				if e.Terminal() {
					ends++
				}
			}
			if ends != 1 {
				t.Fatalf("%d ends", ends)
			}
		})
	}
}

// LI-06
func TestARunThatGoesOverALimitFailsAndSaysSo(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		work    func(t *testing.T, m *Manager) error
		message string
	}{
		{"bots", Options{MaxBots: 2}, func(t *testing.T, m *Manager) error {
			ask(t, m, "b", "x", "hangs", bot.Listener{})
			m.AddBot(new(drawing))
			_, err := m.CreateBot("c", "", nil)
			return err
		}, "the run exceeds its limit of 2 bots"},
		{"tasks", Options{MaxTasks: 1}, func(t *testing.T, m *Manager) error {
			ask(t, m, "b", "x", "hangs", bot.Listener{})
			m.Go(func(ctx context.Context) error { <-ctx.Done(); return nil })
			return m.Go(func(context.Context) error { return nil })
		}, "the run exceeds its limit of 1 tasks"},
		{"result", Options{MaxResult: 1000}, func(t *testing.T, m *Manager) error {
			b := ask(t, m, "b", "x", "long", bot.Listener{})
			_, err := b.Wait(t.Context())
			return err
		}, "the run's result exceeds the limit of 1000 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.options.Models = models{"hangs": {text: `{"a":"b`, hang: true}, "long": {text: `{"a":"` + strings.Repeat("x", 4000), hang: true}}
				m := New(t.Context(), bot.Config{}, &c.options)
				err := c.work(t, m)
				if f, ok := errors.AsType[*bot.Failure](err); !ok || f.Code != bot.CodeTooLarge || f.Message != c.message {
					t.Errorf("got %v", err)
				}
				if err := m.Close(); err == nil || err.Error() != c.message {
					t.Errorf("Close says %v", err)
				}
				if diff := cmp.Diff([]string{
					`{"event":"started","data":{"run":"RUN"}}`,
					`{"event":"error","data":{"code":"too_large","message":"` + c.message + `","retryable":false,"fatal":true}}`,
					`{"event":"finished","data":{"status":"failed"}}`,
				}, named(m)); diff != "" {
					t.Error(diff)
				}
				if n := len(m.Peek(true).Result); n > 1100 {
					t.Errorf("the result has %d bytes", n)
				}
			})
		})
	}
}

// PROTOCOL 1.1
func TestTwoBotsThatWriteToOnePlaceAreReportedOnce(t *testing.T) {
	slow := func(text string) answer { return answer{text: text, pace: time.Second} }
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		name  string
		roots [2]string
		texts [2]answer
		apart time.Duration
		want  []string // pointers
	}{
		{"the same string", [2]string{"a", "a"}, [2]answer{slow(`{"s":"` + long + `"}`), slow(`{"s":"` + long + `"}`)}, 0, []string{"/a/s"}},
		{"two strings, one after the other", [2]string{"", ""}, [2]answer{slow(`{"s":"` + long + `","t":"` + long + `"}`), slow(`{"s":"` + long + `","t":"` + long + `"}`)}, 0, []string{"/s", "/t"}},
		{"the same array", [2]string{"", ""}, [2]answer{slow(`{"s":["` + long + `"]}`), slow(`{"s":[ ` + strings.Repeat("1,", 30) + `1]}`)}, 0, []string{"/s"}},
		{"a string into which the other's root leads", [2]string{"", "s"}, [2]answer{slow(`{"s":"` + strings.Repeat(long, 5) + `"}`), slow(`"` + long + `"`)}, 8 * time.Second, []string{"/s"}},
		{"an array that was open before the other began", [2]string{"x", "x/list"}, [2]answer{slow(`{"list":["` + long + `","` + long + `"]}`), slow(`[1,2,3,4,5,6]`)}, 10 * time.Second, []string{"/x/list"}},
		{"side by side", [2]string{"", ""}, [2]answer{slow(`{"s":"` + long + `"}`), slow(`{"t":["` + long + `"]}`)}, 0, nil},
		{"different roots", [2]string{"a", "ab"}, [2]answer{slow(`{"s":"` + long + `"}`), slow(`{"s":"` + long + `"}`)}, 0, nil},
		{"inside of an element of the other's array", [2]string{"x", "x/list/0/body"}, [2]answer{slow(`{"list":[{"t":"a"},{"t":"` + long + `"}]}`), slow(`"` + long + `"`)}, 10 * time.Second, nil},
		{"one after the other", [2]string{"", ""}, [2]answer{slow(`{"s":"x"}`), slow(`{"s":"` + long + `"}`)}, 10 * time.Second, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(t.Context(), bot.Config{}, &Options{Models: models{"0": c.texts[0], "1": c.texts[1]}})
				ask(t, m, "first", c.roots[0], "0", bot.Listener{})
				time.Sleep(c.apart)
				ask(t, m, "second", c.roots[1], "1", bot.Listener{})
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, e := range m.Peek(true).Errors {
					if e.Code != bot.CodeConflict || e.Fatal || !strings.Contains(e.Message, `"first"`) || !strings.Contains(e.Message, `"second"`) {
						t.Errorf("%+v", e)
					}
					got = append(got, e.Pointer)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				if len(m.open) > 0 {
					t.Errorf("it still knows of %v", m.open)
				}
			})
		})
	}
}

func TestReportsAndEventsAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{}, nil)
		m.Report("b", errors.New("it was started 20 times, which is its max"))
		m.Report("", &bot.Failure{Code: bot.CodeInvalid, Message: "odd", Pointer: "/a"})
		if err := m.SendEvent("outline-ready", map[string]any{"text": "a<b\n\"c\""}); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"started", "error", "usage", "html", "finished", "canceled", "", "no spaces", "a\nb"} {
			if err := m.SendEvent(name, nil); err == nil {
				t.Errorf("the event name %q was accepted", name)
			}
		}
		if err := m.SendEvent("x", func() {}); err == nil {
			t.Error("a func was accepted as data")
		}
		if err := m.Close(); err != nil {
			t.Errorf("a report made the run fail: %v", err)
		}
		if diff := cmp.Diff([]string{
			`{"event":"started","data":{"run":"RUN"}}`,
			`{"event":"error","data":{"code":"internal","message":"it was started 20 times, which is its max","bot":"b","retryable":false,"fatal":false}}`,
			`{"event":"error","data":{"code":"invalid_request","message":"odd","pointer":"/a","retryable":false,"fatal":false}}`,
			`{"event":"outline-ready","data":{"text":"a<b\n\"c\""}}`,
			`{"event":"finished","data":{"status":"completed"}}`,
		}, named(m)); diff != "" {
			t.Error(diff)
		}
	})
}

// BO-02
func TestCustomParamsReachThePromptsOfLaterBots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{}, nil)
		before, _ := m.CreateBot("before", "", nil)
		params := map[string]any{"tone": "calm"}
		m.SetCustomParams(params)
		params["tone"] = "changed later"
		after, _ := m.CreateBot("after", "", nil)
		const member = "{{ tone.x }}" // an error only where tone is a text
		if err := before.AddPrompt(member, nil); err != nil {
			t.Errorf("a bot knows params that were set later: %v", err)
		}
		if err := after.AddPrompt(member, nil); err == nil {
			t.Error("a bot does not know the params")
		}
		if diff := cmp.Diff(map[string]any{"tone": "calm"}, m.CustomParams()); diff != "" {
			t.Error(diff)
		}
		m.Close()
	})
}

func TestARootThatIsNoURIIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{}, nil)
		if _, err := m.CreateBot("b", `a//b\`, nil); err == nil {
			t.Error("it was accepted")
		}
		m.Close()
	})
}

// PROTOCOL 1.4
func TestIDsAreRandomAndSafeInURLs(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]{26}$`)
	seen := map[string]bool{}
	for range 10_000 {
		id := NewID()
		if !form.MatchString(id) || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
}

// LI-04: nothing of a run is left behind, however many there were.
func TestManyRunsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				m := New(t.Context(), bot.Config{}, &Options{Models: models{
					"q": {text: `{"a":["b","c"]}`, pace: time.Millisecond}, "b": {text: `{}`}, "c": {text: `{"x":1}`, pace: time.Second}, "h": {text: `{"h":"`, hang: true},
				}})
				ask(t, m, "q", "q", "q", bot.Listener{String: func(v bot.StringValue) {
					if b, err := m.CreateBot(v.Value, v.Value, nil); err == nil {
						b.Chat(bot.Message{Text: v.Value})
					}
				}})
				if i%3 == 0 {
					ask(t, m, "h", "h", "h", bot.Listener{})
					time.Sleep(time.Duration(i) * time.Millisecond / 10)
					m.Cancel(nil)
					return
				}
				m.Close()
			})
		}
		wg.Wait()
	})
}

// RP-08, AD-08: the result says what was mended, and that an answer was cut off.
func TestTheResultSaysWhatWasMendedAndCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{}, &Options{Models: models{
			"fine": {text: `{"a":1}`}, "odd": {text: `{a: 'b', c: True}`}, "long": {text: `{"a":"unfin`, finish: adapter.FinishLength},
		}})
		for _, name := range []string{"fine", "odd", "long"} {
			ask(t, m, name, name, name, bot.Listener{})
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		r := m.Peek(true)
		if r.Status != "completed" || !r.Truncated || !equal(t, `{"fine":{"a":1},"odd":{"a":"b","c":true},"long":{"a":"unfin"}}`, r.Result) {
			t.Errorf("%+v", r)
		}
		if len(r.Repairs["fine"]) != 0 || r.Repairs["odd"]["unquoted_key"] != 2 || r.Repairs["odd"]["literal"] != 1 || len(r.Repairs["long"]) == 0 {
			t.Errorf("%v", r.Repairs)
		}
		want := []ErrorData{{
			Code: bot.CodeOutputInvalid, Bot: "long", Pointer: "/long/a",
			Message: "the answer is incomplete, because the model reached its token limit",
		}}
		if diff := cmp.Diff(want, r.Errors); diff != "" {
			t.Error(diff)
		}
	})
}
