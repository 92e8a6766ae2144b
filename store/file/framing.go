package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"time"

	"github.com/lingserve/lingserve/store"
)

// Codec is how the logs of a space lie in files that others can read too: each entry is a line, and each line of a batch but the last says
// that the batch goes on. What lines do not have is in the index, which is made again from the lines and from the side file.
type Codec interface {
	// File returns the name of a log's file without End; false lets the log have the engine's own form.
	File(name string) (file string, ok bool)
	// Name returns the name of the log in a file.
	Name(file string) (name string, ok bool)
	// End is the ending of the files, as in ".jsonl".
	End() string
	// AppendLine appends the line of an entry, with its line feed. last is the number before it.
	AppendLine(dst []byte, e store.Entry, last uint64, more bool) []byte
	// ParseLine reads a line without its line feed. The entry may have the line's memory.
	ParseLine(text []byte) (Line, error)
	// SplitLine returns the length of the first line of a text whose line feed may have been damaged.
	SplitLine(text []byte) int
	// Rebuild begins to make a head again, from the one behind the entries that were read before.
	Rebuild(head []byte) Head
	// AppendSide appends what no line says of a log. It is kept in a file beside it, with the ending SideEnd.
	AppendSide(dst []byte, label string, head []byte) []byte
	SideEnd() string
	// Begin returns the label and the head of a log without entries, of which the side file says this, or nothing.
	Begin(name string, side []byte) (label string, head []byte)
}

// Head is a head that is made again from the lines of a log.
type Head interface {
	// Add takes in an entry, or a damaged line if err is not nil, and returns when the entry was written.
	Add(e store.Entry, err error) (at time.Time)
	// Keep says that the entries since the last call are those of whole batches.
	Keep()
	// Text returns the head behind those that are kept.
	Text() []byte
}

// Line is what a line says.
type Line struct {
	store.Entry
	Before int64 // the number of the entry before; -1: the line does not say it
	More   bool  // its batch goes on
}

// framing is how a log lies in its file.
type framing interface {
	begin(name string, side []byte) state
	// appendBatch appends the lines of a batch, and returns the state behind them.
	appendBatch(dst []byte, s state, b store.Batch) ([]byte, state)
	// parse reads a line without its line feed.
	parse(text []byte) (record, error)
	split(text []byte) int
	damaged(s *state, err error)
	apply(s *state, r *record) // takes in what a record says beside its entry
	longest() int              // bytes of a line
	appendSide(dst []byte, s *state) []byte
	sideEnd() string // "": there is no side file
}

// kinds of lines.
const (
	lineEntry = 'e'
	lineMark  = 'm' // a marked entry
	lineBatch = 'b' // ends a batch
	lineBegin = 'l' // the first of a file
	lineTrim  = 't'
	lineState = 'c' // the second of a file that was written anew without trimmed entries
)

// record is what a line says.
type record struct {
	kind byte
	Line
	says func(*state) // beside the entry; nil: nothing
}

// entry reports whether the record is one of an entry.
func (r *record) entry() bool { return r.kind == lineEntry || r.kind == lineMark }

var (
	errSum  = errors.New("its checksum does not match")
	errForm = errors.New("it has no known form")
)

// own is the framing of the engine. A line is a kind, a body in which line feeds are escaped, and eight digits of a CRC-32C over the log's
// name and the line.
type own struct{ sum uint32 } // of the log's name

const (
	escape     = 0x1b
	escapedEnd = 'n' // behind escape: a line feed
	sumSize    = 8
)

func (own) longest() int { return 2*store.MaxEntry + 64 }

func (own) appendSide(dst []byte, _ *state) []byte { return dst }

func (own) sideEnd() string { return "" }

func (own) split(text []byte) int { return len(text) }

func (own) damaged(*state, error) {}

func (own) apply(s *state, r *record) {
	if r.says != nil {
		r.says(s)
	}
}

func (own) begin(name string, _ []byte) state { return state{name: name} }

