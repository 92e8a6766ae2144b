// Package controltest is the test of every [control.Control].
package controltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/internal/longtest"
)

// Replica is one of those that ask each other.
type Replica struct {
	control.Control
	// Leave ends it while its handlers run; nil where that cannot be.
	Leave func()
	// Lose has so many of the answers lost that it gives next; nil where none can be.
	Lose func(count int)
}

// patient is what only a failure takes.
const patient = time.Minute

// Test runs the suite. open makes a replica that can ask all others that the same t has made; alone says that there are no others.
func Test(t *testing.T, alone bool, open func(t *testing.T) Replica) {
	pairs := map[string]func(t *testing.T) (asker, other Replica){
		"itself": func(t *testing.T) (Replica, Replica) { r := open(t); return r, r },
	}
	if !alone {
		pairs["another"] = func(t *testing.T) (Replica, Replica) { return open(t), open(t) }
	}
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			for _, test := range []struct {
				name string
				run  func(t *testing.T, asker, other Replica)
			}{
				{"a request arrives as it was asked", arrives},
				{"bodies of all sizes", sizes},
				{"an error has its code and its text", failures},
				{"a handler that panics has failed", panics},
				{"who is not there is gone at once", gone},
				{"requests are served side by side", sideBySide},
				{"there are so many at once", bounded},
				{"the time of who asks is the handler's", deadline},
				{"what has begun is done whole", whole},
				{"stop waits for what runs", stops},
				{"the trace goes on", traced},
				{"CL-08: a request takes effect within 200 ms", soon},
				{"CL-08: a request that comes twice is served once", once},
				{"CL-08: who asks again while a request is served gets its answer", along},
				{"CL-08: an answer that is lost is had by asking again", loses},
			} {
				t.Run(test.name, func(t *testing.T) {
					asker, other := pair(t)
					test.run(t, asker, other)
				})
			}
		})
	}
	if alone {
		return
	}
	t.Run("who goes while being asked is lost", func(t *testing.T) { leaves(t, open(t), open(t)) })
	t.Run("many ask many", func(t *testing.T) { many(t, []Replica{open(t), open(t), open(t)}) })
}

func serve(t *testing.T, c control.Control, h control.Handler) (stop func()) {
	t.Helper()
	stop, err := c.Serve(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return stop
}

func ask(t *testing.T, from, to Replica, r control.Request) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	return from.Ask(ctx, to.Replica(), r)
}

func arrives(t *testing.T, asker, other Replica) {
	got := make(chan control.Request, 1)
	serve(t, other, func(_ context.Context, r control.Request) ([]byte, error) {
		got <- r
		return []byte("完成"), nil
	})
	for _, want := range []control.Request{
		{Command: "cancel"},
		{ID: "1\n%2", Command: "say", Run: "abc", Session: "web:ada/旅行\r\n x=%20+", Body: []byte("{\"text\":\"你好\\n\"}\x00\xff")},
		{Command: "approve\n", Run: strings.Repeat("ü", control.MaxName/2), Session: strings.Repeat("\n", control.MaxName)},
	} {
		answer, err := ask(t, asker, other, want)
		if err != nil || string(answer) != "完成" {
			t.Fatalf("%q: %q, %v", want.Command, answer, err)
		}
		if r := <-got; r.ID != want.ID || r.Command != want.Command || r.Run != want.Run || r.Session != want.Session || !bytes.Equal(r.Body, want.Body) {
			t.Errorf("it has got %+v, want %+v", r, want)
		}
	}
	for _, bad := range []control.Request{{}, {Command: "x", Run: strings.Repeat("x", control.MaxName+1)}} {
		if _, err := ask(t, asker, other, bad); err == nil {
			t.Errorf("it was asked %.40q", bad.Command)
		}
	}
}

func sizes(t *testing.T, asker, other Replica) {
	serve(t, other, func(_ context.Context, r control.Request) ([]byte, error) {
		if r.Command == "more" {
			return append(r.Body, '.'), nil
		}
		return bytes.ToUpper(r.Body), nil
	})
	for _, size := range []int{0, 1, 1 << 20, 1<<20 - 32<<10, 1<<20 - 32<<10 + 1, 3<<20 + 7, control.MaxBody} {
		body := bytes.Repeat([]byte("a"), size)
		if size > 0 {
			body[size-1] = 'z'
		}
		answer, err := ask(t, asker, other, control.Request{Command: "echo", Body: body})
		if err != nil || !bytes.Equal(answer, bytes.ToUpper(body)) {
			t.Errorf("a body of %d bytes: %d bytes, %v", size, len(answer), err)
		}
	}
	if _, err := ask(t, asker, other, control.Request{Command: "echo", Body: make([]byte, control.MaxBody+1)}); !errors.Is(err, control.ErrTooLarge) {
		t.Errorf("a body that is too large: %v", err)
	}
	_, err := ask(t, asker, other, control.Request{Command: "more", Body: make([]byte, control.MaxBody)})
	if e, ok := errors.AsType[*control.Error](err); !ok || e.Code != "too_large" {
		t.Errorf("an answer that is too large: %v", err)
	}
}

