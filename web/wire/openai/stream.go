package openai

import (
	"bytes"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/jsonuri/linear"
	"github.com/lingserve/lingserve/tube"
)

// Stream writes a run's events as chunks of one completion. It implements [github.com/lingserve/lingserve/web/wire/frame.Encoder] and its
// Opener, and belongs to one stream.
type Stream struct {
	end   func() End
	text  linear.Writer
	begun bool // there is a document, or a text

	first, last []byte // the text of a chunk before its delta, and after its finish reason
	usage       []byte // the text of the chunk with the usage before that; nil if the client does not want it
	reasoning   map[string]*reasoning
	thinking    *reasoning      // the newest
	cited       map[string]bool // uris of citations
	buf         []byte
	isText      bool
	over        bool
}

// Shape is what is known of a run's document before it comes.
type Shape struct {
	Text  bool     // it is a string: one that is missing is an empty one
	Roots []string // where bots write, as [linear.Writer.Expect] takes it
}

// NewStream returns a stream. usage says that it ends with the usage. end is called once, when the run has ended.
func NewStream(h Head, usage bool, of Shape, end func() End) *Stream {
	s := &Stream{end: end, isText: of.Text, last: []byte("}]}\n\n"), reasoning: map[string]*reasoning{}, cited: map[string]bool{}}
	for _, root := range of.Roots {
		s.text.Expect(root)
	}
	heading := rawjson.MustMarshal(h.of("chat.completion.chunk"))
	heading = append([]byte("data: "), heading[:len(heading)-1]...)
	s.first = append(bytes.Clone(heading), `,"choices":[{"index":0,"delta":{`...)
	if usage {
		s.last = []byte(`}],"usage":null}` + "\n\n")
		s.usage = append(heading, `,"choices":[],"usage":`...)
	}
	return s
}

// Open appends the chunk with the role.
func (s *Stream) Open(dst []byte) []byte {
	return s.endChunk(append(append(dst, s.first...), `"role":"assistant","content":"","refusal":null`...), "null")
}

// Over implements frame.Encoder.
func (s *Stream) Over() bool { return s.over }

// endChunk appends what follows the delta of a chunk. finish is the JSON of the reason.
func (s *Stream) endChunk(dst []byte, finish string) []byte {
	dst = append(append(dst, `},"logprobs":null,"finish_reason":`...), finish...)
	return append(dst, s.last...)
}

// Append implements frame.Encoder.
func (s *Stream) Append(dst []byte, e tube.Event) []byte {
	switch e.Kind {
	case tube.Append, tube.Set:
		if jsonuri.Reserved(e.URI) {
			return s.appendReserved(dst, e)
		}
		s.begun = true
		s.text.Apply(jsonuri.Delta{Op: jsonuri.Op(e.Kind), URI: e.URI, Value: e.Value})
	case tube.Done:
		s.text.Done(e.URI)
	default:
		if e.Terminal() {
			return s.finish(dst)
		}
		return dst
	}
	s.buf = s.text.AppendText(s.buf[:0])
	dst = s.appendContent(dst)
	if s.text.Err() != nil {
		return s.finish(dst) // what follows cannot be written
	}
	return dst
}

// appendReserved appends reasoning and citations. Calls of tools are left out: the server has made them, and clients would make them again.
func (s *Stream) appendReserved(dst []byte, e tube.Event) []byte {
	if isReasoning(e.URI) {
		return s.appendReasoning(dst, e)
	}
	switch uri := string(e.URI); {
	case e.Kind == tube.Append:
	case isCitation(uri):
		return s.appendCitation(dst, uri, e.Value)
	case isCitation(uri + "/"): // of a snapshot
		for n, value := range rawjson.Members(e.Value) {
			dst = s.appendCitation(dst, uri+"/"+n, value)
		}
	}
	return dst
}

// appendContent appends a chunk of what is in buf.
func (s *Stream) appendContent(dst []byte) []byte {
	if len(s.buf) == 0 {
		return dst
	}
	dst = append(append(dst, s.first...), `"content":"`...)
	dst = jsonuri.AppendEscaped(dst, s.buf)
	return s.endChunk(append(dst, '"'), "null")
}

// appendCitation appends a chunk with a citation, once: a snapshot repeats it.
func (s *Stream) appendCitation(dst []byte, uri string, value []byte) []byte {
	a, ok := annotationOf(value)
	if !ok || s.cited[uri] {
		return dst
	}
	s.cited[uri] = true
	dst = append(append(dst, s.first...), `"annotations":`...)
	return s.endChunk(append(dst, rawjson.MustMarshal([]annotation{a})...), "null")
}

// reasoning is the reasoning of one bot.
type reasoning struct {
	size int // bytes so far
	skip int // bytes that a snapshot repeats
}

// appendReasoning appends a chunk of reasoning, under both names that clients know. Another bot's reasoning is another paragraph, and so is
// reasoning that begins again.
func (s *Stream) appendReasoning(dst []byte, e tube.Event) []byte {
	r := s.reasoning[string(e.URI)]
	if r == nil {
		r = new(reasoning)
		s.reasoning[string(e.URI)] = r
	}
	if e.Kind == tube.Set { // null
		if e.Part {
			r.skip, r.size = r.size, 0
		} else {
			*r = reasoning{}
		}
		return dst
	}
	newParagraph := s.thinking != nil && (s.thinking != r || r.size == 0 && r.skip == 0)
	s.thinking = r
	r.size += len(e.Value)
	n := min(r.skip, len(e.Value))
	r.skip -= n
	text := e.Value[n:]
	if len(text) == 0 {
		return dst
	}
	dst = append(dst, s.first...)
	for _, member := range [...]string{`"reasoning_content":"`, `,"reasoning":"`} {
		if dst = append(dst, member...); newParagraph {
			dst = append(dst, `\n\n`...)
		}
		dst = append(append(dst, text...), '"')
	}
	return s.endChunk(dst, "null")
}

// finish ends the stream.
func (s *Stream) finish(dst []byte) []byte {
	s.over = true
	end := s.end()
	var err error
	if s.begun || !s.isText {
		s.buf, err = s.text.Close(s.buf[:0])
		dst = s.appendContent(dst)
	}
	if err != nil && end.Err == nil {
		end.Err = &Error{
			Status: 500, Code: "taken_back",
			Message: "the answer restarted, which a text stream cannot show; send the request without stream",
		}
	}
	if end.Err != nil {
		return append(append(append(dst, "data: "...), rawjson.MustMarshal(end.Err)...), "\n\n"...)
	}
	dst = s.endChunk(append(dst, s.first...), `"`+end.Finish+`"`)
	if s.usage != nil {
		dst = append(append(dst, s.usage...), rawjson.MustMarshal(usageOf(end.Usage))...)
		dst = append(dst, "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}
