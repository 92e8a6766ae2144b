package file

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/lingserve/lingserve/tape"
)

const (
	// maxLine is the most that a line can have: an entry, what marks it as a part of a batch, and its line feed.
	maxLine = tape.MaxEntry + len(more) + 1
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

func (f *forward) made(text []byte, start int64, long bool) line {
	if long || len(text) > maxLine {
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
				b.end = b.begin + int64(i) + 1
				text = text[i+1:]
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

// more is the member at the end of each line of a batch but the last.
const more = `,"more":true`

var moreEnd = []byte(more + "}")

// parse reads a line of a tape. unfinished says that the line's batch goes on behind it. The entry has the line's memory.
func parse(text []byte) (e tape.Entry, unfinished bool, err error) {
	text = bytes.TrimSuffix(text, []byte("\n"))
	if unfinished = bytes.HasSuffix(text, moreEnd); unfinished {
		// The brace takes the member's place and gives it back: the line may be read again.
		at := len(text) - len(moreEnd)
		text[at] = '}'
		e, err = tape.ParseEntry(text[: at+1 : at+1])
		text[at] = ','
		return e, true, err
	}
	e, err = tape.ParseEntry(text)
	return e, false, err
}

// appendLine appends an entry's line.
func appendLine(dst []byte, e tape.Entry, unfinished bool) []byte {
	dst = e.AppendJSON(dst)
	if unfinished {
		dst = append(dst[:len(dst)-1], moreEnd...)
	}
	return append(dst, '\n')
}
