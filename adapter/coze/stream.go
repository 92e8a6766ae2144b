package coze

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// deltaEvent is the type of nearly all events.
const deltaEvent = "conversation.message.delta"

const (
	maxCalls    = 1024 // tools that one answer may call
	maxMessages = 1024 // that one answer may have
)

// errMany says that an answer is larger than any that is meant.
var errMany = errors.New("the answer has too many messages or calls")

// answer reads one answer.
type answer struct {
	*wire.Answer // nil until it has begun
	m            *model

	conversation, chat string // once they are known
	over               bool   // the chat, as far as Coze is concerned

	event    event
	kind     string              // of the last event that had one
	messages map[string]*written // of the answer, so far, by their ids
	current  *written            // the one that is being written
	text     wire.Text           // of that
	thought  wire.Text
	wrote    bool // there is text
	answered bool // a message was complete
	calls    []call
}

// written is a message that the answer consists of.
type written struct {
	text, thought bool // came in pieces
	started       bool // has text that is not white space
}

// call is a call of the answer.
type call struct {
	id, name, arguments string
	answered            bool // by Coze, or wanted from us
}

// post sends a request, and returns the answer once it has begun. Errors are those of an answer that is none.
func (m *model) post(ctx context.Context, url string, request any, req *adapter.Request) (*http.Response, error) {
	p := m.p
	write := func() ([]byte, error) { return wire.Body(request, req.ExtraBody) }
	res, err := p.Ask(ctx, new(wire.Fallbacks), url, "text/event-stream", write, nil)
	if err != nil {
		return nil, err
	}
	if err := p.checkStart(ctx, res); err != nil {
		res.Body.Close()
		return nil, err
	}
	return res, nil
}

// checkStart looks at an answer of status 200: Coze reports most errors by such an answer, whose body is JSON with a code.
func (p *provider) checkStart(ctx context.Context, res *http.Response) error {
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "text/event-stream" || kind == "" {
		return nil
	}
	said := wire.Said(res.Body)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case codeOf(said) != 0:
		return p.Refused(&wire.Refusal{Status: http.StatusOK, Header: res.Header, Body: said})
	}
	return p.Unknown(res.Header, said, "an event stream", "check the base URL")
}

// stop cancels a chat that may still run at Coze.
func (a *answer) stop(ctx context.Context) {
	if !a.over && a.conversation != "" && a.chat != "" {
		a.m.p.cancelChat(ctx, a.conversation, a.chat)
	}
}

// read passes on an answer.
func (a *answer) read(w *wire.Answer) error {
	defer a.stop(w.Ctx)
	a.Answer = w
	a.Last = a.last
	return a.Events(a.readEvent)
}

// last passes on what was held back of a character, and the calls without a result: Coze does not always say what came of one.
func (a *answer) last() error {
	if err := a.flush(); err != nil {
		return err
	}
	for i := range a.calls {
		if !a.calls[i].answered {
			if err := a.emitToolResult(i, "", true); err != nil {
				return err
			}
		}
	}
	return nil
}

// readEvent passes on what an event has. Both are only lent. done says that it is the last.
func (a *answer) readEvent(kind, data []byte) (done bool, err error) {
	switch {
	case len(kind) > 0:
		if string(kind) != a.kind {
			a.kind = string(kind)
		}
	case len(data) == 0:
		return false, nil // a ping
	case string(bytes.Trim(data, `"`)) == "[DONE]":
		a.kind = "done"
	}
	// An event without a type is of the type of the one before it, as Coze's own clients have it.
	switch a.kind {
	case deltaEvent, "conversation.message.completed":
		if err := a.event.decode(data); err != nil {
			return false, err
		}
		if a.kind == deltaEvent {
			return false, a.delta()
		}
		return false, a.message()
	case "conversation.chat.created", "conversation.chat.in_progress", "conversation.chat.completed",
		"conversation.chat.failed", "conversation.chat.requires_action", "conversation.chat.canceled":
		if err := a.event.decode(data); err != nil {
			return false, err
		}
		err := a.state(data)
		return a.Finish != "", err
	case "error":
		a.over = true
		return false, a.m.p.failed(http.StatusOK, codeOf(data), data, a.Res.Header)
	case "done":
		if !a.answered && len(a.messages) == 0 {
			return false, a.m.p.Broken(a.Ctx, errors.New("done before there was an answer"))
		}
		a.over, a.Finish = true, adapter.FinishStop
		return true, nil
	}
	return false, nil
}

// state takes what has become of the chat.
func (a *answer) state(data []byte) error {
	e := &a.event
	if a.chat == "" {
		a.chat, a.conversation = string(e.id), string(e.conversation) // digits
	}
	switch a.kind {
	case "conversation.chat.completed":
		a.over, a.Finish, a.Usage = true, adapter.FinishStop, e.tokens()
	case "conversation.chat.requires_action":
		a.over, a.Finish, a.Usage = true, adapter.FinishStop, e.tokens()
		return a.action()
	case "conversation.chat.failed":
		a.over = true
		return a.m.p.failed(http.StatusOK, codeOf(e.lastError), data, a.Res.Header)
	case "conversation.chat.canceled":
		a.over = true
		return &adapter.Error{
			Code: adapter.CodeProtocol, Message: "the chat was canceled at the model's server",
			Cause: errors.New("reported: " + a.m.p.Redact(data)),
		}
	}
	return nil
}

