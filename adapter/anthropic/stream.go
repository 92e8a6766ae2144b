package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

const (
	maxCalls = 1024     // of tools, in one answer
	maxHeld  = 16 << 20 // bytes of an answer's signatures, citations and blocks of other types
	maxModel = 1 << 10  // bytes around a text that are kept to recognise the next event
)

var (
	errNotEvent = errors.New("the event is not JSON, or not of the format")
	errHeld     = errors.New("the answer has more beside its text than allowed")
)

// answer reads one answer.
type answer struct {
	*wire.Answer
	m     *model
	open  []*block // in the order in which they began; nearly always one
	calls int
	runes int  // of the text so far
	plain bool // the last part is a text without data, so the next text would be joined to it
	held  int
	count wire.Counts

	// The deltas of a block differ in their text only. An event with the same bytes around its text as the last delta needs no parsing.
	before, after []byte // after has no spaces, because Anthropic pads its events with a varying number
	same          *block
}

// block is a content block that has begun.
type block struct {
	index     int    // on the wire; -1 where it has none
	kind      string // one of adapter's types of parts
	text      wire.Text
	wrote     bool              // some of its text, or of its arguments, was passed on
	start     int               // of its text in that of the answer, in characters
	call      int               // its number among the calls
	signature []byte            // escaped
	citations []json.RawMessage // each as it came
	raw       []byte            // what it began with
	input     []byte            // escaped: of a call that the provider makes itself
	grown     map[string]string // string members of unknown blocks, joined from their deltas
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) error {
	a := &answer{Answer: w, m: m}
	a.Last = a.last
	switch a.Kind() {
	case "text/event-stream", "": // some servers send no type
		return a.Events(a.Res.Body, a.next)
	case "application/json":
		return a.whole()
	default:
		return a.Unknown("an event stream", "check the base URL (it is what comes before /v1/messages)")
	}
}

// next passes on what an event has; done says that it is the last.
func (a *answer) next(kind, data []byte) (done bool, err error) {
	if raw, ok := a.again(data); ok {
		return false, a.write(a.same, raw)
	}
	return a.event(kind, data)
}

// again returns the escaped text of an event that differs from the last delta in its text only.
func (a *answer) again(data []byte) ([]byte, bool) {
	if len(a.before) == 0 || !bytes.HasPrefix(data, a.before) {
		return nil, false
	}
	rest := data[len(a.before):]
	end := 0
	for ; end < len(rest) && rest[end] != '"'; end++ {
		if rest[end] == '\\' {
			end++
		} else if rest[end] < ' ' {
			return nil, false
		}
	}
	if end >= len(rest) {
		return nil, false
	}
	at := 0
	for _, c := range rest[end+1:] {
		if c == ' ' {
			continue
		}
		if at == len(a.after) || c != a.after[at] {
			return nil, false
		}
		at++
	}
	return rest[:end], at == len(a.after)
}

// learn keeps the bytes around the text of an event, for again. text is a part of data.
func (a *answer) learn(b *block, data, text []byte) {
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(text))) - uintptr(unsafe.Pointer(unsafe.SliceData(data))))
	if a.before = a.before[:0]; len(data)-len(text) > maxModel {
		return
	}
	a.before = append(a.before, data[:at]...)
	a.after = append(a.after[:0], bytes.ReplaceAll(data[at+len(text)+1:], []byte(" "), nil)...)
	a.same = b
}

func (a *answer) event(kind, data []byte) (done bool, err error) {
	switch {
	case string(kind) == "ping", len(bytes.TrimSpace(data)) == 0:
		return false, nil
	case bytes.HasPrefix(data, []byte("[DONE]")): // of servers that translate from OpenAI's format
		return true, nil
	case string(kind) == "error":
		return false, a.failed(data)
	case !isObject(data) || !json.Valid(data):
		return false, a.m.p.NotPiece(errNotEvent, data)
	}
	event := member(data, "type")
	if len(event) == 0 {
		event = kind
	}
	switch string(event) {
	case "content_block_delta":
		return false, a.delta(data)
	case "content_block_start":
		if raw := object(data, "content_block"); raw != nil {
			return false, a.begin(index(data), raw)
		}
	case "content_block_stop":
		if b := a.find(index(data)); b != nil {
			return false, a.end(b)
		}
	case "message_start":
		a.take(object(data, "message", "usage"))
	case "message_delta":
		a.take(object(data, "usage"))
		if reason := member(data, "delta", "stop_reason"); len(reason) > 0 && a.Finish == "" {
			if err := a.refusal(string(reason), object(data, "delta", "stop_details")); err != nil {
				return false, err
			}
			a.Finish = wire.FinishReason(string(reason))
			a.Enough()
		}
	case "message_stop":
		return true, nil
	case "error":
		return false, a.failed(data)
	default: // a ping, or an event that we do not know
		if raw, kind, _, err := jsonparser.Get(data, "error"); err == nil && kind != jsonparser.Null && len(raw) > 0 {
			return false, a.failed(data)
		}
	}
	return false, nil
}

