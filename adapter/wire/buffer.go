package wire

import "io"

// buffer holds what has been read and not taken.
type buffer struct {
	r          io.Reader
	buf        []byte
	start, end int // of what has been read and not taken
	err        error
}

// minBuffer is how many bytes a buffer has first: a token takes about 300.
const minBuffer = 2 << 10

// fill reads more; false where there is nothing more, or where the buffer has most bytes already. It grows with what comes.
func (b *buffer) fill(most int) bool {
	if b.err != nil {
		return false
	}
	switch {
	case b.start == b.end:
		b.start, b.end = 0, 0
		if b.buf == nil {
			b.buf = make([]byte, minBuffer)
		}
	case b.start > 0:
		b.end = copy(b.buf, b.buf[b.start:b.end])
		b.start = 0
	case b.end == len(b.buf):
		if len(b.buf) >= most {
			return false
		}
		larger := make([]byte, min(2*len(b.buf), most))
		copy(larger, b.buf)
		b.buf = larger
	}
	for range 100 { // as bufio has it
		var n int
		n, b.err = b.r.Read(b.buf[b.end:])
		b.end += n
		if n > 0 || b.err != nil {
			return n > 0
		}
	}
	b.err = io.ErrNoProgress
	return false
}
