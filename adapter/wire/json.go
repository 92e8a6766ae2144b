package wire

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// ErrFormat says that what has come cannot be read.
var ErrFormat = errors.New("it is not JSON, or not of the format")

// Decode reads an object into a struct. A member that is not of the expected type is read as a missing one. The error is [ErrFormat].
func Decode(object []byte, into any) error {
	if err := json.Unmarshal(object, into); err != nil && !isA[*json.UnmarshalTypeError](err) || !IsObject(object) {
		return ErrFormat
	}
	return nil
}

// Object is a JSON object whose members are read as far as they are of the expected type: any other is read as a missing one. nil is
// no object.
type Object map[string]json.RawMessage

// ReadObject reads an object; nil where raw is none.
func ReadObject(raw []byte) (o Object) {
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}

// Text returns a member that is a string, or else "".
func (o Object) Text(name string) (s string) {
	if json.Unmarshal(o[name], &s) != nil {
		return ""
	}
	return s
}

// Object returns a member that is an object, or else nil.
func (o Object) Object(name string) Object { return ReadObject(o[name]) }

// List returns the elements of a member that is a list, or else nil.
func (o Object) List(name string) (list []json.RawMessage) {
	if json.Unmarshal(o[name], &list) != nil {
		return nil
	}
	return list
}

// Objects returns the objects in a member that is a list.
func (o Object) Objects(name string) (objects []Object) {
	for _, raw := range o.List(name) {
		if e := ReadObject(raw); e != nil {
			objects = append(objects, e)
		}
	}
	return objects
}

// Types returns the types that a schema names, one or a list of them.
func (o Object) Types() (types []string) {
	if one := o.Text("type"); one != "" {
		return []string{one}
	}
	json.Unmarshal(o["type"], &types)
	return types
}

// Count returns a member that is a number from 0 to 2⁵⁰, or else 0.
func (o Object) Count(name string) int {
	var n float64
	if json.Unmarshal(o[name], &n) != nil || n < 0 || n > 1<<50 {
		return 0
	}
	return int(n)
}

// Has reports whether a member has a value that is neither null nor an empty string, list or object.
func (o Object) Has(name string) bool {
	switch string(bytes.TrimSpace(o[name])) {
	case "", "null", `""`, "[]", "{}":
		return false
	}
	return true
}

// Set writes a member, which is a value that can be written as JSON.
func (o Object) Set(name string, value any) {
	o[name], _ = rawjson.Marshal(value)
}
