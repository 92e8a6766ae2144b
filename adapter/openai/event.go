package openai

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// errReported says that an event reports an error.
var errReported = errors.New("the event reports an error")

// completionChunk is a piece of an answer, or all of it. A member whose type differs between servers is a json.RawMessage; a member of an unexpected type
// is read as a missing one.
type completionChunk struct {
	Choices []struct {
		Index   int
		Delta   *chunkDelta
		Message *chunkDelta     // of an answer in one piece; Perplexity repeats the message so far beside each delta
		Finish  string          `json:"finish_reason"`
		Usage   json.RawMessage // Moonshot's is here
	}
	Usage json.RawMessage
	Groq  struct{ Usage json.RawMessage } `json:"x_groq"`
	Error json.RawMessage
	Kind  string `json:"object"`
	// Perplexity's: sources with their titles, and addresses.
	SearchResults json.RawMessage `json:"search_results"`
	Citations     json.RawMessage
}

// chunkDelta is what an event adds to the answer.
type chunkDelta struct {
	Content          json.RawMessage // a string, or Mistral's list of parts
	Refusal          json.RawMessage // what the model says instead of an answer
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage
	Thinking         json.RawMessage
	Details          []wire.Object   `json:"reasoning_details"` // OpenRouter's
	Blocks           []wire.Object   `json:"thinking_blocks"`   // LiteLLM's
	ToolCalls        []wire.Object   `json:"tool_calls"`
	Annotations      json.RawMessage // sources of OpenAI's search models, and of OpenRouter
	Images           []struct {      // OpenRouter's
		Image struct{ URL string } `json:"image_url"`
	}
	Audio struct{ Data, Transcript string } // OpenAI's
}

// contentPart is an element of a content that is a list.
type contentPart struct {
	Type     string
	Text     json.RawMessage
	Refusal  json.RawMessage
	Thinking json.RawMessage // a string, or a list of parts
}

// decoder reads the events of an answer. The events are valid only during a call.
//
// Most events of an answer differ only in a piece of text, and perhaps in a padding after the choices. The decoder keeps the JSON around the text
// of the last such event. It reads an event with the same JSON around its text without parsing it: parsing costs several times as much as
// everything else that is done for a token (bench/relay).
type decoder struct {
	whole bool // the answer is in one piece: a message in place of deltas

	// What the last event had.
	chunks []adapter.Chunk
	finish string
	usage  *adapter.Usage
	chosen bool // it had a choice

	// What the answer has had.
	content, thinking wire.Text
	fields            [len(reasoningFields)]bool // those that had text
	thoughtParts      bool                       // reasoning came as a part of the content
	refused           bool                       // the text is a refusal
	details, blocks   details
	unknown           []json.RawMessage // parts of the content that the decoder does not know
	calls             []call
	cited             map[adapter.Citation]bool
	sound             []byte // base64

	// The JSON of the last event that had nothing but text: before the text, behind it up to the end of the choices, and the rest.
	before, after, rest []byte
	thought             bool   // the text is reasoning
	object              []byte // a buffer for isPadding
}

// decode reads an event.
func (d *decoder) decode(data []byte) error {
	d.chunks, d.finish, d.usage, d.chosen = d.chunks[:0], "", nil, false
	if text, ok, err := d.sameAsLast(data); ok || err != nil {
		d.addText(text, d.thought)
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	var e completionChunk
	if err := wire.Decode(data, &e); err != nil {
		return err
	}
	usages := []json.RawMessage{e.Usage, e.Groq.Usage}
	m := &chunkDelta{}
	for _, c := range e.Choices { // those with another index were not asked for
		if c.Index != 0 {
			continue
		}
		d.chosen, d.finish, usages = true, c.Finish, append(usages, c.Usage)
		if now := c.Delta; now != nil && !d.whole {
			m = now
		} else if now := c.Message; now != nil && d.whole {
			m = now
		}
		break
	}
	for _, raw := range usages {
		if d.usage == nil && wire.IsObject(raw) {
			d.usage = wire.OpenAIUsage(raw, "prompt", "completion")
		}
	}
	if e.Kind == "error" || isError(e.Error) {
		return errReported
	}
	if err := d.message(m); err != nil {
		return err
	}
	d.cite(m.Annotations)
	d.cite(e.SearchResults)
	d.cite(e.Citations)
	if len(d.chunks) == 1 && len(e.Choices) == 1 && d.finish == "" && d.usage == nil && m.Details == nil && m.Blocks == nil {
		d.remember(data)
	}
	return nil
}

// isError reports whether the member "error" of an event has a value that says something.
func isError(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", "{}", `""`:
		return false
	}
	return bytes.IndexByte([]byte(`{["t`), raw[0]) >= 0
}

// message reads a delta, or a complete message.
func (d *decoder) message(m *chunkDelta) error {
	text, thought, err := d.parts(m.Content)
	if err != nil {
		return err
	}
	if refusal := insideQuotes(m.Refusal); len(text) == 0 && len(refusal) > 0 {
		text, d.refused = refusal, true
	}
	for i, raw := range []json.RawMessage{m.ReasoningContent, m.Reasoning, m.Thinking} { // some servers send the same in two of them
		if inside := insideQuotes(raw); len(inside) > 0 {
			if d.fields[i] = true; thought == nil {
				thought = inside
			}
		}
	}
	more := d.blocks.add(m.Blocks, d.details.add(m.Details, nil))
	if thought == nil {
		thought = more
	}
	if err := d.write(&d.thinking, thought, true); err != nil { // thinking comes before what it leads to
		return err
	}
	if err := d.write(&d.content, text, false); err != nil {
		return err
	}
	for _, part := range m.ToolCalls {
		if err := d.call(part); err != nil {
			return err
		}
	}
	d.media(m)
	return nil
}

