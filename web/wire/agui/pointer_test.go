package agui

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lingserve/lingserve/jsonuri"
)

// The keys that a JSON Pointer names, read as RFC 6901, section 4 says, are those that its uri names; and no client is told to go through
// one that JavaScript takes for something else.
func FuzzPointer(f *testing.F) {
	for _, uri := range []string{"", "a/b", `a\/b/~1`, `\e/\e`, `\$a/..`, `a\\/"`, "a\nb/\u2028", "__proto__/a", "a/constructor/prototype/b", `constructor\/prototype`} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		keys, err := jsonuri.Parse(uri)
		if err != nil || !utf8.ValidString(uri) {
			return // a document has refused it
		}
		uri = jsonuri.Format(keys...)
		pointer := pointer([]byte(uri))
		var got []string
		for i, key := range strings.Split(pointer, "/") {
			if i > 0 {
				got = append(got, strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~"))
			} else if key != "" {
				t.Errorf("%q does not begin with a slash", pointer)
			}
		}
		if !slices.Equal(got, keys) {
			t.Errorf("%q is %q, expected %q", uri, got, keys)
		}
		dangerous := slices.Contains(keys, "__proto__")
		for i := 1; i < len(keys); i++ {
			dangerous = dangerous || keys[i-1] == "constructor" && keys[i] == "prototype"
		}
		if holder, refused := cutRefused([]byte(uri)); dangerous && !refused || !refused && string(holder) != uri {
			t.Errorf("%q is held by %q", uri, holder)
		}
	})
}

// The id of a question is taken apart into what it was made of.
func FuzzQuestion(f *testing.F) {
	f.Add("run:17:call:1", "call")
	f.Add("a:9007199254740992:b", ":")
	f.Add(":1:", "")
	f.Fuzz(func(t *testing.T, id, call string) {
		run, n, of, ok := ParseQuestion(id)
		if !ok {
			return
		}
		if back := questionID(run, n, of); back != id && !strings.HasPrefix(id, run+":0") || strings.Contains(run, ":") || n >= 1<<53 {
			t.Errorf("%q is %q", id, back)
		}
		again, m, same, ok := ParseQuestion(questionID(run, n, of+call))
		if !ok || again != run || m != n || same != of+call {
			t.Errorf("%q, %s and %q are %q, %d and %q", run, strconv.FormatUint(n, 10), of+call, again, m, same)
		}
	})
}
