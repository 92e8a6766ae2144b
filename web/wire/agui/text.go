package agui

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/lingserve/lingserve/web/wire/frame"
)

// plainText returns the value of a JSON string, and any other value as JSON.
func plainText(value json.RawMessage) string {
	var s string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// quoteTo returns the beginning of a text as a JSON string of at most limit bytes.
func quoteTo(text string, limit int) []byte {
	for n := limit; ; n /= 2 {
		if quoted := frame.Quote(nil, text[:boundary(text, n)]); len(quoted) <= limit {
			return quoted
		}
	}
}

// boundary returns the largest index of at most limit at which a text can be cut between two characters.
func boundary(text string, limit int) int {
	if len(text) <= limit {
		return len(text)
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return limit
}

// appendDeltas appends a text in events of a type, each with a piece of it. id is the member that says what the text belongs to.
func appendDeltas(dst []byte, kind, idMember, id, text string) []byte {
	for text != "" {
		n := max(boundary(text, maxPiece), 1)
		dst = frame.Chunk(dst, kind, idMember, id, "delta", text[:n])
		text = text[n:]
	}
	return dst
}
