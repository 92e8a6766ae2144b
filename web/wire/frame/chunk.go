package frame

import (
	"encoding/json"

	"github.com/lingserve/lingserve/jsonuri"
)

// Begin appends the beginning of a chunk, as wires have it whose events are objects with a type: one data line of Server-Sent Events.
// Members follow, and End.
func Begin(dst []byte, kind string) []byte {
	return append(append(append(dst, `data: {"type":"`...), kind...), '"')
}

// Chunk appends a chunk whose members are strings, given as names and values.
func Chunk(dst []byte, kind string, members ...string) []byte {
	return End(Texts(Begin(dst, kind), members...))
}

// Texts appends members whose values are strings, given as names and values.
func Texts(dst []byte, members ...string) []byte {
	for i := 0; i+1 < len(members); i += 2 {
		dst = Text(dst, members[i], members[i+1])
	}
	return dst
}

// End appends the end of a chunk.
func End(dst []byte) []byte { return append(dst, "}\n\n"...) }

// Key appends a comma and the name of a member.
func Key(dst []byte, name string) []byte {
	return append(append(append(dst, ',', '"'), name...), '"', ':')
}

// Member appends a member whose value is JSON text.
func Member[T string | []byte | json.RawMessage](dst []byte, name string, value T) []byte {
	return append(Key(dst, name), value...)
}

// Text appends a member whose value is a string.
func Text(dst []byte, name, value string) []byte { return Quote(Key(dst, name), value) }

// Quote appends a string.
func Quote(dst []byte, text string) []byte {
	return append(jsonuri.AppendEscaped(append(dst, '"'), text), '"')
}
