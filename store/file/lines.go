package file

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

const (
	// blockSize is what is read at once: fifty entries, as a rule.
	blockSize = 64 << 10
	// keepBuffer is the largest buffer that is used again; a larger one was for a line that seldom comes.
	keepBuffer = 1 << 20
)

var errTooLong = errors.New("it is longer than the limit of an entry")

var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, blockSize)) }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= keepBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// line is one of a log, with its line feed but for one at the end. Its text is good until the next one is asked for, and nil
// where it is longer than any entry.
type line struct {
	text []byte
	extent
}

// whole says that the line has its line feed.
func (l line) whole() bool { return len(l.text) > 0 && l.text[len(l.text)-1] == '\n' }

// parse reads the line, in the line's memory.
func (l line) parse(f framing) (record, error) {
	if l.text == nil {
		return record{}, errTooLong
	}
	return f.parse(bytes.TrimSuffix(l.text, []byte("\n")))
}

// forward reads lines in their order. It holds one line, or one block, whatever the length of the log.
type forward struct {
	r    io.ReaderAt
	f    framing
	next int64 // offset of what is in buf[pos:]
	end  int64
	buf  []byte
	pos  int
}

// errCut says that the file is shorter than it was.
var errCut = errors.New("the log is shorter than it was")

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
		if len(rest) > f.f.longest() { // what was read of it is of no use
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
		return line{nil, extent{start, f.next}}
	}
	if rest := len(text) - f.f.split(text); rest > 0 {
		text = text[:len(text)-rest]
		f.pos -= rest
		f.next -= int64(rest)
	}
	if len(text) > f.f.longest() {
		text = nil
	}
	return line{text, extent{start, f.next}}
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
	f     framing
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
					text = text[startOfLast(b.f, text):]
				}
				b.end = b.begin + have - int64(len(text))
				if long || len(text) > b.f.longest() {
					text = nil
				}
				return line{text, extent{b.end, end}}, nil
			}
			if have > int64(b.f.longest()) {
				long = true
				b.end = b.begin
			}
		} else if b.begin == 0 && b.end == 0 {
			if end > 0 { // a long line began the log
				return line{nil, extent{0, end}}, nil
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

// startOfLast returns where the last line of such a text begins.
func startOfLast(f framing, text []byte) int {
	at := 0
	for {
		n := f.split(text[at:])
		if at+n == len(text) {
			return at
		}
		at += n
	}
}
