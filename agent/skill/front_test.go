package skill

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// A front matter has the bounds of all YAML: a deep one is refused in a moment and with its place.
func TestHostileFrontMatterIsRefused(t *testing.T) {
	for name, front := range map[string]string{
		"brackets": strings.Repeat("[", 8000), "dashes": strings.Repeat("- ", 4000), "question marks": strings.Repeat("? ", 4000), "colons": strings.Repeat("a: ", 2500),
		"anchors": strings.Repeat("&a ", 2500), "tags": strings.Repeat("!a ", 2500),
	} {
		_, _, err := parse("s", "---\n"+front+"\n---\n")
		if e, ok := errors.AsType[*FileError](err); !ok || e.Line != 2 || e.Message == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever a file holds, it is a skill that keeps the rules or an error that says where, in little time.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"---\nname: s\ndescription: x\n---\nbody", "---\nname: s\ndescription: >\n  a\n  b\n---\n", "\ufeff---\r\nname: \"s\"\r\ndescription: 'x'\r\n---\r\n",
		"---\nname: &a s\ndescription: *a\n---\n", "---\nname: !!str s\ndescription: {a: b}\n---\n", "---\n? name\n: s\n---\n", "---\nname: s\nname: s\n---",
		"---\n- - - - -\n---", "---\n[[[[[[[[\n---", "---\ndescription: \"a\\u0000\\nb\"\nname: s\n---", "---\n<<: {name: s}\n---\n", "---\nname: s\n...\n---\n",
		"---\n" + strings.Repeat("-  ", 2000) + "\n---\n", "---\n" + strings.Repeat("? ", 3000) + "\n---\n", "---\n" + strings.Repeat("a: ", 2000) + "\n---\n", "---\n\xff\n---",
	} {
		f.Add(seed)
	}
	f.Add("---\r\nname\"\n\r\r\r\r\rx: '\r\ny\"\r\n---") // a carriage return ends a line in YAML
	f.Fuzz(func(t *testing.T, src string) {
		s, body, err := parse("s", src)
		if err != nil {
			e, ok := errors.AsType[*FileError](err)
			if !ok || e.Message == "" || e.Line < 0 || e.Line > 2+strings.Count(src, "\n")+strings.Count(src, "\r") || !utf8.ValidString(e.Message) {
				t.Fatalf("%#v", err)
			}
			return
		}
		if s.Name != "s" || s.Description == "" || utf8.RuneCountInString(s.Description) > maxDescription || len(body) > maxText ||
			strings.ContainsFunc(s.Description, unicode.IsControl) || !strings.Contains(src, body) {
			t.Fatalf("%+v", s)
		}
	})
}
