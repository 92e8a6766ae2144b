package tube

import (
	"strconv"
	"unicode/utf8"
)

// Kind is the form of an [Event].
type Kind uint8

const (
	// Append is {"uri":…,"delta":"…"}: append to a string.
	Append Kind = iota
	// Set is {"uri":…,"delta":…}: set a value; {} makes sure that there is an object. The Set of a JSON string is sent as
	// an Append, which is what its delta means; to replace a string, set it to null before.
	Set
	// Done is {"uri":…,"done":true}: the value at the uri will not change any more.
	Done
	// Named is {"event":…,"data":…}.
	Named
)

// The names of the terminal events, which only Close and Cancel send.
const (
	finished = "finished"
	canceled = "canceled"
)

// Event is one event of a run. The slices of an event that a tube hands out are part of its log: they stay valid and must
// not be changed. Those of an event that is sent are copied.
type Event struct {
	N     uint64 // position in the run, from 0; set by the tube
	Kind  Kind
	URI   []byte // Append, Set, Done: plain uri text
	Name  string // Named: [A-Za-z][A-Za-z0-9._-]{0,63}
	Value []byte // Append: escaped string content without quotes; Set: JSON text; Named: JSON text of the data
	// Hidden events keep their id and reach listeners on the server and the result, but no client. Quiet events are sent
	// hidden; filtered ones are made so by the tube.
	Hidden bool
	// Part marks an event of a snapshot that is not its last: it is framed without an id. See the package comment.
	Part bool
}

// AppendMembers appends the event's JSON members without braces and id: "uri":…,"delta":…
func (e Event) AppendMembers(dst []byte) []byte {
	switch e.Kind {
	case Append:
		dst = append(dst, `"uri":"`...)
		dst = appendEscaped(dst, e.URI)
		dst = append(dst, `","delta":"`...)
		dst = append(dst, e.Value...)
		return append(dst, '"')
	case Set:
		dst = append(dst, `"uri":"`...)
		dst = appendEscaped(dst, e.URI)
		dst = append(dst, `","delta":`...)
		return append(dst, e.Value...)
	case Done:
		dst = append(dst, `"uri":"`...)
		dst = appendEscaped(dst, e.URI)
		return append(dst, `","done":true`...)
	default:
		dst = append(dst, `"event":"`...)
		dst = appendEscaped(dst, e.Name)
		dst = append(dst, `","data":`...)
		return append(dst, e.Value...)
	}
}

// AppendJSON appends the event as a JSON object, without its id.
func (e Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = e.AppendMembers(dst)
	return append(dst, '}')
}

// Terminal says whether the event ends a run.
func (e Event) Terminal() bool {
	return e.Kind == Named && (e.Name == finished || e.Name == canceled)
}

// plain marks the bytes that stand for themselves inside a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\' && c != 0x7f
	}
	return t
}()

// appendEscaped appends s as the content of a JSON string: ASCII stays as it is where it may, what some reader takes for a
// line break is escaped, and what is not UTF-8 becomes U+FFFD.
func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	start := 0
	for i := 0; i < len(s); {
		if plain[s[i]] {
			i++
			continue
		}
		r, size := decodeRune(s[i:])
		if r >= utf8.RuneSelf && !(r == utf8.RuneError && size == 1) && r > 0x9f && r != 0x2028 && r != 0x2029 {
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		switch r {
		case '"', '\\':
			dst = append(dst, '\\', byte(r))
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		}
		i += size
		start = i
	}
	return append(dst, s[start:]...)
}

func decodeRune[T string | []byte](s T) (rune, int) {
	if len(s) > utf8.UTFMax {
		s = s[:utf8.UTFMax]
	}
	return utf8.DecodeRuneInString(string(s))
}

// appendString appends s as a JSON string.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// AppendID appends the event's id, <run>:<n>.
func (e Event) AppendID(dst []byte, run string) []byte {
	dst = append(dst, run...)
	dst = append(dst, ':')
	return strconv.AppendUint(dst, e.N, 10)
}
