package gemini

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"time"

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

	words   [2]wire.Text // of text and thoughts
	counts  []byte       // of tokens, the last ones
	ids     map[string]bool
	calls   int
	over    bool     // content that comes now is not part of the answer
	said    []string // the text
	sources sources
}

// event is an event of a stream. A member of another type than expected is read as a missing one.
type event struct {
	Candidates []struct {
		Content struct {
			Parts []wire.Object `json:"parts"`
		} `json:"content"`
		Reason    string      `json:"finishReason"`
		Grounding wire.Object `json:"groundingMetadata"`
		Quotes    wire.Object `json:"citationMetadata"`
	} `json:"candidates"`
	Counts   json.RawMessage `json:"usageMetadata"`
	Feedback struct {
		Reason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Error json.RawMessage `json:"error"`
}

// Kinds of text.
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
	var e event
	if wire.Decode(data, &e) != nil {
		a.Fail(wire.ErrFormat)
	}
	before, reason := a.Passed, ""
	for _, c := range e.Candidates {
		for _, p := range c.Content.Parts {
			a.part(p, data)
		}
		a.sources.read(c.Grounding)
		a.sources.read(c.Quotes)
		reason = cmp.Or(c.Reason, reason)
	}
	if bytes.Contains(e.Counts, []byte(`TokenCount"`)) { // otherwise it says nothing of them
		a.counts = e.Counts
	}
	switch {
	case (wire.Object{"error": e.Error}).Has("error"):
		a.Report(data)
	case e.Feedback.Reason != "" && a.Finish == "":
		a.Fail(wire.Filtered(errors.New("the prompt was blocked: " + a.Server.Redact([]byte(e.Feedback.Reason)))))
	case !a.over:
		a.finish(reason, a.Passed > before)
	}
	return false
}

// part passes on one part of an event. Members that the adapter does not know are passed on with it (MO-02).
func (a *answer) part(members wire.Object, event []byte) {
	if a.over {
		return
	}
	if members == nil {
		a.Fail(errPart)
	}
	kind, raw := text, wire.Unquote(members["text"])
	if string(members["thought"]) == "true" {
		kind = thought
	}
	more := maps.Clone(members)
	delete(more, "text")
	delete(more, "thought")
	said := a.Next(&a.words[kind], raw)
	switch {
	case more["functionCall"] != nil:
		a.call(more, event)
	case len(more) == 0:
		a.say(kind, said)
	case len(raw) > 0:
		a.sign(kind, said, more)
	default:
		a.other(kind, members)
	}
}

// other passes on a part without text: an image or a file, or what only Google understands.
func (a *answer) other(kind int, members wire.Object) {
	if len(members) == 1 && members[signature] != nil {
		members["text"] = json.RawMessage(`""`) // without it, Google does not take it back
	}
	file, inline := members.Object("fileData"), members.Object("inlineData")
	media := adapter.Media{Type: file.Text("mimeType") + inline.Text("mimeType"), URL: file.Text("fileUri")}
	if data := inline.Text("data"); data != "" {
		media.URL = "data:" + media.Type + ";base64," + data
	}
	if media.URL != "" && kind == text { // an image in a thought is a draft
		a.Pass(adapter.Chunk{Media: &media})
	}
	a.Beside(adapter.PartOther, 0, rawjson.MustMarshal(members))
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
	a.Beside(name, 0, rawjson.MustMarshal(members))
}

// call passes on a call.
func (a *answer) call(members wire.Object, event []byte) {
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
		call.ID = wire.CallID(event, call.Index)
	}
	a.ids[call.ID] = true
	a.Pass(adapter.Chunk{ToolCall: &call})
	if delete(members, "functionCall"); len(members) > 0 {
		a.Beside(adapter.PartCall, call.Index, rawjson.MustMarshal(members))
	}
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
