package ollama

import (
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// answer reads one answer.
type answer struct {
	*wire.Answer
	m       *model
	decoder decoder
}

// read passes on an answer.
func (m *model) read(w *wire.Answer) error {
	a := &answer{Answer: w, m: m}
	a.Last = a.last
	a.decoder.init()
	switch a.Kind() {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json", "": // servers like Ollama say what they like
		return a.Lines(a.line)
	}
	return a.Unknown("lines of JSON", "check that it is Ollama's address")
}

// line passes on what a line has; done says that it is the last.
func (a *answer) line(line []byte) (done bool, err error) {
	d := &a.decoder
	switch err := d.decode(line); {
	case err == errReported:
		return false, a.m.failed(line)
	case err != nil:
		return false, err
	case !a.passContent():
		return false, wire.ErrLeft
	}
	if d.done {
		a.Usage, a.Finish = d.usage, finishReason(d.reason)
	}
	return d.done, nil
}

// last passes on what was held back of a character.
func (a *answer) last() error {
	a.decoder.rest()
	if !a.passContent() {
		return wire.ErrLeft
	}
	a.SetFinish(a.decoder.called)
	return nil
}

// finishReason maps Ollama's reasons to those that we have. "load" and "unload" are those of a request without messages.
func finishReason(reason string) string {
	if reason == "length" {
		return adapter.FinishLength
	}
	return adapter.FinishStop
}

// passContent yields what the decoder has found of content; false when the reader has left.
func (a *answer) passContent() bool {
	d := &a.decoder
	if (d.text != "" || d.reasoning != "") && !a.Pass(adapter.Chunk{Text: d.text, Reasoning: d.reasoning}) {
		return false
	}
	for _, call := range d.calls {
		if !a.Pass(adapter.Chunk{ToolCall: &call}) {
			return false
		}
	}
	return true
}
