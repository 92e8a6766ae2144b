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

// Whatever tools are offered and have returned, there is an answer: a text, or calls of offered tools with JSON objects.
func FuzzTools(f *testing.F) {
	f.Add("What time is it in Rome at 3?", "clock_time", `{"type":"object","properties":{"town":{"type":"string"},"at":{"type":"integer"}},"required":["town","at"]}`, "12:00", false)
	f.Add("date: 2026-01-01T12:00:00Z\nthe \"x\"", "x", `{}`, `{"error":{"message":""}}`, true)
	f.Add("swap 'a' 'b'", "swap.it", `{"allOf":[{"$ref":"#/allOf/0"}]}`, "", false)
	f.Add("İ x y", "x", `{"properties":{"a":{"enum":["Y",1]},"b":{"type":"number","multipleOf":0}},"required":["a","b"]}`, "\xff", true)
	f.Fuzz(func(t *testing.T, user, name, schema, result string, called bool) {
		messages := []map[string]any{{"role": "user", "content": user}}
		r := upstream.Request{Messages: []upstream.Message{{Role: "user", Content: user}}}
		if called {
			one := map[string]any{"id": "call_1", "type": "function", "function": map[string]string{"name": name, "arguments": "{}"}}
			messages = append(messages, map[string]any{"role": "assistant", "tool_calls": []any{one}}, map[string]any{"role": "tool", "tool_call_id": "call_1", "content": result})
			r.Messages = append(r.Messages, upstream.Message{Role: "assistant"}, upstream.Message{Role: "tool", Content: result})
		}
		body := map[string]any{"messages": messages, "tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": json.RawMessage(schema)}}}}
		var err error
		if r.Body, err = json.Marshal(body); err != nil {
			t.Skip("the schema is no JSON")
		}
		a := answer(r)
		if (a.Text == "") == (len(a.ToolCalls) == 0) || !utf8.ValidString(a.Text) || called && len(a.ToolCalls) > 0 {
			t.Fatalf("%+v", a)
		}
		for _, c := range a.ToolCalls {
			var object map[string]any
			if err := json.Unmarshal([]byte(c.Arguments), &object); err != nil || !utf8.ValidString(c.Arguments) {
				t.Fatalf("%q: %v", c.Arguments, err)
			}
		}
	})
}
