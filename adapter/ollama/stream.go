package ollama

import (
	"cmp"
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// answer reads one answer.
type answer struct {
	*wire.Answer
	m             *model
	text, thought wire.Text
	calls         int
}

// line is what a line has.
type line struct {
	Message struct {
		Content  wire.Escaped
		Thinking wire.Escaped
		Calls    []wire.Object `json:"tool_calls"`
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
	a.Last = a.last
	switch a.Kind() {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json", "": // servers like Ollama say what they like
		a.Lines(a.line)
	default:
		a.Unknown("lines of JSON", "check that it is Ollama's address")
	}
}

// line passes on what a line has; done says that it is the last.
func (a *answer) line(raw []byte) (done bool) {
	var l line
	switch {
	case wire.Decode(raw, &l) != nil:
		a.Fail(wire.ErrFormat)
	case (wire.Object{"error": l.Error}).Has("error"):
		a.Fail(a.m.failed(raw))
	default:
		a.decoded(&l, raw)
	}
	return l.Done
}

// decoded passes on what a line has that reports no error.
func (a *answer) decoded(l *line, raw []byte) {
	a.Say(a.Next(&a.text, l.Message.Content), a.Next(&a.thought, l.Message.Thinking))
	for _, c := range l.Message.Calls {
		if c == nil {
			a.Fail(wire.ErrFormat)
		}
		function := c.Object("function")
		a.Pass(adapter.Chunk{ToolCall: &adapter.ToolCall{
			Index: a.calls, ID: cmp.Or(c.Text("id"), wire.CallID(raw, a.calls)), Name: function.Text("name"),
			Arguments: wire.ArgumentsText(function["arguments"]),
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

// last passes on what was held back of a character.
func (a *answer) last() {
	a.Say(a.text.Rest(), a.thought.Rest())
	a.SetFinish(a.calls)
}
