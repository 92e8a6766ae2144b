package bot

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tube"
)

// script is a model that does what a test says.
type script func(ctx context.Context, r adapter.Request, yield func(adapter.Chunk, error) bool)

func (s script) Stream(ctx context.Context, r adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) { s(ctx, r, yield) }
}

// Model makes a script the model for every name.
func (s script) Model(name string) (adapter.Model, error) {
	if name == "unknown" {
		return nil, &adapter.Error{Code: adapter.CodeInvalid, Message: "unknown model"}
	}
	return s, nil
}

var usage = adapter.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}

// says answers with these pieces of text, then finish and usage.
func says(finish string, pieces ...string) script {
	return func(ctx context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
		for _, p := range pieces {
			if ctx.Err() != nil {
				yield(adapter.Chunk{}, context.Cause(ctx))
				return
			}
			if !yield(adapter.Chunk{Text: p, Model: "fake:m"}, nil) {
				return
			}
		}
		if yield(adapter.Chunk{Finish: finish}, nil) {
			yield(adapter.Chunk{Usage: &usage}, nil)
		}
	}
}

// world is what a bot lives in.
type world struct {
	Env
	wg       sync.WaitGroup
	cancel   context.CancelCauseFunc
	mu       sync.Mutex
	reported []error
}

func newWorld(t testing.TB, model script) *world {
	w := &world{}
	ctx, cancel := context.WithCancelCause(t.Context())
	w.cancel = cancel
	w.Env = Env{
		Context: ctx,
		Tube:    tube.New("run", &tube.Options{}),
		Models:  model,
		Go: func(f func(context.Context)) bool {
			w.wg.Go(func() { f(ctx) })
			return true
		},
		Report: func(_ *ChatBot, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reported = append(w.reported, err)
		},
	}
	return w
}

// lines waits for all bots and gives the events so far, hidden ones marked.
func (w *world) lines() []string {
	w.wg.Wait()
	w.Tube.Close("completed")
	var lines []string
	for e, err := range w.Tube.AllEvents(context.Background(), 0) {
		if err != nil || e.Terminal() {
			break
		}
		line := string(e.AppendJSON(nil))
		if e.Hidden {
			line = "hidden " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// journal listens to everything and writes it down.
func journal(log *[]string) Listener {
	add := func(format string, args ...any) { *log = append(*log, fmt.Sprintf(format, args...)) }
	return Listener{
		String:        func(v StringValue) { add("string %s=%s", v.URI, v.Value) },
		Object:        func(v ObjectValue) { add("object %s=%s", v.URI, v.Value) },
		Scalar:        func(v ObjectValue) { add("scalar %s=%s", v.URI, v.Value) },
		InferenceDone: func(r Response) { add("inference-done %s", r.Value) },
		Response:      func(r Response) { add("response %s", r.Value) },
		Error:         func(err error) { add("error %v", err) },
	}
}
