package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

const (
	maxCalls = 1024 // tools that one answer may call
	// settle is how long the adapter waits for the end of the stream after the finish and the counts: no event marks that end.
	settle = 500 * time.Millisecond
)

var (
	errCalls   = errors.New("the answer calls too many tools")
	errPieces  = errors.New("a call in pieces, which was not asked for")
	errNothing = errors.New("neither candidates nor what became of the prompt")
	errOther   = errors.New("an event that is not only a text")
)

// answer reads one answer.
type answer struct {
	*wire.Answer
	m *model

	words    [2]words // text and thoughts
	glanced  glance
	onMember func(key, value []byte, kind jsonparser.ValueType, offset int) error       // made once
	onEach   func(value []byte, kind jsonparser.ValueType, offset int, err error) error // made once
	counts   []byte                                                                     // of tokens, the last ones
	ids      map[string]bool                                                            // of the calls
	calls    int
	passed   int      // chunks that were passed on
	over     bool     // content that comes now is not part of the answer
	said     []string // the text
	sources  grounding
	quoted   []quote
}

// words is text of one kind as it comes.
type words struct {
	wire.Text
	open bool // the last part that was passed on may still grow
}

const (
	text = iota
	thought
)

// read passes on an answer.
func (m *model) read(w *wire.Answer) error {
	a := &answer{Answer: w, m: m, ids: map[string]bool{}}
	if m.p.maxEvent == 0 && m.says("image") {
		w.MaxEvent = imageMaxEvent
	}
	a.Last, a.onMember, a.onEach = a.last, a.member, a.each
	switch a.Kind() {
	case "text/event-stream", "":
		return a.Events(a.Res.Body, a.take)
	case "application/json":
		return a.whole()
	}
	return a.Unknown("an event stream", "check the base URL")
}

// whole reads an answer in one piece: a list of events, which Google sends without alt=sse, or a single event.
func (a *answer) whole() error {
	body, err := a.Whole()
	if err != nil {
		return err
	}
	var events []json.RawMessage
	if json.Unmarshal(body, &events) != nil {
		events = []json.RawMessage{body}
	}
	for _, e := range events {
		if err := a.event(e); err != nil {
			return err
		}
	}
	if a.passed == 0 && a.Finish == "" && a.counts == nil {
		return a.m.p.NotAnswer("an answer", errNothing, body)
	}
	return a.Complete(false, nil)
}

// take passes on what an event has.
func (a *answer) take(_, data []byte) (done bool, err error) {
	g := &a.glanced
	*g = glance{}
	if a.over || jsonparser.ObjectEach(data, a.onMember) != nil || !g.isText || g.objects != 2 {
		return false, a.event(data)
	}
	a.count(g.counts)
	s, err := a.words[g.kind].Next(g.text)
	if err != nil {
		return false, a.m.p.NotPiece(err, data)
	}
	return false, a.pass(g.kind, s)
}

// glance is what is seen of an event that has one text and nothing else but counts, as most have. Its bytes are only lent.
type glance struct {
	kind         int // text or thought
	text, counts []byte
	isText       bool
	objects      int // candidates and parts
}

// member looks at a member of an event, of its candidate, or of that one's part.
func (a *answer) member(key, value []byte, kind jsonparser.ValueType, _ int) error {
	g := &a.glanced
	switch string(key) {
	case "candidates", "parts":
		_, err := jsonparser.ArrayEachErr(value, a.onEach)
		return err
	case "content":
		return jsonparser.ObjectEach(value, a.onMember)
	case "text":
		g.text, g.isText = value, kind == jsonparser.String
		return nil
	case "thought":
		if string(value) == "true" {
			g.kind = thought
		}
		return nil
	case "usageMetadata":
		g.counts = value
		return nil
	case "role", "modelVersion", "responseId", "createTime":
		return nil
	case "index":
		if string(value) == "0" {
			return nil
		}
	}
	return errOther
}

func (a *answer) each(value []byte, _ jsonparser.ValueType, _ int, err error) error {
	a.glanced.objects++
	if err != nil {
		return err
	}
	return jsonparser.ObjectEach(value, a.onMember)
}

// count keeps counts of tokens, which are read at the end.
func (a *answer) count(raw []byte) {
	if bytes.Contains(raw, []byte(`TokenCount"`)) {
		a.counts = append(a.counts[:0], raw...)
	}
}

// pass yields text of a kind.
func (a *answer) pass(kind int, s string) error {
	if s == "" {
		return nil
	}
	a.words[kind].open = true
	c := adapter.Chunk{Text: s}
	if kind == thought {
		c = adapter.Chunk{Reasoning: s}
	} else {
		a.said = append(a.said, s)
	}
	return a.yield(c)
}

func (a *answer) yield(c adapter.Chunk) error {
	a.passed++
	if !a.Pass(c) {
		return wire.ErrLeft
	}
	return nil
}

