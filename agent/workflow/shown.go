package workflow

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Shown is what a person in a chat reads of a turn's output: a document that holds one text and nothing else is that text, wherever
// it stands; any other document is JSON on several lines. What is no document is shown as it is.
func Shown(output string) string {
	if !strings.HasPrefix(output, "{") && !strings.HasPrefix(output, "[") {
		return output
	}
	var document any
	if json.Unmarshal([]byte(output), &document) != nil {
		return output
	}
	if text, ok := only(document); ok {
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, []byte(output), "", "  ") != nil {
		return output
	}
	return b.String()
}

// only is the one value that there is, below containers of one.
func only(v any) (text string, ok bool) {
	for {
		switch c := v.(type) {
		case string:
			return c, c != ""
		case []any:
			if len(c) != 1 {
				return "", false
			}
			v = c[0]
		case map[string]any:
			if len(c) != 1 {
				return "", false
			}
			for _, v = range c {
			}
		default:
			return "", false
		}
	}
}
