package agui

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Encoder writes the events of a run as those of AG-UI. It belongs to one stream, and to its reader's goroutine.
type Encoder struct {
	run    Run
	state  state
	talk   talk
	steps  steps
	usage  []used
	cause  failure // what the run would fail of: its first failure that ends it, or else the last that was not handled
	opened bool    // the client has been told of the run
	over   bool    // and of its end

	// Of a client that comes in the middle of a run.
	rejoins bool        // it has nothing
	history []Message   // what it is given of before the run
	final   *tube.Event // the end of the run was among what came before
	asks    []byte      // so was the event that makes it an interrupted one
	scratch []byte
}

// used is what a model took.
type used struct {
	model   string
	counted bool
	counts
}

// counts are what is counted of it.
type counts struct {
	Input      int `json:"prompt_tokens"`
	Output     int `json:"completion_tokens"`
	Cached     int `json:"cached_tokens"`
	CacheWrite int `json:"cache_write_tokens"`
	Reasoning  int `json:"reasoning_tokens"`
}

// failure is what a run has failed of.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Fatal   bool   `json:"fatal"`
	Handled bool   `json:"handled"`
}

// NewEncoder returns the encoder of a run that the client has seen nothing of.
func NewEncoder(r Run) *Encoder {
	e := &Encoder{run: r}
	e.talk.init(e.run.Of, r.Bots)
	e.talk.old = r.Old
	e.state.told = r.State
	e.state.lost = func(dst, uri []byte, size int) []byte {
		path := appendPointer(nil, uri)
		value := append([]byte(`{"path":"`), path...)
		value = append(value, `","bytes":`...)
		return e.custom(dst, "too_large", append(appendInt(value, size), '}'))
	}
	return e
}

// Skip takes an event that came before the client did. Resume or Rejoin says what the client has of it.
func (e *Encoder) Skip(event tube.Event) {
	if event.Terminal() {
		e.final = &event
		return
	}
	e.scratch = e.append(e.scratch[:0], event)
	if cap(e.scratch) > maxPiece {
		e.scratch = nil
	}
	e.over = false
}

// Resume is for a client that has been told what was skipped, up to a question.
func (e *Encoder) Resume() {
	// What was used then was told, and each stream tells of its own only.
	e.scratch, e.asks, e.usage = nil, nil, nil
	e.state.flush(nil)
	e.close(nil)
}

// Rejoin is for a client that has nothing: it is given the messages of the conversation before the run, and those of the run.
func (e *Encoder) Rejoin(before []Message) {
	e.scratch, e.rejoins, e.history = nil, true, before
}

// Record makes the encoder keep the run's messages, for Rejoin. It comes before the first event.
func (e *Encoder) Record() { e.talk.record = true }

// Open opens the run: what the client must know before it can be told more.
func (e *Encoder) Open(dst []byte) []byte {
	if e.opened {
		return dst
	}
	e.opened = true
	dst = frame.Begin(dst, runStarted)
	dst = frame.Text(dst, "threadId", e.run.Thread)
	dst = frame.Text(dst, "runId", e.run.ID)
	dst = frame.Text(dst, "protocolVersion", Version)
	if e.run.Parent != "" {
		dst = frame.Text(dst, "parentRunId", e.run.Parent)
	}
	dst = frame.End(dst)
	for _, n := range e.run.Notes {
		dst = e.custom(dst, n.Name, n.Value)
	}
	if e.rejoins {
		dst = e.talk.snapshot(dst, e.history)
		e.history = nil
		dst = e.steps.reopen(dst)
		dst = e.talk.reopen(dst)
	}
	if e.state.told {
		e.state.flush(nil)
		dst = e.state.write(dst, "replace", nil, e.state.at(nil))
	}
	if e.asks != nil {
		dst = append(e.close(dst), e.asks...)
		e.asks, e.over = nil, true
	} else if e.final != nil {
		dst = e.append(dst, *e.final)
	}
	return dst
}

// Over says that the client has been told all: the run has ended, or waits for an answer.
func (e *Encoder) Over() bool { return e.over }

