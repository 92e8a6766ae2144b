package aisdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/mediapart"
)

// Request is what a chat asks for.
type Request struct {
	Chat       string          // the chat's id
	Text       string          // what the user says
	Last       int             // the number of the message that says it
	Input      json.RawMessage // what a workflow is to have in its place; nil for none
	Regenerate bool            // another answer to the last message is wanted
	Before     []Said          // what was said before, as the chat has it
	System     string          // what its program instructs
	Files      []adapter.Part  // beside the text

	// Where the client answers questions and says nothing new: the message whose questions they are, and the answers.
	Message string
	Answers []Answer
}

// Said is something that was said before.
type Said struct {
	Role string // "user" or "assistant"
	Text string
}

// Answer is the client's answer to a question.
type Answer struct {
	ID       string
	Approved bool
	Reason   string
}

// Misfit says what in a request does not fit.
type Misfit struct {
	Pointer string // JSON Pointer into the body
	Detail  string
}

func (m *Misfit) Error() string { return m.Pointer + ": " + m.Detail }

// Bounds of what was said before. It is needed for a chat that the server knows nothing of yet, and the rest of a long one does
// little harm there.
const (
	maxBefore      = 1000
	maxBeforeBytes = 512 << 10
)

// message is a UIMessage.
type message struct {
	ID    string
	Role  string
	Parts []part
}

type part struct {
	Type     string
	Text     string
	State    string
	Approval *struct {
		ID       string
		Approved *bool
		Reason   string
	}
	raw json.RawMessage // of an image or a file
}

// UnmarshalJSON keeps the text of an image or a file, which another package reads.
func (p *part) UnmarshalJSON(text []byte) error {
	type plain part
	err := json.Unmarshal(text, (*plain)(p))
	if mediapart.IsMedia(p.Type) {
		p.raw = bytes.Clone(text)
	}
	return err
}

// Elsewhere are members by which one says something to other resources of this server, and would be disappointed here. Other
// members are passed over: programs send what they like, and later versions of the SDK may, too.
var elsewhere = map[string]string{
	"agent":    "the path names the agent",
	"workflow": "the path names the workflow",
	"session":  "the chat's id is the session",
	"model":    "the agent or workflow chooses its model",
	"params":   "a chat does not support this; use POST /v1/runs",
	"options":  "a chat does not support this; use POST /v1/runs",
	"filter":   "a chat does not support this; use POST /v1/runs",
	"on_busy":  "a chat always queues messages; use POST /v1/runs for other policies",
}

// Read reads a request's body, which is JSON. The error is a *Misfit.
func Read(body []byte) (*Request, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return nil, &Misfit{"", "expected a JSON object with id and messages"}
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if why := elsewhere[name]; why != "" {
			return nil, &Misfit{"/" + name, "is not supported here: " + why}
		}
	}
	r := new(Request)
	if json.Unmarshal(members["id"], &r.Chat) != nil || r.Chat == "" {
		return nil, &Misfit{"/id", "expected the chat's id, a string"}
	}
	trigger := "submit-message"
	if raw, ok := members["trigger"]; ok && (json.Unmarshal(raw, &trigger) != nil || trigger != "submit-message" && trigger != "regenerate-message") {
		return nil, &Misfit{"/trigger", "expected submit-message or regenerate-message"}
	}
	r.Regenerate = trigger == "regenerate-message"
	if raw, ok := members["input"]; ok && !bytes.Equal(raw, []byte("null")) {
		r.Input = raw
	}
	var messages []json.RawMessage
	if json.Unmarshal(members["messages"], &messages) != nil || len(messages) == 0 {
		return nil, &Misfit{"/messages", "expected at least one message"}
	}
	list := make([]message, len(messages))
	for i, raw := range messages {
		at := "/messages/" + strconv.Itoa(i)
		if json.Unmarshal(raw, &list[i]) != nil {
			return nil, &Misfit{at, "expected a message of the AI SDK: an id, a role and parts"}
		}
		if !slices.Contains([]string{"user", "assistant", "system"}, list[i].Role) {
			return nil, &Misfit{at + "/role", "expected user, assistant or system"}
		}
	}
	return r, r.read(list)
}

// read takes from the messages what is asked now, and what was said before.
func (r *Request) read(list []message) error {
	last := len(list) - 1
	now, at := list[last], "/messages/"+strconv.Itoa(last)
	if now.Role == "assistant" {
		r.Message = now.ID
		for _, p := range now.Parts {
			if a := p.Approval; p.State == "approval-responded" && a != nil && a.Approved != nil {
				r.Answers = append(r.Answers, Answer{a.ID, *a.Approved, a.Reason})
			}
		}
		if len(r.Answers) == 0 {
			return &Misfit{at, "is an assistant message without an answer to a question; expected a user message at the end"}
		}
		if r.Message == "" {
			return &Misfit{at + "/id", "expected the message's id"}
		}
		return nil
	}
	if now.Role != "user" {
		return &Misfit{at, "expected a message of the user at the end"}
	}
	for i, p := range now.Parts {
		if p.raw == nil {
			continue
		}
		part, inside, detail := mediapart.Read(p.raw)
		if detail != "" {
			return &Misfit{at + "/parts/" + strconv.Itoa(i) + inside, detail}
		}
		r.Files = append(r.Files, part)
	}
	r.Last = last
	if r.Text = now.text(); r.Text == "" && r.Input == nil && len(r.Files) == 0 {
		return &Misfit{at, "is empty; expected text"}
	}
	var system []string
	size := 0
	for _, m := range slices.Backward(list[:last]) {
		said := m.text()
		switch {
		case said == "":
		case m.Role == "system":
			system = append(system, said)
		case len(r.Before) < maxBefore && size+len(said) <= maxBeforeBytes:
			size += len(said)
			r.Before = append(r.Before, Said{m.Role, said})
		default:
			size = maxBeforeBytes // nothing older, although it would fit
		}
	}
	slices.Reverse(r.Before)
	slices.Reverse(system)
	r.System = strings.Join(system, "\n\n")
	return nil
}

// text is what a message says.
func (m message) text() string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == "text" && strings.TrimSpace(p.Text) != "" {
			texts = append(texts, p.Text)
		}
	}
	if m.Role == "assistant" {
		return strings.Join(texts, "") // as its parts were made of one text
	}
	return strings.Join(texts, "\n\n")
}

// ReadVersion reads the version that a client says it has; "" is the one that all can read.
func ReadVersion(text string) (int, error) {
	switch text {
	case "":
		return Version5, nil
	case "5", "6", "7":
		return int(text[0] - '0'), nil
	}
	return 0, fmt.Errorf("expected 5, 6 or 7, the major version of the package ai")
}
