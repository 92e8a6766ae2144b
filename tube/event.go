package tube

// Kind is the form of an [Event].
type Kind uint8

const (
	// Append is {"uri":…,"delta":"…"}: append to a string.
	Append Kind = iota
	// Set is {"uri":…,"delta":…}: set a value; {} makes sure that there is an object.
	Set
	// Done is {"uri":…,"done":true}: the value at the uri will not change any more.
	Done
	// Named is {"event":…,"data":…}.
	Named
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
}

// AppendMembers appends the event's JSON members without braces and id: "uri":…,"delta":…
func (e Event) AppendMembers(dst []byte) []byte { panic("tube: not built yet") }

// AppendJSON appends the event as a JSON object, without its id.
func (e Event) AppendJSON(dst []byte) []byte { panic("tube: not built yet") }
