package tape

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// Entry is one fact. Payload and Meta are JSON objects whose bytes the tape keeps.
type Entry struct {
	ID      int64
	Kind    Kind
	Payload json.RawMessage
	Meta    json.RawMessage // nil is {}
	Date    time.Time       // in UTC with microseconds; zero is the moment of the append
}

// NewMessage is a chat message. content is text, or a list of parts.
func NewMessage(role string, content any) Entry {
	return newEntry(KindMessage, "role", role, "content", content)
}

// WithMade returns a model's message, or its calls, with what its provider wants to have back: JSON that only adapters read.
func (e Entry) WithMade(made any) Entry {
	if text := encode(made); text != nil {
		e.Payload = setMember(e.Payload, "made", text)
	}
	return e
}

// NewSystem is the system prompt that the following model calls have.
func NewSystem(content string) Entry { return newEntry(KindSystem, "content", content) }

// NewReasoning is what a model thought before it answered.
func NewReasoning(content string) Entry { return newEntry(KindReasoning, "content", content) }

// NewEvent is something that happened; no model sees it. nil data is left out.
func NewEvent(name string, data any) Entry {
	if data == nil {
		return newEntry(KindEvent, "name", name)
	}
	return newEntry(KindEvent, "name", name, "data", data)
}

// NewSetting is the event that changes a setting of the session; see Tape.Settings.
func NewSetting(name string, value any) Entry {
	return NewEvent(EventSetting, newObject("name", name, "value", value))
}

// NewAnchor is an anchor for Tape.HandoffWith. A nil state is null.
func NewAnchor(name string, state any) Entry {
	return newEntry(KindAnchor, "name", name, "state", state)
}

// NewError is an error that a turn met.
func NewError(kind, message string) Entry {
	return newEntry(KindError, "kind", kind, "message", message)
}

// Call is one tool call of a model, in the OpenAI shape.
type Call struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // "" is written as "function"
	Function FunctionCall `json:"function"`
}

// FunctionCall names a function and its arguments, a JSON text.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// NewToolCall is the text that a model said and the calls that it made then.
func NewToolCall(content string, calls ...Call) Entry {
	calls = slices.Clone(calls)
	for i := range calls {
		if calls[i].Type == "" {
			calls[i].Type = "function"
		}
	}
	return newEntry(KindToolCall, "content", content, "calls", calls)
}

// NewToolResult holds one result per id: a string, or anything that has a JSON form.
func NewToolResult(ids []string, results ...any) Entry {
	return newEntry(KindToolResult, "ids", ids, "results", results)
}

// newEntry returns an entry with a payload of these members, see newObject. Text that is not UTF-8 gets replacement characters; a value without
// a JSON form leaves no payload, which Append refuses.
func newEntry(kind Kind, members ...any) Entry {
	return Entry{Kind: kind, Payload: newObject(members...)}
}

// encode gives the JSON of v with nothing escaped that need not be, or nil.
func encode(v any) json.RawMessage {
	text, err := rawjson.Marshal(v)
	if err != nil {
		return nil
	}
	if bytes.Contains(text, []byte(`\u202`)) {
		text = []byte(unescape.Replace(string(text)))
	}
	return text
}

// unescape undoes the two escapes that encoding/json always writes, for the sake of JavaScript: of U+2028 and U+2029.
var unescape = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")

// Names of events that mean something to this package.
const (
	EventSetting         = "setting"          // see NewSetting
	EventSessionForked   = "session.forked"   // the entries before it are those of another session
	EventSessionImported = "session.imported" // so they are, and came from a file
)

// AnchorStart is the name of the anchor that begins a session's tape.
const AnchorStart = "session/start"
