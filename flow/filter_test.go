package flow

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// DN-08: a filter that can match nothing is refused: it would show what it is to hide.
func TestFiltersThatCanMatchNothingAreRefused(t *testing.T) {
	for _, test := range []struct{ name, filter, botFilter, want string }{
		{"a property", `{exclude: trip/notes}`, ``, ``},
		{"an element of a list", `{exclude: ["trip/notes/*/n", "trip/notes/0", "trip/**/n", "**/title"]}`, ``, ``},
		{"a root", `{exclude: [trip, "*", "**", other, other/x]}`, `{include: trip}`, ``},
		{"a text", `{exclude: story}`, ``, ``},
		{"what stands beside the document", `{exclude: "trip/$calls"}`, ``, ``},

		{"below a text", `{exclude: story/x}`, ``, `exclude: the pattern hides nothing: no bot writes to "story/x"`},
		{"a mistyped root", `{exclude: tripp/notes}`, ``, `exclude: the pattern hides nothing: no bot writes to "tripp/notes"; plan writes below "trip", `},
		{"a pattern without the bot's root", ``, `{exclude: notes}`, `exclude: the pattern hides nothing: no bot writes to "notes"; plan writes below "trip"`},
		{"another bot's root", ``, `{exclude: story}`, `exclude: the pattern hides nothing: no bot writes to "story"; plan writes below "trip"`},
		{"include", `{include: [trip/title, tripp]}`, ``, `include: the pattern shows nothing: no bot writes to "tripp"; plan writes below "trip", `},
		{"a slash at its beginning", `{exclude: /trip/notes}`, ``, `exclude: a uri does not begin with a slash`},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := "name: w\n"
			if test.filter != "" {
				text += "filter: " + test.filter + "\n"
			}
			text += "bots:\n  plan:\n    root: trip\n"
			if test.botFilter != "" {
				text += "    filter: " + test.botFilter + "\n"
			}
			text += "  story: {root: story, format: text}\n  other: {root: \"other/{{ input.x }}\"}\n"
			_, err := ParseSpec("w.yaml", []byte(text), nil)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && err == nil:
				t.Error("it was taken")
			case test.want != "":
				if _, got, _ := strings.Cut(err.Error(), ": "); !strings.HasPrefix(got, test.want) || strings.Contains(got, "\n") {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
			}
		})
	}
}

// DN-08: a filter that matched nothing is reported at the end, whether the workflow or the request has it.
func TestFiltersThatMatchedNothingAreReported(t *testing.T) {
	const text = `
filter: {exclude: [a/notez, a/x, b/late]}
bots:
  a: {message: "{{ input.a }}", root: a, filter: {include: [a/y, "a/*/z"]}}
  b: {when: input.b, message: b, root: b, filter: {exclude: b/x}}
`
	m := answers(map[string]string{"a": `{"notes":["1"],"x":"2","y":"3"}`, "b": `{"y":"1"}`, "c": `{"y":"1"‖` + failing})
	withFilter := &runOptions{during: func(m *ling.Manager) {
		var exclude []tube.Matcher
		for _, text := range []string{"a/note", "a/notes/*", "b/x", "c"} {
			p, err := jsonuri.CompilePattern(text)
			if err != nil {
				panic(err)
			}
			exclude = append(exclude, p)
		}
		m.Tube().AddFilter(tube.Filter{Exclude: exclude})
	}}
	unmatched := func(pattern string) string {
		return `{"code":"filter_unmatched","message":"the filter's pattern ` + pattern + ` matched nothing"}`
	}
	for _, test := range []struct {
		name, input string
		want        []string
	}{
		{"what never started is no reason", `{"a":"a"}`, []string{
			unmatched("a/notez"), unmatched("a/note"), unmatched("c"),
		}},
		{"a second bot", `{"a":"a","b":true}`, []string{
			unmatched("a/notez"), unmatched("b/late"), unmatched("a/note"), unmatched("b/x"),
			unmatched("c"),
		}},
		{"a failure is a reason", `{"a":"c"}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			runs(t, parse(t, text), m, test.input, withFilter, func(t *testing.T, d done) {
				wants(t, "the warnings", test.want, d.named("warning"))
			})
		})
	}
}
