package jsonuri

import (
	"cmp"
	"hash/maphash"
	"unsafe"
)

// The limits of a [Parser] whose options do not say otherwise.
const (
	DefaultMaxDepth  = 512
	DefaultMaxBytes  = 16 << 20
	DefaultMaxKey    = 64 << 10
	DefaultMaxNumber = 4 << 10
)

// maxBlank is the white space outside a string after which reading on is of no use: some models never stop.
const maxBlank = 256

// Options are the settings of a [Parser]. The zero value parses strictly, without a root, with the default limits.
type Options struct {
	// Root is the uri put in front of every uri.
	Root string
	// Repair mends what models do to JSON instead of refusing it.
	Repair bool
	// Limits; zero means the default.
	MaxDepth  int   // 512
	MaxBytes  int64 // 16 MiB
	MaxKey    int   // 64 KiB
	MaxNumber int   // 4 KiB
}

// Handler is told what a [Parser] finds, in document order. Members that are nil are not called; values are collected
// only where someone listens. Slices are valid only during the call and must not be changed.
type Handler struct {
	// Delta is called for each delta. Prose before the document arrives, in repair mode, at the reserved uri
	// $reasoning_context below the root.
	Delta func(Delta)
	// String is called when a string is complete, with its decoded value.
	String func(uri []byte, value string)
	// Object is called when an object or array is complete, with its JSON text without white space; a repeated key is in
	// it as often as in the document.
	Object func(uri []byte, value []byte)
	// Scalar is called when a number or literal is complete, with its JSON text.
	Scalar func(uri []byte, value []byte)
	// Done is called when any value is complete, after the calls above; it needs nothing collected.
	Done func(uri []byte)
	// Finish is called once, when the document is complete.
	Finish func()
}

// Parser parses one document. Make one with [NewParser]. It is not safe for concurrent use.
type Parser struct {
	emitter
	maxBytes  int64
	maxKey    int
	maxNumber int

	state  state
	number uint8  // where a number stands
	inKey  bool   // the open string is a key
	escKey bool   // the open key has escapes
	lit    []byte // the literal that is read, and how much of it was
	litPos int
	carry  []byte // the open key or number, as far as it is known

	offset   int64  // bytes before the chunk, and after Write all of them
	base     int64  // bytes before what is read
	pend     []byte // the end of what was read, which waits for more
	line     int
	lineFrom int64 // offset of the line's first byte
	blank    int   // white space in a row, outside strings

	err      error
	closed   bool
	complete bool
	repair   *repairer // nil in strict mode
}

// NewParser returns a parser that tells h what it finds. o may be nil.
func NewParser(h Handler, o *Options) *Parser {
	if o == nil {
		o = &Options{}
	}
	p := &Parser{
		maxBytes:  cmp.Or(o.MaxBytes, DefaultMaxBytes),
		maxKey:    cmp.Or(o.MaxKey, DefaultMaxKey),
		maxNumber: cmp.Or(o.MaxNumber, DefaultMaxNumber),
		line:      1,
		emitter: emitter{
			h: h, uri: []byte(o.Root), root: len(o.Root), depth: cmp.Or(o.MaxDepth, DefaultMaxDepth),
			keys: seenKeys{seed: maphash.MakeSeed()}, gatherAll: h.Object != nil, gatherText: h.Object != nil || h.String != nil,
		},
	}
	if o.Repair {
		p.repair = &repairer{p: p, prosePath: []byte(Join(o.Root, "$reasoning_context")), lineStart: true}
	}
	return p
}

// Write parses the next chunk, of any size; it keeps no reference to it. The first error ends the document: it is
// returned by every later call too. Errors are *[SyntaxError] and *[LimitError], and [ErrClosed] after Close.
func (p *Parser) Write(chunk []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	if p.closed {
		return 0, ErrClosed
	}
	if (p.repair != nil || p.state == stString) && p.passPlain(chunk) {
		return len(chunk), nil
	}
	text := chunk
	if room := max(0, p.maxBytes-p.offset); int64(len(text)) > room {
		text = text[:room]
	}
	p.feed(text)
	if len(text) < len(chunk) && p.err == nil && (p.repair == nil || p.repair.state != rpDone) { // repair passes over text behind the document
		p.err = &LimitError{Limit: "document", Max: p.maxBytes, Offset: p.offset}
	}
	if p.err != nil {
		return len(text), p.err
	}
	return len(chunk), nil
}

// passPlain passes a chunk on as it is if it is the plain middle of a string, as nearly every token of a model is.
func (p *Parser) passPlain(chunk []byte) bool {
	n, r := len(chunk), p.repair
	switch {
	case n == 0 || len(p.pend) > 0 || p.offset+int64(n) > p.maxBytes:
		return false
	case r == nil && (p.state != stString || p.inKey), r != nil && !r.mayPass(chunk), skipPlain(chunk, 0) < n:
		return false
	case r != nil:
		r.note(chunk)
		r.last = 0
	}
	p.content(chunk)
	p.offset += int64(n)
	return true
}

// feed reads text together with what waits.
func (p *Parser) feed(text []byte) {
	p.base = p.offset - int64(len(p.pend))
	p.offset += int64(len(text))
	if p.repair == nil && len(p.pend) == 0 { // as nearly always in strict mode
		if i := p.strict(text); i < len(text) {
			p.pend = append(p.pend, text[i:]...)
		}
		return
	}
	if p.repair != nil {
		text = p.repair.filter(text)
	}
	b := text
	if len(p.pend) > 0 {
		p.pend = append(p.pend, text...)
		b = p.pend
	}
	if p.repair != nil {
		b = p.repair.run(b, false)
	} else {
		b = b[p.strict(b):]
	}
	p.pend = append(p.pend[:0], b...)
}

// WriteString is Write for a string.
func (p *Parser) WriteString(chunk string) (int, error) {
	return p.Write(unsafe.Slice(unsafe.StringData(chunk), len(chunk))) // nobody writes to it; a copy is an allocation per token
}

// Close ends the input. An unfinished document is an error in strict mode and finished in repair mode; text in which
// there is no document is an error in both ([ErrNoDocument] in repair mode). Closing again gives the same answer.
func (p *Parser) Close() error {
	if p.closed || p.err != nil {
		return p.err
	}
	p.closed = true
	if p.repair != nil {
		p.base = p.offset - int64(len(p.pend))
		p.repair.run(p.pend, true)
	} else {
		p.closeStrict()
	}
	return p.err
}

// MayStop says that reading on is of no use: the document is complete, or nothing but white space has come for 256
// characters outside a string. In repair mode a member behind the last bracket belongs to the document if it comes, but it need not be waited
// for: [Parser.Close] ends the document.
func (p *Parser) MayStop() bool {
	return p.complete || p.blank >= maxBlank || p.repair != nil && p.repair.ended()
}

// Complete says whether the document's text was complete without help (false before its end, and where Close had to finish it).
func (p *Parser) Complete() bool {
	return p.err == nil && (p.complete || p.repair != nil && p.repair.state == rpLast && len(p.pend) == 0)
}

// Repairs returns how many repairs of each kind were made; nil when there were none. A kind is a name as
// "missing_comma", "unescaped_quote" or "cut_off". It does not depend on where chunks end.
func (p *Parser) Repairs() map[string]int {
	if p.repair == nil {
		return nil
	}
	return p.repair.fixes
}