func appendEscaped(dst, text []byte) []byte {
	next := func(c byte, from int) int {
		if i := bytes.IndexByte(text[from:], c); i >= 0 {
			return from + i
		}
		return len(text)
	}
	end, esc := next('\n', 0), next(escape, 0)
	for from := 0; ; {
		at := min(end, esc)
		dst = append(dst, text[from:at]...)
		if at == len(text) {
			return dst
		}
		from = at + 1
		if at == end {
			dst = append(dst, escape, escapedEnd)
			end = next('\n', from)
		} else {
			dst = append(dst, escape, escape)
			esc = next(escape, from)
		}
	}
}

func unescape(text []byte) []byte {
	i := bytes.IndexByte(text, escape)
	if i < 0 {
		return text
	}
	dst := append(make([]byte, 0, len(text)), text[:i]...)
	for text = text[i:]; len(text) > 1; {
		if text[1] == escapedEnd {
			dst = append(dst, '\n')
		} else {
			dst = append(dst, text[1])
		}
		text = text[2:]
		if i = bytes.IndexByte(text, escape); i < 0 {
			i = len(text)
		}
		dst = append(dst, text[:i]...)
		text = text[i:]
	}
	return dst
}

func sumOfName(name string) uint32 { return crc32.Checksum([]byte(name), castagnoli) }

const digits = "0123456789abcdef"

// appendLine appends a line whose body is in two parts.
func (f own) appendLine(dst []byte, kind byte, first, second []byte) []byte {
	start := len(dst)
	dst = appendEscaped(appendEscaped(append(dst, kind), first), second)
	sum := crc32.Update(f.sum, castagnoli, dst[start:])
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, digits[sum>>shift&15])
	}
	return append(dst, '\n')
}

func appendBytes(dst []byte, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// beginLine is the first line of a log's file.
func (f own) beginLine(dst []byte, s *state) []byte {
	body := binary.LittleEndian.AppendUint64(nil, s.life)
	body = binary.AppendVarint(body, s.created)
	body = appendBytes(appendBytes(body, []byte(s.name)), []byte(s.label))
	return f.appendLine(dst, lineBegin, body, nil)
}

// appendBatch implements framing.
func (f own) appendBatch(dst []byte, s state, b store.Batch) ([]byte, state) {
	start := len(dst)
	if s.count == 0 {
		dst = f.beginLine(dst, &s)
	}
	var numbers [2 * binary.MaxVarintLen64]byte
	for _, e := range b.Entries {
		e.N = max(e.N, s.last+1)
		kind := byte(lineEntry)
		if e.Mark {
			kind = lineMark
		}
		at := len(dst)
		number := binary.AppendUvarint(binary.AppendUvarint(numbers[:0], e.N), e.N-s.last-1)
		dst = f.appendLine(dst, kind, number, e.Data)
		s.add(&e, extent{s.bytes + int64(at-start), s.bytes + int64(len(dst)-start)})
	}
	if b.Head != nil {
		s.head = b.Head
	}
	s.id = b.ID
	s.count++
	body := append(make([]byte, 0, 64+len(b.Head)), b.ID[:]...)
	body = binary.AppendUvarint(binary.AppendVarint(body, s.updated), s.count)
	if b.Head != nil {
		body = append(append(body, 1), b.Head...)
	}
	dst = f.appendLine(dst, lineBatch, body, nil)
	return dst, s
}

// trimLine says that entries below a number are gone.
func (f own) trimLine(dst []byte, s *state) []byte {
	var body []byte
	for _, n := range []uint64{s.first, uint64(s.entries), uint64(s.size)} {
		body = binary.AppendUvarint(body, n)
	}
	return f.appendLine(dst, lineTrim, body, nil)
}

// stateLine is the state before the entries of a file that was written anew.
func (f own) stateLine(dst []byte, s *state) []byte {
	body := append([]byte(nil), s.id[:]...)
	body = binary.AppendVarint(body, s.updated)
	for _, n := range []uint64{s.count, s.last, s.first} {
		body = binary.AppendUvarint(body, n)
	}
	return f.appendLine(dst, lineState, body, s.head)
}

// reader reads the body of a line.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.bad = true
		return make([]byte, min(max(n, 0), 16))
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	return text
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	r.bad = r.bad || size <= 0
	r.take(max(size, 0))
	return n
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.rest)
	r.bad = r.bad || size <= 0
	r.take(max(size, 0))
	return n
}

func (r *reader) bytes() []byte { return r.take(int(min(r.uvarint(), 1<<30))) }

