package aisdk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Versions of the SDK. What fits one of them fits the later ones, too.
const (
	Version5 = 5
	Version6 = 6
	Version7 = 7
)

// Options of an encoder.
type Options struct {
	Run     string // the run's id, which becomes the message's
	Version int    // of the client's SDK; 0 is 5
	// Summary returns, at the run's end, the message's metadata, a JSON object, and whether a model came to its limit of tokens. Nil: nothing.
	Summary func() (metadata []byte, truncated bool)
	// Answered reports whether the question of event n is closed, so that the stream goes on behind it. Nil: all questions are open.
	Answered func(n uint64, id string) bool
}

// Encoder writes one run's events, from the first one on or from a snapshot, as chunks for one client. A run that goes on is
// followed by giving it each event as it comes.
//
// A text at the document's root, or one level below it, is a text part; its provider metadata names the place unless it is the root. Of
// every other value one level below the root there is a part "data-ling", whose id is that place as a uri: it is sent again when
// the value has grown by a quarter, by an eighth when a bot has ended, and at the end. Each change in between goes as a transient "data-delta".
// So a document is the texts and the data parts; a data part is newer than a text of the same place, and one with an empty id is
// the whole document, in place of all others. (Both are for values that were taken back, which is rare.)
//
// The encoder holds the document, which takes about as much memory as its text.
type Encoder struct {
	o        Options
	metadata json.RawMessage // of the run, as its first event has it
	began    bool            // "start" was sent
	ended    bool
	step     bool // one is open
	parts    int  // that were begun, for their ids

	doc    jsonuri.Document
	group  bool // amid a snapshot, which takes effect as a whole
	before map[*text][]byte
	places map[string]*place
	order  []*place // as they came
	whole  *place   // if it is set, the document is one part
	uri    []byte   // of the last delta that went to a text
	at     *text

	thoughts map[string]*text
	thinking []*text // of thoughts, those that are open

	calls
	approvals

	fatal, failed string // what went wrong
}

// New returns the encoder of one stream.
func New(o Options) *Encoder {
	if o.Version == 0 {
		o.Version = Version5
	}
	return &Encoder{o: o, places: map[string]*place{}, thoughts: map[string]*text{}, calls: calls{called: map[string]*call{}, ids: map[string]int{}}}
}

// place is the document's root or a member of it, as the client has it.
type place struct {
	id   string
	text *text // nil: it is sent as data
	size int   // of the snapshot that was sent last
	grew int   // since then, in bytes, about
}

// text is a text or reasoning part, or several of them one after the other.
type text struct {
	kind string // of its chunks
	uri  string // of its place; of reasoning, of the bot
	id   string // of the open part; "" for none
}

// Append appends the chunks of an event.
func (e *Encoder) Append(dst []byte, ev tube.Event) []byte {
	if e.ended || e.over {
		return dst
	}
	if e.at != nil && ev.Kind == tube.Append && !ev.Part && bytes.Equal(ev.URI, e.uri) { // nearly always
		if e.doc.Append(ev.URI, ev.Value) != nil {
			return dst
		}
		return e.appendPiece(dst, e.at, ev.Value)
	}
	if ev.Kind == tube.Named && ev.Name == "started" {
		e.metadata = ev.Value
	}
	dst = e.start(dst)
	dst = e.finishNull(dst, ev)
	if ev.Kind == tube.Named {
		return e.appendNamed(dst, ev)
	}
	return e.delta(dst, ev)
}

// start sends the stream's first chunk, once.
func (e *Encoder) start(dst []byte) []byte {
	if e.began {
		return dst
	}
	e.began = true
	dst = frame.Text(frame.Begin(dst, "start"), "messageId", e.o.Run)
	if e.metadata != nil {
		dst = frame.Member(dst, "messageMetadata", e.metadata)
	}
	return frame.End(dst)
}

// appendNamed appends a named event.
func (e *Encoder) appendNamed(dst []byte, ev tube.Event) []byte {
	switch ev.Name {
	case "started":
		return dst
	case "finished", "canceled":
		return e.finish(dst, ev)
	}
	dst = append(frame.Begin(dst, "data-event"), `,"data":{"event":`...)
	dst = frame.Member(frame.Quote(dst, ev.Name), "data", ev.Value)
	dst = frame.End(append(dst, `},"transient":true`...))
	switch ev.Name {
	case "error":
		e.note(ev.Value)
	case "usage": // a bot has ended
		for _, p := range e.data() {
			if p.grew > 0 && p.grew >= p.size/shareAtEnd {
				dst = e.appendSnapshot(dst, p)
			}
		}
	case "approval_required":
		dst = e.appendQuestion(dst, ev)
	case "approval_resolved":
		dst = e.appendDecision(dst, ev.Value)
	}
	return dst
}

