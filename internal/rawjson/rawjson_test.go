package rawjson_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/rawjson"
)

func TestAValueIsNamedByItsFirstByte(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "an object", " \r\n\t[": "an array", `"`: "a string", `true`: "a boolean", `false`: "a boolean", `null`: "null", `-1`: "a number",
		"": "nothing", "  ": "nothing",
	} {
		if got := rawjson.Kind([]byte(text)); got != want {
			t.Errorf("%q is %s, expected %s", text, got, want)
		}
	}
}

func TestMembersComeInOrderUpToTheFirstMistake(t *testing.T) {
	for text, want := range map[string][]string{
		`{"b":1.10,"a":{"c":[]},"b":null}`: {"b=1.10", `a={"c":[]}`, "b=null"},
		`{"a":1,"b":}`:                     {"a=1"},
		`{"a":1,b`:                         {"a=1"},
		`[1]`:                              nil,
		`"a"`:                              nil,
		``:                                 nil,
	} {
		var got []string
		for name, value := range rawjson.Members([]byte(text)) {
			got = append(got, name+"="+string(value))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for range rawjson.Members([]byte(`{"a":1,"b":2}`)) {
		break // may be left
	}
}
