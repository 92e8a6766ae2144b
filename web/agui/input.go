package agui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// Input is what a client asks for: a RunAgentInput, as far as it means something here. Members that are not known are passed
// over, because clients are newer than servers; an optional one that is null counts as left out, as older clients write it.
type Input struct {
	Thread, Run, Parent string
	Version             string // of the protocol; "" is a client from before 1.0

	// Text is what is said now: the user's message that nothing but instructions follow. Asks says that there is one, and At where.
	Text  string
	Asks  bool
	At    string
	Files []adapter.Part // images and files beside the text
	// Said is what was said before that, by User and Assistant.
	Said []Message
	// Instructions are what messages of the system and of developers say, and what the client adds as context.
	Instructions string

	State  json.RawMessage // nil where there is none
	Tools  []string        // names of those that the client has
	Props  map[string]json.RawMessage
	Resume []Answer
}

// Answer is somebody's answer to a question.
type Answer struct {
	Interrupt string // the id of the question
	Approve   bool
	Reason    string // why not
	Remember  bool   // also later calls of the tool in this conversation
}

// Fault is something in an input that does not fit.
type Fault struct {
	Pointer string // JSON Pointer
	Detail  string // what was expected
}

// Bounds of what an input may have. They only have to be larger than anything sensible.
const (
	maxID     = 512 // bytes of an id
	maxReason = 1024
	maxFaults = 20
)

// Read reads an input. Text that is not JSON is a fault, too.
func Read(text []byte) (*Input, []Fault) {
	in, r := new(Input), new(reader)
	var messages []json.RawMessage
	var context []string
	r.object("", text, map[string]func(string, json.RawMessage){
		"threadId":        func(at string, raw json.RawMessage) { in.Thread = r.id(at, raw) },
		"runId":           func(at string, raw json.RawMessage) { in.Run = r.id(at, raw) },
		"parentRunId":     r.optional(func(at string, raw json.RawMessage) { in.Parent = r.id(at, raw) }),
		"protocolVersion": r.optional(func(at string, raw json.RawMessage) { in.Version = r.string(at, raw) }),
		"state":           r.optional(func(_ string, raw json.RawMessage) { in.State = raw }),
		"messages":        func(at string, raw json.RawMessage) { messages = r.array(at, raw) },
		"tools": r.optional(func(at string, raw json.RawMessage) {
			for i, tool := range r.array(at, raw) {
				r.object(at+"/"+strconv.Itoa(i), tool, map[string]func(string, json.RawMessage){
					"name": func(at string, raw json.RawMessage) { in.Tools = append(in.Tools, r.string(at, raw)) },
				}, "name")
			}
		}),
		"context": r.optional(func(at string, raw json.RawMessage) {
			for i, one := range r.array(at, raw) {
				about, value := "", ""
				r.object(at+"/"+strconv.Itoa(i), one, map[string]func(string, json.RawMessage){
					"description": func(at string, raw json.RawMessage) { about = r.string(at, raw) },
					"value":       func(at string, raw json.RawMessage) { value = r.string(at, raw) },
				}, "description", "value")
				context = append(context, strings.TrimPrefix(about+": "+value, ": "))
			}
		}),
		"forwardedProps": r.optional(func(at string, raw json.RawMessage) {
			if raw[0] == '{' { // any other value is the application's, and says nothing to us
				r.fits(at, raw, &in.Props)
			}
		}),
		"resume": r.optional(func(at string, raw json.RawMessage) {
			for i, one := range r.array(at, raw) {
				in.Resume = append(in.Resume, r.answer(at+"/"+strconv.Itoa(i), one))
			}
		}),
	}, "threadId", "runId", "messages")
	in.Instructions = strings.Join(append(in.messages(r, messages), context...), "\n\n")
	in.Files = r.files
	return in, r.faults
}

// messages finds what is said now, and what was said before. It returns what the system and developers say.
func (in *Input) messages(r *reader, list []json.RawMessage) (instructions []string) {
	type message struct {
		role    string // one that is not known is passed over
		content json.RawMessage
	}
	read := make([]message, len(list))
	last := -1 // of the user's, as long as nobody has answered it
	for i, raw := range list {
		m := &read[i]
		r.object("/messages/"+strconv.Itoa(i), raw, map[string]func(string, json.RawMessage){
			"role":    func(at string, raw json.RawMessage) { m.role = r.string(at, raw) },
			"content": r.optional(func(_ string, raw json.RawMessage) { m.content = raw }),
		}, "role")
		switch m.role {
		case User:
			last = i
		case Assistant, Tool:
			last = -1
		}
	}
	for i, m := range read {
		at := "/messages/" + strconv.Itoa(i) + "/content"
		switch m.role {
		case User, Assistant:
			if i == last {
				in.Text, in.Asks, in.At = r.text(at, m.content, true), true, at
			} else if text := r.text(at, m.content, false); text != "" {
				in.Said = append(in.Said, Message{Role: m.role, Text: text})
			}
		case system, developer:
			if text := r.text(at, m.content, false); text != "" {
				instructions = append(instructions, text)
			}
		}
	}
	return instructions
}

