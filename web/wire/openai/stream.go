package openai

import (
	"bytes"
	"hash/maphash"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/jsonuri/linear"
	"github.com/lingserve/lingserve/tube"
)

// Stream writes a run's events as chunks of one completion. It implements [github.com/lingserve/lingserve/web/wire/frame.Encoder] and its
// Opener, and belongs to one stream.
type Stream struct {
	end  func() End
	text linear.Writer
	said bool // there is a document, or a text

	head, rest []byte // what stands around the delta of each chunk
	choiceless []byte // the beginning of the chunk that has the usage
	thinking   []byte // the uri of the last thought
	thoughts   map[string]*told
	cited      map[string]bool // uris of sources
	buf        []byte
	usage      bool
	isText     bool
	over       bool
}

// Shape is what is known of a run's document before it comes.
type Shape struct {
	Text  bool     // it is a string: one that is missing is an empty one
	Roots []string // where bots write, as [linear.Writer.Expect] takes it
}

// NewStream returns a stream. usage says that it ends with the usage. end is called once, when the run has ended.
func NewStream(h Head, usage bool, of Shape, end func() End) *Stream {
	s := &Stream{end: end, usage: usage, isText: of.Text}
	for _, root := range of.Roots {
		s.text.Expect(root)
	}
	s.choiceless = h.appendTo([]byte("data: "), "chat.completion.chunk")
	s.head = append(bytes.Clone(s.choiceless), `,"choices":[{"index":0,"delta":{`...)
	s.rest = []byte(`]}` + "\n\n")
	if usage {
		s.rest = []byte(`],"usage":null}` + "\n\n")
	}
	return s
}

// Open says who speaks.
func (s *Stream) Open(dst []byte) []byte {
	return s.chunk(dst, func(dst []byte) []byte { return append(dst, `"role":"assistant","content":"","refusal":null`...) }, "")
}

// Over implements frame.Encoder.
func (s *Stream) Over() bool { return s.over }

// chunk appends a chunk with what delta appends, and a finish reason; "" is none.
func (s *Stream) chunk(dst []byte, delta func([]byte) []byte, finish string) []byte {
	dst = append(dst, s.head...)
	if delta != nil {
		dst = delta(dst)
	}
	return s.tail(dst, finish)
}

func (s *Stream) tail(dst []byte, finish string) []byte {
	dst = append(dst, `},"logprobs":null,"finish_reason":`...)
	dst = append(appendOptional(dst, finish), '}')
	return append(dst, s.rest...)
}

// Append implements frame.Encoder.
func (s *Stream) Append(dst []byte, e tube.Event) []byte {
	switch e.Kind {
	case tube.Append, tube.Set:
		if isThought(e.URI) {
			return s.thought(dst, e)
		}
		if e.Kind == tube.Set && isCitation(e.URI) {
			return s.citation(dst, string(e.URI), e.Value)
		}
		if e.Kind == tube.Set && isCitation(string(e.URI)+"/") { // of a snapshot
			for n, value := range rawjson.Members(e.Value) {
				dst = s.citation(dst, string(e.URI)+"/"+n, value)
			}
			return dst
		}
		if jsonuri.Reserved(e.URI) {
			return dst // calls of tools that the server has run: a client would run them once more
		}
		d := jsonuri.Delta{URI: e.URI, Value: e.Value}
		if e.Kind == tube.Set {
			d.Op = jsonuri.Set
		}
		s.said = true
		s.text.Apply(d)
	case tube.Done:
		s.text.Done(e.URI)
	default:
		if e.Terminal() {
			return s.finish(dst)
		}
		return dst
	}
	s.buf = s.text.AppendText(s.buf[:0])
	dst = s.content(dst)
	if s.text.Err() != nil {
		return s.finish(dst) // what the run goes on with cannot be told here
	}
	return dst
}

// content appends a chunk of what is in buf.
func (s *Stream) content(dst []byte) []byte {
	if len(s.buf) == 0 {
		return dst
	}
	dst = append(dst, s.head...)
	dst = append(dst, `"content":"`...)
	dst = jsonuri.AppendEscaped(dst, s.buf)
	dst = append(dst, '"')
	return s.tail(dst, "")
}

// citation appends a chunk with a source, once: a snapshot has those that were told before.
func (s *Stream) citation(dst []byte, uri string, value []byte) []byte {
	s.buf = appendAnnotation(s.buf[:0], value)
	if len(s.buf) == 0 || s.cited[uri] {
		return dst
	}
	if s.cited == nil {
		s.cited = map[string]bool{}
	}
	s.cited[uri] = true
	dst = append(dst, s.head...)
	dst = append(dst, `"annotations":[`...)
	dst = append(dst, s.buf...)
	return s.tail(append(dst, ']'), "")
}

// told is what was told of a bot's thoughts.
type told struct {
	bytes int
	sum   maphash.Hash // of them
	anew  bool         // a snapshot is about to tell them from the beginning
}

// thought appends a chunk of thoughts, under the names that clients know. What another bot thinks is another paragraph.
func (s *Stream) thought(dst []byte, e tube.Event) []byte {
	t := s.thoughts[string(e.URI)]
	if t == nil {
		if s.thoughts == nil {
			s.thoughts = map[string]*told{}
		}
		t = new(told)
		s.thoughts[string(e.URI)] = t
	}
	if e.Kind == tube.Set { // null
		t.anew = true
		return dst
	}
	value, other := e.Value, false
	if t.anew {
		t.anew = false
		if len(value) >= t.bytes && maphash.Bytes(t.sum.Seed(), value[:t.bytes]) == t.sum.Sum64() {
			value = value[t.bytes:]
		} else {
			t.sum.Reset()
			t.bytes, other = 0, true
		}
	}
	t.bytes += len(value)
	t.sum.Write(value)
	gap := s.thinking != nil && (other || !bytes.Equal(s.thinking, e.URI))
	s.thinking = append(s.thinking[:0], e.URI...)
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, s.head...)
	for i, name := range reasoning {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, `":"`...)
		if gap {
			dst = append(dst, `\n\n`...)
		}
		dst = append(dst, value...)
		dst = append(dst, '"')
	}
	return s.tail(dst, "")
}

// finish ends the stream.
func (s *Stream) finish(dst []byte) []byte {
	s.over = true
	end := s.end()
	var err error
	if s.said || !s.isText {
		s.buf, err = s.text.Close(s.buf[:0])
		dst = s.content(dst)
	}
	if err != nil && end.Err == nil {
		end.Err = &Error{
			Status: 500, Code: "taken_back",
			Message: "the answer restarted, which a text stream cannot show; send the request without stream",
		}
	}
	if end.Err != nil {
		dst = append(dst, "data: "...)
		dst = end.Err.AppendJSON(dst)
		return append(dst, "\n\n"...)
	}
	dst = s.chunk(dst, nil, end.Finish)
	if s.usage {
		dst = append(dst, s.choiceless...)
		dst = append(dst, `,"choices":[],"usage":`...)
		dst = appendUsage(dst, end.Usage)
		dst = append(dst, "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// isThought says whether a bot's thinking stands at a uri.
func isThought(uri []byte) bool {
	rest, ok := bytes.CutSuffix(uri, []byte("$reasoning_context"))
	return ok && (len(rest) == 0 || rest[len(rest)-1] == '/' && !bytes.HasSuffix(rest, []byte(`\/`)))
}
