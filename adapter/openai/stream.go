package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// answer reads one answer.
type answer struct {
	*wire.Answer
	template           template
	content, reasoning wire.Text
	calls              []call
	extra              reasoningExtra
	unknown            []json.RawMessage // parts of the content that only the provider understands
	cited              map[adapter.Citation]bool
	sound              []byte // base64, as it comes
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) {
	a := &answer{Answer: w}
	a.Last = a.last
	a.Read("check the base URL (most end in /v1)", a.readEvent, a.readWhole)
}

// readEvent passes on what an event has; done says that it is the last. What is needed of an event that does not match the template is not on the
// stack while events are waited for.
func (a *answer) readEvent(kind, data []byte) (done bool) {
	raw, ok := a.template.match(data)
	switch {
	case !ok || len(kind) > 0:
		return a.decodeEvent(kind, data)
	case a.template.reasoning:
		a.Say("", a.Next(&a.reasoning, raw))
	default:
		a.Say(a.Next(&a.content, raw), "")
	}
	return false
}

func (a *answer) decodeEvent(kind, data []byte) (done bool) {
	var e event
	switch {
	case bytes.HasPrefix(data, []byte("[DONE]")):
		return true
	case len(bytes.TrimSpace(data)) == 0: // a ping
	case string(kind) == "error":
		a.Report(data)
	case wire.Decode(data, &e) != nil:
		a.Fail(wire.ErrFormat)
	default:
		a.event(&e, data)
	}
	return false
}

// event passes on what an event has.
func (a *answer) event(e *event, data []byte) {
	a.count(e)
	c := e.first()
	switch {
	case e.failed():
		a.Report(data)
	case c == nil:
		a.cite(e.SearchResults, e.Citations)
	default:
		passed := a.Passed
		member := a.readDelta(&c.Delta)
		a.cite(e.SearchResults, e.Citations)
		if member != "" && a.Passed == passed+1 && len(e.Choices) == 1 && e.usage() == nil && c.Finish == "" {
			a.template.learn(data, member, member != contentMember)
		}
		if c.Finish == "" || a.Finish != "" {
			return
		}
		if broke(c.Finish) {
			a.Fail(a.Server.BrokeOff(data))
		}
		a.Finish = wire.FinishReason(c.Finish)
		a.Enough()
	}
}

// count takes the usage of an event.
func (a *answer) count(e *event) {
	if usage := e.usage(); usage != nil {
		a.Usage = wire.OpenAIUsage(usage, "prompt", "completion")
	}
}

// readWhole passes on an answer in one piece, as servers send it that never stream, or the error that it reports with status 200. White space
// before it is a heartbeat.
func (a *answer) readWhole(body []byte) {
	var e event
	err := wire.Decode(body, &e)
	a.count(&e)
	c := e.first()
	if err == nil && !e.failed() && c == nil {
		err = errors.New("no choices")
	}
	switch {
	case err != nil:
		a.Fail(a.Server.NotAnswer("a chat completion", err, body))
	case e.failed():
		a.Fail(a.Server.Failed(body))
	case c.Finish == "" || c.Finish == "null": // so some servers say that it goes on
		a.CutOff(nil)
	default:
		a.Finish = wire.FinishReason(c.Finish)
		a.readDelta(&c.Message)
		a.cite(e.SearchResults, e.Citations)
	}
}

const contentMember = "content"

// readDelta passes on what a delta has. It returns the name of the member that had the text, if the delta has nothing but a text.
func (a *answer) readDelta(d *delta) (member string) {
	text, reasoning := a.readContent(d.Content)
	if text != nil {
		member = contentMember
	}
	if text == nil && d.Refusal != nil {
		text, a.Refused = d.Refusal, true
	}
	for i, value := range [...]wire.Escaped{d.ReasoningContent, d.Reasoning, d.Thinking} {
		if value == nil {
			continue
		}
		a.extra.add(reasoningMembers[i])
		if reasoning == nil { // some servers send the same in two of them
			reasoning, member = value, reasoningMembers[i]
		}
	}
	details := append(a.add(&a.extra.Details, d.Details), a.add(&a.extra.Blocks, d.Blocks)...)
	if reasoning == nil {
		reasoning = details
	}
	if text != nil && reasoning != nil || d.Details != nil || d.Blocks != nil || d.ToolCalls != nil || d.Audio != nil {
		member = ""
	}
	a.Say(a.Next(&a.content, text), a.Next(&a.reasoning, reasoning))
	for _, c := range d.ToolCalls {
		a.readCall(c)
	}
	a.readMedia(d)
	return member
}

// readContent returns the text and the reasoning of a content: a string or, where Mistral's models reason or quote, a list of parts.
func (a *answer) readContent(content json.RawMessage) (text, reasoning wire.Escaped) {
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		return wire.Unquote(content), nil
	}
	for _, raw := range parts {
		var p contentPart
		if wire.Decode(raw, &p) != nil {
			text = append(text, wire.Unquote(raw)...)
			continue
		}
		switch p.Type {
		case "thinking", "reasoning":
			a.extra.Parts = true
			reasoning = append(append(reasoning, p.Text...), readThinking(p.Thinking)...)
			continue
		case "text", "output_text", "refusal", "":
		default:
			a.Hold(len(raw) + wire.ItemSize)
			a.unknown = append(a.unknown, raw)
		}
		text = append(append(text, p.Text...), p.Refusal...)
		a.Refused = a.Refused || p.Refusal != nil
		if strings.HasSuffix(p.Type, "reference") {
			a.citeAll([]json.RawMessage{raw})
		}
	}
	return text, reasoning
}

// readThinking returns the text of Mistral's thinking: a string, or a list of parts.
func readThinking(thinking json.RawMessage) (text wire.Escaped) {
	var parts []contentPart
	if json.Unmarshal(thinking, &parts) != nil {
		return wire.Unquote(thinking)
	}
	for _, p := range parts {
		text = append(text, p.Text...)
	}
	return text
}

// last passes on what was held back, and what the provider wants to have back.
func (a *answer) last() {
	a.Say(a.content.Rest(), a.reasoning.Rest())
	a.endCalls()
	a.yieldSound()
	a.SetFinish(len(a.calls))
	a.yieldExtra()
}

// broke says whether a reason is that of an answer which is not complete: OpenRouter's, and DeepSeek's.
func broke(reason string) bool { return reason == "error" || reason == "insufficient_system_resource" }