// event is a piece of an answer.
type event struct {
	Candidates []candidate `json:"candidates"`
	Prompt     struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage json.RawMessage `json:"usageMetadata"`
	Error json.RawMessage `json:"error"`
}

type candidate struct {
	Index   int `json:"index"`
	Content struct {
		Parts []map[string]json.RawMessage `json:"parts"`
	} `json:"content"`
	FinishReason string     `json:"finishReason"`
	Grounding    *grounding `json:"groundingMetadata"`
	Citations    struct {
		Sources []quote `json:"citations"`
		Older   []quote `json:"citationSources"`
	} `json:"citationMetadata"`
}

//go:noinline
func (a *answer) event(data []byte) error {
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		return nil // a ping
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return a.m.p.NotPiece(err, data)
	}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		if a.Finish != "" {
			return nil // the answer is complete (MO-14)
		}
		return a.m.p.Failed(data)
	}
	a.count(e.Usage)
	if reason := e.Prompt.BlockReason; reason != "" && reason != "BLOCK_REASON_UNSPECIFIED" && a.Finish == "" {
		return &adapter.Error{Code: adapter.CodeProtocol, Message: wire.ContentFilter, Cause: errors.New("the prompt was blocked: " + a.m.p.Redact([]byte(reason)))}
	}
	if i := slices.IndexFunc(e.Candidates, func(c candidate) bool { return c.Index == 0 }); i >= 0 { // others come only where they were asked for
		return a.candidate(&e.Candidates[i], data)
	}
	return nil
}

func (a *answer) candidate(c *candidate, data []byte) error {
	if g := c.Grounding; g != nil { // it may come in several events, each with all that is known by then, or with a part
		if len(g.Chunks) > 0 {
			a.sources.Chunks = g.Chunks
		}
		if len(g.Supports) > 0 {
			a.sources.Supports = g.Supports
		}
	}
	a.quoted = append(append(a.quoted, c.Citations.Sources...), c.Citations.Older...)
	if a.over {
		return nil
	}
	before := a.passed
	for _, p := range c.Content.Parts {
		if err := a.part(p, data); err != nil {
			return err
		}
	}
	if c.FinishReason != "" {
		return a.finish(c.FinishReason, a.passed > before)
	}
	return nil
}

// part passes on one part. Members that the adapter does not know are passed on beside it (MO-02).
func (a *answer) part(p map[string]json.RawMessage, data []byte) error {
	kind := text
	if string(p["thought"]) == "true" {
		kind = thought
	}
	switch raw, isText := inside(p["text"]); {
	case p["functionCall"] != nil:
		call := p["functionCall"]
		delete(p, "functionCall")
		delete(p, "thought")
		return a.call(call, p, data)
	case isText || len(p) == 1 && p[signature] != nil:
		delete(p, "text")
		delete(p, "thought")
		s, err := a.words[kind].Next(raw)
		if err != nil {
			return a.m.p.NotPiece(err, data)
		}
		return a.write(kind, s, p)
	case len(p) == 0 || len(p) == 1 && p["thought"] != nil:
		return nil
	}
	var media struct {
		Type string `json:"mimeType"`
		Data string `json:"data"`
		URL  string `json:"fileUri"`
	}
	if json.Unmarshal(p["inlineData"], &media) == nil && media.Data != "" {
		media.URL = "data:" + media.Type + ";base64," + media.Data
	} else {
		json.Unmarshal(p["fileData"], &media) // another part has no URL
	}
	if media.URL != "" && kind == text { // an image in a thought is a draft
		if err := a.yield(adapter.Chunk{Media: &adapter.Media{Type: media.Type, URL: media.URL}}); err != nil {
			return err
		}
	}
	return a.beside(adapter.PartOther, 0, p)
}

// inside returns what stands between the quotes of a string.
func inside(raw json.RawMessage) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}

// write passes on a part that is text. A part with other members, such as a signature, is not joined with the parts before it.
func (a *answer) write(kind int, s string, beside map[string]json.RawMessage) error {
	if len(beside) == 0 {
		return a.pass(kind, s)
	}
	name := [...]string{adapter.PartText, adapter.PartReasoning}[kind]
	if a.words[kind].open {
		if err := a.yield(adapter.Chunk{Beside: &adapter.Beside{Type: name, Data: json.RawMessage("{}")}}); err != nil {
			return err
		}
	}
	if err := a.pass(kind, s); err != nil {
		return err
	}
	a.words[kind].open = false
	return a.beside(name, 0, beside)
}

func (a *answer) beside(kind string, index int, members map[string]json.RawMessage) error {
	if len(members) == 0 {
		return nil
	}
	data, _ := wire.Marshal(members) // of JSON: cannot fail
	return a.yield(adapter.Chunk{Beside: &adapter.Beside{Type: kind, Index: index, Data: data}})
}

