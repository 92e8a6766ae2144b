package responses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// kind is what a text is of.
type kind int8

const (
	ofNothing kind = iota
	ofText
	ofRefusal
	ofSummary // of reasoning
	ofReasoning
	ofArguments
	kinds
)

// items are the types of the items that have texts of a kind.
var items = [kinds]string{
	ofText: "message", ofRefusal: "message",
	ofSummary: "reasoning", ofReasoning: "reasoning",
	ofArguments: "function_call",
}

// deltas are the events that go on with a text.
var deltas = map[string]kind{
	"response.output_text.delta":             ofText,
	"response.content_part.delta":            ofText, // OpenRouter's
	"response.refusal.delta":                 ofRefusal,
	"response.reasoning_summary_text.delta":  ofSummary,
	"response.reasoning_text.delta":          ofReasoning,
	"response.reasoning.delta":               ofReasoning,
	"response.function_call_arguments.delta": ofArguments,
}

// answer reads one answer. Its content may come in deltas, in items, and in the whole response: what has come is not passed on again.
type answer struct {
	*wire.Answer
	items    []*item
	current  *item // of the last delta
	calls    int
	length   int // of the text passed on, in characters
	delta    delta
	onMember func(key, value []byte, kind jsonparser.ValueType, offset int) error // made once
}

// delta is what an event has that goes on with a text. Its bytes are only lent.
type delta struct {
	event, text, id []byte
	index           int
	isText          bool
}

// item is one of the items that an answer is made of, as it is known so far.
type item struct {
	index    int // -1 is unknown
	id, kind string
	done     bool
	texts    [kinds]wire.Text
	said     [kinds]int // bytes that have come
	shown    kind       // of reasoning: its summary or itself, as came first
	length   int        // of its text, in characters
	// Of a call.
	call         int
	announced    bool
	callID, name string
	pending      string // arguments that came before the name
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) {
	a := &answer{Answer: w}
	a.onMember, a.Last = a.member, a.last
	a.Read("check the base URL (most end in /v1), and that the server has the Responses API", a.readEvent, a.whole)
}

// whole passes on an answer in one piece.
func (a *answer) whole(body []byte) {
	response := wire.ReadObject(body)
	switch status := response.Text("status"); {
	case response.Has("error") || status == "failed":
		a.broke(response, body)
	case response.List("output") == nil:
		a.Fail(a.Server.NotAnswer("a response", errors.New("no output"), body))
	case status != "completed" && status != "incomplete" && status != "":
		a.CutOff(errors.New("the response has the status " + status))
	default:
		a.over(response, status)
	}
}

// readEvent passes on what an event has; done says that it is the last.
func (a *answer) readEvent(event, data []byte) (done bool) {
	a.delta = delta{event: event, index: -1}
	if jsonparser.ObjectEach(data, a.onMember) == nil && a.delta.isText {
		if kind := deltas[string(a.delta.event)]; kind != ofNothing {
			a.goOn(kind)
			return false
		}
	}
	return a.event(bytes.TrimSpace(data))
}

// member looks at a member of an event.
func (a *answer) member(key, value []byte, kind jsonparser.ValueType, _ int) error {
	d := &a.delta
	switch string(key) {
	case "type":
		if kind == jsonparser.String && len(value) > 0 {
			d.event = value
		}
	case "delta":
		if kind == jsonparser.String {
			d.text, d.isText = value, true
		}
	case "item_id":
		d.id = value
	case "output_index":
		if n, err := jsonparser.ParseInt(value); kind == jsonparser.Number && err == nil && 0 <= n && n < 1<<20 {
			d.index = int(n)
		}
	}
	return nil
}

// goOn passes on the text of a delta.
func (a *answer) goOn(kind kind) {
	d, it := &a.delta, a.current
	if it == nil || it.done || it.index != d.index || it.kind != items[kind] || it.id != string(d.id) {
		it = a.find(d.index, string(d.id), items[kind])
		a.current = it
	}
	a.say(it, kind, a.Next(&it.texts[kind], d.text))
}

// find returns the item that an event belongs to. It is known by its id or, where a server gives it a new one in each event as
// Copilot does, by its place; and made where it has not been announced.
func (a *answer) find(index int, id, kind string) *item {
	for _, same := range []func(*item) bool{
		func(it *item) bool { return id != "" && it.id == id },
		func(it *item) bool { return !it.done && index >= 0 && it.index == index },
		func(it *item) bool { return !it.done && index < 0 && id == "" },
	} {
		for _, it := range slices.Backward(a.items) {
			if it.kind == kind && same(it) {
				return it
			}
		}
	}
	return a.add(index, id, kind)
}