// parts returns the text and the reasoning of a content, escaped. A string is all text. Parts of unknown types, such as images, have none.
func (d *decoder) parts(content json.RawMessage) (text, thought []byte, err error) {
	var parts []json.RawMessage
	if len(content) == 0 || content[0] != '[' || json.Unmarshal(content, &parts) != nil {
		return insideQuotes(content), nil, nil
	}
	for _, raw := range parts {
		if raw[0] == '"' {
			text = append(text, insideQuotes(raw)...)
			continue
		}
		var p contentPart
		json.Unmarshal(raw, &p) // members of other types are missing
		said := &text
		switch p.Type {
		case "thinking", "reasoning":
			said, d.thoughtParts = &thought, true
		case "text", "output_text", "refusal", "":
		case "reference", "tool_reference": // Mistral's
			d.cite(append(append([]byte{'['}, raw...), ']'))
			fallthrough
		default:
			if len(d.unknown) < maxDetails {
				d.unknown = append(d.unknown, raw)
			}
		}
		*said = append(*said, insideQuotes(p.Text)...)
		if refusal := insideQuotes(p.Refusal); len(refusal) > 0 {
			text, d.refused = append(text, refusal...), true
		}
		var inner []contentPart
		json.Unmarshal(p.Thinking, &inner)
		thought = append(thought, insideQuotes(p.Thinking)...)
		for _, part := range inner {
			thought = append(thought, insideQuotes(part.Text)...)
		}
	}
	return text, thought, nil
}

// insideQuotes returns what is between the quotes of a JSON string, escaped; nil for any other value.
func insideQuotes(raw json.RawMessage) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// write adds a piece of text, which is escaped.
func (d *decoder) write(to *wire.Text, escaped []byte, thought bool) error {
	text, err := to.Next(escaped)
	d.addText(text, thought)
	return err
}

func (d *decoder) addText(text string, thought bool) {
	switch {
	case text == "":
	case thought:
		d.chunks = append(d.chunks, adapter.Chunk{Reasoning: text})
	default:
		d.chunks = append(d.chunks, adapter.Chunk{Text: text})
	}
}

// finishText adds what was held back of characters, which no event completes any more.
func (d *decoder) finishText() {
	d.chunks = d.chunks[:0]
	d.addText(d.thinking.Rest(), true)
	d.addText(d.content.Rest(), false)
	for i := range d.calls {
		d.announce(i)
		if rest := d.calls[i].input.Rest(); rest != "" {
			d.chunks = append(d.chunks, adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, Arguments: rest}})
		}
	}
}

// sameAsLast returns the text of an event with the JSON of the last event around its text.
func (d *decoder) sameAsLast(data []byte) (text string, ok bool, err error) {
	tail, ok := bytes.CutPrefix(data, d.before)
	if !ok || len(d.before) == 0 {
		return "", false, nil
	}
	end := 0
	for ; end < len(tail) && tail[end] != '"'; end++ {
		if tail[end] < ' ' {
			return "", false, nil
		}
		if tail[end] == '\\' {
			end++
		}
	}
	if end >= len(tail) {
		return "", false, nil
	}
	escaped := tail[:end]
	rest, ok := bytes.CutPrefix(tail[end:], d.after)
	if !ok || !bytes.Equal(rest, d.rest) && !d.isPadding(rest) {
		return "", false, nil
	}
	if d.thought {
		text, err = d.thinking.Next(escaped)
	} else {
		text, err = d.content.Next(escaped)
	}
	return text, true, err
}

// remember keeps the JSON around the text of an event that has nothing but one piece of text.
func (d *decoder) remember(data []byte) {
	d.before, d.thought = d.before[:0], d.chunks[0].Reasoning != ""
	choices, _, endOfChoices, err := jsonparser.Get(data, "choices")
	for _, name := range append([]string{"content"}, reasoningFields[:]...) {
		text, kind, end, missing := jsonparser.Get(data, "choices", "[0]", "delta", name)
		if err != nil || missing != nil || kind != jsonparser.String || len(text) == 0 {
			continue
		}
		start := end - 1 - len(text)
		if len(d.before) > 0 || start < 0 || !bytes.Equal(data[start:end-1], text) || len(choices) == 0 || !d.isPadding(data[endOfChoices:]) {
			d.before = d.before[:0] // two texts, or a member twice
			return
		}
		d.before = append(d.before, data[:start]...)
		d.after = append(d.after[:0], data[end-1:endOfChoices]...)
		d.rest = append(d.rest[:0], data[endOfChoices:]...)
	}
}

// isPadding reports whether the JSON behind the choices of an event, up to its end, says nothing that matters.
func (d *decoder) isPadding(rest []byte) bool {
	if len(rest) == 0 || rest[0] != ',' && rest[0] != '}' {
		return false
	}
	d.object = append(append(d.object[:0], '{'), bytes.TrimPrefix(rest, []byte{','})...)
	return jsonparser.ObjectEach(d.object, checkPadding) == nil
}

// checkPadding fails for a member of an event that matters.
func checkPadding(key, _ []byte, kind jsonparser.ValueType, _ int) error {
	switch string(key) {
	case "choices", "usage", "x_groq", "error", "object", "search_results", "citations":
		if kind != jsonparser.Null {
			return errReported
		}
	}
	return nil
}
