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
	Version int    // of the client's SDK; 0 is the oldest
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
	count    int  // of text and reasoning parts, for their ids

	doc      jsonuri.Document
	snapshot *jsonuri.Document // that is being read, and takes effect as a whole; nil is none

	values map[string]*part // the document's root, or its members, by uri
	order  []*part          // of values, as they came
	last   *part            // the text or reasoning that was written last
	uri    []byte           // of its value

	reasoning map[string]*part // by the root of the bot
	thinking  []*part          // of reasoning, those that are open

	calls
	approvals

	fatal, failed string // what went wrong
}

// New returns the encoder of one stream.
func New(o Options) *Encoder {
	return &Encoder{o: o, values: map[string]*part{}, reasoning: map[string]*part{}, calls: calls{called: map[string]*call{}}}
}

// Kinds of parts.
const (
	kindText      = "text"
	kindReasoning = "reasoning"
	kindData      = "data-ling"
)

// part is a value as the client has it: as data, or as one or more text or reasoning parts, one after the other.
type part struct {
	kind string
	uri  string // of the value; of reasoning, the root of the bot
	id   string // of the open text or reasoning part; "" is none
	sent int    // bytes of the data that was sent last
	grew int    // bytes of data since then, about; 0 of text and reasoning
}

// Append appends the chunks of an event.
func (e *Encoder) Append(dst []byte, ev tube.Event) []byte {
	if e.ended || e.over {
		return dst
	}
	if e.last != nil && ev.Kind == tube.Append && !ev.Part && bytes.Equal(ev.URI, e.uri) { // nearly always
		if e.doc.Append(ev.URI, ev.Value) != nil {
			return dst
		}
		return e.appendPiece(dst, e.last, ev.Value)
	}
	if ev.Kind == tube.Named && ev.Name == "started" {
		e.metadata = ev.Value
	}
	dst = e.start(dst)
	switch {
	case ev.Kind == tube.Named:
		return e.appendNamed(dst, ev)
	case ev.Part || e.snapshot != nil:
		return e.appendSnapshot(dst, ev)
	case ev.Kind == tube.Done:
		return e.complete(dst, ev)
	}
	return e.apply(dst, ev)
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
		for _, p := range e.order {
			if p.grew > 0 && p.grew >= p.sent/shareAtEnd {
				dst = e.appendData(dst, p)
			}
		}
	case "approval_required":
		dst = e.appendRequired(dst, ev)
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

// apply applies a change to the document, and appends it.
func (e *Encoder) apply(dst []byte, ev tube.Event) []byte {
	if ev.Kind == tube.Set && ev.Value[0] == '"' { // which its delta means
		ev.Kind, ev.Value = tube.Append, ev.Value[1:len(ev.Value)-1]
	}
	e.last = nil
	isObject := ev.Kind == tube.Set && len(ev.URI) == 0 && ev.Value[0] == '{' && string(ev.Value) != "{}"
	if isObject && e.values[""] == nil { // its members are parts
		to := new(jsonuri.Document)
		_ = to.Set(nil, ev.Value)
		return e.appendChanges(dst, to)
	}
	var err error
	if ev.Kind == tube.Append {
		err = e.doc.Append(ev.URI, ev.Value)
	} else {
		err = e.doc.Set(ev.URI, ev.Value)
	}
	prefix, name, rest, isReserved := reserved(ev.URI)
	switch {
	case err != nil: // no document has this
		return dst
	case isReserved:
		return e.appendReserved(dst, ev, string(prefix), string(name), string(rest))
	}
	return e.appendChange(dst, ev)
}

// write appends a piece of a text, behind the reasoning that led to it.
func (e *Encoder) write(dst []byte, p *part, ev tube.Event) []byte {
	for _, t := range slices.Clone(e.thinking) {
		if t.uri == p.uri || t.uri == "" {
			dst = e.close(dst, t)
		}
	}
	return e.continuePart(dst, p, ev)
}

// continuePart appends a piece of a text or of reasoning, whose next piece is then found at once.
func (e *Encoder) continuePart(dst []byte, p *part, ev tube.Event) []byte {
	dst = e.appendPiece(dst, p, ev.Value)
	e.last, e.uri = p, append(e.uri[:0], ev.URI...)
	return dst
}

// appendPiece appends a piece of a text or of reasoning, and begins a part for it if none is open.
func (e *Encoder) appendPiece(dst []byte, p *part, content []byte) []byte {
	if p.id == "" && p.kind == kindText && p.uri == "" && len(content) > 0 {
		// Parts are paragraphs by themselves: what keeps the texts of two steps apart is not of them.
		for bytes.HasPrefix(content, []byte(`\n`)) {
			content = content[2:]
		}
		if len(content) == 0 {
			return dst
		}
	}
	if p.id == "" {
		e.count++
		p.id = p.kind + "-" + strconv.Itoa(e.count)
		dst = frame.Text(frame.Begin(dst, p.kind+"-start"), "id", p.id)
		if p.uri != "" {
			dst = frame.Member(dst, "providerMetadata", providerMetadata(p.uri))
		}
		dst = frame.End(dst)
		if p.kind == kindReasoning {
			e.thinking = append(e.thinking, p)
		}
	}
	if len(content) == 0 {
		return dst
	}
	dst = append(dst, `data: {"type":"`...)
	dst = append(dst, p.kind...)
	dst = append(dst, `-delta","id":"`...)
	dst = append(dst, p.id...)
	dst = append(dst, `","delta":"`...)
	dst = append(dst, content...)
	return append(dst, "\"}\n\n"...)
}

// close ends the open part of a text or of reasoning.
func (e *Encoder) close(dst []byte, p *part) []byte {
	if p == nil || p.id == "" {
		return dst
	}
	dst = frame.Chunk(dst, p.kind+"-end", "id", p.id)
	p.id, e.last = "", nil
	e.thinking = slices.DeleteFunc(e.thinking, func(t *part) bool { return t == p })
	return dst
}

// closeAll ends all parts that are open.
func (e *Encoder) closeAll(dst []byte) []byte {
	for len(e.thinking) > 0 {
		dst = e.close(dst, e.thinking[0])
	}
	for _, p := range e.order {
		dst = e.close(dst, p)
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
	for _, p := range e.order {
		if p.grew > 0 {
			dst = e.appendData(dst, p)
		}
	}
	dst = e.closeAll(dst)
	for _, c := range slices.Clone(e.pending) {
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
