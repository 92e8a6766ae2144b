package yaml_test

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/yaml"
)

// DN-07: the commonest mistakes are answered with the remedy.
func TestSyntaxErrorsNameTheRemedy(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a colon in a text", "a:\n  prompt: Answer like this: short", `2:11: YAML reads ": " as the end of a key; put the text in quotes, such as 'Answer like this: short', or begin it with prompt: | and write it on the next lines, indented`},
		{"a colon in an element", "a:\n  - 'x'\n  - - b: c: d", `3:10: YAML reads ": " as the end of a key; put the text in quotes, such as 'c: d', or begin it with b: | and write it on the next lines, indented`},
		{"a quote in single quotes", "a: 'It's short'", `1:4: the text ends at the second ', and more follows; use other quotes around all of it, such as "It's short"`},
		{"quotes in double quotes", `a: "Say "hello" now"`, `1:4: the text ends at the second ", and more follows; use other quotes around all of it, such as 'Say "hello" now'`},
		{"a quoted word at the start", "a: \"b\" == 'c'", `1:4: the text ends at the second ", and more follows; use other quotes around all of it, such as '"b" == ''c'''`},
		{"no closing quote", "a: 'b\nc: d", `1:4: the text has no closing '`},
		{"an escape", `a: "C:\dir"`, `1:4: a backslash begins an escape in double quotes; write \\ for it, or use single quotes, such as 'C:\dir'`},
		{"a star", "a: *be* short", `1:4: YAML reads * as the start of an alias; put the text in quotes, such as '*be* short'`},
		{"a pattern", "a: */title", `1:4: a: YAML reads * as the start of an alias; put the text in quotes, such as '*/title'`},
		{"a pattern in a list", "a: [b, **/x]", `1:4: YAML reads * as the start of an alias; put the text in quotes, such as '**/x'`},
		{"a character that YAML keeps", "a: @you", `1:4: YAML does not read @ at the start of a value as text; put the text in quotes, such as '@you'`},
		{"a list on the line of its key", "a: - x", `1:4: a list begins on the next line; if this is text, put the text in quotes, such as '- x'`},
		{"text behind a list", "a: [x] is a box", `1:4: YAML reads [ as the start of a list, and more follows its end; put the text in quotes, such as '[x] is a box'`},
		{"text on the line of a block", "a: | x\n  y", `1:4: the text after | begins on the next line, indented`},
		{"braces in a mapping", "a: {b: c, d: Hi {{ e }}, f: g}", `1:4: inside of {, a text with braces needs quotes, such as 'Hi {{ e }}'`},
		{"a tab", "a:\n\tb: c", `2:1: a tab indents this line; YAML takes only spaces, so replace each tab with two spaces`},
		{"too few spaces", "a:\n  b:\n    c: d\n   e: f", `4:4: the line is indented by 3 spaces; expected 2 or 4, as lines above`},
		{"too many spaces", "a:\n  b: c\n    d: e", `3:5: the line is indented deeper than line 2, which has a value already; indent both alike, by 2 spaces`},
		{"a block that is not indented", "a:\n  b: |\n  c\n", `3:3: the text is not indented deeper than its key in line 2; indent it by 4 spaces`},
		{"no space behind the colon", "a:\n  b:c\n  d: e", `2:3: a space belongs behind the colon of b:`},
		{"no colon", "a:\n  b: c\n  d e", `3:3: expected key: value; if this is more of the text above, begin that text with | and indent its lines`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, show := range []bool{true, false} {
				r := yaml.Reader{File: "f", Aliases: true}
				if show {
					r.Explain = func(string) (int, string) { return 0, "" }
				}
				r.Parse(test.text)
				want := test.want
				if !show { // a configuration may have secrets
					want, _, _ = strings.Cut(want, ", such as ")
				}
				if err := r.Err(); err == nil || !strings.HasPrefix(err.Error(), "f:"+want) {
					t.Errorf("got  %v\nwant f:%s", err, want)
				} else if !show && strings.Contains(err.Error(), ", such as ") {
					t.Errorf("it repeats the text: %v", err)
				}
			}
		})
	}
}

// DN-07: what YAML reads as a mapping, or as nothing, was meant as text.
func TestValuesThatWereMeantAsTextAreExplained(t *testing.T) {
	for text, want := range map[string]string{
		"a: # Rules":          `f:1:1: a: expected text, got nothing; YAML reads # as the start of a comment, so put the text in quotes, such as '# Rules'`,
		"a:\n  - Note: short": `f:2:5: a: expected text, got a mapping; YAML reads ": " as the end of a key, so put the text in quotes, such as 'Note: short'`,
		"a:\n  - {b: short}":  `f:2:5: a: expected text, got a mapping`,
		"a: {b: c}":           `f:1:4: a: expected text, got a mapping`,
	} {
		r := yaml.Reader{File: "f", Explain: func(string) (int, string) { return 0, "" }}
		f := r.Fields(r.Parse(text), "", "a")
		r.Texts(f["a"], "a", func(*yaml.Node, string) {})
		if err := r.Err(); err == nil || err.Error() != want {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}
