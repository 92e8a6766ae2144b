package agui

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Encoder writes the events of a run as those of AG-UI. It belongs to one stream, and to its reader's goroutine.
type Encoder struct {
	run      Run
	state    state
	messages messages
	steps    steps
	usage    []usage
	cause    failure // why the run would fail now: its first fatal error, or else the last error that was not handled
	over     bool    // the client has the last event of its run
	scratch  []byte
}

// failure is the data of an error event.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Fatal   bool   `json:"fatal"`
	Handled bool   `json:"handled"`
}

// NewEncoder returns the encoder of a run of which the client has no events.
func NewEncoder(r Run) *Encoder {
	e := &Encoder{run: r, messages: newMessages(r)}
	e.state.sent = r.State
	return e
}

// Skip reads an event that the client has. Call Resume after the last one.
func (e *Encoder) Skip(event tube.Event) {
	e.scratch = e.Append(e.scratch[:0], event)
	e.over = false
}

// Resume is for a client that has the skipped events, up to a question.
func (e *Encoder) Resume() {
	e.scratch, e.usage = nil, nil // the stream before had the usage
	e.closeParts(nil)
}

// Open starts the client's run.
func (e *Encoder) Open(dst []byte) []byte {
	dst = frame.Texts(frame.Begin(dst, runStarted), "threadId", e.run.Thread, "runId", e.run.ID, "protocolVersion", Version)
	if e.run.Parent != "" {
		dst = frame.Text(dst, "parentRunId", e.run.Parent)
	}
	dst = frame.End(dst)
	for _, n := range e.run.Notes {
		dst = appendCustom(dst, n.Name, n.Value)
	}
	if e.run.Before != nil {
		before := slices.Clone(e.run.Before)
		if e.run.Old {
			before = slices.DeleteFunc(before, func(m Message) bool { return m.Role == Reasoning })
		}
		dst = frame.End(frame.Member(frame.Begin(dst, messagesSnapshot), "messages", rawjson.MustMarshal(before)))
	}
	if e.state.sent {
		dst = e.state.appendSnapshot(dst)
	}
	return dst
}

// Over implements frame.Encoder: the run has ended, or waits for an answer.
func (e *Encoder) Over() bool { return e.over }

// Append implements frame.Encoder.
func (e *Encoder) Append(dst []byte, event tube.Event) []byte {
	if event.Kind == tube.Named {
		return e.appendNamed(dst, event)
	}
	if root, reserved, found := jsonuri.CutReserved(event.URI); found {
		return e.messages.appendReserved(dst, root, reserved, event)
	}
	if event.Kind == tube.Done {
		dst = e.state.complete(dst, event.URI)
		return e.messages.end(dst, e.messages.streams[string(event.URI)])
	}
	dst = e.messages.appendText(dst, event)
	dst = e.state.apply(dst, event)
	if event.Kind == tube.Set && len(event.URI) == 0 { // a snapshot, because the reader was too slow
		dst = e.messages.catchUp(dst, &e.state.doc)
	}
	return dst
}

// appendNamed appends what becomes of a named event.
func (e *Encoder) appendNamed(dst []byte, event tube.Event) []byte {
	switch event.Name {
	case "bot":
		return e.steps.update(dst, event.Value)
	case "restarted": // the running bots start again
		dst = e.steps.close(dst)
	case "usage":
		e.addUsage(event.Value)
		return dst
	case "error":
		var f failure
		if json.Unmarshal(event.Value, &f) == nil && !f.Handled && !e.cause.Fatal {
			if e.cause = f; f.Fatal {
				return dst // RUN_ERROR will have it
			}
		}
	case "approval_required":
		return e.appendQuestion(dst, event)
	case "finished":
		return e.finish(dst, event.Value)
	case "canceled":
		dst = e.closeParts(appendCustom(dst, event.Name, event.Value))
		e.over = true
		if e.run.Old {
			return e.appendFinished(dst, nil, nil)
		}
		return e.appendFinished(dst, nil, &outcome{Type: "cancelled"})
	}
	return appendCustom(dst, event.Name, event.Value)
}

// appendCustom appends an event for which AG-UI has no type.
func appendCustom(dst []byte, name string, value []byte) []byte {
	return frame.End(frame.Member(frame.Text(frame.Begin(dst, custom), "name", name), "value", limited(value)))
}

// outcome says how the client's run ended.
type outcome struct {
	Type       string      `json:"type"`
	Interrupts []interrupt `json:"interrupts,omitempty"`
}

