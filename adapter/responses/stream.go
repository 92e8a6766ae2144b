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

// maxItems is how many items one answer may have.
const maxItems = 1024

var (
	errItems     = errors.New("the answer has too many items")
	errNotObject = errors.New("the event is not JSON, or not of the format")
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

// types are those of the items that have texts of a kind.
var types = [kinds]string{ofText: "message", ofRefusal: "message", ofSummary: "reasoning", ofReasoning: "reasoning", ofArguments: "function_call"}

// answer reads one answer.
type answer struct {
	*wire.Answer
	p        *provider
	items    []*item
	current  *item // of the last delta
	calls    int
	length   int // of the text passed on, in characters
	refused  bool
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
	shown    kind       // of reasoning: its summary or itself, whatever came first
	length   int        // of its text, in characters
	// Of a call.
	call         int
	announced    bool
	callID, name string
	pending      string // arguments that came before the name
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) error {
	a := &answer{Answer: w, p: m.p}
	a.onMember = a.member
	a.Last = a.last
	switch a.Kind() {
	case "text/event-stream", "": // some servers send no type
		return a.Events(a.Res.Body, a.take)
	case "application/json":
		return a.whole()
	default:
		return a.Unknown("an event stream", "check the base URL (most end in /v1), and that the server has the Responses API")
	}
}

// whole passes on an answer in one piece.
func (a *answer) whole() error {
	body, err := a.Whole()
	if err != nil {
		return err
	}
	response := object(body)
	switch status := word(response["status"]); {
	case some(response["error"]) || status == "failed":
		return a.fail(response, body)
	case !some(response["output"]):
		return a.p.NotAnswer("a response", errors.New("no output"), body)
	case status != "completed" && status != "incomplete" && status != "":
		return a.p.Broken(a.Ctx, errors.New("the response has the status "+status))
	}
	if err := a.over(response); err != nil {
		return err
	}
	return a.End()
}

// take passes on what an event has; done says that it is the last.
func (a *answer) take(event, data []byte) (done bool, err error) {
	a.delta = delta{event: event, index: -1}
	if jsonparser.ObjectEach(data, a.onMember) == nil && a.delta.isText {
		if kind := textOf(a.delta.event); kind != ofNothing {
			return false, a.goOn(kind)
		}
	}
	return a.event(event, data)
}

// member looks at a member of an event.
func (a *answer) member(key, value []byte, kind jsonparser.ValueType, _ int) error {
	d := &a.delta
	switch string(key) {
	case "type":
		if kind == jsonparser.String {
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

// textOf says of what kind an event's text is.
func textOf(event []byte) kind {
	switch string(event) {
	case "response.output_text.delta", "response.content_part.delta": // the second is OpenRouter's
		return ofText
	case "response.refusal.delta":
		return ofRefusal
	case "response.reasoning_summary_text.delta":
		return ofSummary
	case "response.reasoning_text.delta", "response.reasoning.delta":
		return ofReasoning
	case "response.function_call_arguments.delta":
		return ofArguments
	}
	return ofNothing
}

// goOn passes on the text of a delta.
func (a *answer) goOn(kind kind) error {
	d := &a.delta
	it := a.current
	if it == nil || it.done || it.index != d.index || it.kind != types[kind] || it.id != string(d.id) {
		var err error
		if it, err = a.find(d.index, string(d.id), types[kind]); err != nil {
			return err
		}
		a.current = it
	}
	said, err := it.texts[kind].Next(d.text)
	if err != nil {
		return a.p.NotPiece(err, d.text)
	}
	return a.say(it, kind, said)
}

// find returns the item that an event belongs to. It is known by its id or, where a server gives it a new one in each event as Copilot does, by
// its place; and made where it has not been announced.
func (a *answer) find(index int, id, kind string) (*item, error) {
	for _, same := range []func(*item) bool{
		func(it *item) bool { return id != "" && it.id == id },
		func(it *item) bool { return !it.done && index >= 0 && it.index == index },
		func(it *item) bool { return !it.done && index < 0 && id == "" },
	} {
		for i := len(a.items) - 1; i >= 0; i-- {
			if it := a.items[i]; it.kind == kind && same(it) {
				return it, nil
			}
		}
	}
	return a.add(index, id, kind)
}

func (a *answer) add(index int, id, kind string) (*item, error) {
	if len(a.items) == maxItems {
		return nil, a.p.NotPiece(errItems, nil)
	}
	it := &item{index: index, id: id, kind: kind, call: -1}
	a.items = append(a.items, it)
	return it, nil
}

// say yields a piece of a text.
func (a *answer) say(it *item, kind kind, said string) error {
	if said == "" {
		return nil
	}
	it.said[kind] += len(said)
	var c adapter.Chunk
	switch kind {
	case ofSummary, ofReasoning:
		if it.shown == ofNothing {
			it.shown = kind
		}
		if it.shown != kind {
			return nil // the same thoughts in other words
		}
		c.Reasoning = said
	case ofArguments:
		if !it.announced {
			it.pending += said
			return nil
		}
		c.ToolCall = &adapter.ToolCall{Index: it.call, Arguments: said}
	default:
		a.refused = a.refused || kind == ofRefusal
		n := utf8.RuneCountInString(said)
		a.length, it.length = a.length+n, it.length+n
		c.Text = said
	}
	return a.put(c)
}

// put yields a chunk.
func (a *answer) put(c adapter.Chunk) error {
	if !a.Pass(c) {
		return wire.ErrLeft
	}
	return nil
}

// event passes on what an event has that is no piece of a text.
//
//go:noinline
func (a *answer) event(event, data []byte) (done bool, err error) {
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return false, nil
	}
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		return true, nil
	}
	e := object(data)
	if e == nil {
		if string(event) == "error" {
			return false, a.p.Failed(data)
		}
		return false, a.p.NotPiece(errNotObject, data)
	}
	name := word(e["type"])
	if name == "" {
		name = string(event)
	}
	switch name {
	case "response.output_item.added", "response.output_item.done":
		in := object(e["item"])
		index, id, kind := count(e["output_index"], -1), word(in["id"]), word(in["type"])
		if in == nil {
			return false, nil
		}
		if name == "response.output_item.added" {
			it, err := a.add(index, id, kind)
			if err == nil {
				err = a.announce(it, in, false)
			}
			return false, err
		}
		it, err := a.find(index, id, kind)
		if err == nil {
			err = a.ended(it, in, e["item"])
		}
		return false, err
	case "response.completed", "response.incomplete", "response.done":
		response := object(e["response"])
		if response == nil {
			response = members{}
		}
		if some(response["error"]) || word(response["status"]) == "failed" {
			return false, a.fail(response, data)
		}
		if name == "response.incomplete" && response["status"] == nil {
			response["status"] = json.RawMessage(`"incomplete"`)
		}
		return true, a.over(response)
	case "response.failed", "response.cancelled", "response.canceled":
		return false, a.fail(object(e["response"]), data)
	}
	if name == "error" || some(e["error"]) {
		return false, a.p.Failed(data)
	}
	return false, nil // of other types there are many, and more each year; what else ends a part, its item has, too
}

// fail makes the error of a response that has failed.
func (a *answer) fail(response members, said []byte) error {
	if reported := response["error"]; some(reported) {
		return a.p.Failed([]byte(`{"error":` + string(reported) + `}`))
	}
	e := a.p.Failed(said)
	if e.Code == adapter.CodeProtocol { // it says no more than that
		e.Code, e.Retryable = adapter.CodeUnavailable, true
		e.Message = a.p.Name() + " broke off the answer because it failed or is overloaded: try again later"
	}
	return e
}

// announce passes on the id and the name of a call as soon as they are known; last says that no more will be.
func (a *answer) announce(it *item, in members, last bool) error {
	if it.kind != "function_call" || it.announced {
		return nil
	}
	it.callID = cmp.Or(it.callID, word(in["call_id"]), word(in["id"]))
	it.name = cmp.Or(word(in["name"]), it.name)
	if it.name == "" && !last {
		return nil
	}
	it.announced, it.call = true, a.calls
	a.calls++
	id := cmp.Or(it.callID, "call_"+strconv.Itoa(it.call))
	return a.put(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: it.call, ID: id, Name: it.name, Arguments: it.pending}})
}