// note stores an error for the end.
func (e *Encoder) note(data []byte) {
	var failure struct {
		Message        string
		Fatal, Handled bool
	}
	if json.Unmarshal(data, &failure) != nil || failure.Handled {
		return
	}
	e.failed = failure.Message
	if failure.Fatal && e.fatal == "" {
		e.fatal = failure.Message
	}
}

// delta applies a change, and appends it.
func (e *Encoder) delta(dst []byte, ev tube.Event) []byte {
	if ev.Kind == tube.Done {
		return e.complete(dst, ev)
	}
	if ev.Kind == tube.Set && ev.Value[0] == '"' { // which its delta means
		ev.Kind, ev.Value = tube.Append, ev.Value[1:len(ev.Value)-1]
	}
	e.uri, e.at = e.uri[:0], nil
	if anew := len(ev.URI) == 0 && ev.Kind == tube.Set; (anew || ev.Part) && e.before == nil {
		e.remember()
	}
	was := e.kind()
	var err error
	if ev.Kind == tube.Append {
		err = e.doc.Append(ev.URI, ev.Value)
	} else {
		err = e.doc.Set(ev.URI, ev.Value)
	}
	if ev.Part {
		e.group = true
		return dst
	}
	if e.group {
		return e.caughtUp(dst)
	}
	defer func() { e.before = nil }()
	if err != nil { // no document has this
		return dst
	}
	if prefix, name, rest, is := reserved(ev.URI); is {
		return e.appendReserved(dst, ev, prefix, name, rest)
	}
	return e.document(dst, ev, was)
}

// kind tells what the document's root is.
func (e *Encoder) kind() byte {
	switch {
	case e.whole != nil:
		return '*'
	case e.places[""] != nil:
		return '"'
	case len(e.order) > 0:
		return '{'
	}
	return 0
}

// document appends a change of the document that has been made.
func (e *Encoder) document(dst []byte, ev tube.Event, was byte) []byte {
	dst = e.open(dst, "")
	if len(ev.URI) == 0 {
		switch {
		case was == '*':
		case ev.Kind == tube.Append && (was == 0 || was == '"'):
			return e.write(dst, e.place(""), ev)
		case ev.Kind == tube.Set && string(ev.Value) == "{}" && was != '"':
			return dst // it is an object already
		case ev.Kind == tube.Set && ev.Value[0] == '{' && len(ev.Value) > 2 && was != '"':
			return e.resend(dst)
		default:
			dst = e.becomeWhole(dst)
		}
		return e.grow(e.appendDelta(dst, ev), e.whole, ev)
	}
	if was == '"' { // another bot has written a text at the root, which is replaced now
		dst = e.becomeWhole(dst)
	}
	if e.whole != nil {
		return e.grow(e.appendDelta(dst, ev), e.whole, ev)
	}
	id := first(ev.URI)
	p, known := e.places[string(id)]
	if !known {
		p = e.place(string(id))
		if ev.Kind != tube.Append || len(id) < len(ev.URI) {
			p.text = nil
		}
	}
	if p.text != nil {
		if ev.Kind == tube.Append && len(id) == len(ev.URI) {
			return e.write(dst, p, ev)
		}
		dst = e.close(dst, p.text)
		p.text = nil
	}
	return e.grow(e.appendDelta(dst, ev), p, ev)
}

// place returns what there is for a place, a text where it is new.
func (e *Encoder) place(id string) *place {
	p := e.places[id]
	if p == nil {
		p = &place{id: id, text: &text{kind: "text", uri: id}}
		e.places[id] = p
		e.order = append(e.order, p)
	}
	return p
}

// write appends a piece of a text.
func (e *Encoder) write(dst []byte, p *place, ev tube.Event) []byte {
	for i := 0; i < len(e.thinking); {
		if t := e.thinking[i]; t.uri == p.id || t.uri == "" {
			dst = e.close(dst, t) // the text follows its reasoning
			continue
		}
		i++
	}
	dst = e.appendPiece(dst, p.text, ev.Value)
	e.uri, e.at = append(e.uri[:0], ev.URI...), p.text
	return dst
}

