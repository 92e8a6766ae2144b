package file

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/lingserve/lingserve/internal/crcline"
	"github.com/lingserve/lingserve/tape"
)

const (
	// maxLine is the most that a line can have: an entry, the members that appendLine adds, and the line feed.
	maxLine = tape.MaxEntry + len(after) + len("9223372036854775807") + len(more) + crcline.Size + 1
	// blockSize is what is read at once: a view of fifty entries, as a rule.
	blockSize = 64 << 10
	// keepBuffer is the largest buffer that is used again; a larger one was for a line that seldom comes.
	keepBuffer = 1 << 20
)

var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, blockSize)) }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= keepBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// line is one of a tape, with its line feed but for one at the end. Its text is good until the next one is asked for, and nil
// where it is longer than any entry.
type line struct {
	text []byte
	span
}

// whole says that the line has its line feed.
func (l line) whole() bool { return len(l.text) > 0 && l.text[len(l.text)-1] == '\n' }

// parse reads the line, in the line's memory.
func (l line) parse() (entry, error) {
	if l.text == nil {
		return entry{}, errTooLong
	}
	return parse(l.text)
}

// forward reads lines in their order. It holds one line, or one block, whatever the length of the tape.
type forward struct {
	r    io.ReaderAt
	next int64 // offset of what is in buf[pos:]
	end  int64
	buf  []byte
	pos  int
}

// errCut says that the file is shorter than it was.
var errCut = errors.New("the tape is shorter than it was")

// line returns the next line, and io.EOF behind the last.
func (f *forward) line() (line, error) {
	start := f.next
	searched := 0
	long := false
	for {
		rest := f.buf[f.pos:]
		if i := bytes.IndexByte(rest[searched:], '\n'); i >= 0 {
			n := searched + i + 1
			f.pos += n
			f.next += int64(n)
			return f.made(rest[:n], start, long), nil
		}
		if f.next+int64(len(rest)) >= f.end {
			if len(rest) == 0 && f.next == start {
				return line{}, io.EOF
			}
			f.pos = len(f.buf)
			f.next += int64(len(rest))
			return f.made(rest, start, long), nil
		}
		if len(rest) > maxLine { // what was read of it is of no use
			long = true
			f.next += int64(len(rest))
			rest = nil
			f.pos = len(f.buf)
		}
		searched = len(rest)
		if err := f.fill(); err != nil {
			return line{}, err
		}
	}
}

// made is the line that was read up to f.next. Of a text that is several lines it is the first, and the others are read next.
func (f *forward) made(text []byte, start int64, long bool) line {
	if long {
		return line{nil, span{start, f.next}}
	}
	if rest := len(text) - endOfFirst(text); rest > 0 {
		text = text[:len(text)-rest]
		f.pos -= rest
		f.next -= int64(rest)
	}
	if len(text) > maxLine {
		text = nil
	}
	return line{text, span{start, f.next}}
}

// fill reads more behind what was not yet returned.
func (f *forward) fill() error {
	n := copy(f.buf[:cap(f.buf)], f.buf[f.pos:])
	f.buf, f.pos = f.buf[:n], 0
	if n == cap(f.buf) {
		f.buf = append(make([]byte, 0, max(blockSize, 2*n)), f.buf...)
	}
	want := min(int64(cap(f.buf)-n), f.end-f.next-int64(n))
	read, err := f.r.ReadAt(f.buf[n:n+int(want)], f.next+int64(n))
	f.buf = f.buf[:n+read]
	if read == 0 {
		if err == nil || errors.Is(err, io.EOF) {
			err = errCut
		}
		return err
	}
	return nil
}

// backward reads lines against their order, from end, which is behind a line feed.
type backward struct {
	r     io.ReaderAt
	begin int64 // offset of buf
	end   int64 // of the lines not yet returned
	buf   []byte
	step  int64 // how much to read next
}

// line returns the line before the one that it returned last, and io.EOF before the first.
func (b *backward) line() (line, error) {
	end := b.end
	long := false
	for {
		if have := b.end - b.begin; have > 0 {
			text := b.buf[:have]
			search := text
			if b.end == end { // its own line feed
				search = text[:len(text)-1]
			}
			if i := bytes.LastIndexByte(search, '\n'); i >= 0 || b.begin == 0 {
				text = text[i+1:]
				if !long {
					text = text[startOfLast(text):]
				}
				b.end = b.begin + have - int64(len(text))
				if long || len(text) > maxLine {
					text = nil
				}
				return line{text, span{b.end, end}}, nil
			}
			if have > int64(maxLine) {
				long = true
				b.end = b.begin
			}
		} else if b.begin == 0 && b.end == 0 {
			if end > 0 { // a long line began the tape
				return line{nil, span{0, end}}, nil
			}
			return line{}, io.EOF
		}
		if err := b.fill(); err != nil {
			return line{}, err
		}
	}
}

