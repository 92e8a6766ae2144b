package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// errReported says that an event reports an error.
var errReported = errors.New("the event reports an error")

// maxCalls is how many tools one answer may call; OpenAI takes 128 tools.
const maxCalls = 1024

var errCalls = errors.New("the answer calls too many tools")

// errNotObject says that an event cannot be read.
var errNotObject = errors.New("the event is not JSON, or not of the format")

// decoder takes from an event what is needed of it. Events are only lent: what is kept of them is a copy.
//
// The events of one answer differ, most of the time, in their content and perhaps in a member after the choices. So the decoder
// keeps the text around the content of the last event that had nothing but content: of an event with the same text around
// it, only what comes after the choices is parsed, and that only where it differs too. Parsing each would double what a token costs
// (bench/relay).
type decoder struct {
	// What the last event had.
	text, reasoning string
	parts           []adapter.ToolCall
	finish          string
	usage           *adapter.Usage

	calls  []call // of the answer
	beside beside // of the event and the answer

	// What stands beside its reasoning and its text.
	fields          uint8 // of reasoningFields that had text
	thoughtParts    bool  // it came as a part of the content
	refused         bool  // the text is a refusal
	details, blocks details
	strange         []json.RawMessage // parts of the content that we do not understand

	// The model event: what comes before its content, after it up to the end of the choices, and after those.
	before, after, tail []byte
	thought             bool   // its content is reasoning
	object              []byte // a tail made into an object

	content, thinking wire.Text // of the answer

	// What parsing an event finds, escaped as it came.
	rawText, rawReasoning, rawUsage []byte
	rawDetails                      []byte // the text of reasoning_details or thinking_blocks, which may repeat rawReasoning
	rawChoices                      []byte
	whole                           bool // the answer is in one piece: a message in place of deltas
	chosen                          bool // it has a choice
	others                          bool // something that is not content
	failed                          bool // it reports an error
	bad                             bool // it has an escape that is none
	part                            struct {
		index           int
		hasIndex        bool
		id, name, input []byte
		inputIsString   bool
		beside          []element
	}

	// The callbacks of the parser, made once.
	onTop, onTail, onChoice, onDelta, onCall, onFunction     func(key, value []byte, kind jsonparser.ValueType, offset int) error
	onChoices, onCalls, onPart, onThought, onDetail, onBlock func(value []byte, kind jsonparser.ValueType, offset int, err error) error
}

// call is a tool call as it is known so far.
type call struct {
	wire   int // the index that the provider gives it
	id     string
	name   string // as far as it is known
	named  bool   // it was passed on
	shape  shape  // of the arguments
	input  wire.Text
	beside []element // members that we do not know
}

func (d *decoder) init() {
	d.onTop, d.onTail, d.onChoice, d.onDelta, d.onCall, d.onFunction = d.top, d.last, d.choice, d.delta, d.call, d.function
	d.onChoices, d.onCalls, d.onPart, d.onThought, d.onDetail, d.onBlock = d.choices, d.toolCalls, d.contentPart, d.thoughtPart, d.detail, d.block
}

// decode takes an event apart.
func (d *decoder) decode(data []byte) error {
	if d.glance(data) {
		return nil
	}
	d.clear()
	d.reset()
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		return nil
	}
	if err := jsonparser.ObjectEach(data, d.onTop); err != nil {
		if err == errCalls {
			return err
		}
		return errNotObject
	}
	if d.rawUsage != nil {
		d.usage = wire.OpenAIUsage(d.rawUsage, "prompt", "completion")
	}
	if d.failed {
		return errReported
	}
	if d.rawReasoning == nil {
		d.rawReasoning = d.rawDetails
	}
	d.text = d.next(&d.content, d.rawText)
	d.reasoning = d.next(&d.thinking, d.rawReasoning)
	if d.bad {
		return wire.ErrEscape
	}
	d.keep(data)
	return nil
}

// glance takes an event apart if it is like the one before; then it holds nothing but content.
func (d *decoder) glance(data []byte) bool {
	raw, ok := d.same(data)
	if !ok {
		return false
	}
	d.clear()
	if text := string(raw); d.thought {
		d.reasoning = text
	} else {
		d.text = text
	}
	return true
}

// clear forgets what the last event had.
func (d *decoder) clear() {
	d.text, d.reasoning, d.finish, d.usage, d.parts = "", "", "", nil, d.parts[:0]
}

