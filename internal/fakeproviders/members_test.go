package fakeproviders

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the types of the official clients require (bench/peers holds everything to them).
func TestAnswersHaveTheMembersThatOfficialClientsRequire(t *testing.T) {
	s := &Server{Models: []string{"m"}, Script: func(r Request) Answer {
		if r.Model == "calls" {
			return Answer{ToolCalls: []ToolCall{{"c", "f", "{}"}}}
		}
		return Answer{Text: "a"}
	}}
	defer s.Close()
	for name, c := range map[string]struct {
		method, path, body string
		at                 []any // keys and indexes
		want               any
	}{
		"a refusal beside the text":             {"POST", "/v1/chat/completions", `{"model":"m"}`, []any{"choices", 0, "message", "refusal"}, nil},
		"null in place of no text before calls": {"POST", "/v1/chat/completions", `{"model":"calls"}`, []any{"choices", 0, "message", "content"}, nil},
		"text where there is some":              {"POST", "/v1/chat/completions", `{"model":"m"}`, []any{"choices", 0, "message", "content"}, "a"},
		"what an Ollama model was made of":      {"GET", "/api/tags", "", []any{"models", 0, "details", "parent_model"}, ""},
		"how large an Ollama model is":          {"GET", "/api/tags", "", []any{"models", 0, "details", "parameter_size"}, "8B"},
		"how coarse an Ollama model is":         {"GET", "/api/tags", "", []any{"models", 0, "details", "quantization_level"}, "Q4_K_M"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://model"+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.Transport().RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var at any
			if err := json.NewDecoder(res.Body).Decode(&at); err != nil {
				t.Fatal(err)
			}
			for _, key := range c.at {
				switch key := key.(type) {
				case int:
					at = at.([]any)[key]
				case string:
					value, ok := at.(map[string]any)[key]
					if !ok {
						t.Fatalf("there is no %s", key)
					}
					at = value
				}
			}
			if diff := cmp.Diff(c.want, at); diff != "" {
				t.Error(diff)
			}
		})
	}
}
