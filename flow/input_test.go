package flow

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/ling"
)

const askSchema = `
input:
  type: object
  required: [question]
  additionalProperties: false
  properties:
    question: {type: string, minLength: 1, maxLength: 10}
    level: {type: string, enum: [child, adult], default: child}
    count: {type: integer, minimum: 1, maximum: 5, default: 3}
    tags: {type: array, maxItems: 2, items: {type: string}}
    deep: {type: object, required: [a/b], properties: {a/b: {type: [string, "null"]}}}
bots: {a: {}}
`

func TestInputIsChecked(t *testing.T) {
	w := parse(t, askSchema)
	tests := []struct{ name, input, want string }{
		{"defaults are filled in", `{"question":"why"}`, `{"count":3,"level":"child","question":"why"}`},
		{"what is given is kept", `{"question":"why","level":"adult","count":1}`, `{"count":1,"level":"adult","question":"why"}`},
		{"PROTOCOL 3: a plain string becomes the one required property", `"why"`, `{"count":3,"level":"child","question":"why"}`},
		{"white space around", " {\"question\":\"why\"}\n", `{"count":3,"level":"child","question":"why"}`},
		{"nothing", ``, `/question: this property is required`},
		{"null", `null`, `/question: this property is required`},
		{"a plain string that does not fit", `"why is the sky blue"`, `/question: expected at most 10 characters, got 19`},
		{"an empty string", `""`, `/question: expected text, got an empty string`},
		{"a number", `7`, `: got a number, expected an object`},
		{"a list", `[]`, `: got an array, expected an object`},
		{"not JSON", `{"question"`, `: invalid JSON: unexpected EOF`},
		{"two values", `{"question":"a"} {}`, `: invalid JSON: invalid character after top-level value`},
		{"several problems, by pointer", `{"level":"dog","count":9,"qestion":"x","tags":["a",1,null],"deep":{}}`, `/count: expected at most 5
/deep/a~1b: this property is required
/level: expected one of "child", "adult"
/qestion: unknown property
/question: this property is required
/tags: expected at most 2 items, got 3
/tags/1: expected a string, got a number
/tags/2: expected a string, got null`},
		{"a type of two", `{"question":"a","deep":{"a/b":1}}`, `/deep/a~1b: expected null or a string, got a number`},
		{"a fraction", `{"question":"a","count":1.5}`, `/count: expected an integer, got a number`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Prepare(w, json.RawMessage(test.input))
			var text string
			if err != nil {
				e, ok := errors.AsType[*InputError](err)
				if !ok {
					t.Fatalf("%T: %v", err, err)
				}
				var lines []string
				for _, p := range e.Problems {
					lines = append(lines, p.Pointer+": "+p.Detail)
				}
				text = strings.Join(lines, "\n")
			} else {
				text = string(rawjson.MustMarshal(got))
			}
			if diff := cmp.Diff(test.want, text); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNumbersOfAnInputKeepTheirDigits(t *testing.T) {
	w := parse(t, "bots: {a: {}}")
	got, err := Prepare(w, json.RawMessage(`{"n": 12345678901234567890, "f": 1.10}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"n": json.Number("12345678901234567890"), "f": json.Number("1.10")}, got); diff != "" {
		t.Error(diff)
	}
}

func TestADefaultIsNotSharedByRuns(t *testing.T) {
	w := parse(t, "input: {properties: {a: {type: array, default: [1]}}}\nbots: {a: {}}")
	for range 2 {
		got, err := Prepare(w, nil)
		if err != nil {
			t.Fatal(err)
		}
		list := got["a"].([]any)
		if list[0] != json.Number("1") {
			t.Fatalf("another run has changed the default: %v", list)
		}
		list[0] = "changed"
	}
}

// A plain string is taken only where there is no doubt what it means.
func TestAPlainStringNeedsOneRequiredString(t *testing.T) {
	for name, schema := range map[string]string{
		"none required":           `{properties: {a: {type: string}}}`,
		"two required":            `{required: [a, b], properties: {a: {type: string}, b: {type: string}}}`,
		"the required is another": `{required: [a], properties: {a: {type: integer}}}`,
		"it has no schema":        `{required: [a]}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := parse(t, "input: "+schema+"\nbots: {a: {}}")
			_, err := Prepare(w, json.RawMessage(`"x"`))
			if e, ok := errors.AsType[*InputError](err); !ok || !strings.HasPrefix(e.Problems[0].Detail, "got a string, expected an object") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestFuncPanicsOnMisuse(t *testing.T) {
	run := func(context.Context, *ling.Manager, map[string]any) error { return nil }
	for name, f := range map[string]func(){
		"a name":   func() { Func("a b", "", nil, run) },
		"a schema": func() { Func("a", "", json.RawMessage(`{"type":"strin"}`), run) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p, ok := recover().(string); !ok || !strings.HasPrefix(p, "flow: ") {
					t.Errorf("panicked with %v", p)
				}
			}()
			f()
		})
	}
}

// A schema that is its own part has no end to follow; the library notices.
func TestASchemaThatIsItsOwnPartEnds(t *testing.T) {
	w := parse(t, "input: {allOf: [{$ref: '#'}], properties: {a: {$ref: '#'}}}\nbots: {a: {}}")
	if _, err := Prepare(w, json.RawMessage(`{"a":{"a":{}}}`)); err != nil {
		if _, ok := errors.AsType[*InputError](err); !ok {
			t.Errorf("%T: %v", err, err)
		}
	}
}
