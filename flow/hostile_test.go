package flow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/bot/prompt"
	"github.com/lingserve/lingserve/internal/yaml"
)

// What would take long, or much memory, or a deep stack, is refused in a moment: a workflow may come with a request.
// Without a bound each of these would take hours: the deadline of the tests would end it.
func TestHostileYAMLIsRefused(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	var keys strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	tests := []struct{ name, yaml, want string }{
		{"aliases that multiply", bomb.String(), "the file has too many values, or its aliases expand to too many; expected at most 50000"},
		{"an alias inside of its anchor", "a: &a [*a]", "*a refers to itself; remove it"},
		{"open brackets", strings.Repeat("[", 15000), "values are nested too deeply here; expected at most 64 levels"},
		{"open braces", strings.Repeat("{a: ", 5000), "values are nested too deeply here; expected at most 64 levels"},
		{"dashes", strings.Repeat("- ", 15000), "values are nested too deeply here; expected at most 64 levels"},
		{"question marks", strings.Repeat("? ", 15000), "values are nested too deeply here; expected at most 64 levels"},
		{"colons", strings.Repeat("a: ", 5000), "indent the keys of a mapping alike"},
		{"anchors", strings.Repeat("&a ", 5000), "invalid YAML: did not find expected <document start>"},
		{"tags", strings.Repeat("!a ", 5000), "invalid YAML: did not find expected <document start>"},
		{"indentation", deep(100), "values are nested too deeply here; expected at most 64 levels"},
		{"many words", strings.Repeat("- a\n", 60000), "the file has too many values, or its aliases expand to too many; expected at most 50000"},
		{"many bytes", strings.Repeat("#", yaml.MaxBytes+1), "the file has 262145 bytes; expected at most 262144"},
		{"texts that aliases multiply", "a: &a '" + strings.Repeat("x", 200_000) + "'\ninput: {enum: [" + strings.Repeat("*a, ", 2000) + "1]}", "the file has too many values, or its aliases expand to too many; expected at most 50000"},
		{"templates that aliases multiply", "bots:\n  a:\n    history:\n    - &h {role: user, content: '" + "{{ input.x }}" + strings.Repeat("x", 2600) + "'}\n" + strings.Repeat("    - *h\n", 500), "content: the workflow's texts are too long; expected at most 1048576 bytes in total"},
		{"patterns of many segments", "bots: {a: {}, b: {on: '" + strings.Repeat("*/", 10_000) + "*', root: '" + strings.Repeat("a/", 10_000) + "a'}}", "on: expected a pattern of at most 64 segments, got 10001"},
		{"many bots", "bots:\n" + numbered("  b%d: {root: r%d}\n", 101), "bots: expected at most 100 bots, got 101"},
		{"a schema that is its own part", "input: {allOf: [{$ref: '#'}], properties: {a: {$ref: '#'}}}\nbots: {a: {}}", ""},
		{"many keys", keys.String(), ""},
		{"a long text", "a: \"" + strings.Repeat(`\u00e9`, 40000) + "\"", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseSpec("w.yaml", []byte(test.yaml), nil)
			e, ok := errors.AsType[*FileError](err)
			if test.want == "" && err == nil {
				return
			}
			if !ok || test.want != "" && !strings.HasSuffix(e.Detail(), test.want) {
				t.Errorf("got %.200v, expected %q", err, test.want)
			}
		})
	}
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i, i)
	}
	return b.String()
}

func deep(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func FuzzParseSpec(f *testing.F) {
	f.Add([]byte(example))
	for _, s := range []string{
		"", "bots: {a: {}}", "bots:\n  a: {on: {value: '**'}, max: 1, root: 'a/{{ event.match.0 }}'}",
		"bots: {a: {when: 'input.x', prompt: [{file: x}, 'y {{ input }}']}}\nevents: [{on: a/*, send: {event: e, data: [1, '{{ event.uri }}']}}]",
		"a: &x [1]\nb: *x", "a: !!str 1", "? a\n: b", "a: |2\n   x", "{m: [a:b, c: d]}", "\ufeffa: \"\\x41\"", "input: {$ref: '#'}\nbots: {a: {}}",
		"bots: {a: {root: 'a\x00'}}", "bots:\n  a: {root: 'a\x00b'}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// A hang would otherwise look like a slow fuzzer.
		watchdog := time.AfterFunc(5*time.Minute, func() { panic(fmt.Sprintf("still reading %q", text)) })
		w, err := ParseSpec("w.yaml", text, exampleFiles)
		defer watchdog.Stop()
		if (w == nil) == (err == nil) {
			t.Errorf("got %v and %v", w, err)
		}
		if err != nil {
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				e, ok := e.(*FileError)
				lines := strings.Count(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text)), "\n") + 1
				if !ok || e.Line < 0 || e.Line > lines || e.Line > 0 && e.Column < 1 || strings.Contains(e.Message, "\n") {
					t.Errorf("a problem at no place: %#v", e)
				}
			}
			return
		}
		if _, err := Prepare(w, []byte(`{"a":1}`)); err != nil {
			if _, ok := errors.AsType[*InputError](err); !ok {
				t.Errorf("%T: %v", err, err)
			}
		}
	})
}

// DS-04: the templates of one run cannot keep a processor busy for minutes.
func TestTheTemplatesOfARunShareATime(t *testing.T) {
	r := &run{templates: prompt.NewBudget(0)}
	s := parse(t, `
bots:
  a: {message: "{{ input.a }}", root: "r/{{ input.a }}", when: input.a}
events: [{on: {done: a}, send: {event: e, data: {x: ["{{ input.a }}"]}}}]
`)
	vars := map[string]any{"input": map[string]any{"a": "1"}}
	const want = "the templates of this run took longer than 0s together"
	_, _, when := s.bots[0].when.Test(r.templates, vars)
	_, message := s.bots[0].message.Render(r.templates, vars)
	_, root := s.bots[0].rootFor(r.templates, vars)
	_, data := s.events[0].data.render(r.templates, vars)
	for what, err := range map[string]error{"when": when, "message": message, "root": root, "data": data} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
