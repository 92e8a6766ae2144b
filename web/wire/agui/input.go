package agui

import (
	"encoding/json"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/request"
)

// Input is what a client asks for: a RunAgentInput, as far as it means something here. Members that are not known are passed
// over, because clients are newer than servers; an optional one that is null counts as left out, as older clients write it.
type Input struct {
	Thread, Run, Parent string
	Version             string // of the protocol; "" is a client from before 1.0

	// Text is the new message: the user's message after which only instructions follow. Asks reports whether there is one, and At is its place.
	Text  string
	Asks  bool
	At    string
	Files []adapter.Part // images and files beside the text
	// Said are the messages before that, of User and Assistant.
	Said []adapter.Message
	// Instructions are what messages of the system and of developers say, and what the client adds as context.
	Instructions string

	State  json.RawMessage // may be nil
	Tools  []string        // names of those that the client has
	Props  map[string]json.RawMessage
	Resume []agent.Answer // whose ids are those of interrupts, see ParseQuestion
}

// Bounds of what an input may have. They only have to be larger than anything sensible.
const (
	maxID     = 512 // bytes of an id
	maxReason = 1024
)

// Read reads an input, and returns what in it does not fit. A text that is not JSON does not fit either.
func Read(text []byte) (*Input, []run.Field) {
	in, r := new(Input), &reader{Decoder: request.Decoder{Lenient: true}}
	var messages []json.RawMessage
	var context []string
	r.Object("", text, request.Fields{
		"threadId":        func(at string, raw json.RawMessage) { in.Thread = r.id(at, raw) },
		"runId":           func(at string, raw json.RawMessage) { in.Run = r.id(at, raw) },
		"parentRunId":     request.Optional(func(at string, raw json.RawMessage) { in.Parent = r.id(at, raw) }),
		"protocolVersion": request.Optional(func(at string, raw json.RawMessage) { in.Version = r.String(at, raw) }),
		"state":           request.Optional(func(_ string, raw json.RawMessage) { in.State = raw }),
		"messages":        func(at string, raw json.RawMessage) { r.As(at, raw, '[', "an array", &messages) },
		"tools": request.Optional(func(at string, raw json.RawMessage) {
			r.Array(at, raw, func(at string, raw json.RawMessage) {
				r.Object(at, raw, request.Fields{
					"name": func(at string, raw json.RawMessage) { in.Tools = append(in.Tools, r.String(at, raw)) },
				}, "name")
			})
		}),
		"context": request.Optional(func(at string, raw json.RawMessage) {
			r.Array(at, raw, func(at string, raw json.RawMessage) {
				about, value := "", ""
				r.Object(at, raw, request.Fields{
					"description": func(at string, raw json.RawMessage) { about = r.String(at, raw) },
					"value":       func(at string, raw json.RawMessage) { value = r.String(at, raw) },
				}, "description", "value")
				context = append(context, strings.TrimPrefix(about+": "+value, ": "))
			})
		}),
		"forwardedProps": func(at string, raw json.RawMessage) {
			if raw[0] == '{' { // any other value is the application's, and means nothing here
				r.As(at, raw, '{', "an object", &in.Props)
			}
		},
		"resume": request.Optional(func(at string, raw json.RawMessage) {
			r.Array(at, raw, func(at string, raw json.RawMessage) { in.Resume = append(in.Resume, r.answer(at, raw)) })
		}),
	}, "threadId", "runId", "messages")
	in.messages(r, messages)
	in.Instructions = strings.TrimPrefix(strings.Join(append([]string{in.Instructions}, context...), "\n\n"), "\n\n")
	in.Files = r.files
	return in, r.Faults
}

