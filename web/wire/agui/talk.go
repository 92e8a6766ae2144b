package agui

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// talk is what of a run is conversation: messages of text and of reasoning, and calls of tools.
type talk struct {
	run   string
	old   bool               // no thoughts are told
	texts []*jsonuri.Pattern // where bots write text
	count int                // messages so far

	speech  map[string]*speech // by the uri of the text, reserved ones included
	last    *speech            // of the event before
	lastURI []byte
	parents map[string]string   // by root, the message that calls belong to
	calls   map[string]toldCall // by the model's id
	told    map[string]bool     // calls and results that were told

	record bool
	kept   []*kept // the run's messages
	byID   map[string]*kept
}

// toldCall is a call as the client knows it.
type toldCall struct {
	id        string
	arguments json.RawMessage
}

// kept is a message of the run.
type kept struct {
	Message
	said []byte // its text, escaped
}

// speech is a text that is told as messages.
type speech struct {
	thought bool
	id      string // of the message that is open, or was
	open    bool
	later   bool // there was a message before
	sent    int  // bytes of the text that were told
	skip    int  // bytes of it that come again
}

func (t *talk) init(run string, bots []Bot) {
	t.run = run
	t.speech, t.parents, t.calls, t.told = map[string]*speech{}, map[string]string{}, map[string]toldCall{}, map[string]bool{}
	t.byID = map[string]*kept{}
	for _, b := range bots {
		if p, err := jsonuri.CompilePattern(b.Root); err == nil && b.Text {
			t.texts = append(t.texts, p)
		}
	}
}

// at finds the speech at a uri, nil where there is none.
func (t *talk) at(uri []byte) *speech {
	if t.lastURI != nil && bytes.Equal(uri, t.lastURI) {
		return t.last
	}
	t.lastURI = append(t.lastURI[:0], uri...)
	if t.lastURI == nil {
		t.lastURI = []byte{}
	}
	t.last = t.speech[string(uri)]
	if t.last == nil && (len(uri) == 0 || slices.ContainsFunc(t.texts, func(p *jsonuri.Pattern) bool { return p.Match(uri) })) {
		t.last = new(speech)
		t.speech[string(uri)] = t.last
	}
	return t.last
}

// text tells of what was written to the document, where it is a message.
func (t *talk) text(dst []byte, e tube.Event) []byte {
	s := t.at(e.URI)
	if s == nil {
		return dst
	}
	if e.Kind == tube.Append {
		return t.say(dst, s, e.URI, e.Value)
	}
	return t.again(dst, s, e.Part)
}

// again is for a text that begins anew: from the beginning of a snapshot, whose first part was told, or because it is written
// once more.
func (t *talk) again(dst []byte, s *speech, part bool) []byte {
	if part {
		s.skip, s.sent = s.sent, 0
		return dst
	}
	dst = t.shut(dst, s)
	s.skip, s.sent, s.later = 0, 0, false
	return dst
}

// say tells more of a text.
func (t *talk) say(dst []byte, s *speech, root, text []byte) []byte {
	s.sent += len(text)
	n := min(s.skip, len(text))
	s.skip -= n
	text = text[n:]
	if !s.open && s.later {
		for bytes.HasPrefix(text, []byte(`\n`)) { // what stands between a text and what comes after calls
			text = text[2:]
		}
	}
	if len(text) == 0 {
		return dst
	}
	if !s.open {
		s.open, s.later = true, true
		s.id = t.next()
		if s.thought {
			dst = t.openThought(dst, s)
		} else {
			t.parents[string(root)] = s.id
			dst = t.openText(dst, s)
		}
		if t.record {
			role := Assistant
			if s.thought {
				role = Reasoning
			}
			t.keep(Message{ID: s.id, Role: role})
		}
	}
	if t.record {
		m := t.byID[s.id]
		m.said = append(m.said, text...)
	}
	kind := textContent
	if s.thought {
		kind = reasoningContent
	}
	for len(text) > 0 {
		var piece []byte
		piece, text = cut(text, maxPiece)
		dst = frame.End(content(frame.Text(frame.Begin(dst, kind), "messageId", s.id), "delta", piece))
	}
	return dst
}

func (t *talk) openText(dst []byte, s *speech) []byte {
	return frame.End(frame.Text(frame.Text(frame.Begin(dst, textStart), "messageId", s.id), "role", Assistant))
}

func (t *talk) openThought(dst []byte, s *speech) []byte {
	dst = frame.End(frame.Text(frame.Begin(dst, reasoningStart), "messageId", s.id))
	return frame.End(frame.Text(frame.Text(frame.Begin(dst, reasoningOpen), "messageId", s.id), "role", Reasoning))
}

