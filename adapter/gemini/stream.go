package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/buger/jsonparser"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// settle is how long the adapter waits for the end of the stream after the finish and the counts: no event marks that end.
const settle = 500 * time.Millisecond

var (
	errPieces = errors.New("a call in pieces, which was not asked for")
	errPart   = errors.New("a part that is no JSON")
	errNoEnd  = errors.New("no finishReason")
)

// answer reads one answer.
type answer struct {
	*wire.Answer
	m *model

	data    []byte       // the event
	reason  []byte       // why the answer ends, of the event
	piece   piece        // the part
	words   [2]wire.Text // of text and thoughts
	counts  []byte       // of tokens, the last ones
	ids     map[string]bool
	calls   int
	over    bool     // content that comes now is not part of the answer
	said    []string // the text
	sources sources
}

// piece is what a part has.
type piece struct {
	kind int    // text or thought
	text []byte // what stands between its quotes
	more bool   // it has more than text
}

const (
	text = iota
	thought
)

// read passes on an answer.
func (m *model) read(w *wire.Answer) {
	a := &answer{Answer: w, m: m, ids: map[string]bool{}}
	a.Last = a.last
	if m.nameHas("image") {
		w.MaxEvent = max(w.MaxEvent, imageMaxEvent)
	}
	if a.Read("check the base URL", a.readEvent, a.whole); a.Finish == "" && a.Passed > 0 {
		a.Usage = usage(a.counts) // of an answer that has broken off
	}
}

// whole reads an answer in one piece: a list of events, which Google sends without alt=sse, or a single event.
func (a *answer) whole(body []byte) {
	var events []json.RawMessage
	if json.Unmarshal(body, &events) != nil {
		events = []json.RawMessage{body}
	}
	for _, e := range events {
		a.readEvent(nil, e)
	}
	if a.Finish == "" {
		a.Fail(a.Server.NotAnswer("a whole answer", errNoEnd, body))
	}
}

// readEvent passes on what an event has.
func (a *answer) readEvent(_, data []byte) (done bool) {
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		return false // a ping
	}
	before := a.Passed
	a.data, a.reason = data, nil
	if err := jsonparser.ObjectEach(data, a.member); err != nil {
		a.Fail(err)
	} else if !a.over {
		a.finish(string(a.reason), a.Passed > before)
	}
	return false
}

// member reads a member of an event, of its candidate, or of the candidate's content.
func (a *answer) member(key, value []byte, kind jsonparser.ValueType, _ int) error {
	switch string(key) {
	case "candidates":
		return each(value, kind, func(c []byte) error { return jsonparser.ObjectEach(c, a.member) })
	case "content":
		if kind == jsonparser.Object {
			return jsonparser.ObjectEach(value, a.member)
		}
	case "parts":
		return each(value, kind, a.part)
	case "finishReason":
		a.reason = value
	case "groundingMetadata", "citationMetadata":
		a.sources.read(wire.ReadObject(value))
	case "usageMetadata":
		if bytes.Contains(value, []byte(`TokenCount"`)) { // otherwise it says nothing of them
			a.counts = append(a.counts[:0], value...)
		}
	case "promptFeedback":
		if reason := wire.StringAt(value, "blockReason"); reason != nil && a.Finish == "" {
			a.Fail(wire.Filtered(errors.New("the prompt was blocked: " + a.Server.Redact(reason))))
		}
	case "error":
		if kind != jsonparser.Null {
			a.Report(a.data)
		}
	}
	return nil
}

// each calls read with the elements of a list; what is no list has none.
func each(list []byte, kind jsonparser.ValueType, read func([]byte) error) error {
	if kind != jsonparser.Array {
		return nil
	}
	_, err := jsonparser.ArrayEachErr(list, func(element []byte, _ jsonparser.ValueType, _ int, err error) error {
		if err == nil {
			err = read(element)
		}
		return err
	})
	return err
}

// partMember reads a member of a part.
func (a *answer) partMember(key, value []byte, kind jsonparser.ValueType, _ int) error {
	switch p := &a.piece; {
	case string(key) == "text" && kind == jsonparser.String:
		p.text = value
	case string(key) == "thought" && string(value) == "true":
		p.kind = thought
	default:
		p.more = true
	}
	return nil
}

// part passes on one part. Members that the adapter does not know are passed on with it (MO-02).
func (a *answer) part(whole []byte) error {
	if a.over {
		return nil
	}
	p := &a.piece
	*p = piece{}
	if err := jsonparser.ObjectEach(whole, a.partMember); err != nil {
		return err
	}
	said := a.Next(&a.words[p.kind], p.text)
	if !p.more {
		a.say(p.kind, said)
		return nil
	}
	members := wire.ReadObject(whole)
	switch {
	case members == nil:
		return errPart
	case members["functionCall"] != nil:
		a.call(members)
		return nil
	case len(p.text) > 0:
		a.sign(p.kind, said, members)
		return nil
	case len(members) == 1 && members[signature] != nil:
		members["text"] = json.RawMessage(`""`) // without it, Google does not take it back
	}
	file, inline := members.Object("fileData"), members.Object("inlineData")
	media := adapter.Media{Type: file.Text("mimeType") + inline.Text("mimeType"), URL: file.Text("fileUri")}
	if data := inline.Text("data"); data != "" {
		media.URL = "data:" + media.Type + ";base64," + data
	}
	if media.URL != "" && p.kind == text { // an image in a thought is a draft
		a.Pass(adapter.Chunk{Media: &media})
	}
	a.beside(adapter.PartOther, 0, members)
	return nil
}

