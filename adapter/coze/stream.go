package coze

import (
	"bytes"
	"context"
	"encoding/json"
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

// asking is one request to Coze. It has no fallbacks.
type asking struct {
	wire.Fallbacks
	request any
	extra   map[string]json.RawMessage
}

// Write writes the request.
func (a *asking) Write() ([]byte, error) { return wire.Body(a.request, a.extra) }

// post sends a request, and returns the answer once it has begun. Errors are those of an answer that is none.
func (p *provider) post(ctx context.Context, url string, a *asking) (*http.Response, error) {
	res, err := p.Ask(ctx, url, a)
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
func (a *answer) read(w *wire.Answer) {
	defer a.stop(w.Ctx)
	a.Answer = w
	a.Last = a.last
	a.Events(a.readEvent)
}

// last passes on what was held back of a character, and the calls without a result: Coze does not always say what came of one.
func (a *answer) last() {
	a.flush()
	for i := range a.calls {
		if !a.calls[i].answered {
			a.emitToolResult(i, "", true)
		}
	}
}

// readEvent passes on what an event has. Both are only lent. done says that it is the last.
func (a *answer) readEvent(kind, data []byte) (done bool) {
	switch {
	case len(kind) > 0:
		a.kind = string(kind)
	case len(data) == 0:
		return false // a ping
	case string(bytes.Trim(data, `"`)) == "[DONE]":
		a.kind = "done"
	}
	// An event without a type is of the type of the one before it, as Coze's own clients have it.
	isMessage, isChat := a.kind == deltaEvent || a.kind == "conversation.message.completed", strings.HasPrefix(a.kind, "conversation.chat.")
	if isMessage || isChat {
		a.event = event{}
		if wire.Decode(data, &a.event) != nil {
			a.Fail(wire.ErrFormat)
			return false
		}
	}
	switch {
	case a.kind == deltaEvent:
		if a.event.isText() {
			a.selectMessage()
			a.piece()
		}
	case isMessage:
		a.message()
	case isChat:
		a.state(data)
	case a.kind == "error":
		a.over = true
		a.Fail(a.m.p.failed(http.StatusOK, codeOf(data), data, a.Res.Header))
	case a.kind == "done" && !a.answered && len(a.messages) == 0:
		a.CutOff(errors.New("done before there was an answer"))
	case a.kind == "done":
		a.over, a.Finish = true, adapter.FinishStop
	}
	return a.Finish != ""
}

// state takes what has become of the chat.
func (a *answer) state(data []byte) {
	e := &a.event
	if a.chat == "" {
		a.chat, a.conversation = e.ID, e.Conversation
	}
	switch a.kind {
	case "conversation.chat.completed":
		a.over, a.Finish, a.Usage = true, adapter.FinishStop, e.tokens()
	case "conversation.chat.requires_action":
		a.over, a.Finish, a.Usage = true, adapter.FinishStop, e.tokens()
		a.action()
	case "conversation.chat.failed":
		a.over = true
		a.Fail(a.m.p.failed(http.StatusOK, codeOf(e.LastError), data, a.Res.Header))
	case "conversation.chat.canceled":
		a.over = true
		a.Fail(&adapter.Error{
			Code: adapter.CodeProtocol, Message: "the chat was canceled at the model's server",
			Cause: errors.New("reported: " + a.m.p.Redact(data)),
		})
	}
}

// selectMessage makes the event's message the one that is being written. Messages may take turns.
func (a *answer) selectMessage() {
	m := a.messages[a.event.ID]
	if m == nil {
		a.Hold(wire.ItemSize)
		m = new(written)
		a.messages[a.event.ID] = m
	}
	if m != a.current {
		a.flush()
		a.current = m
	}
}

// piece passes on the event's text and reasoning.
func (a *answer) piece() {
	m := a.current
	m.text, m.thought = m.text || len(a.event.Content) > 0, m.thought || len(a.event.Reasoning) > 0
	a.emit(a.Next(&a.text, a.event.Content), a.Next(&a.thought, a.event.Reasoning))
}

// flush passes on what was held back of a character, which will not be finished any more.
func (a *answer) flush() { a.emit(a.text.Rest(), a.thought.Rest()) }

// emit passes on a part of the message that is being written. Its text begins with what is not white space; a blank line is between two messages.
func (a *answer) emit(text, thought string) {
	if text != "" && !a.current.started {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		a.current.started = text != ""
		if text != "" && a.wrote {
			text = "\n\n" + text
		}
		a.wrote = a.wrote || text != ""
	}
	a.Say(text, thought)
}

// message takes one that is complete. Of an answer it has all that came in pieces before.
func (a *answer) message() {
	switch a.event.Kind {
	case "answer":
		a.answered = true
		if !a.event.isText() {
			return
		}
		a.selectMessage()
		if a.current.text {
			a.event.Content = nil
		}
		if a.current.thought {
			a.event.Reasoning = nil
		}
		a.piece()
		a.flush()
	case "function_call":
		a.called()
	case "tool_response", "tool_output":
		a.result()
	}
	// Others are knowledge, verbose, suggestions.
}

// called takes a call that the bot makes, of a tool of Coze's or of ours. Which of them it is shows later; and so the id comes with
// the result, or with Coze's request for it, which has another id.
func (a *answer) called() {
	f, ok := a.event.call()
	if !ok {
		return // it is not known what is called
	}
	c := call{id: a.event.ID, name: f.Name, arguments: wire.ArgumentsText(f.Arguments)}
	a.calls = append(a.calls, c)
	a.Pass(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: len(a.calls) - 1, Name: c.name, Arguments: c.arguments}})
}

// result takes what came of a call that Coze has made. Results come in the order of the calls, and name none.
func (a *answer) result() {
	i := slices.IndexFunc(a.calls, func(c call) bool { return !c.answered })
	if i >= 0 {
		a.emitToolResult(i, a.Next(new(wire.Text), a.event.Content), false)
	}
}

// emitToolResult passes on the result of a call that Coze has made.
func (a *answer) emitToolResult(i int, content string, failed bool) {
	c := &a.calls[i]
	c.answered = true
	a.Pass(adapter.Chunk{
		ToolCall:   &adapter.ToolCall{Index: i, ID: c.id},
		ToolResult: &adapter.ToolResult{Index: i, ID: c.id, Content: content, Failed: failed},
	})
}

// action takes the calls that Coze asks us to make. Most of them were shown before, without the id that belongs to their output.
func (a *answer) action() {
	wanted := a.event.wanted()
	if len(wanted) == 0 { // the bot asks the user something; a call that has led to it waits for the reply
		a.suspend()
		return
	}
	chat := &chat{bot: a.m.name, conversation: a.conversation, id: a.chat}
	for _, w := range wanted {
		name, arguments := w.Function.Name, wire.ArgumentsText(w.Function.Arguments)
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
		a.Pass(adapter.Chunk{ToolCall: &part})
	}
	a.Finish = adapter.FinishToolCalls
	a.m.p.addWaiting(chat)
}

// suspend leaves the calls that have no result without one.
func (a *answer) suspend() {
	for i := range a.calls {
		if c := &a.calls[i]; !c.answered {
			c.answered = true
			a.Pass(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, ID: c.id}})
		}
	}
}
