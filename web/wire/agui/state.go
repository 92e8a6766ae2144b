package agui

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// state is the run's document as the client has it: the client's is behind by what was appended to strings since they were last
// sent.
type state struct {
	doc  jsonuri.Document
	told bool // the client has it; otherwise its own is left alone

	grown map[string]*growth
	most  int     // how many of them there may be until those are forgotten that the client has
	last  *growth // what the event before has added to, nil for none
	value []byte  // at hand
	lost  func(dst, uri []byte, size int) []byte
}

// growth is a string to which something was appended, or another value that is only sent as a whole.
type growth struct {
	uri  string
	sent int // bytes that the client has
	size int // bytes that it should have
	// turned says that it was sent once because something else was added to, which is mostly the sign of its end.
	turned bool
	// holder says that it stands for what it holds, and is no string that the next event may add to.
	holder bool
}

// A value is sent again when it has grown by this part, so that all that is sent of it is at most nine times as long as it is.
const share = 8

// Bounds of what is held between events.
const (
	maxGrown = 256      // values that are complete for all we know
	maxHeld  = 64 << 10 // bytes of a buffer
)

// due says whether a value has grown enough to be sent again.
func (g *growth) due() bool { return (g.size-g.sent)*share >= g.sent && g.size > g.sent }

// apply brings the document up to an event, and tells the client of it where it is time for that. What the document refuses is
// left out, as it is from the run's result.
func (s *state) apply(dst []byte, e tube.Event) []byte {
	if g := s.last; g != nil && !g.holder && e.Kind == tube.Append && g.uri == string(e.URI) {
		if s.doc.Append(e.URI, e.Value) != nil {
			return dst
		}
		if g.size += len(e.Value); g.due() {
			dst = s.send(dst, g)
		}
		return dst
	}
	at, err := s.doc.Reach(e.URI)
	if err != nil {
		return dst
	}
	dst = s.turn(dst) // before it is there, or it would be told twice
	if e.Kind == tube.Append {
		err = s.doc.Append(e.URI, e.Value)
	} else {
		err = s.doc.Set(e.URI, e.Value)
	}
	if err != nil {
		return dst
	}
	if !s.told {
		return s.begin(dst)
	}
	there := at.End == len(e.URI)
	switch {
	case there && e.Kind == tube.Append && at.Kind == '"':
		return s.grow(dst, e.URI, len(e.Value))
	case there && at.Kind == '{' && string(e.Value) == "{}" && e.Kind == tube.Set:
		return dst
	case there:
		return s.put(dst, "replace", e.URI, 0)
	case at.Kind == '{':
		return s.put(dst, "add", e.URI[:at.Next], len(e.Value))
	case at.Kind == '[':
		return s.element(dst, e.URI[:at.End], e.URI[:at.Next], at.Length)
	default: // it has become an object
		return s.put(dst, "replace", e.URI[:at.End], 0)
	}
}

// begin sends the document for the first time, once it is more than a text.
func (s *state) begin(dst []byte) []byte {
	if at, err := s.doc.Reach(nil); err != nil || at.Kind != '{' && at.Kind != '[' {
		return dst
	}
	s.told = true
	return s.put(dst, "replace", nil, 0)
}

// turn is for something else being added to than before. What was added to before is mostly complete then; where several bots
// write at the same time it is not, and is not sent for this reason again.
func (s *state) turn(dst []byte) []byte {
	g := s.last
	if s.last = nil; g == nil || g.turned || g.size == g.sent {
		return dst
	}
	g.turned = true
	return s.send(dst, g)
}

// grow notes that size bytes were added to the value at a uri, which the client has, or to what holds it where the client
// refuses to touch that.
func (s *state) grow(dst, uri []byte, size int) []byte {
	at := refused(uri)
	if at >= 0 {
		uri = uri[:at]
	}
	g := s.grown[string(uri)]
	if g == nil {
		g = s.remember(uri, len(s.at(uri))-size)
	}
	g.holder = at >= 0
	g.size += size
	s.last = g
	if g.due() {
		dst = s.send(dst, g)
	}
	return dst
}

// remember begins to count what is added to a value.
func (s *state) remember(uri []byte, size int) *growth {
	if s.grown == nil {
		s.grown = map[string]*growth{}
	}
	if s.most = max(s.most, maxGrown); len(s.grown) >= s.most {
		maps.DeleteFunc(s.grown, func(_ string, g *growth) bool { return g.size == g.sent })
		s.most = 2 * len(s.grown)
	}
	g := &growth{uri: string(uri), sent: max(size, 0), size: max(size, 0)}
	s.grown[g.uri] = g
	return g
}

// at returns the value at a uri, valid until the next call; nothing where there is none.
func (s *state) at(uri []byte) []byte {
	if cap(s.value) > maxHeld {
		s.value = nil
	}
	value, ok := s.doc.AppendValue(s.value[:0], uri)
	if s.value = value; !ok {
		return nil
	}
	return value
}

// send sends a value as it is now.
func (s *state) send(dst []byte, g *growth) []byte {
	uri := []byte(g.uri)
	value := s.at(uri)
	full := g.sent > maxValue
	if g.sent, g.size = len(value), len(value); len(value) == 0 || full && value[0] == '"' {
		return dst // it is not there any more, or the client has as much of it as it can get
	}
	return s.write(dst, "replace", uri, value)
}

