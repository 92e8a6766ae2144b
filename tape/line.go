package tape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// dateLayout is UTC with exactly six digits, so that dates in a file have one length and one order.
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

// appendString quotes s, escaping what JSON does not allow and nothing else.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// ParseEntry reads a line as AppendJSON writes it. Payload and meta are parts of line. Other spacing and another order of
// members are taken too; what misses a member, has one more or has it twice, is an error.
func ParseEntry(line []byte) (Entry, error) {
	e, rest, err := splitLine(line)
	switch {
	case err != nil:
		return Entry{}, err
	case rest.timestamp != nil:
		return Entry{}, errors.New(`unknown field "timestamp"`)
	case e.ID < 1:
		return Entry{}, errors.New("invalid id; expected a whole number from 1")
	case e.Kind == "" || len(e.Kind) > maxKind:
		return Entry{}, fmt.Errorf("invalid kind; expected a string of 1–%d bytes", maxKind)
	case len(e.Payload) == 0 || e.Payload[0] != '{':
		return Entry{}, errors.New("invalid payload; expected an object")
	case len(e.Meta) == 0 || e.Meta[0] != '{':
		return Entry{}, errors.New("invalid meta; expected an object")
	}
	// The layout takes more digits of a second than it writes.
	if len(rest.date) != len(dateLayout)+2 {
		return Entry{}, fmt.Errorf("invalid date; expected one such as %q", dateLayout)
	}
	if e.Date, err = parseDate(rest.date[1 : len(rest.date)-1]); err != nil {
		return Entry{}, fmt.Errorf("invalid date; expected one such as %q", dateLayout)
	}
	if string(e.Meta) == "{}" {
		e.Meta = nil
	}
	return e, nil
}

// ParseWritten is ParseEntry for a line that is surely as it was written, because of its checksum for instance: it does not look whether
// payload and meta are JSON.
func ParseWritten(line []byte) (Entry, error) {
	if e, ok := cutEntry(line); ok {
		return e, nil
	}
	return ParseEntry(line)
}

// cutEntry takes a line apart that has the form of AppendJSON and a known kind.
func cutEntry(line []byte) (e Entry, ok bool) {
	const name = `,"date":"`
	n := len(line) - len(name) - len(dateLayout) - len(`"}`)
	if n < 0 || string(line[n:n+len(name)]) != name {
		return e, false
	}
	id, rest := cutValue(line[:n], `{"id":`)
	kind, rest := cutValue(rest, `,"kind":`)
	e.Payload, rest = cutValue(rest, `,"payload":`)
	e.Meta, rest = cutValue(rest, `,"meta":`)
	e.ID, _ = strconv.ParseInt(string(id), 10, 64)
	e.Kind = knownKind(kind)
	date, err := parseDate(line[n+len(name) : len(line)-2])
	e.Date = date
	ok = err == nil && len(rest) == 0 && e.ID > 0 && e.Kind != "" && isObject(e.Payload) && isObject(e.Meta)
	if string(e.Meta) == "{}" {
		e.Meta = nil
	}
	return e, ok
}

// cutValue returns the value that follows a name at the beginning of a text, and what follows the value.
func cutValue(text []byte, name string) (value, rest []byte) {
	if len(text) < len(name) || string(text[:len(name)]) != name {
		return nil, text
	}
	end := skip(text, len(name))
	return text[len(name):end:end], text[end:]
}

func isObject(value []byte) bool {
	return len(value) > 1 && value[0] == '{' && value[len(value)-1] == '}'
}

