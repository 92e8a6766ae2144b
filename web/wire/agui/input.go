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

// body is the body of a request.
type body struct {
	Thread   string          `field:"threadId,required" max:"512"`
	Run      string          `field:"runId,required" max:"512"`
	Parent   string          `field:"parentRunId" max:"512"`
	Version  string          `field:"protocolVersion"`
	State    json.RawMessage `field:"state"`
	Messages []struct {
		Role    string          `field:"role,required"` // an unknown one is ignored
		Content json.RawMessage `field:"content"`
	} `field:"messages,required"`
	Tools []struct {
		Name string `field:"name,required"`
	} `field:"tools"`
	Context []struct {
		Description string `field:"description,required"`
		Value       string `field:"value,required"`
	} `field:"context"`
	Props  json.RawMessage `field:"forwardedProps"`
	Resume []answer        `field:"resume"`
}

// answer is an answer to a question.
type answer struct {
	ID      string          `field:"interruptId,required"`
	Status  string          `field:"status,required" words:"resolved cancelled"`
	Payload json.RawMessage `field:"payload"`
}

// Read reads an input, and returns what in it does not fit. A text that is not JSON does not fit either.
func Read(text []byte) (*Input, []run.Field) {
	r := &reader{Decoder: request.Decoder{Lenient: true}}
	var b body
	r.Decoder.Read("", text, &b)
	in := &Input{Thread: b.Thread, Run: b.Run, Parent: b.Parent, Version: b.Version, State: b.State}
	for _, t := range b.Tools {
		in.Tools = append(in.Tools, t.Name)
	}
	if len(b.Props) > 0 && b.Props[0] == '{' { // any other value is the application's, and means nothing here
		r.Decoder.Read("/forwardedProps", b.Props, &in.Props)
	}
	for i, a := range b.Resume {
		in.Resume = append(in.Resume, r.answer(request.Item("/resume", i), a))
	}
	r.messages(in, &b)
	for _, c := range b.Context {
		in.Instructions += "\n\n" + strings.TrimPrefix(c.Description+": "+c.Value, ": ")
	}
	in.Instructions = strings.TrimPrefix(in.Instructions, "\n\n")
	return in, r.Faults
}

// reader makes an input of a body.
type reader struct{ request.Decoder }

// messages finds the new message, those before it, and the instructions of the system and of developers.
func (r *reader) messages(in *Input, b *body) {
	last := -1 // message of the user without an answer
	for i, m := range b.Messages {
		switch m.Role {
		case User:
			last = i
		case Assistant, Tool:
			last = -1
		}
	}
	var earlier []adapter.Message
	for i, m := range b.Messages {
		at := request.Item("/messages", i) + "/content"
		switch m.Role {
		case User, Assistant, system, developer:
			if i == last {
				in.Asks, in.At = true, at
				in.Text, in.Files = r.text(at, m.Content, true)
				continue
			}
			if m.Role == developer {
				m.Role = system
			}
			text, _ := r.text(at, m.Content, false)
			earlier = append(earlier, adapter.Message{Role: m.Role, Content: text})
		}
	}
	in.Instructions, in.Said = request.Conversation(earlier)
}

// text reads the content of a message: a string, or parts. Images and files are read in the new message, and left out of those before
// it.
func (r *reader) text(at string, raw json.RawMessage, isNew bool) (text string, files []adapter.Part) {
	if len(raw) == 0 || raw[0] != '[' {
		if raw != nil || isNew {
			r.Read(at, raw, &text)
		}
		return text, nil
	}
	var list []json.RawMessage
	var texts []string
	r.Read(at, raw, &list)
	for i, raw := range list {
		var part struct {
			Type string `field:"type,required"`
			Text string `field:"text"`
		}
		switch fits := r.Read(request.Item(at, i), raw, &part); {
		case !fits:
		case part.Type == "text":
			texts = append(texts, part.Text)
		case isNew:
			p, inside, detail := mediapart.Read(raw)
			if detail != "" {
				r.Fail(request.Item(at, i)+inside, "%s", detail)
			}
			files = append(files, p)
		}
	}
	return strings.Join(texts, "\n"), files
}

// answer reads an answer to a question. To abandon a question is not to approve.
func (r *reader) answer(at string, a answer) agent.Answer {
	made := agent.Answer{ID: a.ID}
	at += "/payload"
	switch {
	case a.Status == "cancelled":
		made.Reason = "canceled without a decision"
	case a.Status != "resolved":
	case a.Payload == nil:
		r.Fail(at, "expected an object with approved, true or false")
	case a.Payload[0] == 't' || a.Payload[0] == 'f':
		made.Approve = a.Payload[0] == 't'
	default:
		var decision struct {
			Approved bool   `field:"approved,required"`
			Reason   string `field:"reason"`
			Remember string `field:"remember" words:"session"`
		}
		if r.Read(at, a.Payload, &decision); len(decision.Reason) > maxReason {
			r.Fail(at+"/reason", "expected at most %d bytes, found %d", maxReason, len(decision.Reason))
		}
		made.Approve, made.Reason, made.Remember = decision.Approved, decision.Reason, decision.Remember != ""
	}
	return made
}

// maxReason bounds the reason of a denial, in bytes.
const maxReason = 1024
