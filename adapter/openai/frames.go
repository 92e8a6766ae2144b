package openai

import (
	"bytes"
	"io"
)

// frames reads the plain events of a stream in place: those that are one "data:" line and a blank line, between lines of
// comment, with LF for line ends. All providers write such events nearly always, and taking one costs no copy. The rest of the
// grammar is go-sse's: at the first thing that is not plain, what has not been taken is handed on by remaining.
type frames struct {
	r          io.Reader
	buf        []byte
	start, end int // of what has been read and not taken
	err        error
	comment    bool // inside a comment line whose beginning has been dropped
}

const (
	minFrames = 2 << 10  // a token takes about 300 bytes
	maxFrames = 64 << 10 // a larger event is go-sse's
)

// next returns the data of the next event, which is valid until the next call; false where the rest is not plain, or not there.
func (f *frames) next() (data []byte, ok bool) {
	for {
		if data, n, ok := f.plain(f.buf[f.start:f.end]); n > 0 {
			f.start += n
			if ok {
				return data, true
			}
		} else if !ok || !f.fill() {
			return nil, false
		}
	}
}

// plain looks at what stands at the start of b. Of its n bytes it is done with, ok says whether they were an event, whose data
// it returns, or nothing that matters. Where n is zero, ok says whether more has to be read to know, or the rest is not plain.
func (f *frames) plain(b []byte) (data []byte, n int, ok bool) {
	if len(b) == 0 {
		return nil, 0, true
	}
	if f.comment || b[0] == ':' {
		end := bytes.IndexByte(b, '\n')
		whole := end >= 0
		if !whole {
			end = len(b) - 1
		}
		if bytes.IndexByte(b[:end+1], '\r') >= 0 {
			return nil, 0, false
		}
		f.comment = !whole
		return nil, end + 1, false
	}
	if b[0] == '\n' {
		return nil, 1, false
	}
	const field = "data:"
	if len(b) < len(field) {
		return nil, 0, field[:len(b)] == string(b)
	}
	if string(b[:len(field)]) != field {
		return nil, 0, false
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 || end+1 == len(b) {
		return nil, 0, true
	}
	if data = b[len(field):end]; b[end+1] != '\n' || bytes.IndexByte(data, '\r') >= 0 {
		return nil, 0, false
	}
	if len(data) > 0 && data[0] == ' ' {
		data = data[1:]
	}
	return data, end + 2, true
}

// fill reads more; false where there is nothing more, or no room for it.
func (f *frames) fill() bool {
	if f.err != nil {
		return false
	}
	switch {
	case f.start == f.end:
		f.start, f.end = 0, 0
		if f.buf == nil {
			f.buf = make([]byte, minFrames)
		}
	case f.start > 0:
		f.end = copy(f.buf, f.buf[f.start:f.end])
		f.start = 0
	case f.end == len(f.buf):
		if len(f.buf) >= maxFrames {
			return false
		}
		f.buf = append(f.buf, make([]byte, len(f.buf))...)
	}
	for range 100 { // as bufio has it
		var n int
		n, f.err = f.r.Read(f.buf[f.end:])
		f.end += n
		if n > 0 || f.err != nil {
			return n > 0
		}
	}
	f.err = io.ErrNoProgress
	return false
}

// remaining returns a reader of what has not been taken.
func (f *frames) remaining() io.Reader {
	rest := f.buf[f.start:f.end:f.end]
	if f.comment { // go-sse must see that it is one
		rest = append([]byte(":"), rest...)
	}
	return io.MultiReader(bytes.NewReader(rest), &ended{f.r, f.err})
}

// ended goes on with the error that was met before.
type ended struct {
	r   io.Reader
	err error
}

func (e *ended) Read(p []byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	n, err := e.r.Read(p)
	e.err = err
	return n, err
}