// parseDate reads a date in dateLayout. [time.Parse] would take a tenth of the time that a line takes.
func parseDate(text []byte) (time.Time, error) {
	number := func(from, to int) (n int) {
		for _, c := range text[from:to] {
			if c < '0' || c > '9' {
				return -1
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	if len(text) == len(dateLayout) && text[4] == '-' && text[7] == '-' && text[10] == 'T' && text[13] == ':' && text[16] == ':' && text[19] == '.' &&
		text[26] == 'Z' {
		year, month, day, micros := number(0, 4), number(5, 7), number(8, 10), number(20, 26)
		hour, minute, second := number(11, 13), number(14, 16), number(17, 19)
		// Days that not every month has are left to time.Parse.
		if year >= 0 && 1 <= month && month <= 12 && 1 <= day && day <= 28 && 0 <= hour && hour < 24 && 0 <= minute && minute < 60 &&
			0 <= second && second < 60 && micros >= 0 {
			return time.Date(year, time.Month(month), day, hour, minute, second, micros*1000, time.UTC), nil
		}
	}
	return time.Parse(dateLayout, string(text))
}

// parts of a line that is read as it is, nil where it is missing.
type parts struct{ id, date, timestamp json.RawMessage }

// splitLine takes a line apart; the parts that it returns are parts of line.
func splitLine(line []byte) (e Entry, rest parts, err error) {
	if !utf8.Valid(line) {
		return e, rest, errors.New("the line is not UTF-8")
	}
	if !json.Valid(line) {
		return e, rest, errors.New("the line is not valid JSON")
	}
	if line[space(line, 0)] != '{' {
		return e, rest, errors.New("the line is not an object")
	}
	var kind json.RawMessage
	for name, value := range objectMembers(line) {
		var to *json.RawMessage
		switch string(name) {
		case "id":
			to = &rest.id
		case "kind":
			to = &kind
		case "payload":
			to = &e.Payload
		case "meta":
			to = &e.Meta
		case "date":
			to = &rest.date
		case "timestamp":
			to = &rest.timestamp
		default:
			return e, rest, fmt.Errorf("unknown field %.40q", name)
		}
		if *to != nil {
			return e, rest, fmt.Errorf("the field %q occurs twice; remove one", name)
		}
		*to = value
	}
	if e.ID, err = strconv.ParseInt(string(rest.id), 10, 64); err != nil {
		e.ID = 0 // which is none
	}
	e.Kind = kindOf(kind)
	return e, rest, nil
}

// kindOf reads a kind; of the known ones there is no second copy.
func kindOf(raw json.RawMessage) Kind {
	if k := knownKind(raw); k != "" {
		return k
	}
	s, _ := text(raw)
	return Kind(s)
}

func knownKind(raw json.RawMessage) Kind {
	for _, k := range knownKinds {
		if says(raw, string(k)) {
			return k
		}
	}
	return ""
}

// objectMembers yields the members of an object; object is valid JSON, and the values are parts of it. Of anything else
// there are none.
func objectMembers(object []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		for c := (cursor{json: object}); c.next(); {
			if !yield(c.name(), c.value) {
				return
			}
		}
	}
}

// member returns the first member of that name, nil where there is none. It allocates nothing.
func member(object []byte, name string) json.RawMessage {
	for c := (cursor{json: object}); c.next(); {
		if string(c.name()) == name {
			return c.value
		}
	}
	return nil
}

// cursor goes over the members of an object.
type cursor struct {
	json   []byte
	at     int
	quoted []byte // name
	value  json.RawMessage
}

func (c *cursor) next() bool {
	i := space(c.json, c.at)
	switch {
	case i == len(c.json):
		return false
	case c.at == 0 && c.json[i] != '{': // no object
		return false
	case c.json[i] == '}':
		return false
	}
	i = space(c.json, i+1) // after the brace or the comma
	end := skip(c.json, i)
	c.quoted = c.json[i:end]
	i = space(c.json, min(space(c.json, end)+1, len(c.json))) // after the colon
	if len(c.quoted) < 2 || i == len(c.json) {                // no more, or no JSON
		return false
	}
	c.at = skip(c.json, i)
	c.value = c.json[i:c.at:c.at]
	return true
}

// name is the name of the member, a part of the JSON where nothing in it is escaped.
func (c *cursor) name() []byte {
	if bytes.IndexByte(c.quoted, '\\') >= 0 {
		s, _ := text(c.quoted) // valid, as was seen
		return []byte(s)
	}
	return c.quoted[1 : len(c.quoted)-1]
}

// space returns where the white space at i ends.
func space(json []byte, i int) int {
	for i < len(json) && (json[i] == ' ' || json[i] == '\t' || json[i] == '\n' || json[i] == '\r') {
		i++
	}
	return i
}

// skip returns where the value at i ends, or where the text ends before it.
func skip(json []byte, i int) int {
	for depth := 0; i < len(json); {
		switch json[i] {
		case '"':
			for i++; i < len(json) && json[i] != '"'; i++ {
				if json[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ' ', '\t', '\n', '\r', ',', ':':
			i++
			continue // only inside of a value
		default: // a number or a literal
			for i < len(json) && strings.IndexByte(" \t\r\n,]}", json[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			break
		}
	}
	return min(i, len(json))
}
