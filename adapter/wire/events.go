package wire

import (
	"bufio"
	"bytes"
	"io"
)

// Events reads a stream of server-sent events. https://html.spec.whatwg.org/multipage/server-sent-events.html
type Events struct {
	*Lines
	begun      bool // the first line has been read
	kind, data []byte
}

// NewEvents returns a reader of events that have at most so many bytes each.
func NewEvents(r io.Reader, maxEvent int) *Events { return &Events{Lines: NewLines(r, maxEvent)} }

var (
	byteOrderMark = []byte("\ufeff")
	colon         = []byte(":")
	space         = []byte(" ")
)

// Next returns the type and the data of the next event, which are valid until the next call. An event needs no blank line behind it where the
// body ends. err is io.EOF behind the last event, io.ErrUnexpectedEOF within a line, bufio.ErrTooLong, or that of the reader.
func (e *Events) Next() (kind, data []byte, err error) {
	e.kind, e.data = e.kind[:0], e.data[:0]
	fields, dataLines := false, 0
	for e.lines.Scan() && !e.cut {
		line := e.lines.Bytes()
		if !e.begun {
			e.begun = true
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if len(line) == 0 && fields {
			return e.kind, e.data, nil
		}
		name, value, _ := bytes.Cut(line, colon)
		value = bytes.TrimPrefix(value, space)
		switch string(name) {
		case "event":
			e.kind, fields = append(e.kind[:0], value...), true
		case "data":
			if dataLines++; dataLines > 1 {
				e.data = append(e.data, '\n')
			}
			e.data, fields = append(e.data, value...), true
			if len(e.data) > e.maxLine {
				return nil, nil, bufio.ErrTooLong
			}
		}
	}
	switch err := e.end(); {
	case err == io.EOF && e.cut:
		return nil, nil, io.ErrUnexpectedEOF
	case err == io.EOF && fields:
		return e.kind, e.data, nil
	default:
		return nil, nil, err
	}
}
