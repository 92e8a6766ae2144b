package agui

import (
	"bytes"
	"maps"
	"slices"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// state is the run's document, and what the client has of it. The client's strings lack what was appended since they were sent.
type state struct {
	doc     jsonuri.Document
	sent    bool               // the client has the document; otherwise the client keeps its own state
	ended   bool               // a value was too large for an event, so no more of the state is sent
	growing map[string]*growth // strings, by uri
	buf     []byte
}

// growth counts the bytes of a string.
type growth struct{ sent, size int }

// share is the part by which a string must grow before it is sent again: all that is sent of it is at most nine times as long as it is.
const share = 8

// maxBuffer bounds the buffer between events.
const maxBuffer = 64 << 10

// apply applies an event to the document, and appends the change if the client needs it now. Events that the document refuses are left out,
// as they are from the run's result.
func (s *state) apply(dst []byte, e tube.Event) []byte {
	before, err := s.doc.Reach(e.URI)
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
		if root, err := s.doc.Reach(nil); err != nil || root.Kind != '{' && root.Kind != '[' {
			return dst // a text, so far
		}
		return s.appendSnapshot(dst)
	}
	parent, child := e.URI[:before.End], e.URI[:before.Next]
	switch {
	case len(parent) == len(e.URI) && e.Kind == tube.Append && before.Kind == '"':
		return s.grow(dst, e.URI, len(e.Value))
	case len(parent) == len(e.URI) && before.Kind == '{' && string(e.Value) == "{}":
		return dst
	case len(parent) == len(e.URI):
		return s.put(dst, "replace", parent)
	case before.Kind == '{':
		return s.put(dst, "add", child)
	case before.Kind == '[':
		if now, err := s.doc.Reach(parent); err == nil && now.Length == before.Length+1 {
			return s.put(dst, "add", child)
		}
	}
	return s.put(dst, "replace", parent) // an array with new gaps, or a value that has become an object
}

// grow counts size bytes that were added to a string, and sends the string if it has grown enough. If clients refuse its path, the bytes count
// for the document, which is sent in full.
func (s *state) grow(dst, uri []byte, size int) []byte {
	uri, _ = cutRefused(uri)
	g := s.growing[string(uri)]
	if g == nil {
		had := max(len(s.value(uri))-size, 0)
		g = &growth{sent: had, size: had}
		if s.growing == nil {
			s.growing = map[string]*growth{}
		}
		s.growing[string(uri)] = g
	}
	if g.size += size; (g.size-g.sent)*share >= g.sent {
		dst = s.send(dst, uri, g)
	}
	return dst
}

// send appends the present value of a string.
func (s *state) send(dst, uri []byte, g *growth) []byte {
	value := s.value(uri)
	if g.sent, g.size = len(value), len(value); len(value) == 0 { // the string is deleted
		return dst
	}
	return s.write(dst, "replace", uri, value)
}

// complete is for a value that does not change again.
func (s *state) complete(dst, uri []byte) []byte {
	g := s.growing[string(uri)]
	if g != nil && g.size > g.sent {
		dst = s.send(dst, uri, g)
	}
	delete(s.growing, string(uri))
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
	s.sent = true
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

// put appends an operation with the value at a uri.
func (s *state) put(dst []byte, op string, uri []byte) []byte {
	value := s.value(uri)
	if _, refused := cutRefused(uri); refused {
		return s.grow(dst, uri, max(len(value), 1))
	}
	delete(s.growing, string(uri))
	return s.write(dst, op, uri, value)
}

// write appends an event with one operation: a snapshot for the full document, or else a patch.
func (s *state) write(dst []byte, op string, uri, value []byte) []byte {
	switch {
	case s.ended:
		return dst
	case len(value) > maxValue:
		s.ended = true
		return appendCustom(dst, "too_large", rawjson.MustMarshal(map[string]any{"path": pointer(uri), "bytes": len(value)}))
	case len(uri) == 0:
		return frame.End(frame.Member(frame.Begin(dst, stateSnapshot), "snapshot", value))
	}
	dst = append(append(frame.Key(frame.Begin(dst, stateDelta), "delta"), `[{"op":"`...), op...)
	dst = frame.Member(frame.Text(append(dst, '"'), "path", pointer(uri)), "value", value)
	return frame.End(append(dst, "}]"...))
}

// pointer is the JSON Pointer (RFC 6901) of a uri that the document has accepted.
func pointer(uri []byte) string {
	segments, _ := jsonuri.Parse(string(uri))
	return schema.Pointer(segments)
}

// cutRefused returns the uri, or if clients may refuse its path, that of the document, which must be sent in full instead: in JavaScript, the
// path would lead to the prototype of an object.
func cutRefused(uri []byte) (holder []byte, refused bool) {
	if bytes.Contains(uri, []byte("__proto__")) || bytes.Contains(uri, []byte("constructor/prototype")) {
		return nil, true
	}
	return uri, false
}
