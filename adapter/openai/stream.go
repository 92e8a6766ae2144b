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
	details, blocks    elements
	unknown            []json.RawMessage // parts of the content that only the provider understands
	cited              map[adapter.Citation]bool
	sound              []byte // base64, as it comes
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) error {
	a := &answer{Answer: w}
	a.Last = a.last
	return a.Read("check the base URL (most end in /v1)", a.readEvent, a.readWhole)
}

// readEvent passes on what an event has; done says that it is the last. What is needed of an event that does not match the template is not on the
// stack while events are waited for.
func (a *answer) readEvent(kind, data []byte) (done bool, err error) {
	raw, ok := a.template.match(data)
	if !ok || len(kind) > 0 {
		return a.decodeEvent(kind, data)
	}
	var reasoning, text string
	if a.template.reasoning {
		reasoning, err = a.reasoning.Next(raw)
	} else {
		text, err = a.content.Next(raw)
	}
	if err != nil {
		return false, err
	}
	return false, a.yieldText(reasoning, text)
}

func (a *answer) decodeEvent(kind, data []byte) (done bool, err error) {
	switch {
	case bytes.HasPrefix(data, []byte("[DONE]")):
		return true, nil
	case len(bytes.TrimSpace(data)) == 0:
		return false, nil // a ping
	case string(kind) == "error":
		return false, a.Failed(data)
	}
	var e event
	if err := wire.Decode(data, &e); err != nil {
		return false, err
	}
	if usage := e.usage(); usage != nil {
		a.Usage = wire.OpenAIUsage(usage, "prompt", "completion")
	}
	if e.failed() {
		return false, a.Failed(data)
	}
	c := e.first()
	if c == nil {
		return false, a.cite(e.SearchResults, e.Citations)
	}
	passed := a.Passed
	member, err := a.readDelta(&c.Delta)
	if err != nil {
		return false, err
	}
	if err := a.cite(e.SearchResults, e.Citations); err != nil {
		return false, err
	}
	if member != "" && a.Passed == passed+1 && len(e.Choices) == 1 && e.usage() == nil && c.Finish == "" {
		a.template.learn(data, member, member != contentMember)
	}
	if c.Finish != "" && a.Finish == "" {
		if broke(c.Finish) {
			return false, a.Server.BrokeOff(data)
		}
		a.Finish = finishReason(c.Finish)
		a.Enough()
	}
	return false, nil
}

// readWhole passes on an answer in one piece, as servers send it that never stream, or the error that it reports with status 200. White space
// before it is a heartbeat.
func (a *answer) readWhole(body []byte) error {
	var e event
	err := wire.Decode(body, &e)
	if usage := e.usage(); usage != nil {
		a.Usage = wire.OpenAIUsage(usage, "prompt", "completion")
	}
	c := e.first()
	switch {
	case err == nil && e.failed():
		return a.Server.Failed(body)
	case err == nil && c == nil:
		err = errors.New("no choices")
	}
	if err != nil {
		return a.Server.NotAnswer("a chat completion", err, body)
	}
	if c.Finish == "" || c.Finish == "null" { // so some servers say that it goes on
		return a.Server.Broken(a.Ctx, nil)
	}
	a.Finish = finishReason(c.Finish)
	if _, err := a.readDelta(&c.Message); err != nil {
		return err
	}
	return a.cite(e.SearchResults, e.Citations)
}

const contentMember = "content"

// readDelta passes on what a delta has. It returns the name of the member that had the text, if the delta has nothing but a text.
func (a *answer) readDelta(d *delta) (member string, err error) {
	text, reasoning, err := a.readContent(d.Content)
	if err != nil {
		return "", err
	}
	if text != nil {
		member = contentMember
	}
	if text == nil && d.Refusal != nil {
		text, a.Refused = d.Refusal, true
	}
	for i, value := range [...]escaped{d.ReasoningContent, d.Reasoning, d.Thinking} {
		if value == nil {
			continue
		}
		a.extra.add(reasoningMembers[i])
		if reasoning == nil { // some servers send the same in two of them
			reasoning, member = value, reasoningMembers[i]
		}
	}
	details := append(a.details.add(d.Details), a.blocks.add(d.Blocks)...)
	if reasoning == nil {
		reasoning = details
	}
	if text != nil && reasoning != nil || d.Details != nil || d.Blocks != nil || d.ToolCalls != nil || d.Audio != nil {
		member = ""
	}
	thought, err := a.reasoning.Next(reasoning)
	if err != nil {
		return "", err
	}
	said, err := a.content.Next(text)
	if err != nil {
		return "", err
	}
	if err := a.yieldText(thought, said); err != nil {
		return "", err
	}
	for _, c := range d.ToolCalls {
		if err := a.readCall(c); err != nil {
			return "", err
		}
	}
	return member, a.readMedia(d)
}

// yieldText passes on text. Reasoning comes before what it leads to.
func (a *answer) yieldText(reasoning, text string) error {
	if reasoning != "" {
		if !a.Pass(adapter.Chunk{Reasoning: reasoning}) {
			return wire.ErrLeft
		}
	}
	if text != "" {
		if !a.Pass(adapter.Chunk{Text: text}) {
			return wire.ErrLeft
		}
	}
	return nil
}

// readContent returns the text and the reasoning of a content: a string or, where Mistral's models reason or quote, a list of parts.
func (a *answer) readContent(content json.RawMessage) (text, reasoning escaped, err error) {
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		return unquote(content), nil, nil
	}
	for _, raw := range parts {
		var p contentPart
		if wire.Decode(raw, &p) != nil {
			text = append(text, unquote(raw)...)
			continue
		}
		switch p.Type {
		case "thinking", "reasoning":
			a.extra.Parts = true
			reasoning = append(append(reasoning, p.Text...), readThinking(p.Thinking)...)
			continue
		case "text", "output_text", "refusal", "":
		default:
			if len(a.unknown) < maxElements {
				a.unknown = append(a.unknown, raw)
			}
		}
		text = append(append(text, p.Text...), p.Refusal...)
		a.Refused = a.Refused || p.Refusal != nil
		if strings.HasSuffix(p.Type, "reference") {
			if err := a.citeAll([]json.RawMessage{raw}); err != nil {
				return nil, nil, err
			}
		}
	}
	return text, reasoning, nil
}

// readThinking returns the text of Mistral's thinking: a string, or a list of parts.
func readThinking(thinking json.RawMessage) (text escaped) {
	var parts []contentPart
	if json.Unmarshal(thinking, &parts) != nil {
		return unquote(thinking)
	}
	for _, p := range parts {
		text = append(text, p.Text...)
	}
	return text
}

// last passes on what was held back, and what the provider wants to have back.
func (a *answer) last() error {
	if err := a.yieldText(a.reasoning.Rest(), a.content.Rest()); err != nil {
		return err
	}
	if err := a.endCalls(); err != nil {
		return err
	}
	if err := a.yieldSound(); err != nil {
		return err
	}
	a.SetFinish(len(a.calls))
	return a.yieldExtra()
}

// broke says whether a reason is that of an answer which is not complete: OpenRouter's, and DeepSeek's.
func broke(reason string) bool { return reason == "error" || reason == "insufficient_system_resource" }

// finishReason maps the reasons that compatible servers give to the four of the format.
func finishReason(reason string) string {
	switch reason {
	case "length", "max_tokens", "model_length":
		return adapter.FinishLength
	case "tool_calls", "function_call", "tool_use":
		return adapter.FinishToolCalls
	case "content_filter", "safety", "SAFETY", "sensitive":
		return adapter.FinishContentFilter
	default:
		return adapter.FinishStop
	}
}
