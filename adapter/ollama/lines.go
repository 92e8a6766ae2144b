package ollama

import (
	"bytes"
	"errors"
	"io"
)

// errLong says that a line is longer than allowed.
var errLong = errors.New("a line is longer than allowed")

const (
	minLines = 2 << 10  // a token takes about 150 bytes
	maxIdle  = 64 << 10 // a buffer that has grown beyond is not kept
)

// lines reads a stream's lines in place.
type lines struct {
	r          io.Reader
	max        int // bytes of a line, without its end
	buf        []byte
	start, end int // of what has been read and not taken
	seen       int // from start: bytes that have no end of line in them
	err        error
}

// next returns the next line that is not blank, which is valid until the next call. whole says that its end has been seen; the
// last one may have none. err, without a line, is what ended the stream: io.EOF, errLong, or the connection's.
func (l *lines) next() (line []byte, whole bool, err error) {
	for {
		fresh := l.buf[l.start:l.end]
		if i := bytes.IndexByte(fresh[l.seen:], '\n'); i >= 0 {
			i += l.seen
			l.start, l.seen = l.start+i+1, 0
			if line = bytes.TrimSpace(fresh[:i]); len(line) > l.max {
				return nil, false, errLong
			} else if len(line) > 0 {
				return line, true, nil
			}
			continue
		}
		l.seen = len(fresh)
		if l.err != nil {
			l.start, l.seen = l.end, 0
			switch line = bytes.TrimSpace(fresh); {
			case len(line) == 0:
				return nil, false, l.err
			case len(line) > l.max:
				return nil, false, errLong
			}
			return line, false, nil
		}
		if err := l.fill(); err != nil {
			return nil, false, err
		}
	}
}

// fill reads more, or notes why there is none.
func (l *lines) fill() error {
	switch {
	case l.start == l.end:
		if l.start, l.end, l.seen = 0, 0, 0; l.buf == nil || len(l.buf) > maxIdle {
			l.buf = make([]byte, minLines)
		}
	case l.start > 0:
		l.end = copy(l.buf, l.buf[l.start:l.end])
		l.start = 0
	case l.end < len(l.buf):
	case len(l.buf) > l.max+1: // there is room for CR and LF too
		return errLong
	default:
		l.buf = append(l.buf, make([]byte, min(len(l.buf), l.max+2-len(l.buf)))...)
	}
	for range 100 { // as bufio has it
		var n int
		if n, l.err = l.r.Read(l.buf[l.end:]); n > 0 || l.err != nil {
			l.end += n
			return nil
		}
	}
	l.err = io.ErrNoProgress
	return nil
}
