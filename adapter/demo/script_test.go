package demo

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/upstream"
)

// Whatever is asked, there is an answer, and it is JSON where JSON was asked for.
func FuzzAnswer(f *testing.F) {
	f.Add("Answer like {\"a\": [1, \"b|c\"]}", "Why is the sky blue?", `{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#"}}}}`, true)
	f.Add("{\"title\":1,\"summary\":2,\"sections\":3}", "x", "", true)
	f.Add("{\"questions\":[]}", "{\"title\":\"Cats\",\"sections\":[{}]}", "", true)
	f.Add("", "The question: a\nThe section to write: b", "", false)
	f.Add("", "", `{"allOf":[{"$ref":"#/allOf/0"}]}`, true)
	f.Add("", "", `{"type":"integer","minimum":1e400,"multipleOf":1e-300}`, true)
	f.Add("", "", `{"type":"array","minItems":3,"uniqueItems":true,"items":{"enum":[1]}}`, true)
	f.Add("", "", `{"minLength":99999,"anyOf":[{"oneOf":[true]}]}`, true)
	f.Fuzz(func(t *testing.T, system, user, schema string, wantJSON bool) {
		r := upstream.Request{JSON: wantJSON, Schema: json.RawMessage(schema), Messages: []upstream.Message{{Role: "system", Content: system}, {Role: "user", Content: user}}}
		got := answer(r).Text
		if got == "" || !utf8.ValidString(got) {
			t.Fatalf("got %q", got)
		}
		if !wantJSON {
			return
		}
		if inside, ok := strings.CutSuffix(got, ",}"); ok {
			got = inside + "}"
		}
		if !json.Valid([]byte(got)) {
			t.Fatalf("it is no JSON: %s", got)
		}
	})
}
