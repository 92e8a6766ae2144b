package openai

import (
	"bytes"
	"errors"

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
	return a.Read("check the base URL (most end in /v1)", a.event, a.complete)
}

// event passes on what an event has; done says that it is the last.
func (a *answer) event(kind, data []byte) (done bool, err error) {
	d := &a.events
	switch {
	case bytes.HasPrefix(data, []byte("[DONE]")):
		return true, nil
	case len(data) == 0:
		return false, nil // a ping
	case string(kind) == "error":
		return false, a.Failed(data)
	}
	err = d.decode(data)
	if d.usage != nil {
		a.Usage = d.usage
	}
	if err == errReported {
		return false, a.Failed(data)
	}
	if err == nil {
		err = a.pass()
	}
	if err != nil || d.finish == "" || a.Finish != "" {
		return false, err
	}
	if broke(d.finish) {
		return false, a.Server.BrokeOff(data)
	}
	a.Finish = finishReason(d.finish)
	a.Enough()
	return false, nil
}

// complete passes on an answer in one piece, as servers send it that never stream. An error may come with status 200.
func (a *answer) complete(body []byte) error {
	d := &a.events
	d.whole = true
	err := d.decode(body)
	a.Usage = d.usage
	switch {
	case err == errReported:
		return a.Server.Failed(body)
	case err == nil && !d.chosen:
		err = errors.New("no choices")
	}
	if err != nil {
		return a.Server.NotAnswer("a chat completion", err, body)
	}
	if d.finish == "" || d.finish == "null" { // so some servers say that it goes on
		return a.Server.Broken(a.Ctx, nil)
	}
	a.Finish = finishReason(d.finish)
	return a.pass()
}

// last passes on what was held back until the end.
func (a *answer) last() error {
	a.events.finishText()
	if err := a.pass(); err != nil {
		return err
	}
	if err := a.passSound(); err != nil {
		return err
	}
	if err := a.passBeside(); err != nil {
		return err
	}
	a.Refused = a.events.refused
	a.SetFinish(len(a.events.calls))
	return nil
}

// pass passes on what the decoder has found.
func (a *answer) pass() error {
	for i := range a.events.chunks {
		if !a.Pass(a.events.chunks[i]) {
			return wire.ErrLeft
		}
	}
	return nil
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