// delta yields a piece of an answer.
func (a *answer) delta() error {
	if !a.event.isText() {
		return nil
	}
	if err := a.selectMessage(); err != nil {
		return err
	}
	return a.piece()
}

// selectMessage makes the event's message the one that is being written. Messages may take turns.
func (a *answer) selectMessage() error {
	m := a.messages[string(a.event.id)]
	if m == nil {
		if len(a.messages) == maxMessages {
			return errMany
		}
		m = new(written)
		a.messages[string(a.event.id)] = m
	}
	if m == a.current {
		return nil
	}
	err := a.flush()
	a.current = m
	return err
}

// piece yields the event's text and reasoning.
func (a *answer) piece() error {
	m := a.current
	m.text, m.thought = m.text || len(a.event.content) > 0, m.thought || len(a.event.reasoning) > 0
	text, err := a.text.Next(a.event.content)
	if err != nil {
		return err
	}
	thought, err := a.thought.Next(a.event.reasoning)
	if err != nil {
		return err
	}
	return a.emit(text, thought)
}

// flush yields what was held back of a character, which will not be finished any more.
func (a *answer) flush() error { return a.emit(a.text.Rest(), a.thought.Rest()) }

// emit yields a part of the message that is being written. Its text begins with what is not white space; a blank line is between two messages.
func (a *answer) emit(text, thought string) error {
	if text != "" && !a.current.started {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		a.current.started = text != ""
		if text != "" && a.wrote {
			text = "\n\n" + text
		}
		a.wrote = a.wrote || text != ""
	}
	if text == "" && thought == "" {
		return nil
	}
	return a.Yield(adapter.Chunk{Text: text, Reasoning: thought})
}

// message takes one that is complete. Of an answer it has all that came in pieces before.
func (a *answer) message() error {
	switch string(a.event.kind) {
	case "answer":
		a.answered = true
		if !a.event.isText() {
			return nil
		}
		if err := a.selectMessage(); err != nil {
			return err
		}
		if a.current.text {
			a.event.content = nil
		}
		if a.current.thought {
			a.event.reasoning = nil
		}
		if err := a.piece(); err != nil {
			return err
		}
		return a.flush()
	case "function_call":
		return a.called()
	case "tool_response", "tool_output":
		return a.result()
	}
	return nil // knowledge, verbose, suggestions
}

// called takes a call that the bot makes, of a tool of Coze's or of ours. Which of them it is shows later; and so the id comes with
// the result, or with Coze's request for it, which has another id.
func (a *answer) called() error {
	f, ok := a.event.call()
	if !ok {
		return nil // it is not known what is called
	}
	if len(a.calls) == maxCalls {
		return errMany
	}
	a.calls = append(a.calls, call{id: string(a.event.id), name: f.Name, arguments: f.arguments()})
	return a.Yield(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: len(a.calls) - 1, Name: f.Name, Arguments: f.arguments()}})
}

// result takes what came of a call that Coze has made. Results come in the order of the calls, and name none.
func (a *answer) result() error {
	i := slices.IndexFunc(a.calls, func(c call) bool { return !c.answered })
	if i < 0 {
		return nil
	}
	content, err := wire.Unescape(a.event.content)
	if err != nil {
		return err
	}
	return a.emitToolResult(i, content, false)
}

// emitToolResult yields the result of a call that Coze has made.
func (a *answer) emitToolResult(i int, content string, failed bool) error {
	c := &a.calls[i]
	c.answered = true
	return a.Yield(adapter.Chunk{
		ToolCall:   &adapter.ToolCall{Index: i, ID: c.id},
		ToolResult: &adapter.ToolResult{Index: i, ID: c.id, Content: content, Failed: failed},
	})
}

// action takes the calls that Coze asks us to make. Most of them were shown before, without the id that belongs to their output.
func (a *answer) action() error {
	wanted := a.event.wanted()
	if len(wanted) == 0 { // the bot asks the user something; a call that has led to it waits for the reply
		return a.suspend()
	}
	chat := &chat{bot: a.m.name, conversation: a.conversation, id: a.chat}
	for _, w := range wanted {
		name, arguments := w.Function.Name, w.Function.arguments()
		part := adapter.ToolCall{ID: w.ID}
		part.Index = slices.IndexFunc(a.calls, func(c call) bool {
			return !c.answered && c.name == name && rawjson.Same([]byte(c.arguments), []byte(arguments))
		})
		if part.Index < 0 {
			part.Index = slices.IndexFunc(a.calls, func(c call) bool { return !c.answered && c.name == name })
		}
		if part.Index < 0 {
			part.Index, part.Name, part.Arguments = len(a.calls), name, arguments
			a.calls = append(a.calls, call{name: name, arguments: arguments})
		}
		a.calls[part.Index].answered = true
		chat.calls = append(chat.calls, w.ID)
		if !a.Pass(adapter.Chunk{ToolCall: &part}) {
			return wire.ErrLeft
		}
	}
	a.Finish = adapter.FinishToolCalls
	a.m.p.addWaiting(chat)
	return nil
}

// suspend leaves the calls that have no result without one.
func (a *answer) suspend() error {
	for i := range a.calls {
		c := &a.calls[i]
		if c.answered {
			continue
		}
		c.answered = true
		if !a.Pass(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, ID: c.id}}) {
			return wire.ErrLeft
		}
	}
	return nil
}
