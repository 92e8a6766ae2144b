package responses

import (
	"bytes"
	"encoding/json"
)

// What is read here is read as far as it is of the type that it should be; the rest is as if it was not there.

// members are those of an object.
type members = map[string]json.RawMessage

// object returns the members of an object; nil where it is none.
func object(raw []byte) (o members) {
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}

// objects returns the objects of a list.
func objects(raw []byte) (list []members) {
	var all []json.RawMessage
	json.Unmarshal(raw, &all) // nothing, where it is no list
	for _, e := range all {
		if o := object(e); o != nil {
			list = append(list, o)
		}
	}
	return list
}

// word returns the value of a string.
func word(raw []byte) (s string) {
	if len(raw) > 0 && raw[0] == '"' {
		json.Unmarshal(raw, &s) // of what was read before: cannot fail
	}
	return s
}

// count returns the value of a number that counts; other where it is none.
func count(raw []byte, other int) int {
	var n float64
	if len(raw) == 0 || json.Unmarshal(raw, &n) != nil || n < 0 || n > 1<<50 || string(raw) == "null" {
		return other
	}
	return int(n)
}

// some says whether a member has a value: neither null nor one that is empty.
func some(raw []byte) bool {
	switch raw = bytes.TrimSpace(raw); string(raw) {
	case "", "null", `""`, "{}":
		return false
	}
	return true
}