// Append appends what the client is told of an event.
func (e *Encoder) Append(dst []byte, event tube.Event) []byte {
	if !e.opened {
		dst = e.Open(dst)
	}
	if e.over {
		return dst
	}
	return e.append(dst, event)
}

func (e *Encoder) append(dst []byte, event tube.Event) []byte {
	if event.Kind == tube.Named {
		return e.named(dst, event)
	}
	root, reserved, beside := jsonuri.CutReserved(event.URI)
	if beside {
		return e.talk.beside(dst, root, reserved, event)
	}
	if event.Kind == tube.Done {
		dst = e.state.done(dst, event.URI)
		return e.talk.done(dst, event.URI)
	}
	dst = e.talk.text(dst, event)
	dst = e.state.apply(dst, event)
	if event.Kind == tube.Set && len(event.URI) == 0 { // a snapshot: this reader has fallen behind
		dst = e.talk.catchUp(dst, &e.state.doc)
	}
	return dst
}

// named tells of an event that has a name.
func (e *Encoder) named(dst []byte, event tube.Event) []byte {
	switch event.Name {
	case "bot":
		return e.steps.see(dst, event.Value)
	case "restarted": // bots that were at work begin again
		dst = e.steps.close(dst)
	case "usage":
		e.used(event.Value)
		return dst
	case "error":
		var f failure
		if json.Unmarshal(event.Value, &f) == nil && !f.Handled && !e.cause.Fatal {
			if e.cause = f; f.Fatal {
				return dst // the run's end says it
			}
		}
	case "approval_required":
		return e.question(dst, event)
	case "finished":
		return e.finish(dst, event.Value)
	case "canceled":
		dst = e.custom(dst, event.Name, event.Value)
		dst = e.close(dst)
		dst = e.finished(dst)
		if !e.run.Old {
			dst = frame.Member(dst, "outcome", []byte(`{"type":"cancelled"}`))
		}
		e.over = true
		return frame.End(e.spent(dst))
	}
	return e.custom(dst, event.Name, event.Value)
}

// custom writes an event that AG-UI has no type for.
func (e *Encoder) custom(dst []byte, name string, value []byte) []byte {
	dst = frame.Text(frame.Begin(dst, custom), "name", name)
	if len(value) > maxValue {
		value = append(appendInt([]byte(`{"too_large":`), len(value)), '}')
	}
	return frame.End(frame.Member(dst, "value", value))
}

// used counts what a bot's model took, which is told at the end, by model.
func (e *Encoder) used(data []byte) {
	var u struct {
		Model   string `json:"model"`
		Counted *int   `json:"total_tokens"`
		counts
	}
	if json.Unmarshal(data, &u) != nil {
		return
	}
	i := slices.IndexFunc(e.usage, func(m used) bool { return m.model == u.Model })
	if i < 0 {
		i = len(e.usage)
		e.usage = append(e.usage, used{model: u.Model})
	}
	if m := &e.usage[i]; u.Counted != nil {
		m.counted = true
		m.Input += u.Input
		m.Output += u.Output
		m.Cached += u.Cached
		m.CacheWrite += u.CacheWrite
		m.Reasoning += u.Reasoning
	}
}

// question ends the client's run, for ours waits for somebody's approval of a call.
func (e *Encoder) question(dst []byte, event tube.Event) []byte {
	var q struct {
		ID, Call, Subagent, Tool string
		Arguments                json.RawMessage
		Expires                  string
	}
	// Also where nobody is interrupted: messages have the same ids for all, whoever was asked.
	dst = e.talk.close(dst)
	if json.Unmarshal(event.Value, &q) != nil || e.run.Answered != nil && e.run.Answered(event.N, q.ID) {
		return e.custom(dst, event.Name, event.Value)
	}
	// The client's call stands for the question only if it shows what will run.
	call, known := e.talk.calls[q.Call]
	known = known && q.Subagent == "" && rawjson.Same(call.arguments, q.Arguments)
	if !known && len(event.Value) > maxValue { // nothing would show it: it cannot be approved here
		return e.custom(dst, event.Name, event.Value)
	}
	asks := e.finished(nil)
	asks = append(frame.Key(asks, "outcome"), `{"type":"interrupt","interrupts":[{"id":"`...)
	asks = jsonuri.AppendEscaped(asks, questionID(e.run.Of, event.N, cmp.Or(q.ID, q.Call)))
	asks = frame.Text(append(asks, '"'), "reason", "tool_call")
	asks = frame.Text(asks, "message", "May the tool "+q.Tool+" run?")
	if known {
		asks = frame.Text(asks, "toolCallId", call.id)
	}
	if q.Expires != "" {
		asks = frame.Text(asks, "expiresAt", q.Expires)
	}
	asks = frame.Member(asks, "responseSchema", answerSchema)
	if len(event.Value) <= maxValue {
		asks = frame.Member(asks, "metadata", event.Value)
	}
	asks = frame.End(e.spent(append(asks, "}]}"...)))
	e.asks, e.over = asks, true
	if !e.opened {
		return dst // it is skipped
	}
	return append(e.close(dst), asks...)
}