// reset forgets what parsing found.
func (d *decoder) reset() {
	d.rawText, d.rawReasoning, d.rawDetails, d.rawUsage, d.rawChoices = nil, nil, nil, nil, nil
	d.others, d.failed, d.bad = false, false, false
	d.beside.sources = [2]json.RawMessage{}
}

// same returns the content of an event that is otherwise as the model event.
func (d *decoder) same(data []byte) ([]byte, bool) {
	if len(d.before) == 0 || d.content.Open() || d.thinking.Open() || !bytes.HasPrefix(data, d.before) {
		return nil, false
	}
	rest := data[len(d.before):]
	end, ascii := 0, true
	for ; end < len(rest) && rest[end] != '"'; end++ {
		// Only characters that mean themselves; the rest is for the parser.
		switch c := rest[end]; {
		case c == '\\' || c < ' ':
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
	d.reset()
	d.object = append(append(d.object[:0], '{'), rest[1:]...)
	if err := jsonparser.ObjectEach(d.object, d.onTail); err != nil || d.failed || d.others {
		return nil, false
	}
	return text, true
}

// keep makes an event that has content and nothing else the model event.
func (d *decoder) keep(data []byte) {
	content := d.rawText
	if content == nil {
		content = d.rawReasoning
	}
	if content == nil || d.rawText != nil && d.rawReasoning != nil || d.others {
		return
	}
	start := offset(data, content)
	end, choices := start+len(content), offset(data, d.rawChoices)+len(d.rawChoices)
	d.before, d.after = append(d.before[:0], data[:start]...), append(d.after[:0], data[end:choices]...)
	d.tail, d.thought = append(d.tail[:0], data[choices:]...), d.rawText == nil
}

// offset returns where in data a slice of it begins.
func offset(data, part []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(data))))
}

func (d *decoder) top(key, value []byte, kind jsonparser.ValueType, _ int) error {
	switch string(key) {
	case "choices":
		if kind == jsonparser.Array {
			d.others = d.others || d.rawChoices != nil // twice: nothing to take as a model
			d.rawChoices = value
			_, err := jsonparser.ArrayEachErr(value, d.onChoices)
			return err
		}
	case "usage":
		if kind == jsonparser.Object {
			d.rawUsage, d.others = value, true
		}
	case "error":
		d.failed = d.failed || kind == jsonparser.Object && len(value) > len("{}") || kind == jsonparser.Array ||
			kind == jsonparser.String && len(value) > 0 || string(value) == "true"
	case "object":
		d.failed = d.failed || kind == jsonparser.String && string(value) == "error"
	case "citations", "search_results":
		d.others = d.beside.top(key, value, kind) || d.others
	case "x_groq": // Groq's usage is here
		if raw, kind, _, err := jsonparser.Get(value, "usage"); err == nil && kind == jsonparser.Object && d.rawUsage == nil {
			d.rawUsage, d.others = raw, true
		}
	}
	return nil
}

// last looks at a member after the choices.
func (d *decoder) last(key, value []byte, kind jsonparser.ValueType, offset int) error {
	if string(key) == "choices" {
		d.others = true
		return nil
	}
	return d.top(key, value, kind, offset)
}

// choices looks at the first choice; others are none that were asked for.
func (d *decoder) choices(value []byte, kind jsonparser.ValueType, _ int, err error) error {
	if err != nil || kind != jsonparser.Object {
		return errNotObject
	}
	if index, err := jsonparser.GetInt(value, "index"); err == nil && index != 0 {
		return nil
	}
	d.chosen = true
	if err := jsonparser.ObjectEach(value, d.onChoice); err != nil {
		return err
	}
	return io.EOF // ends the parser's iteration
}

func (d *decoder) choice(key, value []byte, kind jsonparser.ValueType, _ int) error {
	switch string(key) {
	case "delta", "message": // Perplexity repeats the whole message beside each delta
		if kind == jsonparser.Object && d.whole == (string(key) == "message") {
			return jsonparser.ObjectEach(value, d.onDelta)
		}
	case "finish_reason":
		if kind == jsonparser.String && len(value) > 0 {
			d.finish, d.others = string(value), true
		}
	case "usage": // Moonshot's is here
		if kind == jsonparser.Object {
			d.rawUsage, d.others = value, true
		}
	}
	return nil
}

