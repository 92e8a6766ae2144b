package openai

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/tmaxmax/go-sse"
)

const (
	// linger is how long an answer that has a finish_reason is still read, for the usage and [DONE].
	linger = 3 * time.Second
	// drain is how long the end of a body is waited for after [DONE], so that its connection can be used again.
	drain = 10 * time.Millisecond
)

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

	events decoder
	began  bool // a chunk was yielded
	usage  *adapter.Usage
	finish string
	timer  *time.Timer // of linger and drain
}

// stop ends what may still run.
func (a *answer) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// read yields the answer. It returns the error that is to be the last pair; nil when the answer is complete or the reader has
// left.
func (a *answer) read() error {
	var err error
	switch a.kind() {
	case "text/event-stream", "": // some servers send no type
		err = a.stream()
	case "application/json":
		err = a.whole()
	default:
		err = a.unknown()
	}
	if err == errLeft {
		return nil
	}
	return err
}

func (a *answer) kind() string {
	kind, _, _ := mime.ParseMediaType(a.res.Header.Get("Content-Type"))
	return kind
}

// unknown is the error of an answer that is of no kind that a model gives.
func (a *answer) unknown() error {
	said := wire.Said(a.res.Body)
	return &adapter.Error{
		Code: adapter.CodeProtocol, Status: http.StatusOK,
		Message: a.m.p.Name() + " answered with something else than an event stream: check the base URL (most end in /v1)",
		Cause:   fmt.Errorf("Content-Type %q: %s", a.m.p.Redact([]byte(a.res.Header.Get("Content-Type"))), a.m.p.Redact(said)),
	}
}

// stream yields the events of a stream.
func (a *answer) stream() error {
	a.events.init()
	done, broken, err := a.eventsOf(a.res.Body)
	if err != nil {
		return err
	}
	return a.complete(done, broken)
}

// complete ends a stream: with what an answer ends with, or with the error that it is not complete.
func (a *answer) complete(done bool, broken error) error {
	switch {
	case done && a.finish == "":
		a.finish = adapter.FinishStop // of servers that send none at all: [DONE] says that nothing is missing
	case a.finish != "": // complete, whatever happened to the rest
	case errors.Is(broken, bufio.ErrTooLong):
		return &adapter.Error{
			Code:    adapter.CodeProtocol,
			Message: a.m.p.Name() + " sent an event that is larger than allowed",
			Cause:   fmt.Errorf("an event of more than %d bytes", a.m.p.maxEvent),
		}
	default:
		return a.m.p.Broken(a.ctx, broken)
	}
	if err := a.end(); err != nil {
		return err
	}
	if done {
		a.wait(drain)
		io.Copy(io.Discard, io.LimitReader(a.res.Body, 4<<10)) // what comes after [DONE] does not matter
	}
	return nil
}

// eventsOf yields the events of a body, up to [DONE]. broken is the error that ended the stream, err the one that an event
// tells of.
func (a *answer) eventsOf(body io.Reader) (done bool, broken, err error) {
	plain := wire.NewFrames(body)
	for {
		kind, data, ok := plain.Next()
		if !ok {
			break
		}
		if len(kind) == 0 && a.events.glance(data) {
			if !a.passContent() {
				return false, nil, errLeft
			}
			continue
		}
		if done, err := a.takeData(kind, data); done || err != nil {
			return done, nil, err
		}
	}
	return a.allEventsOf(plain.Remaining())
}

// allEventsOf does the same with the whole grammar of SSE.
func (a *answer) allEventsOf(body io.Reader) (done bool, broken, err error) {
	// One byte more, so that an event of exactly MaxEvent bytes is taken.
	for event, err := range sse.Read(wire.Lines(body), &sse.ReadConfig{MaxEventSize: a.m.p.maxEvent + 1}) {
		if err != nil {
			return false, err, nil
		}
		if done, err := a.take(event); done || err != nil {
			return done, nil, err
		}
	}
	return false, nil, nil
}

// takeData is take for an event that was read in place. What it needs is not on the stack while events are waited for.
//
//go:noinline
func (a *answer) takeData(kind, data []byte) (done bool, err error) {
	return a.take(sse.Event{Type: string(kind), Data: string(data)})
}

// take yields what an event has; done says that it is the last.
func (a *answer) take(event sse.Event) (done bool, err error) {
	if strings.HasPrefix(event.Data, "[DONE]") {
		return true, nil
	}
	return false, a.event(event)
}

// event yields what an event has.
func (a *answer) event(event sse.Event) error {
	if event.Data == "" {
		return nil // a ping
	}
	d := &a.events
	if event.Type == "error" {
		return a.m.p.Failed([]byte(event.Data))
	}
	if err := d.decode(event.Data); err != nil {
		if err == errReported {
			return a.m.p.Failed([]byte(event.Data))
		}
		return &adapter.Error{
			Code:    adapter.CodeProtocol,
			Message: a.m.p.Name() + " sent something that is not a piece of an answer",
			Cause:   fmt.Errorf("%w: %s", err, a.m.p.Redact([]byte(event.Data))),
		}
	}
	if !a.passContent() {
		return errLeft
	}
	if d.usage != nil {
		a.usage = d.usage
	}
	if d.finish != "" && a.finish == "" {
		if broke(d.finish) {
			e := a.m.p.Failed([]byte(event.Data))
			if e.Code == adapter.CodeProtocol { // it says no more than that
				e.Code, e.Retryable = adapter.CodeUnavailable, true
				e.Message = a.m.p.Name() + " broke off the answer because it failed or is overloaded: try again later"
			}
			return e
		}
		a.finish = finishReason(d.finish)
		a.wait(linger)
	}
	return nil
}

// end yields what an answer ends with: what was held back of a character, the usage and the reason.
func (a *answer) end() error {
	a.events.rest()
	if !a.passContent() {
		return errLeft
	}
	if a.finish == adapter.FinishStop && len(a.events.calls) > 0 {
		a.finish = adapter.FinishToolCalls // some servers say stop whatever they stop for
	}
	if !a.pass(adapter.Chunk{Usage: a.usage, Finish: a.finish}) {
		return errLeft
	}
	if a.finish == adapter.FinishContentFilter {
		return &adapter.Error{Code: adapter.CodeProtocol, Message: wire.ContentFilter, Cause: errors.New("finish_reason content_filter")}
	}
	return nil
}

// passContent yields what the decoder has found of content; false when the reader has left.
func (a *answer) passContent() bool {
	d := &a.events
	if d.text != "" && d.reasoning != "" { // thinking comes before what it leads to
		if !a.pass(adapter.Chunk{Reasoning: d.reasoning}) {
			return false
		}
		d.reasoning = ""
	}
	if (d.text != "" || d.reasoning != "") && !a.pass(adapter.Chunk{Text: d.text, Reasoning: d.reasoning}) {
		return false
	}
	for _, part := range d.parts {
		if !a.pass(adapter.Chunk{ToolCall: &part}) {
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

// wait ends the request after d, because the answer is complete.
func (a *answer) wait(d time.Duration) {
	if a.timer == nil {
		a.timer = time.AfterFunc(d, func() { a.cancel(errEnough) })
	} else {
		a.timer.Reset(d)
	}
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
