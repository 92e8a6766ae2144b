package demo_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
)

// Whatever is asked, there is an answer, and it is JSON where JSON was asked for.
func FuzzAnswer(f *testing.F) {
	f.Add("Answer like {\"a\": [1, \"b|c\"]}", "Why is the sky blue?", `{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#"}}}}`, true)
	f.Add("{\"title\":1,\"summary\":2,\"sections\":3}", "x", "", true)
	f.Add("{\"questions\":[]}", "{\"title\":\"Cats\",\"sections\":[{}]}", "", true)
	f.Add("{\"a\xff\": \"\\u0041|b\", \"c\\\"\": \"\"}", "x", "", true)
	f.Add("", "The question: a\nThe section to write: b", "", false)
	f.Add("", "", `{"allOf":[{"$ref":"#/allOf/0"}]}`, true)
	f.Add("", "", `{"type":"integer","minimum":1e400,"multipleOf":1e-300}`, true)
	f.Add("", "", `{"type":"array","minItems":3,"uniqueItems":true,"items":{"enum":[1]}}`, true)
	f.Add("", "", `{"minLength":99999,"anyOf":[{"oneOf":[true]}]}`, true)
	f.Add("", "", "{\"properties\":{\"\\ud800\xff\":{\"const\":\"\xff\"}},\"type\":null,\"required\":null}", true)
	f.Fuzz(func(t *testing.T, system, user, schema string, wantJSON bool) {
		got := ask(t, demo.New(nil), "fast", request(system, user, adapter.Format{JSON: wantJSON, Schema: json.RawMessage(schema)})).text
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
		req := request("", user, adapter.Format{})
		req.Tools = []adapter.Tool{offer(name, schema)}
		if called {
			req.Messages = append(req.Messages,
				adapter.Message{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "call_1", Name: name, Arguments: "{}"}}},
				adapter.Message{Role: adapter.ToolRole, ToolCallID: "call_1", Content: result})
		}
		text, calls := answered(t, demo.New(nil), req)
		if (text == "") == (len(calls) == 0) || !utf8.ValidString(text) || called && len(calls) > 0 {
			t.Fatalf("%q %+v", text, calls)
		}
		for _, c := range calls {
			var object map[string]any
			if err := json.Unmarshal([]byte(c.Arguments), &object); err != nil || !utf8.ValidString(c.Arguments) {
				t.Fatalf("%q: %v", c.Arguments, err)
			}
		}
	})
}