func (d *decoder) delta(key, value []byte, kind jsonparser.ValueType, _ int) error {
	if d.beside.part(key, value, kind) {
		d.others = true
		return nil
	}
	if kind == jsonparser.Array {
		var each func(value []byte, kind jsonparser.ValueType, offset int, err error) error
		switch string(key) {
		case "tool_calls":
			each = d.onCalls
		case "content": // Mistral's, where the model reasons or quotes
			each = d.onPart
		case "reasoning_details": // OpenRouter's
			each = d.onDetail
		case "thinking_blocks": // LiteLLM's
			each = d.onBlock
		default:
			return nil
		}
		d.others = true
		_, err := jsonparser.ArrayEachErr(value, each)
		return err
	}
	if kind != jsonparser.String || len(value) == 0 {
		return nil
	}
	value = slices.Clip(value) // parts may be appended, and the event is only lent
	switch string(key) {
	case "content":
		d.rawText = value
	case "refusal": // what the model says instead of an answer
		if d.rawText == nil {
			d.rawText, d.others, d.refused = value, true, true
		}
	case "reasoning_content":
		d.thinks(0, value)
	case "reasoning":
		d.thinks(1, value)
	case "thinking":
		d.thinks(2, value)
	}
	return nil
}

// thinks takes the text of one of reasoningFields. Some servers send the same in two of them.
func (d *decoder) thinks(field int, value []byte) {
	d.fields |= 1 << field
	if d.rawReasoning == nil {
		d.rawReasoning = value
	}
}

// contentPart looks at a part of a content that is a list: text, a refusal, or thinking, which is a list of parts itself. Parts of other
// types (references, images) have no text.
func (d *decoder) contentPart(value []byte, kind jsonparser.ValueType, _ int, err error) error {
	if err != nil {
		return errNotObject
	}
	if kind == jsonparser.String {
		d.rawText = append(d.rawText, value...)
		return nil
	}
	d.beside.reference(value)
	text := &d.rawText
	switch kind := string(wire.StringAt(value, "type")); kind {
	case "thinking", "reasoning":
		text, d.thoughtParts = &d.rawReasoning, true
	case "text", "output_text", "refusal", "":
	default:
		if len(d.strange) < maxDetails {
			d.strange = append(d.strange, bytes.Clone(value))
		}
	}
	*text = append(*text, wire.StringAt(value, "text")...)
	if refusal := wire.StringAt(value, "refusal"); len(refusal) > 0 {
		d.rawText, d.refused = append(d.rawText, refusal...), true
	}
	switch thinking, kind, _, err := jsonparser.Get(value, "thinking"); {
	case err != nil:
	case kind == jsonparser.String:
		d.rawReasoning = append(d.rawReasoning, thinking...)
	case kind == jsonparser.Array:
		_, err := jsonparser.ArrayEachErr(thinking, d.onThought)
		return err
	}
	return nil
}

// thoughtPart looks at a part of thinking.
func (d *decoder) thoughtPart(value []byte, _ jsonparser.ValueType, _ int, err error) error {
	if err != nil {
		return errNotObject
	}
	d.rawReasoning = append(d.rawReasoning, wire.StringAt(value, "text")...)
	return nil
}

// detail looks at an element of reasoning_details, block at one of thinking_blocks. What it has that is encrypted is not text.
func (d *decoder) detail(value []byte, _ jsonparser.ValueType, _ int, err error) error {
	if err != nil {
		return errNotObject
	}
	d.rawDetails = append(d.rawDetails, d.details.add(value)...)
	return nil
}

func (d *decoder) block(value []byte, _ jsonparser.ValueType, _ int, err error) error {
	if err != nil {
		return errNotObject
	}
	d.rawDetails = append(d.rawDetails, d.blocks.add(value)...)
	return nil
}

func (d *decoder) toolCalls(value []byte, kind jsonparser.ValueType, _ int, err error) error {
	if err != nil || kind != jsonparser.Object {
		return errNotObject
	}
	p := &d.part
	p.index, p.hasIndex, p.id, p.name, p.input, p.beside = 0, false, nil, nil, nil, p.beside[:0]
	if err := jsonparser.ObjectEach(value, d.onCall); err != nil {
		return err
	}
	id, name := d.unescape(p.id), d.unescape(p.name)
	known := len(d.calls)
	i := d.find(p.index, p.hasIndex, id, name, len(p.input) > 0)
	if i == maxCalls {
		return errCalls
	}
	if i == known && i > 0 {
		d.introduce(i - 1)
	}
	c := &d.calls[i]
	part := adapter.ToolCall{Index: i}
	if c.id == "" {
		if c.id = id; c.named {
			part.ID = id
		}
	}
	c.say(name)
	if p.inputIsString {
		part.Arguments = d.next(&c.input, p.input)
	} else {
		part.Arguments = string(p.input) // an object, where it should be one in a string
	}
	c.shape.add(part.Arguments)
	if part.Arguments != "" && !c.named {
		part.ID, part.Name = c.introduction()
	}
	for _, m := range p.beside {
		if j := slices.IndexFunc(c.beside, func(e element) bool { return e.name == m.name }); j >= 0 {
			c.beside[j] = m
		} else {
			c.beside = append(c.beside, m)
		}
	}
	if part != (adapter.ToolCall{Index: i}) {
		d.parts = append(d.parts, part)
	}
	return nil
}

