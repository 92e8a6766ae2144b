package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// errReported says that an event reports an error.
var errReported = errors.New("the event reports an error")

// errNotObject says that an event cannot be read.
var errNotObject = errors.New("the event is not JSON, or not of the format")

// decoder reads the events of an answer. Events are only lent: what is kept of them is a copy.
//
// Most events of an answer differ only in their content, and perhaps in members after the choices that do not matter. So the decoder keeps the
// text around the content of the last event that had only content. If an event has the same text around it, nothing but the members after the
// choices is parsed, and that only if they differ. Parsing all events would cost several times as much (bench/relay).
type decoder struct {
	// Of the last event.
	text, reasoning string
	parts           []adapter.ToolCall
	finish          string
	usage           *adapter.Usage
	others          bool // it has more than content

	calls     []call // of the answer
	beside    beside // of the event and the answer
	whole     bool   // the answer is in one piece: a message in place of deltas
	hasChoice bool

	// What belongs to its reasoning and its text.
	fields          uint8 // of reasoningFields that had text
	thoughtParts    bool  // reasoning came as a part of the content
	refused         bool  // the text is a refusal
	details, blocks details
	strange         []json.RawMessage // parts of the content that we do not understand

	// The text around the last content: before it, after it up to the end of the choices, and after those.
	before, after, tail []byte
	isReasoning         bool   // the content is reasoning
	object              []byte // a tail made into an object
	onTail              func(key, value []byte, kind jsonparser.ValueType, offset int) error

	content, thinking wire.Text // of the answer
}

// pieces are what is found in a message or a delta, escaped as it came.
type pieces struct{ text, reasoning, details []byte }

// decode reads an event.
func (d *decoder) decode(data []byte) error {
	if d.decodeSame(data) {
		return nil
	}
	d.clear()
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	event := wire.ReadObject(data)
	if event == nil {
		return errNotObject
	}
	choice, err := d.choice(event)
	if err != nil {
		return err
	}
	for _, raw := range []json.RawMessage{event["usage"], choice["usage"], event.Object("x_groq")["usage"]} { // Moonshot's and Groq's are elsewhere
		if d.usage == nil && wire.IsObject(raw) {
			d.usage = wire.OpenAIUsage(raw, "prompt", "completion")
		}
	}
	if reportsError(event) {
		return errReported
	}
	d.finish = choice.Text("finish_reason")
	d.others = d.beside.top(event) || d.usage != nil || d.finish != ""
	name := "delta"
	if d.whole { // Perplexity repeats the whole message beside each delta
		name = "message"
	}
	m, err := d.message(choice.Object(name))
	if err != nil {
		return err
	}
	if m.reasoning == nil {
		m.reasoning = m.details
	}
	var err2 error
	d.text, err = d.content.Next(m.text)
	d.reasoning, err2 = d.thinking.Next(m.reasoning)
	if err != nil || err2 != nil {
		return wire.ErrEscape
	}
	d.keep(data, m)
	return nil
}

// reportsError reports whether an event is about an error.
func reportsError(event wire.Object) bool {
	raw := bytes.TrimSpace(event["error"])
	return event.Has("error") && bytes.IndexByte([]byte("{[\"t"), raw[0]) >= 0 || event.Text("object") == "error"
}

// choice returns the first choice. Others were not asked for.
func (d *decoder) choice(event wire.Object) (wire.Object, error) {
	for _, raw := range event.List("choices") {
		choice := wire.ReadObject(raw)
		if choice == nil {
			return nil, errNotObject
		}
		if choice.Count("index") == 0 {
			d.hasChoice = true
			return choice, nil
		}
	}
	return nil, nil
}

// message reads a message or a delta.
func (d *decoder) message(in wire.Object) (m pieces, err error) {
	if d.beside.message(in) {
		d.others = true
	}
	m.text = inside(in["content"])
	for _, part := range in.List("content") { // Mistral's, where the model reasons or quotes
		d.others = true
		if err := d.contentPart(part, &m); err != nil {
			return m, err
		}
	}
	if refusal := inside(in["refusal"]); len(refusal) > 0 && m.text == nil { // what the model says instead of an answer
		m.text, d.others, d.refused = refusal, true, true
	}
	for i, field := range reasoningFields { // some servers send the same in two of them
		if text := inside(in[field]); len(text) > 0 {
			d.fields |= 1 << i
			if m.reasoning == nil {
				m.reasoning = text
			}
		}
	}
	for _, part := range in.List("reasoning_details") { // OpenRouter's
		m.details, d.others = append(m.details, d.details.add(part)...), true
	}
	for _, part := range in.List("thinking_blocks") { // LiteLLM's
		m.details, d.others = append(m.details, d.blocks.add(part)...), true
	}
	for _, raw := range in.List("tool_calls") {
		d.others = true
		if err := d.toolCall(raw); err != nil {
			return m, err
		}
	}
	return m, nil
}