// shut ends a message.
func (t *talk) shut(dst []byte, s *speech) []byte {
	if !s.open {
		return dst
	}
	s.open = false
	if !s.thought {
		return frame.End(frame.Text(frame.Begin(dst, textEnd), "messageId", s.id))
	}
	dst = frame.End(frame.Text(frame.Begin(dst, reasoningClose), "messageId", s.id))
	return frame.End(frame.Text(frame.Begin(dst, reasoningEnd), "messageId", s.id))
}

// next is the id of a new message.
func (t *talk) next() string {
	t.count++
	return t.run + ":m" + strconv.Itoa(t.count)
}

func (t *talk) keep(m Message) *kept {
	k := &kept{Message: m}
	t.kept = append(t.kept, k)
	t.byID[m.ID] = k
	return k
}

// done is for a text that is complete.
func (t *talk) done(dst, uri []byte) []byte {
	if s := t.speech[string(uri)]; s != nil {
		dst = t.shut(dst, s)
	}
	return dst
}

// catchUp tells of texts that a snapshot of the document has and the client does not.
func (t *talk) catchUp(dst []byte, d *jsonuri.Document) []byte {
	if len(t.texts) == 0 {
		return dst
	}
	for uri, value := range d.Walk {
		if value[0] != '"' || uri == "" {
			continue
		}
		if s := t.at([]byte(uri)); s != nil && s.sent < len(value)-2 {
			s.skip = 0
			dst = t.say(dst, s, []byte(uri), value[1+s.sent:len(value)-1])
		}
	}
	return dst
}

// The reserved segments that are conversation.
const (
	thoughts = "$reasoning_context"
	tools    = "$tools"
	results  = "$tool_results"
)

// beside tells of what stands beside the document.
func (t *talk) beside(dst, root, reserved []byte, e tube.Event) []byte {
	name, rest, below := bytes.Cut(reserved, []byte("/"))
	switch string(name) {
	case thoughts:
		if below {
			return dst
		}
		return t.think(dst, e)
	case tools:
		if !below && e.Kind == tube.Set { // of a snapshot
			for number, value := range members(e.Value) {
				dst = t.call(dst, root, number, value)
			}
		} else if below && e.Kind == tube.Set {
			dst = t.call(dst, root, string(rest), e.Value)
		}
	case results:
		value := e.Value
		if e.Kind == tube.Append {
			value = append(append([]byte{'"'}, e.Value...), '"')
		}
		if !below && e.Kind == tube.Set {
			for number, value := range members(e.Value) {
				dst = t.result(dst, root, number, value)
			}
		} else if below && e.Kind != tube.Done {
			dst = t.result(dst, root, string(rest), value)
		}
	}
	return dst
}

// think tells what a model thinks.
func (t *talk) think(dst []byte, e tube.Event) []byte {
	if t.old {
		return dst
	}
	s := t.speech[string(e.URI)]
	if s == nil {
		s = &speech{thought: true}
		t.speech[string(e.URI)] = s
	}
	switch e.Kind {
	case tube.Append:
		return t.say(dst, s, nil, e.Value)
	case tube.Set:
		return t.again(dst, s, e.Part)
	default:
		return t.shut(dst, s)
	}
}

// members are those of an object by name, in an order that is always the same.
func members(object []byte) func(yield func(string, []byte) bool) {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(object, &all) // what is no object has none
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if len(a) != len(b) { // they are numbers
			return len(a) - len(b)
		}
		return bytes.Compare([]byte(a), []byte(b))
	})
	return func(yield func(string, []byte) bool) {
		for _, name := range names {
			if !yield(name, all[name]) {
				return
			}
		}
	}
}

// callID is our name of a call. That of the model may come back in another answer, and a client that has it twice puts the
// arguments of both together.
func (t *talk) callID(root []byte, number string) string {
	if len(root) == 0 {
		return t.run + ":" + number
	}
	return t.run + ":" + string(root) + "/" + number
}

// call tells of a call.
func (t *talk) call(dst, root []byte, number string, value []byte) []byte {
	var c struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	id := t.callID(root, number)
	if t.told[id] || json.Unmarshal(value, &c) != nil {
		return dst
	}
	t.told[id], t.calls[c.ID] = true, toldCall{id, c.Arguments}
	dst = t.pause(dst, root)
	parent := t.parents[string(root)]
	if parent == "" {
		parent = t.next()
		t.parents[string(root)] = parent
	}
	arguments := plainText(c.Arguments)
	if t.record {
		m := t.byID[parent]
		if m == nil {
			m = t.keep(Message{ID: parent, Role: Assistant})
		}
		m.Calls = append(m.Calls, Call{ID: id, Name: c.Name, Arguments: arguments})
	}
	dst = frame.Text(frame.Text(frame.Begin(dst, callStart), "toolCallId", id), "toolCallName", c.Name)
	dst = frame.End(frame.Text(dst, "parentMessageId", parent))
	for rest := jsonuri.AppendEscaped(nil, arguments); len(rest) > 0; {
		var piece []byte
		piece, rest = cut(rest, maxPiece)
		dst = frame.End(content(frame.Text(frame.Begin(dst, callArgs), "toolCallId", id), "delta", piece))
	}
	return frame.End(frame.Text(frame.Begin(dst, callEnd), "toolCallId", id))
}

