package wire

import (
	"bytes"
	"io"
	"slices"
)

// Frames reads the plain events of a stream in place: those that are one "data:" line, perhaps after one "event:" line, and a
// blank line, between lines of comment, with LF or CR LF for line ends. All providers write such events nearly always, and taking
// one costs no copy. The rest of the grammar is go-sse's: at the first thing that is not plain, what has not been taken is handed on by
// Remaining.
type Frames struct {
	buffer
	comment bool // inside a comment line whose beginning has been dropped
}

// maxFrames is how many bytes an event may have. A larger one is go-sse's.
const maxFrames = 64 << 10

// NewFrames returns a reader of the events of r.
func NewFrames(r io.Reader) *Frames { return &Frames{buffer: buffer{r: r}} }

// Next returns the type and the data of the next event, which are valid until the next call; false where the rest is not plain, or
// not there.
func (f *Frames) Next() (event, data []byte, ok bool) {
	for {
		if event, data, n, ok := f.plain(f.buf[f.start:f.end]); n > 0 {
			f.start += n
			if ok {
				return event, data, true
			}
		} else if !ok || !f.fill(maxFrames) {
			return nil, nil, false
		}
	}
}

// plain looks at what stands at the start of b. Of its n bytes it is done with, ok says whether they were an event, whose type and
// data it returns, or nothing that matters. Where n is zero, ok says whether more has to be read to know, or the rest is not plain.
func (f *Frames) plain(b []byte) (event, data []byte, n int, ok bool) {
	if len(b) == 0 {
		return nil, nil, 0, true
	}
	if f.comment || b[0] == ':' {
		line, _, whole := bytes.Cut(b, newline)
		cr := bytes.IndexByte(line, '\r')
		switch {
		case cr >= 0 && cr < len(line)-1:
			return nil, nil, 0, false
		case whole:
			n = len(line) + 1
		case cr == 0:
			return nil, nil, 0, true // it may be the first half of a line's end
		case cr > 0:
			n = cr
		default:
			n = len(line)
		}
		f.comment = !whole
		return nil, nil, n, false
	}
	if n, ok := blank(b); n > 0 || ok || b[0] == '\r' {
		return nil, nil, n, n == 0 && ok
	}
	if b[0] == 'e' {
		if event, n, ok = field(b, "event:"); n == 0 {
			return nil, nil, 0, ok
		}
	}
	data, k, ok := field(b[n:], "data:")
	if n += k; k == 0 || n == len(b) {
		return nil, nil, 0, ok
	}
	if k, ok = blank(b[n:]); k == 0 {
		return nil, nil, 0, ok
	}
	return event, data, n + k, true
}

var newline = []byte("\n")

// blank reads the end of a line at the start of b. Where n is zero, ok says whether more has to be read to know, or it is something else.
func blank(b []byte) (n int, ok bool) {
	switch {
	case b[0] == '\n':
		return 1, true
	case b[0] != '\r':
		return 0, false
	case len(b) == 1:
		return 0, true
	case b[1] == '\n':
		return 2, true
	default:
		return 0, false
	}
}

// field reads the line of a field at the start of b. Where n is zero, ok says whether more has to be read to know, or it is another
// line.
func field(b []byte, name string) (value []byte, n int, ok bool) {
	if len(b) < len(name) {
		return nil, 0, name[:len(b)] == string(b)
	}
	if string(b[:len(name)]) != name {
		return nil, 0, false
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return nil, 0, true
	}
	value = bytes.TrimSuffix(b[len(name):end], []byte("\r"))
	if bytes.IndexByte(value, '\r') >= 0 {
		return nil, 0, false
	}
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return value, end + 1, true
}

// Remaining returns a reader of what has not been taken.
func (f *Frames) Remaining() io.Reader {
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

// Begin waits for the first bytes of r that are not white space, of which it looks at 4 KiB at most. It returns what it has read,
// which may be more or, where r ends, less, and a reader of everything.
func Begin(r io.Reader) (start []byte, all io.Reader) {
	start = make([]byte, 0, 512)
	var err error
	for idle := 0; err == nil && idle < 100 && len(start) < 4<<10 && len(bytes.TrimLeft(start, " \t\r\n")) == 0; idle++ {
		start = slices.Grow(start, 1)
		var n int
		n, err = r.Read(start[len(start):cap(start)])
		if start = start[:len(start)+n]; n > 0 {
			idle = 0
		}
	}
	return start, io.MultiReader(bytes.NewReader(start), &ended{r, err})
}
