package ollama

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// answer reads one answer.
type answer struct {
	*wire.Answer
	m             *model
	text, thought wire.Text
	calls         int

	// Of the line: its pieces of text, escaped, and whether it has nothing else.
	rawText, rawThought []byte
	plain               bool
	onMember            func(key, value []byte, kind jsonparser.ValueType, offset int) error // made once
}

// line is what a line has besides pieces of text.
type line struct {
	Message struct {
		Calls []wire.Object `json:"tool_calls"`
	}
	Done         bool
	Reason       string          `json:"done_reason"`
	PromptTokens int             `json:"prompt_eval_count"`
	AnswerTokens int             `json:"eval_count"`
	Error        json.RawMessage // a text, or an object
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) {
	a := &answer{Answer: w, m: m}
	a.Last, a.onMember = a.last, a.member
	switch a.Kind() {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json", "": // servers like Ollama say what they like
		a.Lines(a.line)
	default:
		a.Unknown("lines of JSON", "check that it is Ollama's address")
	}
}

// line passes on what a line has; done says that it is the last. A line with nothing but text, as most are, is not decoded as a whole.
func (a *answer) line(raw []byte) (done bool) {
	a.rawText, a.rawThought, a.plain = nil, nil, true
	if err := jsonparser.ObjectEach(raw, a.onMember); err == nil && a.plain {
		a.say(a.Next(&a.text, a.rawText), a.Next(&a.thought, a.rawThought))
		return false
	}
	var l line
	switch {
	case wire.Decode(raw, &l) != nil:
		a.Fail(wire.ErrFormat)
	case (wire.Object{"error": l.Error}).Has("error"):
		a.Fail(a.m.failed(raw))
	default:
		a.decoded(&l, raw)
		return l.Done
	}
	return false
}

// decoded passes on what a line has that has more than text.
func (a *answer) decoded(l *line, raw []byte) {
	a.say(a.Next(&a.text, a.rawText), a.Next(&a.thought, a.rawThought))
	for _, c := range l.Message.Calls {
		function := c.Object("function")
		arguments, err := argumentsOf(function["arguments"])
		switch {
		case c == nil:
			a.Fail(wire.ErrFormat)
		case err != nil:
			a.Fail(err)
		}
		a.Pass(adapter.Chunk{ToolCall: &adapter.ToolCall{
			Index: a.calls, ID: cmp.Or(c.Text("id"), wire.CallID(raw, a.calls)), Name: function.Text("name"), Arguments: arguments,
		}})
		a.calls++
	}
	if !l.Done {
		return
	}
	if in, out := max(0, l.PromptTokens), max(0, l.AnswerTokens); in+out > 0 {
		a.Usage = &adapter.Usage{PromptTokens: in, CompletionTokens: out, TotalTokens: in + out}
	}
	a.Finish = adapter.FinishStop // "load" and "unload" are reasons of requests without messages
	if l.Reason == "length" {
		a.Finish = adapter.FinishLength
	}
}

// member reads a member of a line, or of its message.
func (a *answer) member(key, value []byte, kind jsonparser.ValueType, _ int) error {
	switch string(key) {
	case "message":
		if kind == jsonparser.Object {
			return jsonparser.ObjectEach(value, a.onMember)
		}
	case "content":
		if kind == jsonparser.String {
			a.rawText = value
		}
	case "thinking":
		if kind == jsonparser.String {
			a.rawThought = value
		}
	case "done":
		a.plain = a.plain && string(value) == "false"
	case "tool_calls", "error":
		a.plain = false
	}
	return nil
}

// say passes on pieces of text and thinking.
func (a *answer) say(text, thought string) {
	if text != "" || thought != "" {
		a.Pass(adapter.Chunk{Text: text, Reasoning: thought})
	}
}

// last passes on what was held back of a character.
func (a *answer) last() {
	a.say(a.text.Rest(), a.thought.Rest())
	a.SetFinish(a.calls)
}

// argumentsOf returns the text of a call's arguments, numbers as they came.
func argumentsOf(raw json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" { // of servers that are only like Ollama
		return text, nil
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "{}", nil
	case raw[0] != '{' && raw[0] != '[':
		return "", wire.ErrFormat
	}
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return string(bytes.ToValidUTF8(b.Bytes(), []byte("\uFFFD"))), err
}