// reader takes JSON values apart and keeps what does not fit.
type reader struct {
	faults []Fault
	files  []adapter.Part // of what is said now
}

func (r *reader) fault(at, format string, args ...any) {
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, Fault{at, fmt.Sprintf(format, args...)})
	}
}

// fits decodes raw into dst, whose kind its caller has looked at.
func (r *reader) fits(at string, raw json.RawMessage, dst any) bool {
	if err := json.Unmarshal(raw, dst); err != nil {
		r.fault(at, "expected JSON")
		return false
	}
	return true
}

// object hands the members of an object to those who know them, in the order of their names.
func (r *reader) object(at string, raw json.RawMessage, known map[string]func(string, json.RawMessage), needed ...string) {
	var members map[string]json.RawMessage
	if !r.is(at, raw, '{', "an object") || !r.fits(at, raw, &members) {
		return
	}
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if value, ok := members[name]; ok {
			known[name](at+"/"+name, value)
		} else if slices.Contains(needed, name) {
			r.fault(at+"/"+name, "missing")
		}
	}
}

// is says whether a value is of the kind that its first byte tells.
func (r *reader) is(at string, raw json.RawMessage, first byte, kind string) bool {
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) > 0 && raw[0] == first {
		return true
	}
	r.fault(at, "expected %s, found %s", kind, rawjson.Kind(raw))
	return false
}

// optional passes null over.
func (r *reader) optional(f func(string, json.RawMessage)) func(string, json.RawMessage) {
	return func(at string, raw json.RawMessage) {
		if string(raw) != "null" {
			f(at, raw)
		}
	}
}

func (r *reader) array(at string, raw json.RawMessage) (list []json.RawMessage) {
	if r.is(at, raw, '[', "an array") {
		r.fits(at, raw, &list)
	}
	return list
}

func (r *reader) string(at string, raw json.RawMessage) (s string) {
	if r.is(at, raw, '"', "a string") {
		r.fits(at, raw, &s)
	}
	return s
}

// id takes a string that is a name of something.
func (r *reader) id(at string, raw json.RawMessage) string {
	s := r.string(at, raw)
	if raw[0] == '"' && (s == "" || len(s) > maxID) {
		r.fault(at, "expected 1 to %d bytes, found %d", maxID, len(s))
		return ""
	}
	return s
}

// text takes the content of a message: a string, or parts. Images and files are left out of what was said before, and taken in what
// is said now.
func (r *reader) text(at string, raw json.RawMessage, now bool) string {
	if len(raw) == 0 || raw[0] != '[' {
		if raw == nil && !now {
			return ""
		}
		return r.string(at, raw)
	}
	var texts []string
	for i, part := range r.array(at, raw) {
		at := at + "/" + strconv.Itoa(i)
		kind, text := "", ""
		r.object(at, part, map[string]func(string, json.RawMessage){
			"type": func(at string, raw json.RawMessage) { kind = r.string(at, raw) },
			"text": func(at string, raw json.RawMessage) { text = r.string(at, raw) },
		}, "type")
		switch {
		case kind == "text":
			texts = append(texts, text)
		case now && kind != "":
			p, inside, detail := mediapart.Read(part)
			if detail != "" {
				r.fault(at+inside, "%s", detail)
			}
			r.files = append(r.files, p)
		}
	}
	return strings.Join(texts, "\n")
}

// answer takes an answer to a question. Whoever abandons one has not approved.
func (r *reader) answer(at string, raw json.RawMessage) (a Answer) {
	status := ""
	var payload json.RawMessage
	r.object(at, raw, map[string]func(string, json.RawMessage){
		"interruptId": func(at string, raw json.RawMessage) { a.Interrupt = r.string(at, raw) },
		"status": func(at string, raw json.RawMessage) {
			if status = r.string(at, raw); raw[0] == '"' && status != "resolved" && status != "cancelled" {
				r.fault(at, "expected resolved or cancelled")
			}
		},
		"payload": r.optional(func(_ string, raw json.RawMessage) { payload = raw }),
	}, "interruptId", "status")
	at += "/payload"
	switch {
	case status == "cancelled":
		a.Reason = "canceled without a decision"
	case status != "resolved":
	case payload == nil:
		r.fault(at, "expected an object with approved, true or false")
	case payload[0] == 't' || payload[0] == 'f':
		a.Approve = payload[0] == 't'
	default:
		r.object(at, payload, map[string]func(string, json.RawMessage){
			"approved": func(at string, raw json.RawMessage) {
				if raw[0] != 't' && raw[0] != 'f' {
					r.fault(at, "expected true or false, found %s", rawjson.Kind(raw))
				}
				a.Approve = raw[0] == 't'
			},
			"reason": r.optional(func(at string, raw json.RawMessage) {
				if a.Reason = r.string(at, raw); len(a.Reason) > maxReason {
					r.fault(at, "expected at most %d bytes, found %d", maxReason, len(a.Reason))
				}
			}),
			"remember": r.optional(func(at string, raw json.RawMessage) {
				if word := r.string(at, raw); raw[0] == '"' && word != "session" {
					r.fault(at, "expected session")
				}
				a.Remember = raw[0] == '"'
			}),
		}, "approved")
	}
	return a
}
