package yaml_test

import (
	"testing"

	"github.com/lingserve/lingserve/internal/yaml"
)

// DN-07: the commonest mistakes are answered with the remedy.
func TestSyntaxErrorsNameTheRemedy(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a colon in a text", "a:\n  prompt: Answer like this: short", `2:27: YAML reads ": " as the end of a key; put a text with ": " in quotes, and indent the keys of a mapping alike`},
		{"a quote in single quotes", "a: 'It's short'", `1:8: expected key: value; put a text with quotes or brackets in quotes, and indent the keys of a mapping alike`},
		{"quotes in double quotes", `a: "Say "hello" now"`, `1:10: expected key: value; put a text with quotes or brackets in quotes, and indent the keys of a mapping alike`},
		{"no closing quote", "a: 'b\nc: d", `1:4: the text has no closing quote`},
		{"an escape", `a: "C:\dir"`, `1:4: a backslash begins an escape in double quotes; write \\ for it, or use single quotes`},
		{"a star", "a: *be* short", `1:4: YAML reads * as the start of an alias; put a text in quotes, or define the anchor before it`},
		{"a pattern in a list", "a: [b, **/x]", `1:8: YAML reads * as the start of an alias; put a text in quotes, or define the anchor before it`},
		{"a character that YAML keeps", "a: @you", `1:4: YAML does not read this character at the start of a value as text; put the text in quotes`},
		{"a list on the line of its key", "a: - x", `1:4: a list begins on the next line; put a text that begins with - in quotes`},
		{"text behind a list", "a: [x] is a box", `1:8: expected key: value; put a text with quotes or brackets in quotes, and indent the keys of a mapping alike`},
		{"text on the line of a block", "a: | x\n  y", `1:4: the text after | or > begins on the next line, indented`},
		{"braces in a mapping", "a: {b: c, d: Hi {{ e }}, f: g}", `1:17: expected a comma or the end of the brackets; inside of brackets, put a text with braces, commas or quotes in quotes`},
		{"no closing bracket", "a: [1, 2", `1:4: expected a comma or the end of the brackets; inside of brackets, put a text with braces, commas or quotes in quotes`},
		{"a tab", "a:\n\tb: c", `2:1: a tab indents this line; YAML takes only spaces, so replace each tab with two spaces`},
		{"too few spaces", "a:\n  b:\n    c: d\n   e: f", `4:4: expected key: value; put a text with quotes or brackets in quotes, and indent the keys of a mapping alike`},
		{"too many spaces", "a:\n  b: c\n    d: e", `3:6: YAML reads ": " as the end of a key; put a text with ": " in quotes, and indent the keys of a mapping alike`},
		{"a block that is not indented", "a:\n  b: |\n  c\n", `3:3: expected key: value; if this is more of the text above, begin that text with | and indent its lines`},
		{"no colon", "a:\n  b: c\n  d e", `3:3: expected key: value; if this is more of the text above, begin that text with | and indent its lines`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := yaml.Reader{File: "f"}
			r.Parse(test.text)
			if err := r.Err(); err == nil || err.Error() != "f:"+test.want {
				t.Errorf("got  %v\nwant f:%s", err, test.want)
			}
		})
	}
}

// DN-07: what YAML reads as a mapping, or as nothing, was meant as text.
func TestValuesThatWereMeantAsTextAreExplained(t *testing.T) {
	for text, want := range map[string]string{
		"a: # Rules":          `f:1:1: a: expected text, got nothing; YAML reads # as the start of a comment, so put the text in quotes`,
		"a:\n  - Note: short": `f:2:5: a: expected text, got a mapping; YAML reads ": " as the end of a key, so put the text in quotes`,
		"a:\n  - {b: short}":  `f:2:5: a: expected text, got a mapping`,
		"a: {b: c}":           `f:1:4: a: expected text, got a mapping`,
	} {
		r := yaml.Reader{File: "f"}
		f := r.Fields(r.Parse(text), "", "a")
		r.Texts(f["a"], "a", func(*yaml.Node, string) {})
		if err := r.Err(); err == nil || err.Error() != want {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}
