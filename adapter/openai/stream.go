package openai

import (
	"bytes"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// answer reads one answer.
type answer struct {
	*wire.Answer
	events decoder
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) error {
	a := &answer{Answer: w}
	a.Last = a.last
	a.events.init()
	return a.Read("check the base URL (most end in /v1)", a.readEvent, a.whole)
}

// readEvent passes on what an event has; done says that it is the last. What is needed of an event that is not plain is not on the stack while
// events are waited for.
func (a *answer) readEvent(kind, data []byte) (done bool, err error) {
	if len(kind) == 0 && a.events.glance(data) {
		if !a.passContent() {
			return false, wire.ErrLeft
		}
		return false, nil
	}
	return a.event(kind, data)
}

func (a *answer) event(kind, data []byte) (done bool, err error) {
	switch {
	case bytes.HasPrefix(data, []byte("[DONE]")):
		return true, nil
	case len(data) == 0:
		return false, nil // a ping
	case string(kind) == "error":
		return false, a.Failed(data)
	}
	d := &a.events
	if err := d.decode(data); err != nil {
		if err == errReported {
			if d.usage != nil {
				a.Usage = d.usage
			}
			return false, a.Failed(data)
		}
		return false, a.Server.NotPiece(err, data)
	}
	if !a.passContent() || !a.passBeside() {
		return false, wire.ErrLeft
	}
	if d.usage != nil {
		a.Usage = d.usage
	}
	if d.finish != "" && a.Finish == "" {
		if broke(d.finish) {
			return false, a.Server.BrokeOff(data)
		}
		a.Finish = finishReason(d.finish)
		a.Enough()
	}
	return false, nil
}

// last passes on what was held back of a character.
func (a *answer) last() error {
	a.events.rest()
	if !a.passContent() || !a.passSound() || !a.passMade() {
		return wire.ErrLeft
	}
	a.Refused = a.events.refused
	a.SetFinish(len(a.events.calls))
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