// say passes on text of a kind.
func (a *answer) say(kind int, s string) {
	if s == "" {
		return
	}
	c := adapter.Chunk{Text: s}
	if kind == thought {
		c = adapter.Chunk{Reasoning: s}
	}
	a.said = append(a.said, c.Text)
	a.Pass(c)
}

// sign passes on text with other members, such as a signature. It is not joined with the parts before it.
func (a *answer) sign(kind int, s string, members wire.Object) {
	name := [...]string{adapter.PartText, adapter.PartReasoning}[kind]
	if a.Passed > 0 {
		a.Beside(name, 0, json.RawMessage("{}"))
	}
	a.say(kind, s)
	a.beside(name, 0, members, "text", "thought")
}

// beside passes on the members of a part, without those that are known.
func (a *answer) beside(kind string, index int, members wire.Object, known ...string) {
	for _, name := range known {
		delete(members, name)
	}
	if len(members) > 0 {
		a.Beside(kind, index, rawjson.MustMarshal(members))
	}
}

// call passes on a call.
func (a *answer) call(members wire.Object) {
	c := members.Object("functionCall")
	if string(c["willContinue"]) == "true" { // of Vertex AI's streamFunctionCallArguments
		a.Fail(errPieces)
	}
	arguments := wire.Arguments(strings.ToValidUTF8(string(c["args"]), "\uFFFD"))
	call := adapter.ToolCall{Index: a.calls, ID: c.Text("id"), Name: c.Text("name"), Arguments: string(arguments)}
	a.calls++
	if call.ID != "" {
		members["id"] = c["id"]
	}
	if call.ID == "" || a.ids[call.ID] {
		call.ID = wire.CallID(a.data, call.Index)
	}
	a.ids[call.ID] = true
	a.Pass(adapter.Chunk{ToolCall: &call})
	a.beside(adapter.PartCall, call.Index, members, "functionCall", "thought")
}

// finish notes why the answer ends. Older models send a reason with each piece of text: so content after such an event is still part of the
// answer.
func (a *answer) finish(reason string, content bool) {
	switch reason {
	case "", "FINISH_REASON_UNSPECIFIED":
		return
	case "MAX_TOKENS":
		a.Finish = adapter.FinishLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		a.Finish = adapter.FinishContentFilter
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE":
		a.broke("the model called a tool in an invalid way: retry", reason)
	case "MISSING_THOUGHT_SIGNATURE":
		a.broke(a.m.p.Name()+" misses a signature in the history", reason)
	default: // OTHER, LANGUAGE, NO_IMAGE and what comes in the future
		if reason != "STOP" && a.Passed == 0 {
			a.broke("the model returned no answer and no reason: retry", reason)
		}
		a.Finish = adapter.FinishStop
	}
	a.over = !content
	if a.Enough(); a.over && a.counts != nil {
		a.Wait(settle)
	}
}

func (a *answer) broke(message, reason string) {
	cause := errors.New("finishReason " + a.Server.Redact([]byte(reason)))
	a.Fail(&adapter.Error{Code: adapter.CodeProtocol, Retryable: true, Message: message, Cause: cause})
}

// last passes on what was held back of characters, and the sources.
func (a *answer) last() {
	a.Usage = usage(a.counts)
	for _, kind := range []int{thought, text} {
		a.say(kind, a.words[kind].Rest())
	}
	for _, c := range a.sources.citations(a.said) {
		a.Pass(adapter.Chunk{Citation: &c})
	}
	a.SetFinish(a.calls)
}

// usage reads counts of tokens; nil where there are none yet.
func usage(raw []byte) *adapter.Usage {
	u := wire.ReadObject(raw)
	out := adapter.Usage{
		PromptTokens: u.Count("promptTokenCount") + u.Count("toolUsePromptTokenCount"), CachedTokens: u.Count("cachedContentTokenCount"),
		CompletionTokens: u.Count("candidatesTokenCount") + u.Count("thoughtsTokenCount"), ReasoningTokens: u.Count("thoughtsTokenCount"),
	}
	if out.TotalTokens = out.PromptTokens + out.CompletionTokens; out.TotalTokens == 0 {
		return nil
	}
	for _, d := range append(u.Objects("promptTokensDetails"), u.Objects("candidatesTokensDetails")...) {
		if d.Text("modality") == "AUDIO" {
			out.AudioTokens += d.Count("tokenCount")
		}
	}
	return &out
}
