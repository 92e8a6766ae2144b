package agui

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// messages writes the conversation of a run: messages of text and of reasoning, and calls of tools.
type messages struct {
	run   string
	old   bool               // the client takes no reasoning
	texts []*jsonuri.Pattern // where bots write text
	count int                // of messages

	streams map[string]*stream // by the uri of the text, reserved ones included
	parents map[string]string  // the message that calls belong to, by the root of the bot
	calls   map[string]call    // without a result, by the model's id
	sent    map[string]bool    // ids of calls and results that the client has
}

// call is a call as the client has it.
type call struct {
	id        string
	arguments json.RawMessage
}

// stream is a text that the client gets as one or more messages.
type stream struct {
	reasoning bool
	id        string // of the newest message
	open      bool
	size      int // bytes of the text so far
	skip      int // bytes that come a second time
}

func newMessages(r Run) messages {
	m := messages{run: r.Of, old: r.Old, streams: map[string]*stream{}, parents: map[string]string{}, calls: map[string]call{}, sent: map[string]bool{}}
	for _, at := range r.Texts {
		if p, err := jsonuri.CompilePattern(at); err == nil {
			m.texts = append(m.texts, p)
		}
	}
	return m
}

// stream returns the stream of the text at a uri; nil if the value there is no message.
func (m *messages) stream(uri []byte) *stream {
	s := m.streams[string(uri)]
	if s == nil && (len(uri) == 0 || slices.ContainsFunc(m.texts, func(p *jsonuri.Pattern) bool { return p.Match(uri) })) {
		s = new(stream)
		m.streams[string(uri)] = s
	}
	return s
}

// appendText appends what is written to the document, if it is a message.
func (m *messages) appendText(dst []byte, e tube.Event) []byte {
	s := m.stream(e.URI)
	switch {
	case s == nil:
		return dst
	case e.Kind == tube.Append:
		return m.write(dst, s, e.URI, e.Value)
	}
	return m.restart(dst, s, e.Part)
}

// restart is for a text that begins again, in a snapshot or because it is written a second time.
func (m *messages) restart(dst []byte, s *stream, inSnapshot bool) []byte {
	if inSnapshot {
		s.skip, s.size = s.size, 0
		return dst
	}
	dst = m.end(dst, s)
	*s = stream{reasoning: s.reasoning}
	return dst
}

// write appends more of a text, in a new message if none is open. root is where the bot writes.
func (m *messages) write(dst []byte, s *stream, root, text []byte) []byte {
	s.size += len(text)
	n := min(s.skip, len(text))
	s.skip -= n
	text = text[n:]
	if !s.open && s.id != "" {
		for bytes.HasPrefix(text, []byte(`\n`)) { // between the text before a call and the text after it
			text = text[2:]
		}
	}
	if len(text) == 0 {
		return dst
	}
	if !s.open {
		s.open, s.id = true, m.newID()
		if s.reasoning {
			dst = frame.Chunk(dst, reasoningStart, "messageId", s.id)
			dst = frame.Chunk(dst, reasoningOpen, "messageId", s.id, "role", Reasoning)
		} else {
			m.parents[string(root)] = s.id
			dst = frame.Chunk(dst, textStart, "messageId", s.id, "role", Assistant)
		}
	}
	kind := textContent
	if s.reasoning {
		kind = reasoningContent
	}
	dst = append(frame.Key(frame.Text(frame.Begin(dst, kind), "messageId", s.id), "delta"), '"')
	return frame.End(append(append(dst, text...), '"'))
}

// end appends the end of a message.
func (m *messages) end(dst []byte, s *stream) []byte {
	if s == nil || !s.open {
		return dst
	}
	s.open = false
	if s.reasoning {
		return frame.Chunk(frame.Chunk(dst, reasoningClose, "messageId", s.id), reasoningEnd, "messageId", s.id)
	}
	return frame.Chunk(dst, textEnd, "messageId", s.id)
}

func (m *messages) newID() string {
	m.count++
	return m.run + ":m" + strconv.Itoa(m.count)
}