// interrupt is a question for approval.
type interrupt struct {
	ID       string          `json:"id"`
	Reason   string          `json:"reason"`
	Message  string          `json:"message"`
	Call     string          `json:"toolCallId,omitempty"`
	Expires  string          `json:"expiresAt,omitempty"`
	Schema   json.RawMessage `json:"responseSchema"` // of the answer
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// answerSchema is the schema of the answer to a question.
var answerSchema = json.RawMessage(`{"type":"object","required":["approved"],"properties":{` +
	`"approved":{"type":"boolean","title":"Let it run"},` +
	`"reason":{"type":"string","title":"Why not","maxLength":1024},` +
	`"remember":{"type":"string","enum":["session"],"title":"Do not ask again in this conversation"}}}`)

// appendQuestion ends the client's run, because ours waits for the approval of a call.
func (e *Encoder) appendQuestion(dst []byte, event tube.Event) []byte {
	var q struct {
		ID, Call, Subagent, Tool string
		Arguments                json.RawMessage
		Expires                  string
	}
	// Messages end here also if no question follows: their ids must be the same for all clients.
	dst = e.messages.close(dst)
	if json.Unmarshal(event.Value, &q) != nil || e.run.Answered != nil && e.run.Answered(event.N, q.ID) {
		return appendCustom(dst, event.Name, event.Value)
	}
	i := interrupt{
		ID: questionID(e.run.Of, event.N, cmp.Or(q.ID, q.Call)), Reason: "tool_call", Message: "May the tool " + q.Tool + " run?",
		Expires: q.Expires, Schema: answerSchema,
	}
	// The client's call stands for the question only if it shows what will run.
	if call, known := e.messages.calls[q.Call]; known && q.Subagent == "" && rawjson.Same(call.arguments, q.Arguments) {
		i.Call = call.id
	}
	if len(event.Value) <= maxValue {
		i.Metadata = event.Value
	} else if i.Call == "" { // the client cannot show what will run, so it cannot approve it
		return appendCustom(dst, event.Name, event.Value)
	}
	e.over = true
	return e.appendFinished(e.closeParts(dst), nil, &outcome{Type: "interrupt", Interrupts: []interrupt{i}})
}

// finish ends a run that was not canceled.
func (e *Encoder) finish(dst, data []byte) []byte {
	var f struct {
		Status string `json:"status"`
	}
	_ = json.Unmarshal(data, &f) // without a status, it is a failure
	dst = e.closeParts(dst)
	e.over = true
	if f.Status == "completed" {
		if at, err := e.state.doc.Reach(nil); err == nil && !e.state.sent && at.Kind != '"' && (at.Kind != '{' || at.Length > 0) {
			dst = e.state.appendSnapshot(dst) // a number, true, false or null
		}
		var result []byte
		if e.run.Of != "" {
			result = e.state.value(nil)
		}
		return e.appendFinished(dst, result, &outcome{Type: "success"})
	}
	if e.cause.Message == "" {
		e.cause = failure{Code: f.Status, Message: "the run was " + f.Status}
	}
	dst = frame.Text(frame.Begin(dst, runError), "message", e.cause.Message)
	if e.cause.Code != "" {
		dst = frame.Text(dst, "code", e.cause.Code)
	}
	return frame.End(e.appendUsage(dst))
}

// appendFinished appends the event that ends the client's run. A result that is too large is left out.
func (e *Encoder) appendFinished(dst, result []byte, o *outcome) []byte {
	dst = frame.Texts(frame.Begin(dst, runFinished), "threadId", e.run.Thread, "runId", e.run.ID)
	if len(result) > 0 && len(result) <= maxValue {
		dst = frame.Member(dst, "result", result)
	}
	if o != nil {
		dst = frame.Member(dst, "outcome", rawjson.MustMarshal(o))
	}
	return frame.End(e.appendUsage(dst))
}

// closeParts completes the state, and closes all messages and steps.
func (e *Encoder) closeParts(dst []byte) []byte {
	return e.steps.close(e.messages.close(e.state.flush(dst)))
}

// usage is what the answers of a model took.
type usage struct {
	Model    string `json:"model"`
	Provider string `json:"provider,omitempty"`
	*tokens         // nil if the provider counted none
}

type tokens struct {
	Input      int `json:"inputTokens"`
	Output     int `json:"outputTokens"`
	Total      int `json:"totalTokens"`
	Cached     int `json:"cachedInputTokens,omitempty"`
	CacheWrite int `json:"cacheWriteInputTokens,omitempty"`
	Reasoning  int `json:"reasoningTokens,omitempty"`
}

// addUsage adds the usage of one answer to that of its model.
func (e *Encoder) addUsage(data []byte) {
	var u struct {
		Model   string `json:"model"`
		Counted *int   `json:"total_tokens"`
	}
	var a adapter.Usage
	if json.Unmarshal(data, &u) != nil || json.Unmarshal(data, &a) != nil {
		return
	}
	provider, model, found := strings.Cut(u.Model, ":")
	if !found {
		provider, model = "", u.Model
	}
	i := slices.IndexFunc(e.usage, func(m usage) bool { return m.Model == model && m.Provider == provider })
	if i < 0 {
		i = len(e.usage)
		e.usage = append(e.usage, usage{Model: model, Provider: provider})
	}
	if u.Counted == nil {
		return
	}
	if e.usage[i].tokens == nil {
		e.usage[i].tokens = new(tokens)
	}
	t := e.usage[i].tokens
	t.Input += a.PromptTokens
	t.Output += a.CompletionTokens
	t.Total = t.Input + t.Output
	t.Cached += a.CachedTokens
	t.CacheWrite += a.CacheWriteTokens
	t.Reasoning += a.ReasoningTokens
}

// appendUsage appends the member that says what the models took.
func (e *Encoder) appendUsage(dst []byte) []byte {
	if len(e.usage) == 0 {
		return dst
	}
	return frame.Member(dst, "usage", rawjson.MustMarshal(e.usage))
}
