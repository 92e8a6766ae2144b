package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// maxIndented is how long a document may be that is laid out for people, in bytes, before and after. People do not read more JSON in a
// chat, and in deep documents the layout takes many times what they hold.
const maxIndented = 32 << 10

// Shown is what a person in a chat reads of a turn's output: a document that holds one text and nothing else is that text, wherever
// it stands; any other document is JSON on several lines. What is no document is shown as it is.
func Shown(output string) string {
	if !strings.HasPrefix(output, "{") && !strings.HasPrefix(output, "[") {
		return output
	}
	if text, ok := onlyText(output); ok {
		return text
	}
	if len(output) > maxIndented {
		return output
	}
	var b bytes.Buffer
	if json.Indent(&b, []byte(output), "", "  ") != nil || b.Len() > maxIndented {
		return output
	}
	return b.String()
}

// onlyText finds the text of a document that has one, below containers of one member, and nothing else. It looks no further than to
// the second value.
func onlyText(document string) (text string, ok bool) {
	d := json.NewDecoder(strings.NewReader(document))
	for depth := 0; ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return text, ok && depth == 0
		case err != nil:
			return "", false
		}
		switch token := token.(type) {
		case json.Delim:
			closes := token == '}' || token == ']'
			if closes != ok { // an empty one, or one more beside the text
				return "", false
			}
			if closes {
				depth--
				continue
			}
			depth++
			if token == '{' {
				if _, err := d.Token(); err != nil || !d.More() { // the name of the member
					return "", false
				}
			}
		case string:
			if ok || token == "" {
				return "", false
			}
			text, ok = token, true
		default:
			return "", false
		}
	}
}
