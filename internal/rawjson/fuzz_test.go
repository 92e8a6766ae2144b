package rawjson_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// Of an object, the members are those that encoding/json finds, where the last one of a name counts; and kinds are the kinds of its values.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{`{"b":1.10,"a":{"c":[]},"b":null}`, `{"a":1,"b":}`, `{"\u0061":"\ud800"} `, `{"a":1}{`, `[{"a":1}]`, `{"":{}`, "{\"a\xff\":1}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := map[string]json.RawMessage{}
		for name, value := range rawjson.Members(text) {
			if !json.Valid(value) {
				t.Errorf("%q is no JSON", value)
			}
			got[name] = bytes.TrimSpace(value)
		}
		var value any
		if json.Unmarshal(text, &value) != nil {
			return // as far as it goes
		}
		kind := map[bool]string{true: rawjson.Kind(text)}
		want := map[string]json.RawMessage{}
		switch value.(type) {
		case map[string]any:
			kind[false] = "an object"
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
		case []any:
			kind[false] = "an array"
		case string:
			kind[false] = "a string"
		case bool:
			kind[false] = "a boolean"
		case nil:
			kind[false] = "null"
		default:
			kind[false] = "a number"
		}
		if kind[true] != kind[false] {
			t.Errorf("%q is %s, expected %s", text, kind[true], kind[false])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	})
}