// failed is the error of an event that reports one; nil where the answer is whole already (MO-14).
func (a *answer) failed(data []byte) error {
	if a.Finish != "" {
		return nil
	}
	return a.m.p.Failed(data)
}

// find returns the open block with an index; the last one where the event has none.
func (a *answer) find(index int) *block {
	for i := len(a.open) - 1; i >= 0; i-- {
		if index < 0 || a.open[i].index == index {
			return a.open[i]
		}
	}
	return nil
}

// begin opens a block with what it begins with, which may be all of it.
func (a *answer) begin(index int, raw []byte) error {
	b := &block{index: index}
	text := ""
	switch string(member(raw, "type")) {
	case "text":
		b.kind, text = adapter.PartText, "text"
		jsonparser.ArrayEach(raw, func(citation []byte, _ jsonparser.ValueType, _ int, _ error) { // of a whole answer
			b.citations = append(b.citations, bytes.Clone(citation))
		}, "citations")
	case "thinking":
		b.kind, text = adapter.PartReasoning, "thinking"
		b.signature = bytes.Clone(member(raw, "signature"))
	case "tool_use":
		b.kind = adapter.PartCall
	default:
		b.kind = adapter.PartOther
	}
	if err := a.enter(b); err != nil {
		return err
	}
	if text != "" {
		return a.write(b, member(raw, text))
	}
	b.raw = bytes.Clone(raw)
	if err := a.hold(len(raw)); err != nil || b.kind == adapter.PartOther {
		return err
	}
	return a.call(b, raw)
}

// enter opens a block, and ends one in its place that the server has not ended. Two text blocks in a row are kept apart: they have to go back as
// two.
func (a *answer) enter(b *block) error {
	if old := a.find(b.index); old != nil {
		if err := a.end(old); err != nil {
			return err
		}
	}
	if b.kind == adapter.PartText && a.plain {
		if err := a.beside(adapter.PartText, 0, []byte("{}")); err != nil {
			return err
		}
	}
	if len(a.open) == maxCalls {
		return a.m.p.NotPiece(errors.New("the answer has too many blocks that do not end"), nil)
	}
	a.before, b.start = a.before[:0], a.runes
	a.open = append(a.open, b)
	return nil
}

// call begins a call of a tool.
func (a *answer) call(b *block, raw []byte) error {
	if a.calls == maxCalls {
		return a.m.p.NotPiece(errors.New("the answer calls too many tools"), nil)
	}
	b.call = a.calls
	a.calls++
	id, err := wire.Unescape(member(raw, "id"))
	name, err2 := wire.Unescape(member(raw, "name"))
	if err := errors.Join(err, err2); err != nil {
		return a.m.p.NotPiece(err, raw)
	}
	a.plain = false
	if err := a.Yield(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: b.call, ID: id, Name: name}}); err != nil {
		return err
	}
	var others map[string]json.RawMessage
	json.Unmarshal(raw, &others) // of an object that is JSON: cannot fail
	for _, known := range []string{"type", "id", "name", "input"} {
		delete(others, known)
	}
	if len(others) == 0 {
		return nil
	}
	data, _ := json.Marshal(others)
	return a.beside(adapter.PartCall, b.call, data)
}

// deltas are the types of deltas: of which part, and which member they add to it.
var deltas = map[string]struct{ part, member string }{
	"text_delta":       {adapter.PartText, "text"},
	"citations_delta":  {adapter.PartText, "citation"},
	"thinking_delta":   {adapter.PartReasoning, "thinking"},
	"signature_delta":  {adapter.PartReasoning, "signature"},
	"input_json_delta": {adapter.PartCall, "partial_json"},
}

