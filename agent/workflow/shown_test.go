package workflow_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/agent/workflow"
)

func TestShownIsWhatAPersonReads(t *testing.T) {
	deep := strings.Repeat("[", 400) + strings.Repeat("1,", 5000) + "1" + strings.Repeat("]", 400)
	long := `{"a":"` + strings.Repeat("x", 40<<10) + `","b":1}`
	for name, row := range map[string]struct{ document, want string }{
		"a text":                      {"a text", "a text"},
		"nothing":                     {"", ""},
		"one member":                  {`{"answer":"four\nlines"}`, "four\nlines"},
		"one far below":               {`{"a":{"b":[["deep"]]}}`, "deep"},
		"one that is escaped":         {`{"a":"<b> & ½ \"\\ud83d\\ude00\""}`, `<b> & ½ "\ud83d\ude00"`},
		"a long one":                  {`{"a":"` + strings.Repeat("x", 40<<10) + `"}`, strings.Repeat("x", 40<<10)},
		"two members":                 {`{"answer":"yes","n":1}`, "{\n  \"answer\": \"yes\",\n  \"n\": 1\n}"},
		"the text comes last":         {`{"n":1,"answer":"yes"}`, "{\n  \"n\": 1,\n  \"answer\": \"yes\"\n}"},
		"an empty one beside it":      {`{"answer":"yes","more":[]}`, "{\n  \"answer\": \"yes\",\n  \"more\": []\n}"},
		"a list":                      {`["a","b"]`, "[\n  \"a\",\n  \"b\"\n]"},
		"a number, in all its digits": {`{"n":12345678901234567890.0}`, "{\n  \"n\": 12345678901234567890.0\n}"},
		"an empty text":               {`{"answer":""}`, "{\n  \"answer\": \"\"\n}"},
		"nothing in it":               {`[]`, "[]"},
		"no text":                     {`{"a":null}`, "{\n  \"a\": null\n}"},
		"characters of HTML":          {`{"é":["½ & <b>",{"html":"<i>"}]}`, "{\n  \"é\": [\n    \"½ & <b>\",\n    {\n      \"html\": \"<i>\"\n    }\n  ]\n}"},
		"prose in brackets":           {`[a list] of things`, "[a list] of things"},
		"prose in braces":             {`{curly} text`, "{curly} text"},
		"prose behind a list":         {`["a"] of things`, `["a"] of things`},
		"cut off behind the text":     {`{"answer":["yes"]`, `{"answer":["yes"]`},
		"cut off":                     {`{"answer":"ye`, `{"answer":"ye`},
		"too long to be laid out":     {long, long},
		"too deep to be laid out":     {deep, deep},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, workflow.Shown(row.document)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzShown: a document keeps its value, a text comes out as it went in, and nothing grows out of bounds.
func FuzzShown(f *testing.F) {
	for _, seed := range []string{`{"a":"b"}`, `{"a":"b","c":[1,{}]}`, `[[["x"]]]`, `["a"] b`, `{"a"`, `{"a":{"b":1},"a":"c"}`, "{\"\":\"\\u00e9\"}", "plain"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, output string) {
		shown := workflow.Shown(output)
		if len(shown) > max(len(output), 32<<10) {
			t.Errorf("%d bytes became %d", len(output), len(shown))
		}
		var before, after any
		if json.Unmarshal([]byte(output), &before) == nil && json.Unmarshal([]byte(shown), &after) == nil && strings.HasPrefix(shown, "{\n") && !cmp.Equal(before, after) {
			t.Errorf("%s became %s", output, shown)
		}
		if output == "" || !utf8.ValidString(output) {
			return
		}
		document, err := json.Marshal(map[string]any{"a": []any{output}})
		if err != nil {
			t.Fatal(err)
		}
		if got := workflow.Shown(string(document)); got != output {
			t.Errorf("%s became %q", document, got)
		}
	})
}
