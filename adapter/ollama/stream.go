package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// drain is how long the end of a body is waited for after the last line, so that its connection can be used again.
const drain = 10 * time.Millisecond

// errEnough ends a request whose answer is complete.
var errEnough = errors.New("the answer is complete")

// errLeft says that the reader has left its loop.
var errLeft = errors.New("the reader has left")

// answer reads one answer.
type answer struct {
	m      *model
	ctx    context.Context
	cancel context.CancelCauseFunc
	yield  func(adapter.Chunk, error) bool
	res    *http.Response

	lines lines
	said  decoder
	began bool // a chunk was yielded
}

// read yields the answer. It returns the error that is to be the last pair; nil when the answer is complete, errLeft when the
// reader has left.
func (a *answer) read() error {
	switch kind, _, _ := mime.ParseMediaType(a.res.Header.Get("Content-Type")); kind {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json", "": // servers like Ollama say what they like
	default:
		return a.unknown()
	}
	a.lines = lines{r: a.res.Body, max: a.m.p.MaxEvent}
	a.said.init()
	for {
		line, whole, err := a.lines.next()
		if err != nil {
			return a.broken(err)
		}
		if done, err := a.take(line, whole); err != nil || done {
			return err
		}
	}
}

// take yields what a line has; done says that it was the last.
func (a *answer) take(line []byte, whole bool) (done bool, err error) {
	d := &a.said
	if !whole && !json.Valid(line) {
		return false, a.broken(a.lines.err)
	}
	if err := d.decode(line); err != nil {
		return false, a.refuse(line, err)
	}
	if !a.passContent() {
		return false, errLeft
	}
	if !d.done {
		return false, nil
	}
	return true, a.end()
}

// refuse makes the error of a line that is no piece of an answer.
func (a *answer) refuse(line []byte, err error) error {
	if err == errReported {
		return a.m.failed(line)
	}
	return &adapter.Error{
		Code:    adapter.CodeProtocol,
		Message: a.m.p.Name() + " sent an invalid piece of an answer",
		Cause:   fmt.Errorf("%w: %s", err, a.m.p.Redact(line)),
	}
}

// end yields what an answer ends with: what was held back of a character, the counts and the reason.
func (a *answer) end() error {
	d := &a.said
	last := adapter.Chunk{Usage: d.usage, Finish: finishReason(d.reason)}
	if last.Finish == adapter.FinishStop && d.called > 0 {
		last.Finish = adapter.FinishToolCalls
	}
	d.rest()
	if !a.passContent() || !a.pass(last) {
		return errLeft
	}
	if a.lines.err == nil {
		timer := time.AfterFunc(drain, func() { a.cancel(errEnough) })
		defer timer.Stop()
		io.Copy(io.Discard, io.LimitReader(a.res.Body, 4<<10)) // what comes after the last line does not matter
	}
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
	d := &a.said
	if (d.text != "" || d.reasoning != "") && !a.pass(adapter.Chunk{Text: d.text, Reasoning: d.reasoning}) {
		return false
	}
	for _, call := range d.calls {
		if !a.pass(adapter.Chunk{ToolCall: &call}) {
			return false
		}
	}
	return true
}

// pass yields a chunk; false when the reader has left.
func (a *answer) pass(c adapter.Chunk) bool {
	if !a.began {
		a.began = true
		c.Model = a.m.p.Prefix + ":" + a.m.name
	}
	return a.yield(c, nil)
}

// broken makes the error of an answer that ended without its last line.
func (a *answer) broken(err error) error {
	switch err {
	case errLong:
		return &adapter.Error{
			Code:    adapter.CodeProtocol,
			Message: a.m.p.Name() + " sent a line that is larger than allowed",
			Cause:   fmt.Errorf("a line of more than %d bytes", a.m.p.MaxEvent),
		}
	case io.EOF:
		err = nil
	}
	return a.m.p.Broken(a.ctx, err)
}

// unknown is the error of an answer that is of no kind that Ollama gives.
func (a *answer) unknown() error {
	said := wire.Said(a.res.Body)
	return &adapter.Error{
		Code: adapter.CodeProtocol, Status: http.StatusOK,
		Message: a.m.p.Name() + " did not answer with lines of JSON: check that it is Ollama's address",
		Cause:   fmt.Errorf("Content-Type %q: %s", a.m.p.Redact([]byte(a.res.Header.Get("Content-Type"))), a.m.p.Redact(said)),
	}
}