// delta adds to a block. It begins one if the server has not, or if the open one is of another type.
func (a *answer) delta(data []byte) error {
	d, b := object(data, "delta"), a.find(index(data))
	of, known := deltas[string(member(d, "type"))]
	other := b != nil && b.kind == adapter.PartOther
	switch {
	case !known && other:
		return a.grow(b, d)
	case !known:
		return nil
	case other && of.part == adapter.PartCall: // of a call that the provider makes itself
		text := member(d, of.member)
		b.input = append(b.input, text...)
		return a.hold(len(text))
	case b != nil && b.kind == of.part:
	case of.part == adapter.PartCall:
		return a.m.p.NotPiece(errors.New("arguments of no call"), data)
	default:
		b = &block{index: index(data), kind: of.part}
		if err := a.enter(b); err != nil {
			return err
		}
	}
	text := member(d, of.member)
	switch of.member {
	case "signature":
		b.signature = append(b.signature, text...)
		return a.hold(len(text))
	case "citation":
		if c := object(d, "citation"); c != nil {
			b.citations = append(b.citations, bytes.Clone(c))
			return a.hold(len(c))
		}
		return nil
	}
	if text != nil {
		a.learn(b, data, text)
	}
	return a.write(b, text)
}

// grow appends the strings of a delta to the same members of an unknown block, as in compaction_delta.
func (a *answer) grow(b *block, delta []byte) error {
	var members map[string]any
	json.Unmarshal(delta, &members) // what is no object has none
	for name, v := range members {
		s, ok := v.(string)
		if !ok || name == "type" {
			continue
		}
		if b.grown == nil {
			b.grown = map[string]string{}
		}
		if _, begun := b.grown[name]; !begun {
			b.grown[name], _ = wire.Unescape(member(b.raw, name))
		}
		b.grown[name] += s
	}
	return a.hold(len(delta))
}

func (a *answer) hold(n int) error {
	if a.held += n; a.held > maxHeld {
		return a.m.p.NotPiece(errHeld, nil)
	}
	return nil
}

// write passes on a piece of a block's text, which is escaped.
func (a *answer) write(b *block, raw []byte) error {
	s, err := b.text.Next(raw)
	if err != nil {
		return a.m.p.NotPiece(err, raw)
	}
	return a.say(b, s)
}

func (a *answer) say(b *block, s string) error {
	if s == "" {
		return nil
	}
	b.wrote = true
	a.plain = b.kind == adapter.PartText
	var c adapter.Chunk
	switch b.kind {
	case adapter.PartText:
		a.runes += utf8.RuneCountInString(s)
		c.Text = s
	case adapter.PartReasoning:
		c.Reasoning = s
	case adapter.PartCall:
		c.ToolCall = &adapter.ToolCall{Index: b.call, Arguments: s}
	}
	if !a.Pass(c) { // not Yield, which would copy each delta once more
		return wire.ErrLeft
	}
	return nil
}

// end closes a block, and passes on what stands beside it.
func (a *answer) end(b *block) error {
	a.before = a.before[:0]
	a.open = slices.DeleteFunc(a.open, func(other *block) bool { return other == b })
	if err := a.say(b, b.text.Rest()); err != nil {
		return err
	}
	switch b.kind {
	case adapter.PartText:
		return a.cite(b)
	case adapter.PartReasoning:
		data := []byte("{}")
		if len(b.signature) > 0 {
			data = append(append([]byte(`{"signature":"`), b.signature...), `"}`...)
		} else if !b.wrote {
			return nil
		}
		return a.beside(adapter.PartReasoning, 0, data)
	case adapter.PartCall:
		if b.wrote {
			return nil
		}
		input := object(b.raw, "input") // servers that send a call at once send all of it here
		if input == nil {
			input = []byte("{}")
		}
		return a.say(b, strings.ToValidUTF8(string(input), "\uFFFD"))
	}
	return a.other(b)
}

// cite passes on the citations of a text.
func (a *answer) cite(b *block) error {
	if len(b.citations) == 0 {
		return nil
	}
	if b.wrote {
		data, err := json.Marshal(map[string]any{"citations": b.citations})
		if err != nil {
			return a.m.p.NotPiece(err, nil)
		}
		if err := a.beside(adapter.PartText, 0, data); err != nil {
			return err
		}
	}
	for _, raw := range b.citations {
		var c struct {
			URL      string `json:"url"`
			Source   string `json:"source"` // of a search result that we gave
			Title    string `json:"title"`
			Document string `json:"document_title"`
			Text     string `json:"cited_text"`
		}
		json.Unmarshal(raw, &c) // what is of another type is left out
		said := &adapter.Citation{URL: c.URL, Title: c.Title, Text: c.Text, Start: b.start, End: a.runes}
		if said.URL == "" {
			said.URL = c.Source
		}
		if said.Title == "" {
			said.Title = c.Document
		}
		if err := a.Yield(adapter.Chunk{Citation: said}); err != nil {
			return err
		}
	}
	return nil
}

