package workflow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/turn"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// models answers by the last message, three bytes at a time: what it finds under it, or the message itself. "wait: …" says what
// comes behind and then waits for the end of its context; "fail" fails.
type models struct {
	answers map[string]string
	waits   chan struct{} // gets one when it waits

	mu    sync.Mutex
	asked []adapter.Request
	named []string // the names by which a model was asked for
	open  int
}

func newModels(answers map[string]string) *models {
	return &models{answers: answers, waits: make(chan struct{}, 100)}
}

func (m *models) Model(name string) (adapter.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.named = append(m.named, name)
	return m, nil
}

func (m *models) count(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open += n
}

func (m *models) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		m.mu.Lock()
		m.asked = append(m.asked, req)
		m.mu.Unlock()
		m.count(1)
		defer m.count(-1)
		text := req.Messages[len(req.Messages)-1].Content
		if text == "fail" {
			yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeAuth, Message: "the model's server refused the key"})
			return
		}
		text, wait := strings.CutPrefix(text, "wait: ")
		if a, ok := m.answers[text]; ok {
			text = a
		}
		for len(text) > 0 {
			n := min(3, len(text))
			if !yield(adapter.Chunk{Model: "fake:m", Text: text[:n]}, nil) {
				return
			}
			text = text[n:]
		}
		if wait {
			m.waits <- struct{}{}
			<-ctx.Done()
			yield(adapter.Chunk{}, context.Cause(ctx))
			return
		}
		yield(adapter.Chunk{Finish: adapter.FinishStop, Usage: &adapter.Usage{PromptTokens: 4, CompletionTokens: 6, TotalTokens: 10}}, nil)
	}
}

// articles writes an outline, each of its sections while it writes on, and something that nobody is to see.
const articles = `
name: articles
input: {type: object, required: [question], properties: {question: {type: string, maxLength: 40}}}
bots:
  outline:
    message: "{{ input.question }}"
    root: article
  section:
    on: article/sections/*/title
    message: "About {{ event.value }}"
    root: "article/sections/{{ event.match.0 }}/body"
    format: text
  notes:
    on: {done: outline}
    message: "some notes"
    root: notes
    format: text
    quiet: true
events:
  - on: {done: outline}
    send: {event: outline-ready}
`

// outline is the answer that the articles begin with.
const outline = `{"title":"The \"moon\" ½","sections":[{"title":"Tides"},{"title":"Phases","n":[1,{"x":null}]}]}`

// spec reads a workflow.
func spec(t testing.TB, text string) flow.Workflow {
	t.Helper()
	w, err := flow.ParseSpec("workflow.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// question is the schema of an input that may be a text.
var question = json.RawMessage(`{"type":"object","required":["question"],"properties":{"question":{"type":"string"}}}`)

// echo is a workflow of one bot that writes a text at this root.
func echo(root string) flow.Workflow {
	return flow.Func("echo", "", question, func(_ context.Context, m *ling.Manager, input map[string]any) error {
		b, err := m.CreateBot("echo", root, func(c *bot.Config) { c.Format = bot.Text })
		if err != nil {
			return err
		}
		return b.Chat(bot.Message{Text: input["question"].(string)})
	})
}

// world is a framework in which a workflow answers, with nothing around it but a store.
type world struct {
	testing.TB
	f      *turn.Framework
	stage  *workflow.Stage
	models *models
	store  tape.Store
	log    *bytes.Buffer
	told   []string // of errors
}

// newWorld registers the plugins after the stage: they come before it.
func newWorld(t testing.TB, w flow.Workflow, plugins ...any) *world {
	t.Helper()
	all := new(flow.Registry)
	all.Register(w)
	e := &world{TB: t, models: newModels(map[string]string{"the moon": outline}), store: tapetest.NewMemory(nil), log: new(bytes.Buffer)}
	e.stage = &workflow.Stage{Workflow: w.Info().Name, Workflows: all, Run: ling.Options{Models: e.models}}
	e.f = turn.New(turn.Options{Workspace: t.TempDir(), Log: slog.New(slog.NewTextHandler(e.log, nil))})
	for i, p := range append([]any{e.stage, provider{e.store}, observer{e}}, plugins...) {
		if err := e.f.Register(string(rune('a'+i)), p); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

type provider struct{ store tape.Store }

func (p provider) ProvideTapeStore(context.Context) (tape.Store, bool, error) {
	return p.store, true, nil
}

type observer struct{ w *world }

func (o observer) OnError(_ context.Context, s turn.Stage, err error, _ *turn.Envelope) {
	o.w.told = append(o.w.told, string(s)+": "+err.Error())
}

// streamer is a plugin with a model stage.
type streamer func(context.Context, turn.Prompt, turn.SessionID, turn.State) (turn.Stream, bool, error)

func (f streamer) RunModelStream(ctx context.Context, p turn.Prompt, id turn.SessionID, s turn.State) (turn.Stream, bool, error) {
	return f(ctx, p, id, s)
}

// seen is what somebody has seen of a stream.
type seen struct {
	events []turn.Event
	err    error
}

func (s *seen) take(e turn.Event, err error) {
	if err != nil {
		s.err = err
		return
	}
	s.events = append(s.events, e)
}

// kinds writes down the kinds of the events.
func (s *seen) kinds() string {
	var list []string
	for _, e := range s.events {
		list = append(list, string(e.Kind))
	}
	return strings.Join(list, " ")
}

// final is the text of the last event, which has to be a final one.
func (s *seen) final(t testing.TB) string {
	t.Helper()
	if len(s.events) == 0 || s.events[len(s.events)-1].Kind != turn.FinalEvent {
		t.Fatalf("no final event at the end: %+v, %v", s.events, s.err)
	}
	return s.events[len(s.events)-1].Final.Text
}

func message(text string) *turn.Envelope {
	return &turn.Envelope{Channel: "test", Content: text}
}

// tape writes down the tape of the session: one entry a line, with its marks.
func (w *world) tape() []string {
	w.Helper()
	t, err := tape.Lookup(context.Background(), w.store, w.f.Workspace(), "test:default")
	if err != nil {
		w.Fatal(err)
	}
	var lines []string
	for e, err := range t.Read(context.Background(), tape.Query{}) {
		if err != nil {
			w.Fatal(err)
		}
		line := string(e.Kind) + " " + string(e.Payload)
		if tape.MetaOf(e).Partial {
			line += " partial"
		}
		lines = append(lines, line)
	}
	return lines
}

// open counts the models that are being asked.
func (m *models) running() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}