// catchUp appends the rest of the texts in a snapshot of the document.
func (m *messages) catchUp(dst []byte, d *jsonuri.Document) []byte {
	if len(m.texts) == 0 {
		return dst
	}
	for uri, value := range d.Walk {
		if value[0] != '"' || uri == "" {
			continue
		}
		if s := m.stream([]byte(uri)); s != nil && s.size < len(value)-2 {
			s.skip = 0
			dst = m.write(dst, s, []byte(uri), value[1+s.size:len(value)-1])
		}
	}
	return dst
}

const reasoningSegment = "$reasoning_context"

// appendReserved appends what an event with a reserved uri says: reasoning, calls and results.
func (m *messages) appendReserved(dst, root, reserved []byte, e tube.Event) []byte {
	name, number, below := bytes.Cut(reserved, []byte("/"))
	appendValue, value := (*messages).appendCall, e.Value
	switch string(name) {
	case reasoningSegment:
		if !below {
			dst = m.appendReasoning(dst, e)
		}
		return dst
	case "$tools":
	case "$tool_results":
		appendValue = (*messages).appendResult
	default:
		return dst
	}
	switch {
	case e.Kind == tube.Append: // a result that is a text
		value = slices.Concat([]byte{'"'}, value, []byte{'"'})
	case e.Kind != tube.Set:
		return dst
	}
	if below {
		return appendValue(m, dst, root, string(number), value)
	}
	for number, value := range rawjson.Children(value) { // in a snapshot
		dst = appendValue(m, dst, root, number, value)
	}
	return dst
}

// appendReasoning appends the reasoning of a model.
func (m *messages) appendReasoning(dst []byte, e tube.Event) []byte {
	if m.old {
		return dst
	}
	s := m.streams[string(e.URI)]
	if s == nil {
		s = &stream{reasoning: true}
		m.streams[string(e.URI)] = s
	}
	switch e.Kind {
	case tube.Append:
		return m.write(dst, s, nil, e.Value)
	case tube.Set:
		return m.restart(dst, s, e.Part)
	}
	return m.end(dst, s)
}

// callID is our id of a call. The model may use its own id again in another answer, and clients join calls with the same id.
func (m *messages) callID(root []byte, number string) string {
	return m.run + ":" + jsonuri.Join(string(root), number)
}

// appendCall appends a call, after the messages before it.
func (m *messages) appendCall(dst, root []byte, number string, value []byte) []byte {
	var c struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	id := m.callID(root, number)
	if m.sent[id] || json.Unmarshal(value, &c) != nil {
		return dst
	}
	m.sent[id], m.calls[c.ID] = true, call{id, c.Arguments}
	dst = m.end(dst, m.streams[string(root)])
	dst = m.end(dst, m.streams[jsonuri.Join(string(root), reasoningSegment)])
	parent := m.parents[string(root)]
	if parent == "" {
		parent = m.newID()
		m.parents[string(root)] = parent
	}
	dst = frame.Chunk(dst, callStart, "toolCallId", id, "toolCallName", c.Name, "parentMessageId", parent)
	if text := plainText(limited(c.Arguments)); text != "" {
		dst = frame.Chunk(dst, callArgs, "toolCallId", id, "delta", text)
	}
	return frame.Chunk(dst, callEnd, "toolCallId", id)
}

// failedCall is the result of a call that failed. The tool's own words are for the model.
const failedCall = `{"error":"the call has failed"}`

// appendResult appends the result of a call.
func (m *messages) appendResult(dst, root []byte, number string, value []byte) []byte {
	of := m.callID(root, number)
	id := of + ":result"
	if m.sent[id] {
		return dst
	}
	m.sent[id] = true
	delete(m.parents, string(root))
	maps.DeleteFunc(m.calls, func(_ string, c call) bool { return c.id == of })
	text := plainText(limited(value))
	if string(value) == "null" {
		text = failedCall
	}
	return frame.Chunk(dst, callResult, "messageId", id, "toolCallId", of, "content", text, "role", Tool)
}

// close ends all messages, by uri.
func (m *messages) close(dst []byte) []byte {
	for _, uri := range slices.Sorted(maps.Keys(m.streams)) {
		dst = m.end(dst, m.streams[uri])
	}
	return dst
}