// pause ends the messages of a root: what comes after calls are others.
func (t *talk) pause(dst, root []byte) []byte {
	if s := t.speech[string(root)]; s != nil {
		dst = t.shut(dst, s)
	}
	about := thoughts
	if len(root) > 0 {
		about = string(root) + "/" + thoughts
	}
	if s := t.speech[about]; s != nil {
		dst = t.shut(dst, s)
	}
	return dst
}

// failedCall is the result of a call that has failed. What the tool says of it is for the model.
const failedCall = `{"error":"the call has failed"}`

// result tells what came of a call.
func (t *talk) result(dst, root []byte, number string, value []byte) []byte {
	call := t.callID(root, number)
	id := call + ":result"
	if t.told[id] {
		return dst
	}
	t.told[id] = true
	delete(t.parents, string(root))
	maps.DeleteFunc(t.calls, func(_ string, c toldCall) bool { return c.id == call })
	text := plainText(value)
	if string(value) == "null" {
		text = failedCall
	}
	said, _ := cut(jsonuri.AppendEscaped(nil, text), maxValue)
	if t.record {
		t.keep(Message{ID: id, Role: Tool, Call: call}).said = said
	}
	dst = frame.Text(frame.Text(frame.Begin(dst, callResult), "messageId", id), "toolCallId", call)
	return frame.End(frame.Text(content(dst, "content", said), "role", Tool))
}

// close ends all messages.
func (t *talk) close(dst []byte) []byte {
	for _, s := range t.open() {
		dst = t.shut(dst, s)
	}
	return dst
}

// open are the messages that are open, in the order of their ids.
func (t *talk) open() (list []*speech) {
	for _, uri := range slices.Sorted(maps.Keys(t.speech)) {
		if s := t.speech[uri]; s.open {
			list = append(list, s)
		}
	}
	return list
}

// reopen tells a client of the messages that are open, of which it has the text.
func (t *talk) reopen(dst []byte) []byte {
	for _, s := range t.open() {
		if s.thought {
			dst = t.openThought(dst, s)
		} else {
			dst = t.openText(dst, s)
		}
	}
	return dst
}

// snapshot tells all messages: those before the run, and its own. Where they are too large for an event, the oldest are left out.
func (t *talk) snapshot(dst []byte, before []Message) []byte {
	all := make([]*kept, 0, len(before)+len(t.kept))
	for _, m := range before {
		if !t.old || m.Role != Reasoning {
			all = append(all, &kept{m, jsonuri.AppendEscaped(nil, m.Text)})
		}
	}
	all = append(all, t.kept...)
	t.record, t.kept, t.byID = false, nil, nil
	var texts [][]byte
	size := 0
	for _, m := range slices.Backward(all) {
		text := m.append(nil)
		if size += len(text); size > maxValue && len(texts) > 0 {
			break
		}
		texts = append(texts, text)
	}
	slices.Reverse(texts)
	dst = append(frame.Key(frame.Begin(dst, messagesSnapshot), "messages"), '[')
	dst = append(dst, bytes.Join(texts, []byte(","))...)
	return frame.End(append(dst, ']'))
}

// append appends the message as JSON text. What of its text is too large for an event is left out.
func (m *kept) append(dst []byte) []byte {
	dst = append(dst, `{"id":"`...)
	dst = jsonuri.AppendEscaped(dst, m.ID)
	dst = frame.Text(append(dst, '"'), "role", m.Role)
	if len(m.said) > 0 || m.Role != Assistant {
		said, _ := cut(m.said, maxValue/2)
		dst = content(dst, "content", said)
	}
	if m.Call != "" {
		dst = frame.Text(dst, "toolCallId", m.Call)
	}
	if len(m.Calls) == 0 {
		return append(dst, '}')
	}
	dst = append(frame.Key(dst, "toolCalls"), '[')
	for i, c := range m.Calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"id":"`...)
		dst = jsonuri.AppendEscaped(dst, c.ID)
		dst = append(dst, `","type":"function","function":{"name":"`...)
		dst = jsonuri.AppendEscaped(dst, c.Name)
		arguments, _ := cut(jsonuri.AppendEscaped(nil, c.Arguments), maxValue/2)
		dst = append(content(append(dst, '"'), "arguments", arguments), "}}"...)
	}
	return append(dst, "]}"...)
}

// plainText is a JSON text as a string: of a string what it says, of anything else the text.
func plainText(value json.RawMessage) string {
	var s string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}
