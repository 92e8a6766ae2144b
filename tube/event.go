package tube

import (
	"strconv"

	"github.com/lingserve/lingserve/jsonuri"
)

// Kind is the form of an [Event].
type Kind uint8

const (
	// Append is {"uri":…,"delta":"…"}: append to a string.
	Append Kind = iota
	// Set is {"uri":…,"delta":…}: set a value; {} keeps an object, or makes one. The Set of a JSON string is sent as
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
	if e.Kind == Named {
		dst = append(append(dst, `"event":"`...), e.Name...)
		dst = append(dst, `","data":`...)
		return append(dst, e.Value...)
	}
	dst = jsonuri.AppendEscaped(append(dst, `"uri":"`...), e.URI)
	switch e.Kind {
	case Append:
		dst = append(append(dst, `","delta":"`...), e.Value...)
		return append(dst, '"')
	case Set:
		return append(append(dst, `","delta":`...), e.Value...)
	default:
		return append(dst, `","done":true`...)
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

// AppendID appends the event's id, <run>:<n>.
func (e Event) AppendID(dst []byte, run string) []byte {
	dst = append(dst, run...)
	dst = append(dst, ':')
	return strconv.AppendUint(dst, e.N, 10)
}
