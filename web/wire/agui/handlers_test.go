package agui

import "testing"

func TestAGUI_RootsOfBotsArePatterns(t *testing.T) {
	for _, c := range [][2]string{
		{"", ""},
		{"article", "article"},
		{"article/sections/{{ event.match.0 }}/body", "article/sections/*/body"},
		{"a-{{ x }}/b", "*/b"},
		{`{{ "a/b" }}`, "*"},
		{"a/*", `a/\*`},
	} {
		if got := rootPattern(c[0]); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
}