// inside returns what is between the quotes of a JSON string that is not empty, or else nil.
func inside(raw json.RawMessage) []byte {
	if len(raw) <= 2 || raw[0] != '"' {
		return nil
	}
	return slices.Clip(raw[1 : len(raw)-1])
}

// contentPart reads a part of a content that is a list: text, a refusal, or thinking, which is a list of parts itself. Parts of other types
// (references, images) have no text.
func (d *decoder) contentPart(raw json.RawMessage, m *pieces) error {
	if raw[0] == '"' {
		m.text = append(m.text, inside(raw)...)
		return nil
	}
	part := wire.ReadObject(raw)
	if part == nil {
		return errNotObject
	}
	d.beside.reference(part, raw)
	text := &m.text
	switch part.Text("type") {
	case "thinking", "reasoning":
		text, d.thoughtParts = &m.reasoning, true
	case "text", "output_text", "refusal", "":
	default:
		if len(d.strange) < maxDetails {
			d.strange = append(d.strange, raw)
		}
	}
	*text = append(*text, inside(part["text"])...)
	if refusal := inside(part["refusal"]); refusal != nil {
		m.text, d.refused = append(m.text, refusal...), true
	}
	m.reasoning = append(m.reasoning, inside(part["thinking"])...)
	for _, thought := range part.Objects("thinking") {
		m.reasoning = append(m.reasoning, inside(thought["text"])...)
	}
	return nil
}

// clear forgets the last event.
func (d *decoder) clear() {
	d.text, d.reasoning, d.finish, d.usage, d.parts, d.others = "", "", "", nil, d.parts[:0], false
}

// decodeSame reads an event that is like the last one with only content. It returns false if the event has to be parsed.
func (d *decoder) decodeSame(data []byte) bool {
	raw, ok := d.sameContent(data)
	if !ok {
		return false
	}
	d.clear()
	if text := string(raw); d.isReasoning {
		d.reasoning = text
	} else {
		d.text = text
	}
	return true
}

// sameContent returns the content of an event whose text around it is the same.
func (d *decoder) sameContent(data []byte) ([]byte, bool) {
	if len(d.before) == 0 || d.content.Open() || d.thinking.Open() || !bytes.HasPrefix(data, d.before) {
		return nil, false
	}
	rest := data[len(d.before):]
	end, ascii := 0, true
	for ; end < len(rest) && rest[end] != '"'; end++ {
		switch c := rest[end]; {
		case c == '\\' || c < ' ': // an escape, or invalid
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	text, rest := rest[:end], rest[end:]
	if !bytes.HasPrefix(rest, d.after) || !ascii && !utf8.Valid(text) {
		return nil, false
	}
	if rest = rest[len(d.after):]; bytes.Equal(rest, d.tail) {
		return text, true
	}
	if len(rest) == 0 || rest[0] != ',' {
		return nil, false
	}
	d.object = append(append(d.object[:0], '{'), rest[1:]...)
	return text, jsonparser.ObjectEach(d.object, d.onTail) == nil
}

// checkTail returns an error for a member after the choices that matters.
func checkTail(key, _ []byte, kind jsonparser.ValueType, _ int) error {
	switch string(key) {
	case "choices", "usage", "error", "object", "citations", "search_results", "x_groq":
		if kind != jsonparser.Null {
			return errNotObject
		}
	}
	return nil
}

// keep keeps the text around the content of an event that has nothing but content. Each name must be there once, or else it could be
// another member that has the content.
func (d *decoder) keep(data []byte, m pieces) {
	content, name := m.text, `"content"`
	if content == nil {
		content, name = m.reasoning, `"`+reasoningFields[bits.TrailingZeros8(d.fields|1<<7)%len(reasoningFields)]+`"`
	}
	if content == nil || m.text != nil && m.reasoning != nil || d.others {
		return
	}
	for _, name := range []string{name, `"choices"`, `"delta"`} {
		if bytes.Count(data, []byte(name)) != 1 {
			return
		}
	}
	at := bytes.Index(data, []byte(name)) + len(name)
	start := at + bytes.IndexByte(data[at:], '"') + 1
	end := start + len(content)
	_, _, choices, err := jsonparser.Get(data, "choices")
	if err != nil || choices < end || !bytes.Equal(data[start:end], content) {
		return
	}
	d.before, d.after = append(d.before[:0], data[:start]...), append(d.after[:0], data[end:choices]...)
	d.tail, d.isReasoning = append(d.tail[:0], data[choices:]...), m.text == nil
}

// rest gives what is still held back of characters, which will not be finished any more.
func (d *decoder) rest() {
	d.text, d.reasoning, d.parts = d.content.Rest(), d.thinking.Rest(), d.parts[:0]
	for i := range d.calls {
		d.introduce(i)
		if rest := d.calls[i].input.Rest(); rest != "" {
			d.parts = append(d.parts, adapter.ToolCall{Index: i, Arguments: rest})
		}
	}
}
