package htmlpath

import (
	"bytes"
	"cmp"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/lingserve/lingserve/internal/wording"
)

// The limits of a [Parser] whose options do not say otherwise.
const (
	DefaultMaxDepth = 512
	DefaultMaxBytes = 16 << 20
	DefaultMaxTag   = 64 << 10
	DefaultMaxPath  = 8 << 10
)

// maxBlank is the white space outside elements after which reading on is of no use: some models never stop.
const maxBlank = 256

// Options are the settings of a [Parser]. The zero value takes all of the input for HTML, with the default limits.
type Options struct {
	// Repair takes the input for the answer of a model, in which HTML stands: see [Parser].
	Repair bool
	// Limits; zero means the default.
	MaxDepth int   // 512
	MaxBytes int64 // 16 MiB
	MaxTag   int   // 64 KiB, from "<" to ">"
	MaxPath  int   // 8 KiB
}

// Attribute is an attribute of a tag. Its value is decoded; it is empty where the tag gives none.
type Attribute struct{ Name, Value []byte }

// Handler has callbacks for what a [Parser] finds, in document order. Members that are nil are not called. Slices are valid only
// during the call and must not be changed.
type Handler struct {
	// Open is called for each start tag. Where a tag has an attribute twice, the first counts.
	Open func(path, name []byte, attributes []Attribute)
	// Text is called for text, decoded; path is that of the element around it.
	Text func(path, text []byte)
	// Close is called for the end of each element.
	Close func(path, name []byte)
	// Source is called with the document as it was written, in pieces, as soon as it is certain that they belong to it: a tag
	// when it is complete, anything else as it comes, so a piece may end anywhere. The pieces of a Write may come before or
	// after its events.
	Source func(text []byte)
	// Prose is called, in repair mode, with the text before the document.
	Prose func(text []byte)
}

// Parser parses one document. Make one with [NewParser]. It is not safe for concurrent use.
//
// In repair mode the input is what a model has answered. Prose, thinking in <think> tags and the first line of a code fence before the
// document go to [Handler.Prose]; the document begins with the first tag of a line, with one inside a line that text follows, or
// behind the first line of a fence of HTML. It ends with the fence, or with </html>, and what comes after that is ignored. A tag that
// is cut off by the end of the input is left out, and text without any tag is an error, [ErrNoDocument].
type Parser struct {
	tree
	prelude
	repair   bool
	maxBytes int64
	maxTag   int

	mode    mode
	buf     []byte // input that was not parsed yet, from pos on
	pos     int
	from    int    // where in buf the source begins that was not handed out
	base    int64  // offset of buf[0] in the input
	scanned int    // bytes behind pos in which the end of the tag was not found
	last    byte   // of these, without white space
	quote   byte   // around the attribute value that is open
	fence   int    // length of the fence around the document; 0 is none
	text    []byte // that is collected, decoded
	blank   int    // white space in a row, outside elements

	tag       bytes.Reader // one whole tag, so that the tokenizer never reads on
	tokenizer *html.Tokenizer

	tags     bool // there was one
	err      error
	closed   bool
	complete bool
}

// NewParser returns a parser that tells h what it finds. o may be nil.
func NewParser(h Handler, o *Options) *Parser {
	if o == nil {
		o = &Options{}
	}
	p := &Parser{
		repair:   o.Repair,
		maxBytes: cmp.Or(o.MaxBytes, DefaultMaxBytes),
		maxTag:   cmp.Or(o.MaxTag, DefaultMaxTag),
		mode:     inText,
	}
	p.tree = tree{
		handler: h, fixes: map[string]int{}, maxDepth: cmp.Or(o.MaxDepth, DefaultMaxDepth), maxPath: cmp.Or(o.MaxPath, DefaultMaxPath),
	}
	if p.repair {
		p.mode = inProse
	}
	return p
}

// Write parses the next chunk, of any size; it keeps no reference to it. The first error ends the document: it is
// returned by every later call too. Errors are *[LimitError], and [ErrClosed] after Close.
func (p *Parser) Write(chunk []byte) (int, error) { return write(p, chunk) }

// WriteString is Write for a string.
func (p *Parser) WriteString(chunk string) (int, error) { return write(p, chunk) }

func write[T []byte | string](p *Parser, chunk T) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	if p.closed {
		return 0, ErrClosed
	}
	n := int(min(int64(len(chunk)), p.maxBytes-p.base-int64(len(p.buf))))
	p.buf = append(p.buf, chunk[:n]...)
	p.parse(false)
	p.flush(false)
	if p.pos > 0 {
		p.base += int64(p.pos)
		p.buf = append(p.buf[:0], p.buf[p.pos:]...)
		p.pos, p.from = 0, 0
	}
	if n < len(chunk) && p.err == nil {
		p.err = &LimitError{Limit: "document", Max: p.maxBytes, Offset: p.maxBytes}
	}
	return n, p.err
}

// parse parses the buffer as far as it can.
func (p *Parser) parse(final bool) {
	for p.mode != atEnd && p.err == nil && p.step(final) {
	}
	if p.mode != inProse && p.mode != atEnd {
		p.release()
	}
	if p.mode == atEnd {
		if len(bytes.TrimSpace(p.buf[p.pos:])) > 0 {
			p.fixes[fixTrailing] = 1
		}
		p.pos = len(p.buf)
	}
}

// release hands out the source that was parsed.
func (p *Parser) release() {
	if p.pos > p.from && p.handler.Source != nil {
		p.handler.Source(p.buf[p.from:p.pos])
	}
	p.from = p.pos
}

func (p *Parser) limit(name string, most int) {
	p.err = &LimitError{Limit: name, Max: int64(most), Offset: p.base + int64(p.pos)}
}

// Close ends the input: what is open is closed, and in repair mode text without any tag is an error. Closing again gives
// the same answer.
func (p *Parser) Close() error {
	if p.closed || p.err != nil {
		return p.err
	}
	p.closed = true
	p.parse(true)
	p.flush(true)
	if p.mode != atEnd && p.mode != inProse {
		before := p.fixes[fixUnclosed]
		p.closeTo(0, 0)
		p.complete = p.fixes[fixUnclosed] == before && p.fixes[fixCut] == 0
	}
	if p.repair && !p.tags {
		p.err = ErrNoDocument
	}
	return p.err
}

// MayStop says that reading on is of no use: the document is complete, or nothing but white space has come for 256
// characters outside all elements.
func (p *Parser) MayStop() bool { return p.mode == atEnd || p.repair && p.blank >= maxBlank }

// Complete says whether the document's end was seen: </html> or the end of its fence, or, after Close, that nothing was
// left open.
func (p *Parser) Complete() bool { return p.complete && p.err == nil }

// flush hands out the text that is collected. Unless it ends there, a character that may go on stays.
func (p *Parser) flush(ends bool) {
	n := len(p.text)
	if !ends {
		n -= wording.CutOff(p.text)
	}
	if n == 0 {
		return
	}
	text := p.valid(p.text[:n])
	if p.mode == inProse {
		if p.handler.Prose != nil {
			p.handler.Prose(text)
		}
	} else if p.handler.Text != nil {
		p.handler.Text(p.path, text)
	}
	p.text = append(p.text[:0], p.text[n:]...)
}

// valid replaces each byte of text that is not UTF-8 by U+FFFD.
func (p *Parser) valid(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	p.fixes[fixUTF8] = 1
	return []byte(string([]rune(string(text))))
}
