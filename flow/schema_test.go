package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAnInputViolatesIsSaidInWords(t *testing.T) {
	for _, test := range []struct{ schema, value, want string }{
		{`type: string`, `1`, `/v: expected a string, got a number`},
		{`type: [object, array]`, `true`, `/v: expected an array or an object, got a boolean`},
		{`maxLength: 1`, `"ab"`, `/v: expected at most 1 character, got 2`},
		{`minLength: 1`, `""`, `/v: expected text, got an empty string`},
		{`minLength: 3`, `"ab"`, `/v: expected at least 3 characters, got 2`},
		{`maxItems: 1`, `[1, 2]`, `/v: expected at most 1 item, got 2`},
		{`minItems: 2`, `[]`, `/v: expected at least 2 items, got 0`},
		{`uniqueItems: true`, `[1, 2, 1]`, `/v: expected different items, but items 0 and 2 are equal`},
		{`maximum: 2.5`, `3`, `/v: expected at most 2.5`},
		{`minimum: 2`, `1`, `/v: expected at least 2`},
		{`exclusiveMaximum: 2`, `2`, `/v: expected less than 2`},
		{`exclusiveMinimum: 2`, `2`, `/v: expected more than 2`},
		{`multipleOf: 0.5`, `0.7`, `/v: expected a multiple of 0.5`},
		{`enum: [a, 1, null]`, `2`, `/v: expected one of "a", 1, null`},
		{`enum: [1,2,3,4,5,6,7,8,9,10,11,12,13]`, `0`, `/v: expected one of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, …`},
		{`const: {a: 1}`, `2`, `/v: expected {"a":1}`},
		{`pattern: "^[a-z]+$"`, `"A"`, `/v: expected text that matches ^[a-z]+$`},
		{`minProperties: 1`, `{}`, `/v: expected at least 1 property, got 0`},
		{`maxProperties: 1`, `{"a":1,"b":2}`, `/v: expected at most 1 property, got 2`},
		{`dependentRequired: {a: [b, c]}`, `{"a":1}`, `/v: "a" requires b and c too`},
		{`propertyNames: {maxLength: 1}`, `{"ab":1}`, `/v: "ab" is not allowed as a name`},
		{`anyOf: [{type: string}, {type: integer}]`, `null`, `/v: expected a value that matches one of the schema's alternatives`},
		{`oneOf: [{type: number}, {type: integer}]`, `1`, `/v: expected a value that matches one of the schema's alternatives`},
		{`not: {type: string}`, `"a"`, `/v: this value is not allowed here`},
		{`contains: {type: string}`, `[1]`, `/v: it does not match "contains" of the schema`},
		{`properties: {a: false}`, `{"a":1}`, `/v/a: this value is not allowed here`},
		{`allOf: [{required: [a]}, {type: object}]`, `{}`, `/v/a: this property is required`},
		{`items: {required: ["x/y~z"]}`, `[{}]`, `/v/0/x~1y~0z: this property is required`},
	} {
		t.Run(test.schema, func(t *testing.T) {
			w := parse(t, "input: {properties: {v: {"+test.schema+"}}}\nbots: {a: {}}")
			_, err := Prepare(w, json.RawMessage(`{"v":`+test.value+`}`))
			e, ok := errors.AsType[*InputError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			var got []string
			for _, p := range e.Problems {
				got = append(got, p.Pointer+": "+p.Detail)
			}
			if diff := cmp.Diff([]string{test.want}, got); diff != "" {
				t.Error(diff)
			}
			if want := "the input does not match its schema: " + test.want; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %q, expected %q", err.Error(), want)
			}
		})
	}
}

func TestSchemasThatCannotBeUsed(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{`[1]`, `w.yaml:1:8: input: invalid JSON Schema (2020-12): expected a boolean or an object, got an array`},
		{`true`, `w.yaml:1:8: input: expected a mapping, such as {type: object, properties: …}`},
		{`{type: [string, integer]}`, `w.yaml:1:15: input: expected type: object, because a workflow's input is an object`},
		{`{properties: {a: {pattern: "(?=x)"}}}`, `w.yaml:1:35: input: invalid JSON Schema (2020-12): expected text of the format regex`},
		{`{properties: {a: {$ref: "#/$defs/nope"}}}`, `w.yaml:1:8: input: it refers to #/$defs/nope, which does not exist`},
		{`{properties: {a: {$ref: "#nope"}}}`, `w.yaml:1:8: input: it refers to "#nope", which does not exist`},
		{`{properties: {a: {$ref: "other.json"}}}`, `w.yaml:1:8: input: it refers to "other.json", but a schema may only refer to itself (#/…)`},
		{`{$schema: "https://example.com/mine"}`, `w.yaml:1:8: input: it refers to "https://example.com/mine", but a schema may only refer to itself (#/…)`},
		{`{required: question}`, `w.yaml:1:19: input: invalid JSON Schema (2020-12): expected an array, got a string`},
		{`{properties: {a: {maxLength: -1}}}`, `w.yaml:1:37: input: invalid JSON Schema (2020-12): expected at least 0`},
	} {
		t.Run(test.schema, func(t *testing.T) {
			_, err := ParseSpec("w.yaml", []byte("input: "+test.schema+"\nbots: {a: {}}"), nil)
			if diff := cmp.Diff([]string{test.want}, lines(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// DN-09: what is mistyped in a schema is refused, of the input and of answers.
func TestMistypedWordsInSchemasAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"input: {town: string}\nbots: {a: {}}":                                   `w.yaml:1:9: input: unknown keyword "town"; properties belong in "properties", and names of notes begin with x-`,
		"input: {requird: [a], properties: {a: {}}}\nbots: {a: {}}":              `w.yaml:1:9: input: unknown keyword "requird"; properties belong in "properties", and names of notes begin with x-`,
		"bots:\n  a:\n    schema:\n      type: object\n      propertys: {a: {}}": `w.yaml:5:7: schema: unknown keyword "propertys"; properties belong in "properties", and names of notes begin with x-`,
	} {
		_, err := ParseSpec("w.yaml", []byte(text), nil)
		if diff := cmp.Diff([]string{want}, lines(err)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// What a schema says may be used, however it is written.
func TestOtherDraftsAndReferencesInsideAreFine(t *testing.T) {
	for _, schema := range []string{
		`{$schema: "http://json-schema.org/draft-07/schema#", properties: {a: {type: string}}}`,
		`{$schema: "https://json-schema.org/draft/2020-12/schema", $defs: {x: {type: string}}, properties: {a: {$ref: "#/$defs/x"}}}`,
		`{$id: "https://example.com/mine", $defs: {x: {$anchor: here}}, properties: {a: {$ref: "#here"}}}`,
		`{allOf: [{properties: {a: {type: string}}}]}`,
	} {
		w := parse(t, "input: "+schema+"\nbots: {a: {message: \"{{ input.a }}\"}}")
		if _, err := Prepare(w, json.RawMessage(`{"a":"x"}`)); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

func TestManyProblemsAreCounted(t *testing.T) {
	var b strings.Builder
	b.WriteString("bots:\n  a: {}\n")
	for i := range 120 {
		fmt.Fprintf(&b, "x%d: 1\n", i)
	}
	_, err := ParseSpec("w.yaml", []byte(b.String()), nil)
	got := lines(err)
	if len(got) != maxProblems+1 || got[maxProblems] != "w.yaml: and 70 more problems" {
		t.Errorf("got %d lines, the last is %q", len(got), got[len(got)-1])
	}
}
