package flow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/jsonuri"
)

// Two patterns meet exactly where some uri matches both; patterns of three segments that meet do so within six.
func TestPatternsMeetWhereAURIMatchesBoth(t *testing.T) {
	var uris []string
	var grow func(prefix []string)
	grow = func(prefix []string) {
		uris = append(uris, strings.Join(prefix, "/"))
		if len(prefix) < 6 {
			for _, s := range []string{"x", "y"} {
				grow(append(prefix[:len(prefix):len(prefix)], s))
			}
		}
	}
	grow(nil)
	pattern := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "*", "**"}), 1, 3).Draw(t, "segments"), "/")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := pattern.Draw(t, "a"), pattern.Draw(t, "b")
		pa, err := jsonuri.CompilePattern(a)
		if err != nil {
			t.Fatal(err)
		}
		pb, err := jsonuri.CompilePattern(b)
		if err != nil {
			t.Fatal(err)
		}
		want := false
		for _, uri := range uris {
			if pa.Match([]byte(uri)) && pb.Match([]byte(uri)) {
				want = true
				break
			}
		}
		if got := meet(splitURI(a), splitURI(b)); got != want {
			t.Fatalf("%q and %q: got %v, expected %v", a, b, got, want)
		}
		if meet(splitURI(a), splitURI(b)) != meet(splitURI(b), splitURI(a)) {
			t.Fatalf("%q and %q meet one way only", a, b)
		}
	})
}

func TestWhatIsKnownOfARoot(t *testing.T) {
	stars := []string{one, many}
	for root, want := range map[string]string{
		"":                                    "",
		"a/b":                                 "a/b",
		`a\/b/c`:                              `a\/b/c`,
		"a/{{ event.match.0 }}/b":             "a/*/b",
		"a/{{event.match.1}}/b":               "a/**/b",
		"a/{{ event.match.2 }}/b":             "a/**/b",
		"a/n{{ event.match.0 }}":              "a/*",
		"a/{{ event.match.0 }}-{{ input.x }}": "a/**",
		"{{ input.x }}":                       "**",
		"a/{{ 'x/y' }}/b":                     "a/**/b",
		"a{# a/comment #}/b":                  "a/b",
		"a/{% if input.x %}b{% endif %}":      "**",
	} {
		got := rootSegments(root, stars)
		if diff := cmp.Diff(want, strings.Join(got, "/")); diff != "" {
			t.Errorf("%q: %s", root, diff)
		}
	}
}
