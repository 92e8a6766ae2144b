package workflow

import (
	"bytes"
	"encoding/json"
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

// onlyText finds the text of a document that has one, below containers of one member, and nothing else.
func onlyText(document string) (text string, ok bool) {
	var value any
	if json.Unmarshal([]byte(document), &value) != nil {
		return "", false
	}
	for {
		switch v := value.(type) {
		case string:
			return v, v != ""
		case map[string]any:
			if len(v) != 1 {
				return "", false
			}
			for _, value = range v {
			}
		case []any:
			if len(v) != 1 {
				return "", false
			}
			value = v[0]
		default:
			return "", false
		}
	}
}