// answerSchema is what the answer to a question has to be.
var answerSchema = []byte(`{"type":"object","required":["approved"],"properties":{` +
	`"approved":{"type":"boolean","title":"Let it run"},` +
	`"reason":{"type":"string","title":"Why not","maxLength":1024},` +
	`"remember":{"type":"string","enum":["session"],"title":"Do not ask again in this conversation"}}}`)

// finish tells of the end of a run that nobody has stopped.
func (e *Encoder) finish(dst, data []byte) []byte {
	var f struct {
		Status string `json:"status"`
	}
	_ = json.Unmarshal(data, &f) // a status that is none is a failure
	dst = e.close(dst)
	e.over = true
	if f.Status == "completed" {
		if at, err := e.state.doc.Reach(nil); err == nil && !e.state.told && at.Kind != '"' && (at.Kind != '{' || at.Length > 0) {
			dst = e.state.write(dst, "replace", nil, e.state.at(nil)) // a number, a truth, or null
		}
		dst = e.finished(dst)
		if result := e.state.at(nil); e.run.Of != "" && len(result) <= maxValue {
			dst = frame.Member(dst, "result", result)
		}
		dst = frame.Member(dst, "outcome", []byte(`{"type":"success"}`))
		return frame.End(e.spent(dst))
	}
	if e.cause.Message == "" {
		e.cause = failure{Code: f.Status, Message: "the run was " + f.Status}
	}
	dst = frame.Text(frame.Begin(dst, runError), "message", e.cause.Message)
	if e.cause.Code != "" {
		dst = frame.Text(dst, "code", e.cause.Code)
	}
	return frame.End(e.spent(dst))
}

// finished begins the event that ends the client's run.
func (e *Encoder) finished(dst []byte) []byte {
	dst = frame.Text(frame.Begin(dst, runFinished), "threadId", e.run.Thread)
	return frame.Text(dst, "runId", e.run.ID)
}

// close sends what the client does not have yet of what it was told the beginning of.
func (e *Encoder) close(dst []byte) []byte {
	dst = e.state.flush(dst)
	dst = e.talk.close(dst)
	return e.steps.close(dst)
}

// spent says what the models took.
func (e *Encoder) spent(dst []byte) []byte {
	if len(e.usage) == 0 {
		return dst
	}
	dst = append(frame.Key(dst, "usage"), '[')
	for i, u := range e.usage {
		if i > 0 {
			dst = append(dst, ',')
		}
		provider, model, named := strings.Cut(u.model, ":")
		if !named {
			model = u.model
		}
		dst = append(dst, `{"model":"`...)
		dst = append(jsonuri.AppendEscaped(dst, model), '"')
		if named {
			dst = frame.Text(dst, "provider", provider)
		}
		if u.counted {
			dst = appendInt(frame.Key(dst, "inputTokens"), u.Input)
			dst = appendInt(frame.Key(dst, "outputTokens"), u.Output)
			dst = appendInt(frame.Key(dst, "totalTokens"), u.Input+u.Output)
			for _, part := range [...]struct {
				name   string
				tokens int
			}{{"cachedInputTokens", u.Cached}, {"cacheWriteInputTokens", u.CacheWrite}, {"reasoningTokens", u.Reasoning}} {
				if part.tokens > 0 {
					dst = appendInt(frame.Key(dst, part.name), part.tokens)
				}
			}
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