func (a *answer) add(index int, id, kind string) *item {
	a.Hold(wire.ItemSize)
	it := &item{index: index, id: id, kind: kind}
	a.items = append(a.items, it)
	return it
}

// say passes on a piece of a text.
func (a *answer) say(it *item, kind kind, said string) {
	if said == "" {
		return
	}
	it.said[kind] += len(said)
	var c adapter.Chunk
	switch kind {
	case ofSummary, ofReasoning:
		if it.shown == ofNothing {
			it.shown = kind
		}
		if it.shown != kind {
			return // the same thoughts in other words
		}
		c.Reasoning = said
	case ofArguments:
		if !it.announced {
			it.pending += said
			return
		}
		c.ToolCall = &adapter.ToolCall{Index: it.call, Arguments: said}
	default:
		a.Refused = a.Refused || kind == ofRefusal
		n := utf8.RuneCountInString(said)
		a.length, it.length = a.length+n, it.length+n
		c.Text = said
	}
	a.Pass(c)
}

// event passes on what an event has that is no piece of a text.
func (a *answer) event(data []byte) (done bool) {
	name, e := string(a.delta.event), wire.ReadObject(data)
	switch {
	case len(data) == 0:
		return false
	case bytes.HasPrefix(data, []byte("[DONE]")):
		return true
	case name == "error" || e.Has("error"):
		a.Fail(a.Server.Failed(data))
		return false
	case e == nil:
		a.Fail(wire.ErrFormat)
		return false
	}
	response, in := e.Object("response"), e.Object("item")
	status := response.Text("status")
	switch name {
	case "response.output_item.added":
		a.call(a.add(a.delta.index, in.Text("id"), in.Text("type")), in)
		return false
	case "response.output_item.done":
		a.end(a.find(a.delta.index, in.Text("id"), in.Text("type")), in, e["item"])
		return false
	case "response.incomplete":
		status = cmp.Or(status, "incomplete")
	case "response.completed", "response.done":
	case "response.failed", "response.cancelled", "response.canceled":
		status = "failed"
	default:
		return false // of other types there are many, and more each year; what else ends a part, its item has, too
	}
	if response.Has("error") || status == "failed" {
		a.broke(response, data)
		return false
	}
	a.over(response, status)
	return true
}

// broke takes a response that the server has broken off.
func (a *answer) broke(response wire.Object, said []byte) {
	a.count(response)
	a.Fail(a.Server.BrokeOff(said))
}

// call passes on the id and the name of a call as soon as they are known, or its item is done.
func (a *answer) call(it *item, in wire.Object) {
	if it.kind != items[ofArguments] || it.announced {
		return
	}
	it.callID = cmp.Or(it.callID, in.Text("call_id"), in.Text("id"))
	it.name = cmp.Or(in.Text("name"), it.name)
	if it.name == "" && !it.done {
		return
	}
	it.announced, it.call = true, a.calls
	a.calls++
	id := cmp.Or(it.callID, "call_"+strconv.Itoa(it.call))
	a.Pass(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: it.call, ID: id, Name: it.name, Arguments: it.pending}})
}

// end passes on what has not come of an item in pieces, and what its provider wants to have back of it.
func (a *answer) end(it *item, in wire.Object, raw json.RawMessage) {
	if it.done || in == nil {
		return
	}
	a.held(it)
	it.done = true
	come := it.said
	a.call(it, in)
	texts := textsOf(it.kind, in)
	start := a.length - it.length // where nothing else has come since
	for _, t := range texts {
		// What has come is known by its length: not all servers count the pieces as they count the texts.
		if come[t.kind] > 0 {
			come[t.kind] = max(0, come[t.kind]-len(t.text))
		} else {
			a.say(it, t.kind, t.text)
		}
		for _, note := range t.notes {
			a.cite(start, note)
		}
		start += utf8.RuneCountInString(t.text)
	}
	if it.kind == "image_generation_call" {
		a.image(in)
	}
	if kind, data := beside(it, in, raw, texts); data != nil {
		a.Beside(kind, it.call, data)
	}
}

// beside returns what goes back of an item beside its texts; nil where that is nothing.
func beside(it *item, in wire.Object, raw json.RawMessage, texts []text) (kind string, data json.RawMessage) {
	switch it.kind {
	case "message":
		if it.length == 0 {
			return "", nil
		}
		content := len(in.Objects("content")) > 1 || slices.ContainsFunc(texts, func(t text) bool { return t.kind != ofText || t.notes != nil })
		return adapter.PartText, extra(in, content)
	case "reasoning":
		if returned(in) == nil {
			return "", nil
		}
		return adapter.PartReasoning, raw
	case "function_call":
		return adapter.PartCall, extra(in, false)
	}
	return adapter.PartOther, raw
}

// text is one of the texts of an item, with its annotations.
type text struct {
	kind  kind
	text  string
	notes []wire.Object
}

// textsOf returns the texts of an item of a type, in their order.
func textsOf(of string, in wire.Object) (texts []text) {
	for _, part := range in.Objects("summary") {
		texts = append(texts, text{kind: ofSummary, text: part.Text("text")})
	}
	for _, part := range in.Objects("content") {
		t := text{ofText, part.Text("text"), part.Objects("annotations")}
		switch kind := part.Text("type"); {
		case of == items[ofReasoning]:
			t.kind = ofReasoning
		case kind == "refusal":
			t.kind, t.text = ofRefusal, part.Text("refusal")
		case kind != "output_text" && kind != "text":
			continue
		}
		texts = append(texts, t)
	}
	if of == items[ofArguments] {
		arguments := in.Text("arguments")
		if in.Object("arguments") != nil {
			arguments = string(in["arguments"]) // an object, where it should be one in a string
		}
		texts = append(texts, text{kind: ofArguments, text: arguments})
	}
	return texts
}

// cite passes on an annotation that names a source; start is where its part is in the text.
func (a *answer) cite(start int, note wire.Object) {
	c := adapter.Citation{URL: note.Text("url"), Title: note.Text("title")}
	switch note.Text("type") {
	case "url_citation":
	case "file_citation", "container_file_citation":
		c.Title = note.Text("filename")
	default:
		return
	}
	if end := note.Count("end_index"); end > 0 {
		c.Start, c.End = start+note.Count("start_index"), start+end
	}
	if c.URL != "" || c.Title != "" {
		a.Pass(adapter.Chunk{Citation: &c})
	}
}

// image passes on an image that the provider's tool has made.
func (a *answer) image(in wire.Object) {
	result := in.Text("result")
	if result == "" {
		return
	}
	m := &adapter.Media{Type: "image/" + cmp.Or(in.Text("output_format"), "png"), URL: result}
	if !strings.HasPrefix(result, "data:") && !wire.IsWeb(result) {
		m.URL = "data:" + m.Type + ";base64," + result
	}
	a.Pass(adapter.Chunk{Media: m})
}

// count takes the usage of a response.
func (a *answer) count(response wire.Object) {
	if response.Has("usage") {
		a.Usage = wire.OpenAIUsage(response["usage"], "input", "output")
	}
}

// over takes the whole response, which ends an answer: its usage, why it ends, and what has not come before. Its items are told by
// their order among those of their type: not all servers give them the ids that they had.
func (a *answer) over(response wire.Object, status string) {
	come := slices.Clone(a.items)
	for i, raw := range response.List("output") {
		in := wire.ReadObject(raw)
		kind := in.Text("type")
		at := slices.IndexFunc(come, func(it *item) bool { return it.kind == kind })
		if at < 0 {
			a.end(a.add(i, in.Text("id"), kind), in, raw)
			continue
		}
		a.end(come[at], in, raw)
		come = slices.Delete(come, at, at+1)
	}
	a.count(response)
	a.Finish = adapter.FinishStop
	if status == "incomplete" {
		a.Finish = adapter.FinishLength
		if response.Object("incomplete_details").Text("reason") == "content_filter" {
			a.Finish = adapter.FinishContentFilter
		}
	}
}

// last passes on what was held back of characters.
func (a *answer) last() {
	for _, it := range a.items {
		a.held(it)
	}
	a.SetFinish(a.calls)
}

// held passes on what was held back of an item's characters.
func (a *answer) held(it *item) {
	for kind := range kinds {
		a.say(it, kind, it.texts[kind].Rest())
	}
}
