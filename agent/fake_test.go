package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// say is one answer of a fake model.
type say func(ctx context.Context, yield func(adapter.Chunk, error) bool)

// fake answers with its script, one say for each request; the last one is repeated.
type fake struct {
	mu     sync.Mutex
	script []say
	asked  []adapter.Request
	names  []string
}

func newFake(script ...say) *fake { return &fake{script: script} }

// Model makes a fake the model for every name; one that begins with "no:" is unknown.
func (f *fake) Model(name string) (adapter.Model, error) {
	if strings.HasPrefix(name, "no:") {
		return nil, &adapter.Error{Code: adapter.CodeInvalid, Message: "unknown model"}
	}
	return fakeModel{f, name}, nil
}

type fakeModel struct {
	*fake
	name string
}

func (m fakeModel) Stream(ctx context.Context, r adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		m.mu.Lock()
		next := m.script[min(len(m.asked), len(m.script)-1)]
		m.asked = append(m.asked, r)
		m.names = append(m.names, m.name)
		m.mu.Unlock()
		next(ctx, yield)
	}
}

// requests are what the fake was asked.
func (f *fake) requests() []adapter.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// chunks says these chunks.
func chunks(list ...adapter.Chunk) say {
	return func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
		for _, c := range list {
			if ctx.Err() != nil {
				yield(adapter.Chunk{}, context.Cause(ctx))
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

var some = adapter.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}

// answers with text and is done.
func answers(text string) say {
	return chunks(adapter.Chunk{Text: text, Model: "fake:m"}, adapter.Chunk{Finish: adapter.FinishStop}, adapter.Chunk{Usage: &some})
}

// calls tools, written id:name:arguments.
func calls(text string, list ...string) say {
	var out []adapter.Chunk
	if text != "" {
		out = append(out, adapter.Chunk{Text: text})
	}
	for i, c := range list {
		parts := strings.SplitN(c, ":", 3)
		half := len(parts[2]) / 2
		out = append(out,
			adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, ID: parts[0], Name: parts[1]}},
			adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, Arguments: parts[2][:half]}},
			adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, Arguments: parts[2][half:]}})
	}
	return chunks(append(out, adapter.Chunk{Finish: adapter.FinishToolCalls}, adapter.Chunk{Usage: &some})...)
}

// fails with an error, after these chunks.
func fails(err error, before ...adapter.Chunk) say {
	return func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
		for _, c := range before {
			if !yield(c, nil) {
				return
			}
		}
		yield(adapter.Chunk{}, err)
	}
}

// hangs until its context ends, after these chunks.
func hangs(before ...adapter.Chunk) say {
	return func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
		for _, c := range before {
			if !yield(c, nil) {
				return
			}
		}
		<-ctx.Done()
		yield(adapter.Chunk{}, context.Cause(ctx))
	}
}

var (
	tooLongError = &adapter.Error{Code: adapter.CodeInvalid, ContextLength: true, Message: "the conversation is too long for the model"}
	downError    = &adapter.Error{Code: adapter.CodeUnavailable, Message: "the model's server is down"}
)

// world is an agent in a framework.
type world struct {
	testing.TB
	*Agent
	f     *turn.Framework
	store tape.Store
	model *fake
	log   *bytes.Buffer
	dir   string
}

func newWorld(t testing.TB, model *fake, o Options, plugins ...any) *world {
	t.Helper()
	return newWorldIn(t, t.TempDir(), model, o, plugins...)
}