// say takes a name, or a piece of one. Some servers send it again with each piece of the arguments, and some send all that they have of it.
func (c *call) say(name string) {
	switch {
	case c.named || name == "" || name == c.name:
	case strings.HasPrefix(name, c.name):
		c.name = name
	default:
		c.name += name
	}
}

// introduction returns id and name when they are first asked for: a name may come in pieces, so that it is known when the arguments begin.
func (c *call) introduction() (id, name string) {
	if c.named {
		return "", ""
	}
	c.named = true
	return c.id, c.name
}

// introduce tells of a call that has no arguments so far.
func (d *decoder) introduce(i int) {
	if id, name := d.calls[i].introduction(); id != "" || name != "" {
		d.parts = append(d.parts, adapter.ToolCall{Index: i, ID: id, Name: name})
	}
}

// shape tells when the JSON of a call's arguments is whole.
type shape struct {
	depth           int
	begun           bool
	inText, escaped bool
}

func (s *shape) add(text string) {
	for i := range len(text) {
		switch c := text[i]; {
		case s.escaped:
			s.escaped = false
		case s.inText:
			s.escaped = c == '\\'
			s.inText = c != '"'
		case c == '"':
			s.inText = true
		case c == '{' || c == '[':
			s.depth++
			s.begun = true
		case c == '}' || c == ']':
			s.depth--
		}
	}
}

func (s *shape) whole() bool { return s.begun && s.depth <= 0 }

func (d *decoder) call(key, value []byte, kind jsonparser.ValueType, _ int) error {
	switch string(key) {
	case "index":
		if n, err := strconv.Atoi(string(value)); err == nil {
			d.part.index, d.part.hasIndex = n, true
		}
	case "id":
		if kind == jsonparser.String {
			d.part.id = value
		}
	case "function":
		if kind == jsonparser.Object {
			return jsonparser.ObjectEach(value, d.onFunction)
		}
	case "type":
	default: // Gemini's extra_content, and whatever else its provider wants to have back
		if kind != jsonparser.Null {
			d.part.beside = append(d.part.beside, element{string(key), rawOf(value, kind)})
		}
	}
	return nil
}

func (d *decoder) function(key, value []byte, kind jsonparser.ValueType, _ int) error {
	switch string(key) {
	case "name":
		if kind == jsonparser.String {
			d.part.name = value
		}
	case "arguments":
		if kind == jsonparser.String || kind == jsonparser.Object {
			d.part.input, d.part.inputIsString = value, kind == jsonparser.String
		}
	}
	return nil
}

// find returns the place of the call that a part belongs to, and makes one for a new call. Parts belong together by their index, or
// by their id where there is none; a part without either continues the last call. If a server gives every call the index 0, or
// the same id, a new call has another id, or a name that comes when the arguments before it are complete.
func (d *decoder) find(index int, hasIndex bool, id, name string, input bool) int {
	for i := len(d.calls) - 1; i >= 0; i-- {
		c := &d.calls[i]
		switch {
		case id != "" && c.id != "" && c.id != id:
		case hasIndex && c.wire != index:
		case !hasIndex && id != "" && c.id != id:
		case !hasIndex && id == "" && name != "" && (name != c.name || c.shape.whole()):
		case name != "" && input && c.shape.whole() && (id == "" || !hasIndex):
		default:
			return i
		}
	}
	if !hasIndex {
		index = len(d.calls)
	}
	if len(d.calls) == maxCalls {
		return maxCalls
	}
	d.calls = append(d.calls, call{wire: index})
	return len(d.calls) - 1
}

// next decodes the next piece of a text, which is escaped.
func (d *decoder) next(t *wire.Text, raw []byte) string {
	text, err := t.Next(raw)
	d.bad = d.bad || err != nil
	return text
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

func (d *decoder) unescape(raw []byte) string {
	text, err := wire.Unescape(raw)
	d.bad = d.bad || err != nil
	return text
}