// appendPiece appends a piece of a text or of reasoning, and begins a part for it if none is open.
func (e *Encoder) appendPiece(dst []byte, t *text, content []byte) []byte {
	if t.id == "" && t.kind == "text" && t.uri == "" && len(content) > 0 {
		// Parts are paragraphs by themselves: what keeps the texts of two steps apart is not of them.
		for bytes.HasPrefix(content, []byte(`\n`)) {
			content = content[2:]
		}
		if len(content) == 0 {
			return dst
		}
	}
	if t.id == "" {
		e.parts++
		t.id = t.kind + "-" + strconv.Itoa(e.parts)
		dst = frame.Text(frame.Begin(dst, t.kind+"-start"), "id", t.id)
		if t.uri != "" {
			dst = frame.Member(dst, "providerMetadata", providerMetadata(t.uri))
		}
		dst = frame.End(dst)
		if t.kind == reasoning {
			e.thinking = append(e.thinking, t)
		}
	}
	if len(content) == 0 {
		return dst
	}
	dst = append(dst, `data: {"type":"`...)
	dst = append(dst, t.kind...)
	dst = append(dst, `-delta","id":"`...)
	dst = append(dst, t.id...)
	dst = append(dst, `","delta":"`...)
	dst = append(dst, content...)
	return append(dst, "\"}\n\n"...)
}

// close ends the open part of a text or of reasoning.
func (e *Encoder) close(dst []byte, t *text) []byte {
	if t.id == "" {
		return dst
	}
	dst = frame.Chunk(dst, t.kind+"-end", "id", t.id)
	t.id, e.at = "", nil
	e.thinking = slices.DeleteFunc(e.thinking, func(o *text) bool { return o == t })
	return dst
}

// closeAll ends all parts that are open.
func (e *Encoder) closeAll(dst []byte) []byte {
	for len(e.thinking) > 0 {
		dst = e.close(dst, e.thinking[0])
	}
	for _, p := range e.order {
		if p.text != nil {
			dst = e.close(dst, p.text)
		}
	}
	return dst
}

// open begins a step where none is open, and the next one where what was called in this one by the bot at the root, an agent, is answered.
func (e *Encoder) open(dst []byte, prefix string) []byte {
	if e.step && e.answered && prefix == "" && len(e.pending) == 0 {
		dst = e.endStep(dst)
	}
	if !e.step {
		e.step, e.answered = true, false
		dst = frame.Chunk(dst, "start-step")
	}
	return dst
}

func (e *Encoder) endStep(dst []byte) []byte {
	if !e.step {
		return dst
	}
	dst = e.closeAll(dst)
	e.step, e.answered = false, false
	return frame.Chunk(dst, "finish-step")
}

// finish is the run's end.
func (e *Encoder) finish(dst []byte, ev tube.Event) []byte {
	e.ended = true
	var how struct{ Status, Reason string }
	_ = json.Unmarshal(ev.Value, &how) // the tube has made it
	if ev.Name == "canceled" {
		how.Status = "canceled"
	}
	for _, p := range e.data() {
		if p.grew > 0 {
			dst = e.appendSnapshot(dst, p)
		}
	}
	dst = e.closeAll(dst)
	for _, c := range e.pending {
		dst = e.appendFailure(dst, c, "the answer ended before this was done")
	}
	dst = e.endStep(dst)
	var metadata []byte
	truncated := false
	if e.o.Summary != nil {
		metadata, truncated = e.o.Summary()
	}
	reason, wrong := "stop", ""
	switch {
	case how.Status == "canceled":
		reason = "other"
	case how.Status == "interrupted":
		reason, wrong = "error", "the server shut down before the answer was complete"
	case how.Status != "completed":
		reason, wrong = "error", cmp.Or(e.fatal, e.failed, "the answer is incomplete")
	case truncated:
		reason = "length"
	}
	dst = e.finished(dst, reason, metadata)
	if how.Status == "canceled" {
		dst = frame.Begin(dst, "abort")
		if how.Reason != "" {
			dst = frame.Text(dst, "reason", how.Reason)
		}
		dst = frame.End(dst)
	}
	if wrong != "" { // the client reads no further
		dst = frame.Chunk(dst, "error", "errorText", wrong)
	}
	return append(dst, done...)
}

// done is behind the last chunk.
const done = "data: [DONE]\n\n"

func (e *Encoder) finished(dst []byte, reason string, metadata []byte) []byte {
	dst = frame.Text(frame.Begin(dst, "finish"), "finishReason", reason)
	if len(metadata) > 0 {
		dst = frame.Member(dst, "messageMetadata", metadata)
	}
	return frame.End(dst)
}

// first is the first segment of a uri, as it is written.
func first(uri []byte) []byte {
	for i := 0; i < len(uri); i++ {
		switch uri[i] {
		case '\\':
			i++
		case '/':
			return uri[:i]
		}
	}
	return uri
}

// reserved splits a uri at its first reserved segment, name; found is false if it has none.
func reserved(uri []byte) (prefix, name, rest []byte, found bool) {
	prefix, below, found := jsonuri.CutReserved(uri)
	name, rest, _ = bytes.Cut(below, []byte("/"))
	return prefix, name, rest, found
}

// providerMetadata says where in the document a text is.
func providerMetadata(uri string) json.RawMessage {
	return append(frame.Quote([]byte(`{"lingserve":{"uri":`), uri), `}}`...)
}
