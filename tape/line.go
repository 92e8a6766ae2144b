package tape

import (
	"bytes"
	"errors"
	"strconv"
)

// dateLayout is UTC with exactly six digits, so that dates have one length and one order.
const dateLayout = "2006-01-02T15:04:05.000000Z"

// AppendJSON appends the entry's line, without a line feed.
func (e Entry) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, e.ID, 10)
	dst = append(dst, `,"kind":`...)
	dst = appendString(dst, string(e.Kind))
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

// ParseEntry reads a line that [Entry.AppendJSON] wrote. Payload and meta are parts of line, and are not checked to be JSON.
func ParseEntry(line []byte) (e Entry, err error) {
	rest := line
	cut := func(name string) (value []byte) {
		if bytes.HasPrefix(rest, []byte(name)) {
			value, rest = cutValue(rest[len(name):])
		}
		return value
	}
	e.ID, err = strconv.ParseInt(string(cut(`{"id":`)), 10, 64)
	e.Kind = kindOf(cut(`,"kind":`))
	e.Payload, e.Meta = cut(`,"payload":`), cut(`,"meta":`)
	if err == nil {
		err = e.Date.UnmarshalJSON(cut(`,"date":`))
	}
	if err != nil || string(rest) != "}" || e.ID < 1 || e.Kind == "" || !isObject(e.Payload) || !isObject(e.Meta) {
		return Entry{}, errors.New("the line is not that of an entry")
	}
	if emptyObject(e.Meta) {
		e.Meta = nil
	}
	return e, nil
}

func isObject(value []byte) bool {
	return len(value) > 1 && value[0] == '{' && value[len(value)-1] == '}'
}

// kindOf reads a kind, without an allocation for those that are known.
func kindOf(raw []byte) Kind {
	for _, k := range knownKinds {
		if isText(raw, string(k)) {
			return k
		}
	}
	s, _ := text(raw)
	return Kind(s)
}