// ended passes on what has not come of an item in pieces, and what its provider wants to have back of it.
func (a *answer) ended(it *item, in members, raw json.RawMessage) error {
	if it.done {
		return nil
	}
	err := a.held(it)
	if err != nil {
		return err
	}
	it.done = true
	beside := &adapter.Beside{Type: adapter.PartOther, Data: raw}
	switch it.kind {
	case "message":
		err = a.message(it, in)
		beside.Type, beside.Data = adapter.PartText, extra(in, !plain(in["content"]))
		if it.said[ofText]+it.said[ofRefusal] == 0 {
			beside.Data = nil
		}
	case "reasoning":
		if err = a.texts(it, ofSummary, in["summary"]); err == nil {
			err = a.texts(it, ofReasoning, in["content"])
		}
		if beside.Type = adapter.PartReasoning; returned(in) == nil {
			beside.Data = nil
		}
	case "function_call":
		come := it.said[ofArguments]
		if err = a.announce(it, in, true); err == nil {
			err = a.rest(it, ofArguments, &come, argumentsOf(in["arguments"]))
		}
		beside.Type, beside.Index, beside.Data = adapter.PartCall, it.call, extra(in, false)
	case "image_generation_call":
		err = a.image(in)
	}
	if err != nil || beside.Data == nil {
		return err
	}
	return a.put(adapter.Chunk{Beside: beside})
}

func argumentsOf(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '{' {
		return string(raw) // an object, where it should be one in a string
	}
	return word(raw)
}

