package wire

import (
	"bytes"
	"io"
)

// Events reads a stream of server-sent events in place. https://html.spec.whatwg.org/multipage/server-sent-events.html
type Events struct {
	buffer
	begun  bool   // the first line has been read
	joined []byte // the data of an event that has several lines of it
}

// NewEvents returns a reader of events that have at most so many bytes each.
func NewEvents(r io.Reader, maxEvent int) *Events {
	return &Events{buffer: buffer{r: r, max: maxEvent}}
}

var byteOrderMark = []byte("\ufeff")

// span is a part of the event that is read: offsets, because the buffer moves.
type span struct{ begin, end int }

// Next returns the type and the data of the next event, which are valid until the next call. An event needs no blank line behind it where the
// body ends. err is io.EOF behind the last event, io.ErrUnexpectedEOF within a line, bufio.ErrTooLong, or that of the reader.
func (e *Events) Next() (kind, data []byte, err error) {
	var kindAt, dataAt span
	dataLines, fields := 0, false
	for from := 0; ; {
		begin, end, next, err := e.line(from)
		if err == io.EOF && end > begin {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && (err != io.EOF || !fields) {
			return nil, nil, err
		}
		line := e.unread()[begin:end]
		if !e.begun {
			e.begun = true
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if len(line) == 0 && fields {
			event := e.unread()
			e.start += next
			if dataLines > 1 {
				return event[kindAt.begin:kindAt.end], e.joined, nil
			}
			return event[kindAt.begin:kindAt.end], event[dataAt.begin:dataAt.end], nil
		}
		name, value, _ := bytes.Cut(line, colon)
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
		at := span{end - len(value), end}
		switch string(name) {
		case "event":
			kindAt, fields = at, true
		case "data":
			if dataLines == 1 {
				e.joined = append(e.joined[:0], e.unread()[dataAt.begin:dataAt.end]...)
			}
			if dataLines > 0 {
				e.joined = append(append(e.joined, '\n'), value...)
			}
			dataAt, fields = at, true
			dataLines++
		}
		if from = next; !fields { // blank lines and comments before an event take no memory, however many there are
			e.start += next
			from = 0
		}
	}
}

var colon = []byte(":")
