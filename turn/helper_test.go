package turn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// Each of these is a plugin with one hook.
type (
	resolver   func(context.Context, *turn.Envelope) (string, bool, error)
	loader     func(context.Context, *turn.Envelope, string) (turn.State, error)
	prompter   func(context.Context, *turn.Envelope, string, turn.State) (turn.Prompt, bool, error)
	runner     func(context.Context, turn.Prompt, string, turn.State) (string, bool, error)
	streamer   func(context.Context, turn.Prompt, string, turn.State) (turn.Stream, bool, error)
	saver      func(context.Context, *turn.Outcome) error
	renderer   func(context.Context, *turn.Outcome) ([]*turn.Envelope, error)
	dispatcher func(context.Context, *turn.Envelope) (bool, error)
	observer   func(context.Context, turn.Stage, error, *turn.Envelope)
	systemer   func(context.Context, turn.Prompt, turn.State) (string, error)
	storer     func(context.Context) (tape.Store, bool, error)
	selecter   func(context.Context, string, turn.State) (tape.Selector, bool, error)
	asider     func(context.Context, *turn.Envelope, string) ([]*turn.Envelope, bool, error)
)

func (f resolver) ResolveSession(ctx context.Context, e *turn.Envelope) (string, bool, error) {
	return f(ctx, e)
}

func (f loader) LoadState(ctx context.Context, e *turn.Envelope, id string) (turn.State, error) {
	return f(ctx, e, id)
}

func (f prompter) BuildPrompt(ctx context.Context, e *turn.Envelope, id string, s turn.State) (turn.Prompt, bool, error) {
	return f(ctx, e, id, s)
}

func (f runner) RunModel(ctx context.Context, p turn.Prompt, id string, s turn.State) (string, bool, error) {
	return f(ctx, p, id, s)
}

func (f streamer) RunModelStream(ctx context.Context, p turn.Prompt, id string, s turn.State) (turn.Stream, bool, error) {
	return f(ctx, p, id, s)
}
func (f saver) SaveState(ctx context.Context, o *turn.Outcome) error { return f(ctx, o) }
func (f renderer) RenderOutbound(ctx context.Context, o *turn.Outcome) ([]*turn.Envelope, error) {
	return f(ctx, o)
}

func (f dispatcher) DispatchOutbound(ctx context.Context, e *turn.Envelope) (bool, error) {
	return f(ctx, e)
}

func (f observer) OnError(ctx context.Context, s turn.Stage, err error, e *turn.Envelope) {
	f(ctx, s, err, e)
}

func (f systemer) SystemPrompt(ctx context.Context, p turn.Prompt, s turn.State) (string, error) {
	return f(ctx, p, s)
}
func (f storer) ProvideTapeStore(ctx context.Context) (tape.Store, bool, error) { return f(ctx) }
func (f selecter) BuildTapeContext(ctx context.Context, id string, s turn.State) (tape.Selector, bool, error) {
	return f(ctx, id, s)
}

func (f asider) AnswerAside(ctx context.Context, e *turn.Envelope, id string) ([]*turn.Envelope, bool, error) {
	return f(ctx, e, id)
}

// register adds plugins: the last one comes first in a turn. Their names are "p1", "p2" and so on.
func register(t testing.TB, f *turn.Framework, plugins ...any) {
	t.Helper()
	for i, p := range plugins {
		if err := f.Register(fmt.Sprintf("p%d", i+1), p); err != nil {
			t.Fatal(err)
		}
	}
}

// build is a framework with these plugins.
func build(t testing.TB, plugins ...any) *turn.Framework {
	t.Helper()
	f := turn.New(turn.Options{Log: slog.New(slog.DiscardHandler)})
	register(t, f, plugins...)
	return f
}

// answers is a model that says this.
func answers(text string) runner {
	return func(context.Context, turn.Prompt, string, turn.State) (string, bool, error) { return text, true, nil }
}

// says is a model that streams these: strings are text events, errors end the stream.
func says(items ...any) streamer {
	return func(context.Context, turn.Prompt, string, turn.State) (turn.Stream, bool, error) {
		return streamOf(items...), true, nil
	}
}

func streamOf(items ...any) turn.Stream {
	return func(yield func(turn.Event, error) bool) {
		for _, item := range items {
			var e turn.Event
			var err error
			switch item := item.(type) {
			case string:
				e = turn.Text(item)
			case turn.Event:
				e = item
			case error:
				err = item
			case func():
				item()
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func final(text string) turn.Event {
	return turn.Event{Kind: turn.FinalEvent, Final: &turn.Final{OK: true, Text: text}}
}

func failure(message string) turn.Event {
	return turn.Event{Kind: turn.ErrorEvent, Err: &turn.EventError{Code: "upstream_timeout", Message: message}}
}

// transcript writes down what happens, one word each.
type transcript struct {
	mu    sync.Mutex
	words []string
}

func (r *transcript) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.words = append(r.words, fmt.Sprintf(format, args...))
}

func (r *transcript) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.words, " ")
}

// take returns the words and forgets them.
func (r *transcript) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := strings.Join(r.words, " ")
	r.words = nil
	return s
}

// sink writes events down: "text:…", "final:…", "err:…" and so on.
func (r *transcript) sink(e turn.Event, err error) {
	switch {
	case err != nil:
		r.add("err:%v", err)
	case e.Kind == turn.FinalEvent:
		r.add("final:%s", e.Final.Text)
	case e.Kind == turn.ErrorEvent:
		r.add("error:%s", e.Err.Message)
	default:
		r.add("%s:%s", e.Kind, e.Delta)
	}
}

// errors is an observer that writes errors down.
func (r *transcript) errors() observer {
	return func(_ context.Context, s turn.Stage, err error, _ *turn.Envelope) { r.add("%s(%v)", s, err) }
}

// saves is a save_state that writes down what it gets.
func (r *transcript) saves() saver {
	return func(_ context.Context, o *turn.Outcome) error {
		r.add("save(%s,%v,%v)", o.Output, o.Partial, o.Err)
		return nil
	}
}

var errTest = errors.New("broken")

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// logged is a log that is kept as text.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
