package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
)

// minBuffer is the size of the buffer for a body at first. The event of a token takes about 300 bytes.
const minBuffer = 2 << 10

// Lines reads the lines of a body, which end with LF, CR or CR LF. A CR completes its line: an LF that comes later is skipped.
type Lines struct {
	lines   *bufio.Scanner
	maxLine int
	scanned int  // bytes of the next line that are known to have no end
	afterCR bool // the last line ended with CR, and nothing has come since
	cut     bool // the last line has no end
}

// split is a [bufio.SplitFunc] of lines.
func (l *Lines) split(data []byte, atEOF bool) (advance int, line []byte, err error) {
	start := 0
	if l.afterCR && len(data) > 0 {
		if l.afterCR = false; data[0] == '\n' {
			start = 1
		}
	}
	from := start + l.scanned
	end := len(data)
	if lf := bytes.IndexByte(data[from:], '\n'); lf >= 0 {
		end = from + lf
	}
	if cr := bytes.IndexByte(data[from:end], '\r'); cr >= 0 {
		end = from + cr
	}
	switch {
	case end < len(data):
		advance = end + 1
		if data[end] == '\r' && advance == len(data) {
			l.afterCR = true
		} else if data[end] == '\r' && data[advance] == '\n' {
			advance++
		}
	case atEOF && end > start:
		l.cut, advance = true, end
	default:
		l.scanned = end - start
		return start, nil, nil
	}
	l.scanned = 0
	return advance, data[start:end], nil
}

// NewLines returns a reader of lines that have at most so many bytes each.
func NewLines(r io.Reader, maxLine int) *Lines {
	l := &Lines{maxLine: maxLine, lines: bufio.NewScanner(r)}
	l.lines.Buffer(make([]byte, minBuffer), maxLine+2) // and CR LF
	l.lines.Split(l.split)
	return l
}

// Next returns the next line that is not blank, without white space around it; it is valid until the next call. ended is false for a last line
// that has no end. err is io.EOF behind the last line, bufio.ErrTooLong, or that of the reader.
func (l *Lines) Next() (line []byte, ended bool, err error) {
	for l.lines.Scan() {
		line := bytes.TrimSpace(l.lines.Bytes())
		if len(line) > l.maxLine {
			return nil, false, bufio.ErrTooLong
		}
		if len(line) > 0 {
			return line, !l.cut, nil
		}
	}
	return nil, false, l.end()
}

// end is the error that has ended the lines.
func (l *Lines) end() error { return cmp.Or(l.lines.Err(), io.EOF) }
