package openai

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter/wire"
)

// event is an event of a stream, or an answer in one piece. A member of another type than expected is read as a missing one.
type event struct {
	Choices       []choice        `json:"choices"`
	Usage         json.RawMessage `json:"usage"`
	Error         json.RawMessage `json:"error"`
	Object        string          `json:"object"`
	Citations     json.RawMessage `json:"citations"`      // Perplexity's: addresses
	SearchResults json.RawMessage `json:"search_results"` // Perplexity's: with titles
	Groq          struct {
		Usage json.RawMessage `json:"usage"`
	} `json:"x_groq"`
}

type choice struct {
	Index   int             `json:"index"`
	Delta   delta           `json:"delta"`
	Message delta           `json:"message"` // of an answer in one piece; Perplexity repeats it beside each delta
	Finish  string          `json:"finish_reason"`
	Usage   json.RawMessage `json:"usage"` // Moonshot's
}

type delta struct {
	Content          json.RawMessage `json:"content"` // a string, or Mistral's list of parts
	Refusal          wire.Escaped    `json:"refusal"` // what the model says instead of an answer
	ReasoningContent wire.Escaped    `json:"reasoning_content"`
	Reasoning        wire.Escaped    `json:"reasoning"`
	Thinking         wire.Escaped    `json:"thinking"`
	Details          []wire.Object   `json:"reasoning_details"` // OpenRouter's
	Blocks           []wire.Object   `json:"thinking_blocks"`   // LiteLLM's
	ToolCalls        []wire.Object   `json:"tool_calls"`
	Annotations      json.RawMessage `json:"annotations"` // of OpenAI's search models and OpenRouter
	Images           []struct {
		Image struct {
			URL string `json:"url"`
		} `json:"image_url"`
	} `json:"images"` // OpenRouter's
	Audio *struct{ Data, Transcript string } `json:"audio"`
}

// contentPart is a part of a content that is a list. Thinking is a string, or a list of parts.
type contentPart struct {
	Type     string          `json:"type"`
	Text     wire.Escaped    `json:"text"`
	Refusal  wire.Escaped    `json:"refusal"`
	Thinking json.RawMessage `json:"thinking"`
}

// first returns the choice that was asked for; nil if the event has none.
func (e *event) first() *choice {
	for i := range e.Choices {
		if e.Choices[i].Index == 0 {
			return &e.Choices[i]
		}
	}
	return nil
}

// usage returns the object that counts tokens; nil if the event has none.
func (e *event) usage() json.RawMessage {
	list := []json.RawMessage{e.Usage, e.Groq.Usage}
	if c := e.first(); c != nil {
		list = append(list, c.Usage)
	}
	for _, usage := range list {
		if bytes.HasPrefix(usage, []byte("{")) {
			return usage
		}
	}
	return nil
}

// failed reports whether the event reports an error.
func (e *event) failed() bool {
	switch string(e.Error) {
	case "", "null", "false", "0", `""`, "{}":
		return e.Object == "error"
	}
	return true
}

// template recognizes an event that differs from an earlier one in its text only, and perhaps in a member behind the choices, such as the random
// text with which OpenAI hides the length of a token. Decoding each event would take several times as long as all else that a token costs here.
type template struct {
	before, after []byte // the text, up to the end of the choices
	tail          []byte // what comes behind the choices
	reasoning     bool   // the text is reasoning
	object        []byte // a tail as an object
}

// learn makes an event the template. It has nothing but a text, in a member of its delta.
func (t *template) learn(data []byte, member string, reasoning bool) {
	text, kind, end, err := jsonparser.Get(data, "choices", "[0]", "delta", member)
	_, _, choices, choicesErr := jsonparser.Get(data, "choices")
	if err != nil || choicesErr != nil || kind != jsonparser.String {
		return
	}
	end-- // the quote
	t.before, t.after = append(t.before[:0], data[:end-len(text)]...), append(t.after[:0], data[end:choices]...)
	t.tail, t.reasoning = append(t.tail[:0], data[choices:]...), reasoning
}

// match returns the text, as it stands between its quotes, of an event that is otherwise as the template.
func (t *template) match(data []byte) (text wire.Escaped, ok bool) {
	rest, ok := bytes.CutPrefix(data, t.before)
	if !ok || len(t.before) == 0 {
		return nil, false
	}
	end := 0
	for ; end < len(rest) && rest[end] != '"'; end++ {
		if rest[end] == '\\' {
			end++
		}
	}
	if end >= len(rest) || !bytes.HasPrefix(rest[end:], t.after) {
		return nil, false
	}
	return rest[:end:end], t.matchTail(rest[end+len(t.after):])
}

// matchTail reports whether nothing that matters comes behind the choices.
func (t *template) matchTail(tail []byte) bool {
	if bytes.Equal(tail, t.tail) {
		return true
	}
	if len(tail) == 0 || tail[0] != ',' {
		return false
	}
	t.object = append(append(t.object[:0], '{'), tail[1:]...)
	return jsonparser.ObjectEach(t.object, refuseMember) == nil
}

var errMatters = errors.New("the member matters")

// refuseMember is an error for a member of an event that has to be decoded.
func refuseMember(name, value []byte, kind jsonparser.ValueType, _ int) error {
	switch string(name) {
	case "choices", "usage", "error", "citations", "search_results", "x_groq":
		if kind != jsonparser.Null {
			return errMatters
		}
	case "object":
		if string(value) == "error" {
			return errMatters
		}
	}
	return nil
}