// parse implements framing.
func (f own) parse(text []byte) (record, error) {
	at := len(text) - sumSize
	if at < 1 {
		return record{}, errForm
	}
	sum := uint32(0)
	for _, c := range text[at:] {
		sum = sum<<4 | uint32(max(0, strings.IndexByte(digits, c)))
	}
	if sum != crc32.Update(f.sum, castagnoli, text[:at]) {
		return record{}, errSum
	}
	r := record{kind: text[0], Line: Line{Before: -1, More: true}}
	body := reader{rest: unescape(text[1:at])}
	switch r.kind {
	case lineEntry, lineMark:
		r.N, r.Before = body.uvarint(), -1-int64(body.uvarint())
		r.Data, r.Mark, r.Before = body.rest, r.kind == lineMark, r.Before+int64(r.N)
	case lineBatch:
		r.More = false
		r.says = parseBatch(&body)
	case lineBegin:
		life, created := binary.LittleEndian.Uint64(body.take(8)), body.varint()
		_, label := body.bytes(), body.bytes()
		r.says = func(s *state) { s.life, s.created, s.label = life, created, string(label) }
	case lineTrim:
		r.More = false
		first, entries, size := body.uvarint(), body.uvarint(), body.uvarint()
		r.says = func(s *state) { s.trimTo(first, int64(entries), int64(size)) }
	case lineState:
		id, updated := [16]byte(body.take(16)), body.varint()
		count, last, first, head := body.uvarint(), body.uvarint(), body.uvarint(), body.rest
		r.says = func(s *state) {
			s.id, s.updated, s.count, s.last, s.first, s.trimmed, s.head = id, updated, count, last, first, true, bytes.Clone(head)
		}
	default:
		return record{}, errForm
	}
	if body.bad {
		return record{}, errForm
	}
	return r, nil
}

func parseBatch(body *reader) func(*state) {
	id, updated, count := [16]byte(body.take(16)), body.varint(), body.uvarint()
	headed, head := len(body.rest) > 0, body.rest
	if headed {
		head = bytes.Clone(head[1:])
	}
	return func(s *state) {
		s.id, s.updated, s.count = id, updated, count
		if headed {
			s.head = head
		}
	}
}

// coded is the framing of a codec.
type coded struct{ Codec }

func (c coded) longest() int { return 2*store.MaxEntry + 256 }

func (c coded) appendSide(dst []byte, s *state) []byte { return c.AppendSide(dst, s.label, s.head) }

func (c coded) sideEnd() string { return c.SideEnd() }

func (c coded) split(text []byte) int { return c.SplitLine(text) }

func (c coded) damaged(s *state, err error) { c.rebuild(s).Add(store.Entry{}, err) }

// rebuild is the head of a state that is being read.
func (c coded) rebuild(s *state) Head {
	if s.rebuilt == nil {
		s.rebuilt = c.Rebuild(s.head)
	}
	return s.rebuilt
}

func (c coded) begin(name string, side []byte) state {
	s := state{name: name, life: newLife()}
	s.label, s.head = c.Begin(name, side)
	return s
}

func (c coded) appendBatch(dst []byte, s state, b store.Batch) ([]byte, state) {
	start := len(dst)
	for i, e := range b.Entries {
		e.N = max(e.N, s.last+1)
		at := len(dst)
		dst = c.AppendLine(dst, e, s.last, i < len(b.Entries)-1)
		s.add(&e, extent{s.bytes + int64(at-start), s.bytes + int64(len(dst)-start)})
	}
	if b.Head != nil {
		s.head = b.Head
	}
	s.id = b.ID
	s.count++
	return dst, s
}

func (c coded) parse(text []byte) (record, error) {
	l, err := c.ParseLine(text)
	if err != nil {
		return record{}, err
	}
	kind := byte(lineEntry)
	if l.Mark {
		kind = lineMark
	}
	return record{kind: kind, Line: l}, nil
}

func (c coded) apply(s *state, r *record) {
	if at := c.rebuild(s).Add(r.Entry, nil); !at.IsZero() {
		if s.updated = at.UnixMicro(); s.entries == 1 {
			s.created = s.updated
		}
	}
	if !r.More {
		s.id, s.count = [16]byte{}, s.count+1
	}
}