// fill reads more before what was not yet returned.
func (b *backward) fill() error {
	b.step = min(max(8<<10, 2*b.step), keepBuffer) // what is looked for is often near the end
	have := b.buf[:max(0, b.end-b.begin)]
	if len(have) == 0 {
		b.begin = b.end
	}
	step := min(b.step, b.begin)
	grown := make([]byte, step+int64(len(have)))
	copy(grown[step:], have)
	if n, err := b.r.ReadAt(grown[:step], b.begin-step); int64(n) < step {
		if err == nil || errors.Is(err, io.EOF) {
			err = errCut
		}
		return err
	}
	b.buf, b.begin = grown, b.begin-step
	return nil
}

// Members that a line has beside those of its entry, in this order and behind them; its checksum is the last.
const (
	// after is the id of the entry before, where that is not the id below this one.
	after = `,"after":`
	// more is in each line of a batch but the last.
	more = `,"more":true`
)

// entryStart is what each line begins with.
var entryStart = []byte(`{"id":`)

// Reasons why a line is not an entry of its tape.
var (
	errSum       = errors.New("its checksum does not match")
	errTooLong   = errors.New("it is longer than the limit of an entry")
	errMisplaced = errors.New("its id does not follow the one before")
)

// entry is what a line holds.
type entry struct {
	tape.Entry
	unfinished bool  // the line's batch goes on behind it
	before     int64 // id of the entry before; -1 where the line does not say it
}

// parse reads a line of a tape. The entry has the line's memory.
func parse(text []byte) (e entry, err error) {
	text = bytes.TrimSuffix(text, []byte("\n"))
	e.before = -1
	body, summed, matches := crcline.Cut(text)
	if !summed {
		var object bool
		if body, object = bytes.CutSuffix(text, []byte("}")); !object || !bytes.HasSuffix(body, []byte(more)) {
			e.Entry, err = tape.ParseEntry(text)
			return e, err
		}
	} else if !matches {
		return e, errSum
	}
	body, e.unfinished = bytes.CutSuffix(body, []byte(more))
	given := false
	if summed {
		body, e.before, given = cutAfter(body)
	}
	// A brace takes the next member's place and gives it back: the line may be read again.
	at := len(body)
	text[at] = '}'
	e.Entry, err = tape.ParseEntry(text[: at+1 : at+1])
	text[at] = ','
	if summed && !given {
		e.before = e.ID - 1
	}
	return e, err
}

// cutAfter takes the member after from the end of a line.
func cutAfter(body []byte) (rest []byte, id int64, ok bool) {
	at := len(body)
	for at > 0 && '0' <= body[at-1] && body[at-1] <= '9' {
		at--
	}
	rest, ok = bytes.CutSuffix(body[:at], []byte(after))
	if !ok {
		return body, 0, false
	}
	id, err := strconv.ParseInt(string(body[at:]), 10, 64)
	return rest, id, err == nil
}

// appendLine appends an entry's line. last is the id of the entry before.
func appendLine(dst []byte, e tape.Entry, last int64, unfinished bool) []byte {
	start := len(dst)
	dst = e.AppendJSON(dst)
	dst = dst[:len(dst)-1]
	if e.ID != last+1 {
		dst = strconv.AppendInt(append(dst, after...), last, 10)
	}
	if unfinished {
		dst = append(dst, more...)
	}
	return append(crcline.Append(dst, start), '\n')
}

// maxTried bounds how many parts of a damaged text are tried: each costs a checksum.
const maxTried = 64

// endOfFirst returns the length of the first line of a text that ends with a line feed, or at the end of the tape. That is all of it,
// unless a line feed was damaged: a line at the beginning or the end of the text whose checksum matches is then a line of its own.
func endOfFirst(text []byte) int {
	whole := bytes.TrimSuffix(text, []byte("\n"))
	_, summed, matches := crcline.Cut(whole)
	if matches || !bytes.Contains(whole, []byte(crcline.Mark)) {
		return len(text)
	}
	if bytes.HasPrefix(whole, entryStart) {
		for end, tried := 0, 0; tried < maxTried; tried++ {
			i := bytes.Index(whole[end:], []byte(crcline.Mark))
			if i < 0 {
				break
			}
			end += i
			if want, ok := crcline.Read(whole[end:]); ok && crcline.Sum(whole[:end]) == want {
				return end + crcline.Size
			}
			end += len(crcline.Mark)
		}
	}
	if summed {
		body := whole[:len(whole)-crcline.Size]
		want, _ := crcline.Read(whole[len(body):])
		for start, tried := 0, 0; start < len(body) && tried < maxTried; tried++ {
			i := bytes.Index(body[start+1:], entryStart)
			if i < 0 {
				break
			}
			start += 1 + i
			if crcline.Sum(body[start:]) == want {
				return start
			}
		}
	}
	return len(text)
}

// startOfLast returns where the last line of such a text begins.
func startOfLast(text []byte) int {
	at := 0
	for {
		n := endOfFirst(text[at:])
		if at+n == len(text) {
			return at
		}
		at += n
	}
}
