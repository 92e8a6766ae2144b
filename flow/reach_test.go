package flow

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// DW-11: a pattern that the schema of each bot which could match it rules out is refused when the file is read; where the schema leaves it
// open, it is not.
func TestAPatternIsHeldToTheSchema(t *testing.T) {
	const (
		closed = `{type: object, additionalProperties: false, properties: {title: {type: string}, days: {type: array, items: {type: object, additionalProperties: false, properties: {name: {type: string}, n: {type: integer}}}}}}`
		open   = `{type: object, properties: {title: {type: string}, days: {type: array}}}`
		tree   = `{$ref: "#/$defs/node", $defs: {node: {type: object, additionalProperties: false, properties: {name: {type: string}, kids: {type: array, items: {$ref: "#/$defs/node"}}}}}}`
		either = `{anyOf: [{type: object, additionalProperties: false, properties: {a: {type: string}}}, {type: object, additionalProperties: false, properties: {b: {type: "null"}}}]}`
		tuple  = `{type: array, prefixItems: [{type: string}, {type: [number, "null"]}], items: false}`
		all    = `{allOf: [{properties: {a: {type: string}}}, {additionalProperties: false, properties: {a: true}}]}`
		named  = `{type: object, additionalProperties: false, patternProperties: {"^x-": {type: string}}, properties: {"a/b": {type: object}}}`
	)
	for _, test := range []struct{ schema, on, want string }{
		{closed, `trip/days/*/name`, ""},
		{closed, `{value: trip/days/*}`, ""},
		{closed, `{object: trip}`, ""},
		{closed, `trip/**`, ""},
		{closed, `"**/name"`, ""},
		{closed, `"*/title"`, ""},
		{closed, `"**"`, ""},
		{closed, `trip/dayz/*`, `the schema of plan has no "dayz", did you mean "days"? expected one of days and title`},
		{closed, `trip/days/*/nam`, `the schema of plan has no "nam", did you mean "name"? expected one of n and name`},
		{closed, `trip/days/*`, `the schema of plan allows no text at "trip/days/*"`},
		{closed, `trip/days/*/n`, `the schema of plan allows no text at "trip/days/*/n"`},
		{closed, `{object: trip/title}`, `the schema of plan allows no object or list at "trip/title"`},
		{closed, `{value: trip/days/first}`, `the schema of plan allows no value at "trip/days/first"`},
		{closed, `{value: trip/title/*}`, `the schema of plan allows no value at "trip/title/*"`},
		{open, `trip/dayz/*`, ""},
		{open, `trip/days/*`, ""},
		{open, `trip/title/x`, `the schema of plan allows no text at "trip/title/x"`},
		{tree, `trip/kids/*/kids/0/kids/1/name`, ""},
		{tree, `"trip/**/name"`, ""},
		{tree, `trip/kids/*/nome`, `the schema of plan has no "nome", did you mean "name"? expected one of kids and name`},
		{either, `trip/a`, ""},
		{either, `trip/b`, `the schema of plan has no "b"; expected one of a`},
		{either, `{value: trip/b}`, ""},
		{tuple, `trip/0`, ""},
		{tuple, `trip/1`, `the schema of plan allows no text at "trip/1"`},
		{tuple, `{value: trip/2}`, `the schema of plan allows no value at "trip/2"`},
		{tuple, `trip/*`, ""},
		{all, `trip/a`, ""},
		{all, `{object: trip/a}`, `the schema of plan allows no object or list at "trip/a"`},
		{named, `trip/x-1`, ""},
		{named, `{object: trip/x-1}`, `the schema of plan allows no object or list at "trip/x-1"`},
		{named, `{object: "trip/a\\/b"}`, ""},
		{`false`, `trip/x`, `the schema of plan allows no text at "trip/x"`},
		{`{$ref: "https://example.com/x"}`, `trip/x`, "not a JSON Schema"},
	} {
		root := ` "d/{{ event.bot }}"`
		_, err := ParseSpec("w.yaml", []byte("bots:\n  plan: {root: trip, schema: "+test.schema+"}\n  day: {on: "+test.on+", max: 3, root:"+root+"}\n"), nil)
		want := "w.yaml:3:13: on: this trigger never fires: " + test.want
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s with %s: %v", test.on, test.schema, err)
		case test.want == "not a JSON Schema": // of which nothing is known
			if err == nil {
				t.Errorf("%s: it is no schema", test.schema)
			}
		case test.want != "":
			var e *FileError
			if !errors.As(err, &e) || e.Message != want[len("w.yaml:3:13: "):] || e.Line != 3 || e.Column < 13 {
				t.Errorf("%s with %s:\n got %v\nwant %s", test.on, test.schema, err, want)
			}
		}
	}
	// Another bot may write there.
	if _, err := ParseSpec("w.yaml", []byte("bots:\n  a: {schema: "+closed+"}\n  b: {}\n  c: {on: dayz/*, root: \"c/{{ event.match.0 }}\"}\n"), nil); err != nil {
		t.Error(err)
	}
}

// DW-07: a provider that there is not is an error at its place.
func TestAnUnknownProviderIsAnErrorAtItsPlace(t *testing.T) {
	const text = "model: opnai:gpt\nbots:\n  a: {model: [openai:x, ollama:y]}\n  b: {model: [openai:x, \"claude:z\"], root: b}\n"
	want := "w.yaml:1:8: model: unknown provider \"opnai\", did you mean \"openai\"? expected one of demo, openai and ollama\n" +
		"w.yaml:4:25: model: unknown provider \"claude\"; expected one of demo, openai and ollama"
	if _, err := ParseSpec("w.yaml", []byte(text), nil, "demo", "openai", "ollama"); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := ParseSpec("w.yaml", []byte(text), nil); err != nil {
		t.Errorf("without providers nothing is known of them: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "w.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir, "demo", "opnai", "openai", "ollama", "claude")
	if err != nil || len(r.All()) != 1 {
		t.Errorf("%v", err)
	}
	if r, err = Open(dir, "demo"); err == nil || len(r.All()) != 0 {
		t.Errorf("%v, %d workflows", err, len(r.All()))
	}
}