// done is for a value that does not change any more.
func (s *state) done(dst, uri []byte) []byte {
	g := s.grown[string(uri)]
	if g == nil {
		return dst
	}
	if g.size > g.sent {
		dst = s.send(dst, g)
	}
	delete(s.grown, g.uri)
	if s.last == g {
		s.last = nil
	}
	return dst
}

// flush sends all that the client does not have.
func (s *state) flush(dst []byte) []byte {
	s.last = nil
	for _, uri := range slices.Sorted(maps.Keys(s.grown)) {
		if g := s.grown[uri]; g.size > g.sent {
			dst = s.send(dst, g)
		}
	}
	clear(s.grown)
	return dst
}

// put sends the value at a uri by an operation. grown is how much of it is new.
func (s *state) put(dst []byte, op string, uri []byte, grown int) []byte {
	if refused(uri) >= 0 {
		return s.grow(dst, uri, max(grown, 1))
	}
	value := s.at(uri)
	if len(value) == 0 {
		return dst
	}
	delete(s.grown, string(uri))
	if value[0] == '"' {
		s.last = s.remember(uri, len(value))
	}
	return s.write(dst, op, uri, value)
}

// element sends an element that an array has got, and those before it that were missing.
func (s *state) element(dst, array, uri []byte, length int) []byte {
	at, err := s.doc.Reach(array)
	if err != nil || refused(uri) >= 0 {
		return s.put(dst, "replace", array, 0)
	}
	// A gap that is large beside the array is sent with the array: that is shorter, and does not happen to it often.
	if missing := at.Length - 1 - length; missing > at.Length/share {
		return s.put(dst, "replace", array, 0)
	} else if missing > 0 {
		dst = append(frame.Key(frame.Begin(dst, stateDelta), "delta"), '[')
		for i := range missing {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, `{"op":"add","path":"`...)
			dst = appendPointer(dst, array)
			dst = append(dst, '/')
			dst = strconv.AppendInt(dst, int64(length+i), 10)
			dst = append(dst, `","value":null}`...)
		}
		dst = frame.End(append(dst, ']'))
	}
	return s.put(dst, "add", uri, 0)
}

// write writes an operation that takes a value to a uri. The client is given a new state where that is all of it, and one that
// is too large for an event in pieces.
func (s *state) write(dst []byte, op string, uri, value []byte) []byte {
	if len(value) > maxValue {
		return s.pieces(dst, op, uri, value)
	}
	if len(uri) == 0 {
		return frame.End(frame.Member(frame.Begin(dst, stateSnapshot), "snapshot", value))
	}
	dst = append(frame.Key(frame.Begin(dst, stateDelta), "delta"), '[')
	dst = appendOp(dst, op, uri, value)
	return frame.End(append(dst, ']'))
}

func appendOp(dst []byte, op string, uri, value []byte) []byte {
	dst = append(dst, `{"op":"`...)
	dst = append(dst, op...)
	dst = append(dst, `","path":"`...)
	dst = appendPointer(dst, uri)
	dst = append(dst, `","value":`...)
	dst = append(dst, value...)
	return append(dst, '}')
}

// pieces writes a value that is too large for an event: what it holds one after the other, each in its place.
func (s *state) pieces(dst []byte, op string, uri, value []byte) []byte {
	if value[0] == '"' {
		head, _ := cut(value[1:len(value)-1], maxValue-2)
		dst = s.write(dst, op, uri, append(append([]byte{'"'}, head...), '"'))
		return s.lost(dst, uri, len(value))
	}
	var d jsonuri.Document
	if d.Set(nil, value) != nil { // cannot be: it was taken from one
		return dst
	}
	dst = s.write(dst, op, uri, []byte{value[0], value[0] + 2}) // "{" and "}", "[" and "]" are that far apart
	open := 0                                                   // where the patch begins that is being written; 0 for none
	shut := func() {
		if open > 0 {
			dst, open = frame.End(append(dst, ']')), 0
		}
	}
	whole := "" // the last value that was written as a whole
	path := bytes.Clone(uri)
	for at, part := range d.Walk {
		if at == "" || whole != "" && len(at) > len(whole) && at[:len(whole)] == whole && at[len(whole)] == '/' {
			continue
		}
		path = append(path[:0], uri...)
		if len(uri) > 0 {
			path = append(path, '/')
		}
		path = append(path, at...)
		if refused(path) >= 0 {
			whole = at
			shut()
			dst = s.lost(dst, path, len(part))
			continue
		}
		if len(part) > maxPiece {
			shut()
			if part[0] == '"' {
				dst = s.write(dst, "add", path, part)
			} else {
				dst = s.write(dst, "add", path, []byte{part[0], part[0] + 2})
			}
			continue
		}
		whole = at
		if open > 0 && len(dst)-open > maxPiece {
			shut()
		}
		if open == 0 {
			dst = append(frame.Key(frame.Begin(dst, stateDelta), "delta"), '[')
			open = len(dst)
		} else {
			dst = append(dst, ',')
		}
		dst = appendOp(dst, "add", path, part)
	}
	shut()
	return dst
}
