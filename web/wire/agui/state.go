package agui

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// state is the run's document, and what the client has of it. The client's strings are behind by what was appended since they were sent.
type state struct {
	doc  jsonuri.Document
	sent bool // the client has the document; otherwise its own state stays

	growing map[string]*growth // by uri
	last    *growth            // the string of the last event; nil for none
	buf     []byte
}

// growth counts the bytes of a value that grows and can be sent only in full.
type growth struct {
	uri  string
	sent int // bytes that the client has
	size int // bytes of the value
}

// A value is sent again when it has grown by this part, so all that is sent of it is at most nine times as long as it is.
const share = 8

// maxBuffer bounds the buffer between events.
const maxBuffer = 64 << 10

func (g *growth) due() bool { return (g.size-g.sent)*share >= g.sent && g.size > g.sent }

// apply applies an event to the document, and appends the change if the client needs it now. Events that the document refuses are left out,
// as they are from the run's result.
func (s *state) apply(dst []byte, e tube.Event) []byte {
	if g := s.last; g != nil && e.Kind == tube.Append && g.uri == string(e.URI) { // most events
		if s.doc.Append(e.URI, e.Value) != nil {
			return dst
		}
		return s.add(dst, g, len(e.Value))
	}
	s.last = nil
	at, err := s.doc.Reach(e.URI)
	if err != nil {
		return dst
	}
	if e.Kind == tube.Append {
		err = s.doc.Append(e.URI, e.Value)
	} else {
		err = s.doc.Set(e.URI, e.Value)
	}
	if err != nil {
		return dst
	}
	if !s.sent {
		if now, err := s.doc.Reach(nil); err != nil || now.Kind != '{' && now.Kind != '[' {
			return dst // a text, so far
		}
		s.sent = true
		return s.put(dst, "replace", nil, 0)
	}
	exists := at.End == len(e.URI)
	switch {
	case exists && e.Kind == tube.Append && at.Kind == '"':
		return s.grow(dst, e.URI, len(e.Value))
	case exists && at.Kind == '{' && string(e.Value) == "{}" && e.Kind == tube.Set:
		return dst
	case exists:
		return s.put(dst, "replace", e.URI, 0)
	case at.Kind == '{':
		return s.put(dst, "add", e.URI[:at.Next], len(e.Value))
	case at.Kind == '[':
		return s.putElement(dst, e.URI[:at.End], e.URI[:at.Next], at.Length)
	default: // the value has become an object
		return s.put(dst, "replace", e.URI[:at.End], 0)
	}
}

// grow counts size bytes that were added to a value that the client has. If clients refuse its path, they count for what holds it.
func (s *state) grow(dst, uri []byte, size int) []byte {
	holder, refused := cutRefused(uri)
	g := s.growing[string(holder)]
	if g == nil {
		had := max(len(s.value(holder))-size, 0)
		g = &growth{uri: string(holder), sent: had, size: had}
		if s.growing == nil {
			s.growing = map[string]*growth{}
		}
		s.growing[g.uri] = g
	}
	if !refused {
		s.last = g
	}
	return s.add(dst, g, size)
}

func (s *state) add(dst []byte, g *growth, size int) []byte {
	if g.size += size; g.due() {
		dst = s.send(dst, g)
	}
	return dst
}

// send appends the present value of what has grown.
func (s *state) send(dst []byte, g *growth) []byte {
	uri := []byte(g.uri)
	value := s.value(uri)
	full := g.sent > maxValue
	if g.sent, g.size = len(value), len(value); len(value) == 0 || full && value[0] == '"' {
		return dst // the value is deleted, or the client has as much of it as it can have
	}
	return s.write(dst, "replace", uri, value)
}

// complete is for a value that does not change again.
func (s *state) complete(dst, uri []byte) []byte {
	g := s.growing[string(uri)]
	if g == nil {
		return dst
	}
	if g.size > g.sent {
		dst = s.send(dst, g)
	}
	s.last = nil
	delete(s.growing, g.uri)
	return dst
}

// flush appends all that the client does not have yet.
func (s *state) flush(dst []byte) []byte {
	for _, uri := range slices.Sorted(maps.Keys(s.growing)) {
		dst = s.complete(dst, []byte(uri))
	}
	return dst
}

// appendSnapshot appends the document.
func (s *state) appendSnapshot(dst []byte) []byte {
	s.last = nil
	clear(s.growing)
	return s.write(dst, "replace", nil, s.value(nil))
}

// value returns the value at a uri, valid until the next call; it may be empty.
func (s *state) value(uri []byte) []byte {
	if cap(s.buf) > maxBuffer {
		s.buf = nil
	}
	value, ok := s.doc.AppendValue(s.buf[:0], uri)
	if s.buf = value; !ok {
		return nil
	}
	return value
}