// rest passes on one of the texts of an item, in their order, unless it has come in pieces. What has come is told by its length: not all servers
// count the pieces as they count the texts.
func (a *answer) rest(it *item, kind kind, come *int, all string) error {
	if *come > 0 {
		*come = max(0, *come-len(all))
		return nil
	}
	return a.say(it, kind, all)
}

// texts passes on what has not come of a list of texts.
func (a *answer) texts(it *item, kind kind, list json.RawMessage) error {
	come := it.said[kind]
	for _, in := range objects(list) {
		if err := a.rest(it, kind, &come, word(in["text"])); err != nil {
			return err
		}
	}
	return nil
}

// message passes on what has not come of a message, and its annotations.
func (a *answer) message(it *item, in members) error {
	come := it.said
	start := a.length - it.length // where nothing else has come since
	for _, c := range objects(in["content"]) {
		kind, all := ofText, word(c["text"])
		switch word(c["type"]) {
		case "refusal":
			kind, all = ofRefusal, word(c["refusal"])
		case "output_text", "text":
		default:
			continue
		}
		if err := a.rest(it, kind, &come[kind], all); err != nil {
			return err
		}
		for _, note := range objects(c["annotations"]) {
			if err := a.cite(start, note); err != nil {
				return err
			}
		}
		start += utf8.RuneCountInString(all)
	}
	return nil
}

// cite passes on an annotation that names a source; start is where its part is in the text.
func (a *answer) cite(start int, note members) error {
	c := adapter.Citation{URL: word(note["url"]), Title: word(note["title"])}
	switch word(note["type"]) {
	case "url_citation":
	case "file_citation", "container_file_citation":
		c.Title = word(note["filename"])
	default:
		return nil
	}
	if end := count(note["end_index"], 0); end > 0 {
		c.Start, c.End = start+count(note["start_index"], 0), start+end
	}
	if c.URL == "" && c.Title == "" {
		return nil
	}
	return a.put(adapter.Chunk{Citation: &c})
}

// image passes on an image that the provider's tool has made.
func (a *answer) image(in members) error {
	result := word(in["result"])
	if result == "" {
		return nil
	}
	m := &adapter.Media{Type: "image/" + cmp.Or(word(in["output_format"]), "png"), URL: result}
	if !strings.HasPrefix(result, "data:") && !wire.IsWeb(result) {
		m.URL = "data:" + m.Type + ";base64," + result
	}
	return a.put(adapter.Chunk{Media: m})
}

// over takes the whole response, which ends an answer: its usage, why it ends, and what has not come before. Its items are told by their order
// among those of their type: not all servers give them the ids that they had.
func (a *answer) over(response members) error {
	come := slices.Clone(a.items)
	var list []json.RawMessage
	json.Unmarshal(response["output"], &list) // nothing, where it is no list
	for i, raw := range list {
		in := object(raw)
		kind := word(in["type"])
		var it *item
		var err error
		if at := slices.IndexFunc(come, func(it *item) bool { return it.kind == kind }); at >= 0 {
			it = come[at]
			come = slices.Delete(come, at, at+1)
		} else if it, err = a.add(i, word(in["id"]), kind); err != nil {
			return err
		}
		if err := a.ended(it, in, raw); err != nil {
			return err
		}
	}
	if u := object(response["usage"]); u != nil {
		a.Usage = usage(u)
	}
	a.Finish = adapter.FinishStop
	if word(response["status"]) == "incomplete" {
		a.Finish = adapter.FinishLength
		if word(object(response["incomplete_details"])["reason"]) == "content_filter" {
			a.Finish = adapter.FinishContentFilter
		}
	}
	return nil
}

// last passes on what was held back of characters and of calls, and says why an answer ends that ends by itself.
func (a *answer) last() error {
	for _, it := range a.items {
		if err := a.held(it); err != nil {
			return err
		}
	}
	if a.Finish == adapter.FinishStop {
		switch {
		case a.calls > 0:
			a.Finish = adapter.FinishToolCalls
		case a.refused:
			a.Finish = adapter.FinishRefusal
		}
	}
	return nil
}

// held passes on what was held back of characters.
func (a *answer) held(it *item) error {
	for kind := range kinds {
		if err := a.say(it, kind, it.texts[kind].Rest()); err != nil {
			return err
		}
	}
	return nil
}

// usage reads the counts of tokens.
func usage(u members) *adapter.Usage {
	in, out := object(u["input_tokens_details"]), object(u["output_tokens_details"])
	r := &adapter.Usage{
		PromptTokens:     count(u["input_tokens"], 0),
		CompletionTokens: count(u["output_tokens"], 0),
		TotalTokens:      count(u["total_tokens"], 0),
		CachedTokens:     count(in["cached_tokens"], 0),
		CacheWriteTokens: count(in["cache_write_tokens"], 0),
		ReasoningTokens:  count(out["reasoning_tokens"], 0),
		AudioTokens:      count(in["audio_tokens"], 0) + count(out["audio_tokens"], 0),
	}
	if r.TotalTokens == 0 {
		r.TotalTokens = r.PromptTokens + r.CompletionTokens
	}
	return r
}