type coded struct{ code, text string }

func (e coded) Error() string     { return e.text }
func (e coded) ErrorCode() string { return e.code }

func failures(t *testing.T, asker, other Replica) {
	var next error
	serve(t, other, func(context.Context, control.Request) ([]byte, error) { return []byte("no answer"), next })
	for _, test := range []struct {
		err  error
		want control.Error
	}{
		{coded{"conflict", "the call has been answered,\r\nor is over: 已经"}, control.Error{Code: "conflict", Message: "the call has been answered,\r\nor is over: 已经"}},
		{fmt.Errorf("approve: %w", coded{"forbidden", "not you"}), control.Error{Code: "forbidden", Message: "approve: not you"}},
		{errors.New("the disk is full"), control.Error{Code: "internal", Message: "the disk is full"}},
		{control.ErrGone, control.Error{Code: "internal", Message: control.ErrGone.Error()}}, // another one, which the handler has asked
		{coded{"x", ""}, control.Error{Code: "x"}},
	} {
		next = test.err
		answer, err := ask(t, asker, other, control.Request{Command: "approve"})
		if e, ok := errors.AsType[*control.Error](err); !ok || *e != test.want || answer != nil {
			t.Errorf("%v: %q, %#v", test.err, answer, err)
		}
	}
	next = errors.New(strings.Repeat("语", 1<<20))
	if _, err := ask(t, asker, other, control.Request{Command: "approve"}); err == nil || !strings.HasPrefix(err.Error(), "语语") {
		t.Errorf("a long error: %.100v", err)
	}
}

func panics(t *testing.T, asker, other Replica) {
	serve(t, other, func(_ context.Context, r control.Request) ([]byte, error) {
		if r.Command == "panic" {
			panic("the secret of the handler")
		}
		return []byte("fine"), nil
	})
	_, err := ask(t, asker, other, control.Request{Command: "panic"})
	if e, ok := errors.AsType[*control.Error](err); !ok || e.Code != "internal" || strings.Contains(e.Message, "secret") {
		t.Error(err)
	}
	if answer, err := ask(t, asker, other, control.Request{Command: "go on"}); err != nil || string(answer) != "fine" {
		t.Errorf("after it: %q, %v", answer, err)
	}
}

func gone(t *testing.T, asker, other Replica) {
	begin := time.Now()
	if _, err := asker.Ask(t.Context(), "nobody", control.Request{Command: "cancel"}); !errors.Is(err, control.ErrGone) || errors.Is(err, control.ErrLost) {
		t.Errorf("one that never was: %v", err)
	}
	longtest.Within(t, "to know that nobody is there", time.Since(begin), time.Second)
	if _, err := ask(t, asker, other, control.Request{Command: "cancel"}); !errors.Is(err, control.ErrGone) {
		t.Errorf("one that does not serve: %v", err)
	}
	handler := func(context.Context, control.Request) ([]byte, error) { return nil, nil }
	stop := serve(t, other, handler)
	if _, err := other.Serve(handler); !errors.Is(err, control.ErrServed) {
		t.Errorf("served twice: %v", err)
	}
	if _, err := ask(t, asker, other, control.Request{Command: "cancel"}); err != nil {
		t.Error(err)
	}
	stop()
	if _, err := ask(t, asker, other, control.Request{Command: "cancel"}); !errors.Is(err, control.ErrGone) {
		t.Errorf("one that serves no more: %v", err)
	}
	serve(t, other, handler)
	if _, err := ask(t, asker, other, control.Request{Command: "cancel"}); err != nil {
		t.Errorf("one that serves again: %v", err)
	}
}

