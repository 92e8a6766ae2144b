package wire

import (
	"bytes"
	"io"
)

// Lines returns a reader to put before go-sse. It hands a stream on in pieces that are worth looking at: as soon as an event may
// be complete, or when the buffer is full. go-sse looks at an event from its start each time that more of it arrives; so an event
// that comes in a thousand pieces would cost a thousand looks at up to 4 MiB.
//
// Whole comment lines before an event are dropped, and blank lines between events, so that a server can send any number of them.
func Lines(r io.Reader) io.Reader { return &lines{r: r} }

type lines struct {
	r     io.Reader
	last  byte // the last byte that was handed on
	inner bool // within a line that began in an earlier piece
	begun bool // within an event, or it is not sure that it has ended
	err   error
}

func (l *lines) Read(p []byte) (int, error) {
	n := 0
	for idle := 0; ; {
		if l.err != nil {
			if n > 0 {
				return l.hand(p[:n])
			}
			return 0, l.err
		}
		var k int
		k, l.err = l.r.Read(p[n:])
		if k == 0 {
			if idle++; idle == 100 && l.err == nil {
				l.err = io.ErrNoProgress
			}
			continue
		}
		idle = 0
		fresh := max(n-1, 0) // a blank line may have begun with what was there before
		n += k
		if dropped := n - l.uncomment(p[:n]); dropped > 0 {
			n -= dropped
			fresh = max(fresh-dropped, 0)
		}
		if n > 0 && l.complete(p[:n], fresh) || n == len(p) {
			return l.hand(p[:n])
		}
	}
}

func (l *lines) hand(p []byte) (int, error) {
	before := l.last
	if len(p) > 1 {
		before = p[len(p)-2]
	}
	l.last = p[len(p)-1]
	l.inner = l.last != '\n'
	l.begun = l.inner || before != '\n'
	return len(p), nil
}

// complete says whether an event may end in p, of which the bytes from fresh on are new: a blank line, by any of the line ends
// of SSE. (LF CR is the middle of a blank line between CRLFs.)
func (l *lines) complete(p []byte, fresh int) bool {
	if fresh == 0 {
		switch l.last {
		case '\n':
			if p[0] == '\n' || p[0] == '\r' {
				return true
			}
		case '\r':
			if p[0] == '\r' {
				return true
			}
		}
	}
	for _, blank := range blankLines {
		if bytes.Contains(p[fresh:], blank) {
			return true
		}
	}
	return false
}

var blankLines = [][]byte{[]byte("\n\n"), []byte("\n\r"), []byte("\r\r")}

// uncomment drops the whole comment lines at the start of p, and between events the blank ones. It returns what is left.
func (l *lines) uncomment(p []byte) int {
	from := 0
	for !l.inner && from < len(p) && (p[from] == ':' || p[from] == '\n' && !l.begun) {
		end := bytes.IndexByte(p[from:], '\n')
		if end < 0 {
			break
		}
		if cr := bytes.IndexByte(p[from:from+end], '\r'); cr >= 0 && cr < end-1 {
			break // the comment ends there
		}
		from += end + 1
	}
	if from > 0 {
		return copy(p, p[from:])
	}
	return len(p)
}