// put appends an operation with the value at a uri, size bytes of which are new.
func (s *state) put(dst []byte, op string, uri []byte, size int) []byte {
	if _, refused := cutRefused(uri); refused {
		return s.grow(dst, uri, max(size, 1))
	}
	value := s.value(uri)
	if len(value) == 0 {
		return dst
	}
	delete(s.growing, string(uri))
	return s.write(dst, op, uri, value)
}

// putElement appends the operation for a new element of an array that had length elements, after null for each one that was left out.
func (s *state) putElement(dst, array, uri []byte, length int) []byte {
	now, err := s.doc.Reach(array)
	_, refused := cutRefused(uri)
	missing := now.Length - 1 - length
	if err != nil || refused || missing > now.Length/share { // then the array is shorter
		return s.put(dst, "replace", array, 0)
	}
	var operations []byte
	for i := range missing {
		at := []byte(jsonuri.Join(string(array), strconv.Itoa(length+i)))
		operations = appendOperation(separated(operations), "add", at, []byte("null"))
	}
	if missing > 0 {
		dst = appendPatch(dst, operations)
	}
	return s.put(dst, "add", uri, 0)
}

// write appends an event with one operation: a snapshot for the full document, or else a patch. A value that is too large for one event
// takes several.
func (s *state) write(dst []byte, op string, uri, value []byte) []byte {
	switch {
	case len(value) > maxValue:
		return s.writeParts(dst, op, uri, value)
	case len(uri) == 0:
		return frame.End(frame.Member(frame.Begin(dst, stateSnapshot), "snapshot", value))
	}
	return appendPatch(dst, appendOperation(nil, op, uri, value))
}

// writeParts appends the beginning of a large string, or an empty container and then what it holds.
func (s *state) writeParts(dst []byte, op string, uri, value []byte) []byte {
	if value[0] == '"' {
		head, _ := cut(value[1:len(value)-1], maxValue-2)
		dst = s.write(dst, op, uri, append(append([]byte{'"'}, head...), '"'))
		return appendTooLarge(dst, uri, len(value))
	}
	dst = s.write(dst, op, uri, []byte{value[0], value[0] + 2}) // {} or []
	var operations []byte
	flush := func() {
		if len(operations) > 0 {
			dst = appendPatch(dst, operations)
			operations = operations[:0]
		}
	}
	for segment, child := range children(value) {
		at := []byte(jsonuri.Join(string(uri), segment))
		if _, refused := cutRefused(at); refused {
			flush()
			dst = appendTooLarge(dst, at, len(child))
			continue
		}
		if len(child) > maxPiece {
			flush()
			dst = s.write(dst, "add", at, child)
			continue
		}
		if operations = appendOperation(separated(operations), "add", at, child); len(operations) > maxPiece {
			flush()
		}
	}
	flush()
	return dst
}

// children yields the members or elements of a value, by the uri below it.
func children(value []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		var elements []json.RawMessage
		if value[0] == '[' {
			_ = json.Unmarshal(value, &elements) // it is JSON
		}
		for i, element := range elements {
			if !yield(strconv.Itoa(i), element) {
				return
			}
		}
		for name, member := range rawjson.Members(value) {
			if !yield(jsonuri.Format(name), member) {
				return
			}
		}
	}
}

// appendTooLarge appends the note that a value is missing in the state or cut off.
func appendTooLarge(dst, uri []byte, size int) []byte {
	return appendCustom(dst, "too_large", marshal(struct {
		Path  string `json:"path"`
		Bytes int    `json:"bytes"`
	}{pointer(uri), size}))
}

func appendPatch(dst, operations []byte) []byte {
	dst = append(frame.Key(frame.Begin(dst, stateDelta), "delta"), '[')
	return frame.End(append(append(dst, operations...), ']'))
}

// separated appends a comma to a list that is not empty.
func separated(list []byte) []byte {
	if len(list) == 0 {
		return list
	}
	return append(list, ',')
}

func appendOperation(dst []byte, op string, uri, value []byte) []byte {
	dst = append(append(append(dst, `{"op":"`...), op...), '"')
	return append(frame.Member(frame.Text(dst, "path", pointer(uri)), "value", value), '}')
}

// pointer is the JSON Pointer (RFC 6901) of a uri that the document has accepted.
func pointer(uri []byte) string {
	segments, _ := jsonuri.Parse(string(uri))
	return schema.Pointer(segments)
}

// cutRefused returns the uri, or if clients refuse its path, the uri of what must be replaced in full instead: in JavaScript, the path would
// lead to the prototype of an object.
func cutRefused(uri []byte) (holder []byte, refused bool) {
	if !bytes.Contains(uri, []byte("proto")) { // most uris
		return uri, false
	}
	segments, _ := jsonuri.Parse(string(uri))
	for i, segment := range segments {
		if segment == "__proto__" || i > 0 && segments[i-1] == "constructor" && segment == "prototype" {
			return []byte(jsonuri.Format(segments[:i]...)), true
		}
	}
	return uri, false
}