// messages finds the new message, those before it, and the instructions of the system and of developers.
func (in *Input) messages(r *reader, list []json.RawMessage) {
	type message struct {
		role    string // one that is not known is passed over
		content json.RawMessage
	}
	read := make([]message, len(list))
	last := -1 // message of the user without an answer
	for i, raw := range list {
		m := &read[i]
		r.Object(request.Item("/messages", i), raw, request.Fields{
			"role":    func(at string, raw json.RawMessage) { m.role = r.String(at, raw) },
			"content": request.Optional(func(_ string, raw json.RawMessage) { m.content = raw }),
		}, "role")
		switch m.role {
		case User:
			last = i
		case Assistant, Tool:
			last = -1
		}
	}
	var earlier []adapter.Message
	for i, m := range read {
		at := request.Item("/messages", i) + "/content"
		switch m.role {
		case User, Assistant, system, developer:
			if i == last {
				in.Text, in.Asks, in.At = r.text(at, m.content, true), true, at
				continue
			}
			if m.role == developer {
				m.role = system
			}
			earlier = append(earlier, adapter.Message{Role: m.role, Content: r.text(at, m.content, false)})
		}
	}
	in.Instructions, in.Said = request.Conversation(earlier)
}

// reader reads the members of an input.
type reader struct {
	request.Decoder
	files []adapter.Part // of the new message
}

// id reads a string that is the id of something.
func (r *reader) id(at string, raw json.RawMessage) string {
	var s string
	if r.As(at, raw, '"', "a string", &s) && (s == "" || len(s) > maxID) {
		r.Fail(at, "expected 1 to %d bytes, found %d", maxID, len(s))
		return ""
	}
	return s
}

// text takes the content of a message: a string, or parts. Images and files are read in the new message, and left out of those before
// it.
func (r *reader) text(at string, raw json.RawMessage, now bool) string {
	if len(raw) == 0 || raw[0] != '[' {
		if raw == nil && !now {
			return ""
		}
		return r.String(at, raw)
	}
	var texts []string
	r.Array(at, raw, func(at string, part json.RawMessage) {
		kind, text := "", ""
		r.Object(at, part, request.Fields{
			"type": func(at string, raw json.RawMessage) { kind = r.String(at, raw) },
			"text": func(at string, raw json.RawMessage) { text = r.String(at, raw) },
		}, "type")
		switch {
		case kind == "text":
			texts = append(texts, text)
		case now && kind != "":
			p, inside, detail := mediapart.Read(part)
			if detail != "" {
				r.Fail(at+inside, "%s", detail)
			}
			r.files = append(r.files, p)
		}
	})
	return strings.Join(texts, "\n")
}

// answer reads an answer to a question. To abandon a question is not to approve.
func (r *reader) answer(at string, raw json.RawMessage) (a agent.Answer) {
	status := ""
	var payload json.RawMessage
	r.Object(at, raw, request.Fields{
		"interruptId": func(at string, raw json.RawMessage) { a.ID = r.String(at, raw) },
		"status": func(at string, raw json.RawMessage) {
			if r.As(at, raw, '"', "a string", &status) && status != "resolved" && status != "cancelled" {
				r.Fail(at, "expected resolved or cancelled")
			}
		},
		"payload": request.Optional(func(_ string, raw json.RawMessage) { payload = raw }),
	}, "interruptId", "status")
	at += "/payload"
	switch {
	case status == "cancelled":
		a.Reason = "canceled without a decision"
	case status != "resolved":
	case payload == nil:
		r.Fail(at, "expected an object with approved, true or false")
	case payload[0] == 't' || payload[0] == 'f':
		a.Approve = payload[0] == 't'
	default:
		r.Object(at, payload, request.Fields{
			"approved": func(at string, raw json.RawMessage) {
				a.Approve = r.Bool(at, raw)
			},
			"reason": request.Optional(func(at string, raw json.RawMessage) {
				if a.Reason = r.String(at, raw); len(a.Reason) > maxReason {
					r.Fail(at, "expected at most %d bytes, found %d", maxReason, len(a.Reason))
				}
			}),
			"remember": request.Optional(func(at string, raw json.RawMessage) {
				if a.Remember = r.String(at, raw) == "session"; !a.Remember && raw[0] == '"' {
					r.Fail(at, "expected session")
				}
			}),
		}, "approved")
	}
	return a
}