// other passes on a whole block that only the provider understands.
func (a *answer) other(b *block) error {
	raw := b.raw
	if len(b.input) > 0 {
		input, err := jsonparser.Unescape(b.input, nil)
		if err != nil || !json.Valid(input) {
			input = []byte("{}")
		}
		raw, _ = jsonparser.Set(raw, input, "input") // of an object: cannot fail
	}
	for name, text := range b.grown {
		quoted, _ := json.Marshal(text) // a string: cannot fail
		raw, _ = jsonparser.Set(raw, quoted, name)
	}
	return a.beside(adapter.PartOther, 0, raw)
}

func (a *answer) beside(kind string, call int, data []byte) error {
	a.plain = false
	return a.Beside(kind, call, data)
}

// refusal passes on the API's explanation of a refusal if the model has said nothing itself.
func (a *answer) refusal(reason string, details []byte) error {
	if reason != "refusal" || a.runes > 0 {
		return nil
	}
	why, err := wire.Unescape(member(details, "explanation"))
	if err != nil || why == "" {
		return nil
	}
	return a.say(&block{kind: adapter.PartText}, why)
}

// last ends the blocks that the server has not ended.
func (a *answer) last() error {
	for len(a.open) > 0 {
		if err := a.end(a.open[0]); err != nil {
			return err
		}
	}
	a.Settle(a.calls)
	return nil
}

// whole yields an answer in one piece.
func (a *answer) whole() error {
	body, err := a.Whole()
	if err != nil {
		return err
	}
	if failure, kind, _, err := jsonparser.Get(body, "error"); err == nil && kind != jsonparser.Null && len(failure) > 0 {
		return a.m.p.Failed(body)
	}
	content, kind, _, err := jsonparser.Get(body, "content")
	if err != nil || kind != jsonparser.Array || !json.Valid(body) {
		return a.m.p.NotAnswer("a message", errNotEvent, body)
	}
	reason := string(member(body, "stop_reason"))
	if reason == "" {
		return a.m.p.Broken(a.Ctx, nil)
	}
	n := 0
	if _, err = jsonparser.ArrayEachErr(content, func(raw []byte, _ jsonparser.ValueType, _ int, err error) error {
		if err != nil || !isObject(raw) {
			return a.m.p.NotAnswer("a message", errNotEvent, raw)
		}
		if err := a.begin(n, raw); err != nil {
			return err
		}
		n++
		return a.end(a.open[len(a.open)-1])
	}); err != nil {
		return err
	}
	a.take(object(body, "usage"))
	if err := a.refusal(reason, object(body, "stop_details")); err != nil {
		return err
	}
	a.Finish = wire.FinishReason(reason)
	return a.End()
}

// take adds the counts of an event. They are cumulative. A missing count, or a 0, does not replace an earlier one.
func (a *answer) take(raw []byte) {
	for _, count := range []struct {
		at   *int
		path []string
	}{
		{&a.count.In, []string{"input_tokens"}},
		{&a.count.Read, []string{"cache_read_input_tokens"}},
		{&a.count.Written, []string{"cache_creation_input_tokens"}},
		{&a.count.Out, []string{"output_tokens"}},
		{&a.count.Thought, []string{"output_tokens_details", "thinking_tokens"}},
	} {
		if n, err := jsonparser.GetInt(raw, count.path...); err == nil && 0 < n && n < 1<<50 {
			*count.at = int(n)
		}
	}
	a.Usage = a.count.Usage()
}

// member returns a member that is a string, escaped as it came; nil where there is none.
func member(object []byte, path ...string) []byte {
	value, kind, _, err := jsonparser.Get(object, path...)
	if err != nil || kind != jsonparser.String {
		return nil
	}
	return value
}

// object returns a member that is an object; nil where there is none.
func object(in []byte, path ...string) []byte {
	value, kind, _, err := jsonparser.Get(in, path...)
	if err != nil || kind != jsonparser.Object {
		return nil
	}
	return value
}

// index returns the index of an event's block; -1 where it has none.
func index(data []byte) int {
	n, err := jsonparser.GetInt(data, "index")
	if err != nil || n < 0 || n > 1<<30 {
		return -1
	}
	return int(n)
}

func isObject(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && data[0] == '{'
}
