package agui

import (
	"encoding/json"
	"strconv"
)

// plainText returns the value of a JSON string, and any other value as JSON.
func plainText(value json.RawMessage) string {
	var s string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// limited returns a value, or what stands for one that is too large for an event.
func limited(value []byte) []byte {
	if len(value) <= maxValue {
		return value
	}
	return append(strconv.AppendInt([]byte(`{"too_large":`), int64(len(value)), 10), '}')
}
