package turn

import (
	"encoding/json"
	"iter"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tool"
)

// Stream is what a model says, as it says it. It is read once, by one reader; a non-nil error is its last pair. Leaving the loop
// early runs the deferred work of its producer before the next statement.
type Stream = iter.Seq2[Event, error]

// EventKind says what an event is. Kinds that are not known here are handed on.
type EventKind string

// The kinds, and the members that they set.
const (
	TextEvent       EventKind = "text"        // Delta: the next piece of the answer
	RetractEvent    EventKind = "retract"     // Delta: the end of the answer so far, which is no part of it
	ReasoningEvent  EventKind = "reasoning"   // Delta: the next piece of the thinking
	ToolCallEvent   EventKind = "tool_call"   // Calls: what the model asks for
	ToolResultEvent EventKind = "tool_result" // Results: what came of it
	CitationEvent   EventKind = "citation"    // Citation: a source that the answer names
	MediaEvent      EventKind = "media"       // Media: an image or a sound that the model made
	UsageEvent      EventKind = "usage"       // Usage: of one call of the model
	ErrorEvent      EventKind = "error"       // Err: something failed and the turn goes on
	DeltaEvent      EventKind = "delta"       // URI, Value: a piece of a workflow's document
	FinalEvent      EventKind = "final"       // Final: the end
)

// Event is one thing that happens in the model stage.
type Event struct {
	Kind    EventKind       `json:"kind"`
	Delta   string          `json:"delta,omitempty"`
	URI     string          `json:"uri,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"` // of delta; events of other kinds may carry data here too
	Calls   []tool.Call     `json:"calls,omitempty"`
	Results []tool.Result   `json:"results,omitempty"`
	Usage   *Usage          `json:"usage,omitempty"`

	Citation *adapter.Citation `json:"citation,omitempty"`
	Media    *adapter.Media    `json:"media,omitempty"`

	Err   *EventError `json:"error,omitempty"`
	Final *Final      `json:"final,omitempty"`
}

// Text is an event of text.
func Text(delta string) Event { return Event{Kind: TextEvent, Delta: delta} }

// Usage counts the tokens of one call of a model, or of all calls of a turn.
type Usage struct {
	Model string `json:"model,omitempty"` // "provider:name" of the call
	adapter.Usage
}

// add sums up; the model of a sum is the last that was named.
func (u *Usage) add(v Usage) {
	u.Usage.Add(v.Usage)
	if v.Model != "" {
		u.Model = v.Model
	}
}

// EventError is an error that does not end the stream. Its text may be shown to users.
type EventError struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

func (e *EventError) Error() string { return e.Message }

// ErrorCode implements [Coded].
func (e *EventError) ErrorCode() string { return e.Code }

// Final ends a stream.
type Final struct {
	OK     bool   `json:"ok"`
	Text   string `json:"text,omitempty"`   // the whole answer; it is the output where no text event came before
	Reason string `json:"reason,omitempty"` // why it ended
}
