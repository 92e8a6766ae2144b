package flow

import (
	"strings"
	"testing"
)

// DN-10: bots of which only one can start in a run may share a root.
func TestBotsThatExcludeEachOtherMayShareARoot(t *testing.T) {
	for name, bots := range map[string]string{
		"success and failure of one bot":          `{b: {on: {completed: a}, root: r}, c: {on: {error: a}, root: r}}`,
		"several":                                 `{a2: {root: a2}, b: {on: {completed: [a, a2]}, root: r}, c: {on: [{error: a}], root: r}, d: {on: {completed: c}, root: r}}`,
		"either failure":                          `{a2: {root: a2}, b: {on: {completed: [a, a2]}, root: r}, c: {on: [{error: a}, {error: a2}], max: 1, root: r}}`,
		"what a bot behind it starts":             `{b: {on: {completed: a}, root: b}, b2: {on: b/x, root: r}, c: {on: {error: a}, root: c}, c2: {on: {value: c}, root: r}}`,
		"the failure of the one behind the other": `{b: {on: {completed: a}, root: b}, b2: {on: {error: b}, root: r}, c: {on: {error: a}, root: r}}`,
		"a text above the other's root":           `{b: {on: {completed: a}, root: r, format: text}, c: {on: {error: a}, root: r/x}}`,
	} {
		if _, err := ParseSpec("w.yaml", []byte("bots: {a: {root: a}, "+strings.TrimPrefix(bots, "{")), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	text := "bots: {a: {message: \"{{ input.a }}\", root: a}, b: {on: {completed: a}, message: b, root: r}, c: {on: {error: a}, message: c, root: r}}"
	m := answers(map[string]string{"a": `{"x":1}`, "f": failing, "b": `{"from":"b"}`, "c": `{"from":"c"}`})
	runs(t, parse(t, text), m, `{"a":"a"}`, nil, func(t *testing.T, d done) {
		wantResult(t, d, "completed", `{"a":{"x":1},"r":{"from":"b"}}`)
	})
	runs(t, parse(t, text), m, `{"a":"f"}`, nil, func(t *testing.T, d done) {
		wantResult(t, d, "completed", `{"r":{"from":"c"}}`)
	})
}