// newWorldIn is newWorld in a workspace.
func newWorldIn(t testing.TB, dir string, model *fake, o Options, plugins ...any) *world {
	t.Helper()
	w := &world{TB: t, model: model, log: new(bytes.Buffer), dir: dir}
	if o.Store == nil {
		o.Store = tapetest.NewMemory(nil)
	}
	w.store = o.Store
	if o.Models == nil {
		o.Models = model
	}
	if o.Model == "" {
		o.Model = "fake:m"
	}
	o.Log = slog.New(slog.NewTextHandler(&locked{w: w.log}, nil))
	var err error
	if w.Agent, err = New(o); err != nil {
		t.Fatal(err)
	}
	w.f = turn.New(turn.Options{Workspace: w.dir, Log: o.Log, Code: code})
	if err := w.f.Register(Name, w.Agent); err != nil {
		t.Fatal(err)
	}
	for i, p := range plugins {
		if err := w.f.Register(fmt.Sprintf("plugin%d", i), p); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func code(err error) string {
	if e, ok := errors.AsType[*adapter.Error](err); ok {
		return e.Code
	}
	return ""
}

type locked struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func message(text string) *turn.Envelope { return &turn.Envelope{SessionID: "s", Content: text} }

// heard is what a turn came to.
type heard struct {
	*turn.Result
	events []turn.Event
	err    error
}

// process runs one turn and listens.
func (w *world) process(ctx context.Context, e *turn.Envelope) heard {
	var h heard
	h.Result, h.err = w.f.Process(ctx, e, turn.WithSink(func(e turn.Event, err error) {
		if err == nil {
			h.events = append(h.events, e)
		}
	}))
	return h
}

// say runs a turn that has to be good.
func (w *world) say(text string) heard {
	w.Helper()
	h := w.process(w.Context(), message(text))
	if h.err != nil {
		w.Fatalf("%q: %v\n%s", text, h.err, w.log)
	}
	return h
}

// tape is that of the session "s".
func (w *world) tape() *tape.Tape {
	w.Helper()
	t, err := tape.Lookup(context.Background(), w.store, w.dir, "s")
	if err != nil {
		w.Fatal(err)
	}
	return t
}

func (w *world) entries() []tape.Entry {
	w.Helper()
	var list []tape.Entry
	for e, err := range w.tape().Read(context.Background(), tape.Query{}) {
		if err != nil {
			w.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// lines writes the tape down, one short line for an entry.
func (w *world) lines() []string {
	w.Helper()
	var out []string
	for _, e := range w.entries() {
		out = append(out, line(e))
	}
	return out
}

func line(e tape.Entry) string {
	m := tape.MetaOf(e)
	var marks string
	if m.Partial {
		marks += " partial"
	}
	if m.Steered {
		marks += " steered"
	}
	if m.ContextHidden {
		marks += " hidden"
	}
	if len(m.Refs) > 0 {
		marks += fmt.Sprintf(" refs%v", m.Refs)
	}
	if len(m.Source) > 0 {
		marks += fmt.Sprintf(" source%v", m.Source)
	}
	var p struct {
		Name    string            `json:"name"`
		Role    string            `json:"role"`
		Content any               `json:"content"`
		State   json.RawMessage   `json:"state"`
		Data    json.RawMessage   `json:"data"`
		Calls   []tape.Call       `json:"calls"`
		IDs     []string          `json:"ids"`
		Results []json.RawMessage `json:"results"`
		Kind    string            `json:"kind"`
		Message string            `json:"message"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return "?? " + string(e.Payload)
	}
	switch e.Kind {
	case tape.KindAnchor:
		return fmt.Sprintf("anchor %s %s%s", p.Name, p.State, marks)
	case tape.KindEvent:
		var d struct {
			Status   string `json:"status"`
			Decision string `json:"decision"`
			Name     string `json:"name"`
		}
		_ = json.Unmarshal(p.Data, &d)
		return strings.TrimSpace(fmt.Sprintf("event %s %s%s%s", p.Name, d.Status, d.Decision, d.Name)) + marks
	case tape.KindMessage:
		content, _ := json.Marshal(p.Content)
		return fmt.Sprintf("%s: %s%s", p.Role, content, marks)
	case tape.KindToolCall:
		var names []string
		for _, c := range p.Calls {
			names = append(names, c.ID+":"+c.Function.Name+c.Function.Arguments)
		}
		return fmt.Sprintf("call %q %s%s", p.Content, strings.Join(names, " "), marks)
	case tape.KindToolResult:
		var list []string
		for i, r := range p.Results {
			list = append(list, p.IDs[i]+"="+string(r))
		}
		return "result " + strings.Join(list, " ") + marks
	case tape.KindError:
		return fmt.Sprintf("error %s %s", p.Kind, p.Message)
	case tape.KindSystem:
		return "system"
	}
	return fmt.Sprintf("%s %v%s", e.Kind, p.Content, marks)
}

// told are the events of a stream, one short line for each.
func told(events []turn.Event) []string {
	var out []string
	for _, e := range events {
		switch e.Kind {
		case turn.ToolCallEvent:
			for _, c := range e.Calls {
				out = append(out, fmt.Sprintf("call %s:%s%s", c.ID, c.Name, c.Arguments))
			}
		case turn.ToolResultEvent:
			for _, r := range e.Results {
				out = append(out, fmt.Sprintf("result %s=%s", r.ID, r.Value()))
			}
		case turn.FinalEvent:
			out = append(out, fmt.Sprintf("final %v %q %s", e.Final.OK, e.Final.Text, e.Final.Reason))
		case turn.UsageEvent:
			out = append(out, fmt.Sprintf("usage %d", e.Usage.TotalTokens))
		case turn.TextEvent, turn.ReasoningEvent:
			out = append(out, string(e.Kind)+" "+e.Delta)
		default:
			out = append(out, fmt.Sprintf("%s %s", e.Kind, e.Value))
		}
	}
	return out
}

// seen is a request's messages, one short line for each.
func seen(r adapter.Request) []string {
	var out []string
	for _, m := range r.Messages {
		if m.Role == adapter.System {
			out = append(out, "system")
			continue
		}
		text := m.Role + ": " + m.Content
		for _, p := range m.Parts {
			text += "[" + p.Type + " " + p.Text + p.Image + "]"
		}
		for _, c := range m.ToolCalls {
			text += fmt.Sprintf(" →%s:%s%s", c.ID, c.Name, c.Arguments)
		}
		if m.ToolCallID != "" {
			text += " ←" + m.ToolCallID
		}
		out = append(out, text)
	}
	return out
}

// tools for tests.
func echoTool(t testing.TB, opts ...tool.Option) *tool.Tool {
	t.Helper()
	return tool.Must(tool.New("echo", "Says what it is told.", func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return in.Text, nil
	}, opts...))
}

func waitTool(name string, d time.Duration, opts ...tool.Option) *tool.Tool {
	return tool.Must(tool.New(name, "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-time.After(d):
			return name + " waited", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, opts...))
}

func setOf(t testing.TB, tools ...*tool.Tool) *tool.Set {
	t.Helper()
	s, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