// call passes on a call.
func (a *answer) call(raw json.RawMessage, beside map[string]json.RawMessage, data []byte) error {
	var c struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Args      json.RawMessage `json:"args"`
		Continues bool            `json:"willContinue"` // of Vertex AI's streamFunctionCallArguments
	}
	err := json.Unmarshal(raw, &c)
	switch {
	case err == nil && c.Continues:
		err = errPieces
	case err == nil && a.calls == maxCalls:
		err = errCalls
	}
	if err != nil {
		return a.m.p.NotPiece(err, data)
	}
	part := adapter.ToolCall{Index: a.calls, ID: c.ID, Name: c.Name, Arguments: strings.ToValidUTF8(string(c.Args), "\uFFFD")}
	a.calls++
	if part.ID == "" || a.ids[part.ID] {
		h := fnv.New64a()
		h.Write(data)
		part.ID = "call_" + strconv.FormatUint(h.Sum64(), 36) + "_" + strconv.Itoa(part.Index)
	}
	a.ids[part.ID] = true
	if c.ID != "" {
		beside["id"], _ = json.Marshal(c.ID) // a string: cannot fail
	}
	if part.Arguments == "" || part.Arguments == "null" {
		part.Arguments = "{}"
	}
	if err := a.yield(adapter.Chunk{ToolCall: &part}); err != nil {
		return err
	}
	return a.beside(adapter.PartCall, part.Index, beside)
}

// finish notes why the answer ends. Older models send a reason with each piece of text: so content after such an event is still part of the answer.
func (a *answer) finish(reason string, content bool) error {
	switch reason {
	case "FINISH_REASON_UNSPECIFIED":
		return nil
	case "STOP":
		a.Finish = adapter.FinishStop
	case "MAX_TOKENS":
		a.Finish = adapter.FinishLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		a.Finish = adapter.FinishContentFilter
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE":
		return a.broke("the model called a tool in a way that cannot be read: try again", reason)
	case "MISSING_THOUGHT_SIGNATURE":
		a.m.p.learned.Learn(a.m.name, signatures)
		return a.broke(a.m.p.Name()+" misses a signature in the history: try again", reason)
	default: // OTHER, LANGUAGE, NO_IMAGE and what comes in the future
		if a.passed == 0 {
			return a.broke("the model ended its answer before it began, without a reason: try again", reason)
		}
		a.Finish = adapter.FinishStop
	}
	a.over = !content
	if a.Enough(); a.over && a.counts != nil {
		a.Wait(settle)
	}
	return nil
}

func (a *answer) broke(message, reason string) error {
	return &adapter.Error{Code: adapter.CodeProtocol, Retryable: true, Message: message, Cause: errors.New("finishReason " + a.m.p.Redact([]byte(reason)))}
}

// last passes on what was held back of characters and calls, and the sources.
func (a *answer) last() error {
	a.Usage = usage(a.counts)
	for _, kind := range []int{thought, text} {
		if err := a.pass(kind, a.words[kind].Rest()); err != nil {
			return err
		}
	}
	for _, c := range a.citations() {
		if err := a.yield(adapter.Chunk{Citation: &c}); err != nil {
			return err
		}
	}
	if a.Finish == adapter.FinishStop && a.calls > 0 {
		a.Finish = adapter.FinishToolCalls
	}
	return nil
}

// usage reads counts of tokens; nil where there are none yet.
func usage(raw json.RawMessage) *adapter.Usage {
	type byKind []struct {
		Modality string `json:"modality"`
		Tokens   int    `json:"tokenCount"`
	}
	var u struct {
		Prompt     int    `json:"promptTokenCount"`
		Tools      int    `json:"toolUsePromptTokenCount"`
		Cached     int    `json:"cachedContentTokenCount"`
		Candidates int    `json:"candidatesTokenCount"`
		Thoughts   int    `json:"thoughtsTokenCount"`
		Total      int    `json:"totalTokenCount"`
		In         byKind `json:"promptTokensDetails"`
		Out        byKind `json:"candidatesTokensDetails"`
	}
	if json.Unmarshal(raw, &u); u.Prompt <= 0 && u.Candidates <= 0 && u.Total <= 0 { // a count that is no number is not known
		return nil
	}
	count := func(n int) int { return min(max(n, 0), 1<<50) }
	out := &adapter.Usage{
		PromptTokens: count(u.Prompt) + count(u.Tools), CachedTokens: count(u.Cached),
		CompletionTokens: count(u.Candidates) + count(u.Thoughts), ReasoningTokens: count(u.Thoughts), TotalTokens: count(u.Total),
	}
	if out.TotalTokens == 0 {
		out.TotalTokens = out.PromptTokens + out.CompletionTokens
	}
	for _, d := range append(u.In, u.Out...) {
		if d.Modality == "AUDIO" {
			out.AudioTokens += count(d.Tokens)
		}
	}
	return out
}
