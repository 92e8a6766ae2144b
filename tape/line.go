package tape

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// dateLayout is UTC with exactly six digits, so that dates have one length and one order.
const dateLayout = "2006-01-02T15:04:05.000000Z"

// AppendJSON appends the entry's line, without a line feed.
func (e Entry) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, e.ID, 10)
	dst = append(dst, `,"kind":`...)
	dst = append(dst, encode(e.Kind)...)
	dst = append(dst, `,"payload":`...)
	dst = append(dst, e.Payload...)
	dst = append(dst, `,"meta":`...)
	if len(e.Meta) == 0 {
		dst = append(dst, `{}`...)
	} else {
		dst = append(dst, e.Meta...)
	}
	dst = append(dst, `,"date":"`...)
	dst = e.Date.UTC().AppendFormat(dst, dateLayout)
	return append(dst, `"}`...)
}

// ParseEntry reads a line that [Entry.AppendJSON] wrote.
func ParseEntry(line []byte) (Entry, error) {
	var l struct {
		ID            int64
		Kind          Kind
		Payload, Meta json.RawMessage
		Date          time.Time
	}
	err := json.Unmarshal(line, &l)
	if err != nil || l.ID < 1 || l.Kind == "" || !isObject(l.Payload) || !isObject(l.Meta) {
		return Entry{}, errors.New("the line is not that of an entry")
	}
	if emptyObject(l.Meta) {
		l.Meta = nil
	}
	return Entry{l.ID, l.Kind, l.Payload, l.Meta, l.Date}, nil
}

func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }
