package openai

import (
	"bytes"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// answer reads one answer.
type answer struct {
	*wire.Answer
	p      *provider
	events decoder
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) error {
	a := &answer{Answer: w, p: m.p}
	a.Last = a.last
	a.events.init()
	switch a.Kind() {
	case "text/event-stream", "": // some servers send no type
		return a.Events(a.Res.Body, a.take)
	case "application/json":
		return a.whole()
	default:
		return a.Unknown("an event stream", "check the base URL (most end in /v1)")
	}
}

// take passes on what an event has; done says that it is the last. What is needed of an event that is not plain is not on the stack while
// events are waited for.
func (a *answer) take(kind, data []byte) (done bool, err error) {
	if len(kind) == 0 && a.events.glance(data) {
		if !a.passContent() {
			return false, wire.ErrLeft
		}
		return false, nil
	}
	return a.event(kind, data)
}

//go:noinline
func (a *answer) event(kind, data []byte) (done bool, err error) {
	switch {
	case bytes.HasPrefix(data, []byte("[DONE]")):
		return true, nil
	case len(data) == 0:
		return false, nil // a ping
	case string(kind) == "error":
		return false, a.failed(data)
	}
	d := &a.events
	if err := d.decode(string(data)); err != nil {
		if err == errReported {
			return false, a.failed(data)
		}
		return false, a.p.NotPiece(err, data)
	}
	if !a.passContent() || !a.passBeside() {
		return false, wire.ErrLeft
	}
	if d.usage != nil {
		a.Usage = d.usage
	}
	if d.finish != "" && a.Finish == "" {
		if broke(d.finish) {
			e := a.p.Failed(data)
			if e.Code == adapter.CodeProtocol { // it says no more than that
				e.Code, e.Retryable = adapter.CodeUnavailable, true
				e.Message = a.p.Name() + " broke off the answer because it failed or is overloaded: try again later"
			}
			return false, e
		}
		a.Finish = finishReason(d.finish)
		a.Enough()
	}
	return false, nil
}

// failed is the error of an event that reports one; nil where the answer is whole already.
func (a *answer) failed(data []byte) error {
	if a.Finish != "" {
		return nil
	}
	return a.p.Failed(data)
}

// last passes on what was held back of a character.
func (a *answer) last() error {
	a.events.rest()
	if !a.passContent() || !a.passSound() || !a.passMade() {
		return wire.ErrLeft
	}
	switch {
	case a.Finish != adapter.FinishStop:
	case len(a.events.calls) > 0:
		a.Finish = adapter.FinishToolCalls // some servers say stop whatever they stop for
	case a.events.refused:
		a.Finish = adapter.FinishRefusal
	}
	return nil
}

// passContent yields what the decoder has found of content; false when the reader has left.
func (a *answer) passContent() bool {
	d := &a.events
	if d.text != "" && d.reasoning != "" { // thinking comes before what it leads to
		if !a.Pass(adapter.Chunk{Reasoning: d.reasoning}) {
			return false
		}
		d.reasoning = ""
	}
	if (d.text != "" || d.reasoning != "") && !a.Pass(adapter.Chunk{Text: d.text, Reasoning: d.reasoning}) {
		return false
	}
	for _, part := range d.parts {
		if !a.Pass(adapter.Chunk{ToolCall: &part}) {
			return false
		}
	}
	return true
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
