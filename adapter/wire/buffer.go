package wire

import (
	"bufio"
	"bytes"
	"io"
)

// buffer holds what has been read of a body and not taken. Lines and messages are read in place: what is returned of it is valid until the
// next read.
type buffer struct {
	r          io.Reader
	max        int // bytes that it may hold
	buf        []byte
	start, end int // of what has been read and not taken
	afterCR    bool
	err        error // of r
}

const (
	minBuffer  = 2 << 10  // a token takes about 300 bytes
	idleBuffer = 64 << 10 // an empty buffer that has grown beyond is not kept
)

// unread returns what has been read and not taken.
func (b *buffer) unread() []byte { return b.buf[b.start:b.end] }

// fill reads more. The error is that of the reader, or bufio.ErrTooLong where the buffer is full.
func (b *buffer) fill() error {
	if b.err != nil {
		return b.err
	}
	switch {
	case b.start == b.end:
		if b.start, b.end = 0, 0; b.buf == nil || len(b.buf) > idleBuffer {
			b.buf = make([]byte, minBuffer)
		}
	case b.start > 0:
		b.end = copy(b.buf, b.unread())
		b.start = 0
	case b.end == len(b.buf):
		if b.end >= b.max {
			return bufio.ErrTooLong
		}
		larger := make([]byte, min(2*len(b.buf), max(b.max, minBuffer)))
		copy(larger, b.buf)
		b.buf = larger
	}
	for range 100 { // as bufio has it
		var n int
		n, b.err = b.r.Read(b.buf[b.end:])
		b.end += n
		if n > 0 {
			return nil
		}
		if b.err != nil {
			return b.err
		}
	}
	b.err = io.ErrNoProgress
	return b.err
}

// line waits for the line that begins at an offset of what is not taken. It returns where its text begins and ends, and where the next line
// begins. A line ends with LF, CR or CR LF. After a CR it is complete: an LF that comes later is skipped.
func (b *buffer) line(from int) (begin, end, next int, err error) {
	for scanned := from; ; {
		unread := b.unread()
		if b.afterCR && from < len(unread) {
			if b.afterCR = false; unread[from] == '\n' {
				from++
				scanned = from
			}
		}
		end = len(unread)
		lf := bytes.IndexByte(unread[scanned:], '\n')
		if lf >= 0 {
			end = scanned + lf
		}
		if cr := bytes.IndexByte(unread[scanned:end], '\r'); cr >= 0 {
			end = scanned + cr
			next = end + 1
			switch {
			case next == len(unread):
				b.afterCR = true
			case unread[next] == '\n':
				next++
			}
			return from, end, next, nil
		}
		if lf >= 0 {
			return from, end, end + 1, nil
		}
		scanned = end
		if err := b.fill(); err != nil {
			return from, end, end, err
		}
	}
}

// Lines reads the lines of a body.
type Lines struct{ buffer }

// NewLines returns a reader of lines that have at most so many bytes each.
func NewLines(r io.Reader, maxLine int) *Lines { return &Lines{buffer{r: r, max: maxLine + 2}} } // and CR LF

// Next returns the next line that is not blank, without white space around it; it is valid until the next call. ended is false for a last line
// that has no end. err is io.EOF behind the last line, bufio.ErrTooLong, or that of the reader.
func (l *Lines) Next() (line []byte, ended bool, err error) {
	for {
		begin, end, next, err := l.line(0)
		line := bytes.TrimSpace(l.unread()[begin:end])
		l.start += next
		switch {
		case err == bufio.ErrTooLong, len(line) > l.max-2:
			return nil, false, bufio.ErrTooLong
		case len(line) > 0:
			return line, err == nil, nil
		case err != nil:
			return nil, false, err
		}
	}
}