func sideBySide(t *testing.T, asker, other Replica) {
	const n = 50
	var all sync.WaitGroup
	all.Add(n)
	serve(t, other, func(ctx context.Context, _ control.Request) ([]byte, error) {
		all.Done()
		met := make(chan struct{})
		go func() { all.Wait(); close(met) }()
		select {
		case <-met:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := ask(t, asker, other, control.Request{Command: "meet"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func bounded(t *testing.T, asker, other Replica) {
	release := make(chan struct{})
	serve(t, other, func(ctx context.Context, _ control.Request) ([]byte, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, nil
	})
	const n = 400
	errs := make(chan error, n)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			_, err := ask(t, asker, other, control.Request{Command: "wait"})
			errs <- err
		})
	}
	refused, served := 0, 0
	for range n {
		if refused == n-256 { // the others wait
			close(release)
			refused++
		}
		err := <-errs
		if e, ok := errors.AsType[*control.Error](err); ok && e.Code == "overloaded" {
			refused++
		} else if err == nil {
			served++
		} else {
			t.Error(err)
		}
	}
	wg.Wait()
	if served != 256 {
		t.Errorf("%d were served", served)
	}
}

func deadline(t *testing.T, asker, other Replica) {
	begun, ended := make(chan struct{}, 100), make(chan struct{}, 100)
	serve(t, other, func(ctx context.Context, _ control.Request) ([]byte, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	})
	for wait := 100 * time.Millisecond; ; wait *= 2 { // a request may be so late that its time is over before anybody has seen it
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		_, err := asker.Ask(ctx, other.Replica(), control.Request{Command: "wait"})
		if e, ok := errors.AsType[*control.Error](err); !errors.Is(err, context.DeadlineExceeded) && (!ok || !strings.Contains(e.Message, "deadline")) {
			t.Errorf("got %v", err)
		}
		<-ctx.Done()
		if _, err := asker.Ask(ctx, other.Replica(), control.Request{Command: "wait"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("afterwards: %v", err)
		}
		select {
		case <-begun:
		case <-time.After(wait):
			if wait < patient {
				continue
			}
			t.Fatal("the handler is not called")
		}
		break
	}
	select {
	case <-ended:
	case <-time.After(patient):
		t.Error("the handler waits for ever")
	}
}

func whole(t *testing.T, asker, other Replica) {
	begun, left, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	serve(t, other, func(ctx context.Context, r control.Request) ([]byte, error) {
		close(begun)
		<-left
		if string(r.Body) != "whole" {
			result <- fmt.Errorf("the body is %q", r.Body)
		} else {
			result <- ctx.Err()
		}
		return nil, nil
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the client went away")
	body := []byte("whole")
	go func() { <-begun; cancel(why) }()
	if _, err := asker.Ask(ctx, other.Replica(), control.Request{Command: "approve", Body: body}); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	copy(body, "xxxxx") // it is the caller's again
	close(left)
	if err := <-result; err != nil {
		t.Errorf("the handler: %v", err)
	}
}

func stops(t *testing.T, asker, other Replica) {
	begun := make(chan struct{})
	ended := false
	stop := serve(t, other, func(ctx context.Context, _ control.Request) ([]byte, error) {
		close(begun)
		<-ctx.Done()
		ended = true
		return nil, coded{"draining", "the server is shutting down"}
	})
	errs := make(chan error, 1)
	go func() {
		_, err := ask(t, asker, other, control.Request{Command: "wait"})
		errs <- err
	}()
	<-begun
	stop()
	if !ended {
		t.Error("the handler goes on")
	}
	if e, ok := errors.AsType[*control.Error](<-errs); !ok || e.Code != "draining" {
		t.Errorf("who has asked is told %v", e)
	}
	stop() // once more
}

func traced(t *testing.T, asker, other Replica) {
	serve(t, other, func(ctx context.Context, _ control.Request) ([]byte, error) {
		return []byte(trace.SpanContextFromContext(ctx).TraceID().String()), nil
	})
	id := trace.TraceID{1, 2, 3}
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{4}}))
	if answer, err := asker.Ask(ctx, other.Replica(), control.Request{Command: "cancel"}); err != nil || string(answer) != id.String() {
		t.Errorf("the trace is %s, %v", answer, err)
	}
}

func soon(t *testing.T, asker, other Replica) {
	var at time.Time
	serve(t, other, func(context.Context, control.Request) ([]byte, error) { at = time.Now(); return nil, nil })
	best := patient
	for range 20 { // the best of them: the machine of the test may be busy
		begin := time.Now()
		if _, err := ask(t, asker, other, control.Request{Command: "cancel", Run: "r"}); err != nil {
			t.Fatal(err)
		}
		best = min(best, at.Sub(begin))
	}
	longtest.Within(t, "until a request takes effect, at best", best, 200*time.Millisecond)
}

func once(t *testing.T, asker, other Replica) {
	var served atomic.Int64
	serve(t, other, func(_ context.Context, r control.Request) ([]byte, error) {
		n := served.Add(1)
		if r.Command == "refuse" {
			return nil, coded{"conflict", fmt.Sprint("refused ", n)}
		}
		return fmt.Appendf(nil, "served %d", n), nil
	})
	for i, test := range []struct {
		id, command string
		want        string
	}{
		{"a", "say", "served 1"},
		{"a", "say", "served 1"},
		{"b", "say", "served 2"},
		{"a", "refuse", "refused 3"}, // another command
		{"a", "refuse", "refused 3"},
		{"", "say", "served 4"},
		{"", "say", "served 5"},
		{"a", "say", "served 1"},
	} {
		answer, err := ask(t, asker, other, control.Request{ID: test.id, Command: test.command})
		got := string(answer)
		if e, ok := errors.AsType[*control.Error](err); ok && e.Code == "conflict" {
			got = e.Message
		} else if err != nil {
			t.Error(err)
		}
		if got != test.want {
			t.Errorf("%d: %q, want %q", i, got, test.want)
		}
	}
}

func along(t *testing.T, asker, other Replica) {
	begun, release := make(chan struct{}, 2), make(chan struct{})
	serve(t, other, func(_ context.Context, r control.Request) ([]byte, error) {
		begun <- struct{}{}
		<-release
		return []byte("done"), nil
	})
	var wg sync.WaitGroup
	r := control.Request{ID: "x", Command: "wait"}
	for i := range 3 {
		wg.Go(func() {
			if answer, err := ask(t, asker, other, r); err != nil || string(answer) != "done" {
				t.Errorf("%q, %v", answer, err)
			}
		})
		if i == 0 {
			<-begun
		}
	}
	// Whoever waits for less than the others is told so, and takes nothing away.
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := asker.Ask(short, other.Replica(), r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(release)
	wg.Wait()
	if len(begun) > 0 {
		t.Error("it was served twice")
	}
}

func loses(t *testing.T, asker, other Replica) {
	if other.Lose == nil || asker.Control == other.Control {
		t.Skip("no answer is lost")
	}
	var served atomic.Int64
	serve(t, other, func(context.Context, control.Request) ([]byte, error) {
		return fmt.Appendf(nil, "served %d", served.Add(1)), nil
	})
	other.Lose(1)
	if answer, err := ask(t, asker, other, control.Request{ID: "x", Command: "say"}); err != nil || string(answer) != "served 1" {
		t.Errorf("%q, %v", answer, err)
	}
	other.Lose(1)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := asker.Ask(ctx, other.Replica(), control.Request{ID: "y", Command: "say"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who cannot wait is told %v", err)
	}
	if answer, err := ask(t, asker, other, control.Request{ID: "y", Command: "say"}); err != nil || string(answer) != "served 2" {
		t.Errorf("later: %q, %v", answer, err)
	}
}

func leaves(t *testing.T, asker, other Replica) {
	if other.Leave == nil {
		t.Skip("it cannot leave")
	}
	begun, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	if _, err := other.Serve(func(context.Context, control.Request) ([]byte, error) {
		close(begun)
		<-end // whatever its context says
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 1)
	go func() {
		_, err := ask(t, asker, other, control.Request{Command: "wait"})
		errs <- err
	}()
	<-begun
	other.Leave()
	if err := <-errs; !errors.Is(err, control.ErrLost) || !errors.Is(err, control.ErrGone) {
		t.Errorf("got %v", err)
	}
	// Also as lost: what knows where the replicas are may have heard of it later than the one who asks.
	if _, err := ask(t, asker, other, control.Request{Command: "wait"}); !errors.Is(err, control.ErrGone) {
		t.Errorf("afterwards: %v", err)
	}
}

func many(t *testing.T, all []Replica) {
	for _, r := range all {
		serve(t, r, func(_ context.Context, q control.Request) ([]byte, error) {
			return append(append([]byte(r.Replica()), ' '), q.Body...), nil
		})
	}
	var wg sync.WaitGroup
	for i := range 60 {
		from, to := all[i%len(all)], all[i/len(all)%len(all)]
		wg.Go(func() {
			body := bytes.Repeat([]byte{byte('a' + i%26)}, 1+(i%5)*300<<10)
			r := control.Request{Command: "echo", Body: body}
			answer, err := ask(t, from, to, r)
			for end := time.Now().Add(patient); (errors.Is(err, control.ErrGone) || errors.Is(err, control.ErrAway)) && time.Now().Before(end); {
				answer, err = ask(t, from, to, r) // on a busy machine a connection may break, or somebody be taken for dead, for a moment
			}
			if want := append([]byte(to.Replica()+" "), body...); err != nil || !bytes.Equal(answer, want) {
				t.Errorf("%d: %d bytes, want %d, %v", i, len(answer), len(want), err)
			}
		})
	}
	wg.Wait()
}

// Bench measures requests, one behind another.
func Bench(b *testing.B, asker, other Replica) {
	stop, err := other.Serve(func(context.Context, control.Request) ([]byte, error) { return nil, nil })
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	r := control.Request{Command: "cancel", Run: "abcdefghijklmnopqrstuvwxyz"}
	for b.Loop() {
		if _, err := asker.Ask(b.Context(), other.Replica(), r); err != nil {
			b.Fatal(err)
		}
	}
}
