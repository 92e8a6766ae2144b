package wire

import (
	"bytes"

	"github.com/buger/jsonparser"
)

// StringAt returns a member that is a string, escaped as it came; nil if it is missing.
func StringAt(in []byte, path ...string) []byte { return valueAt(jsonparser.String, in, path) }

// ObjectAt returns a member that is an object; nil if it is missing.
func ObjectAt(in []byte, path ...string) []byte { return valueAt(jsonparser.Object, in, path) }

func valueAt(kind jsonparser.ValueType, in []byte, path []string) []byte {
	value, is, _, err := jsonparser.Get(in, path...)
	if err != nil || is != kind {
		return nil
	}
	return value
}

// IndexAt returns a member that is an index; -1 if it is missing.
func IndexAt(in []byte, name string) int {
	n, err := jsonparser.GetInt(in, name)
	if err != nil || n < 0 || n > 1<<30 {
		return -1
	}
	return int(n)
}

// IsObject says whether JSON is an object.
func IsObject(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
}
