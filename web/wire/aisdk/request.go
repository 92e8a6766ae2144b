package aisdk

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/request"
)

// Request is what a chat asks for.
type Request struct {
	Chat       string            // the chat's id
	Text       string            // what the user says
	Last       int               // the number of the message that says it
	Input      json.RawMessage   // what a workflow is to have in its place; nil for none
	Regenerate bool              // another answer to the last message is wanted
	Before     []adapter.Message // the messages before, as the chat has them
	System     string            // what its program instructs
	Files      []adapter.Part    // beside the text

	// Where the client answers questions and says nothing new: the message whose questions they are, and the answers.
	Message string
	Answers []agent.Answer
}

// Bounds of the messages before. They are needed for a chat that the server knows nothing of yet, and the rest of a long one does
// little harm there.
const (
	maxBefore      = 1000
	maxBeforeBytes = 512 << 10
)

// inputMessage is a UIMessage of a request.
type inputMessage struct {
	ID    string
	Role  string
	Parts []inputPart
}

type inputPart struct {
	Type     string
	Text     string
	State    string
	Approval *struct {
		ID       string
		Approved *bool
		Reason   string
	}
	raw json.RawMessage // of an image or a file, which another package reads
}

// UnmarshalJSON keeps the text of an image or a file.
func (p *inputPart) UnmarshalJSON(text []byte) error {
	type plain inputPart
	err := json.Unmarshal(text, (*plain)(p))
	if mediapart.IsMedia(p.Type) {
		p.raw = bytes.Clone(text)
	}
	return err
}

// body is the body of a request. Other members are ignored: programs send their own.
type body struct {
	ID       string            `field:"id,required"`
	Trigger  string            `field:"trigger" words:"submit-message regenerate-message"`
	Input    json.RawMessage   `field:"input"`
	Messages []json.RawMessage `field:"messages,required"`
}

// Read reads a request's body, which is JSON, and returns what in it does not fit.
func Read(text []byte) (*Request, []run.Field) {
	d := request.Decoder{Lenient: true}
	var b body
	d.Read("", text, &b)
	r := &Request{Chat: b.ID, Regenerate: b.Trigger == "regenerate-message", Input: b.Input}
	list := make([]inputMessage, len(b.Messages))
	for i, raw := range b.Messages {
		// One pass over a message's members is enough: a chat may be long, and its messages come from a program.
		if json.Unmarshal(raw, &list[i]) != nil {
			d.Fail(request.Item("/messages", i), "expected a message of the AI SDK: an id, a role and parts")
		} else if !slices.Contains([]string{roleUser, roleAssistant, roleSystem}, list[i].Role) {
			d.Fail(request.Item("/messages", i)+"/role", "expected user, assistant or system")
		}
	}
	switch {
	case len(d.Faults) > 0:
	case r.Chat == "" || len(list) == 0:
		d.Fail("", "expected the chat's id and at least one message")
	default:
		r.read(&d, list)
	}
	return r, d.Faults
}

// read finds the new message and those before it.
func (r *Request) read(d *request.Decoder, list []inputMessage) {
	last := len(list) - 1
	now, at := list[last], request.Item("/messages", last)
	if now.Role == roleAssistant {
		r.Message = now.ID
		for _, p := range now.Parts {
			if a := p.Approval; p.State == "approval-responded" && a != nil && a.Approved != nil {
				r.Answers = append(r.Answers, agent.Answer{ID: a.ID, Approve: *a.Approved, Reason: a.Reason})
			}
		}
		if len(r.Answers) == 0 {
			d.Fail(at, "is an assistant message without an answer to a question; expected a user message at the end")
		} else if r.Message == "" {
			d.Fail(at+"/id", "expected the message's id")
		}
		return
	}
	if now.Role != roleUser {
		d.Fail(at, "expected a message of the user at the end")
		return
	}
	for i, p := range now.Parts {
		if p.raw == nil {
			continue
		}
		part, inside, detail := mediapart.Read(p.raw)
		if detail != "" {
			d.Fail(request.Item(at+"/parts", i)+inside, "%s", detail)
		}
		r.Files = append(r.Files, part)
	}
	r.Last = last
	if r.Text = now.text(); r.Text == "" && r.Input == nil && len(r.Files) == 0 {
		d.Fail(at, "is empty; expected text")
	}
	var messages []adapter.Message
	for _, m := range list[:last] {
		messages = append(messages, adapter.Message{Role: m.Role, Content: m.text()})
	}
	r.System, r.Before = request.Conversation(messages)
	size := 0
	for i, m := range slices.Backward(r.Before) {
		if size += len(m.Content); size > maxBeforeBytes || len(r.Before)-i > maxBefore {
			r.Before = r.Before[i+1:]
			break
		}
	}
}

// text is what a message says.
func (m inputMessage) text() string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == "text" && strings.TrimSpace(p.Text) != "" {
			texts = append(texts, p.Text)
		}
	}
	if m.Role == roleAssistant {
		return strings.Join(texts, "") // as its parts were made of one text
	}
	return strings.Join(texts, "\n\n")
}
