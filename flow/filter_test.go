package flow

import (
	"strings"
	"testing"
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
