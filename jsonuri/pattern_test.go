package jsonuri

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// JS-11: patterns match uris and return what their stars matched.
func TestPatternMatchesWholeSegments(t *testing.T) {
	for _, tt := range []struct {
		name, pattern, uri string
		match              bool
		stars              []string
	}{
		{"the root by the empty pattern", "", "", true, nil},
		{"nothing else by the empty pattern", "", "a", false, nil},
		{"itself", "a/b", "a/b", true, nil},
		{"no prefix", "a", "a/b", false, nil},
		{"no longer one", "a/b/c", "a/b", false, nil},
		{"one segment", "a/*/c", "a/0/c", true, []string{"0"}},
		{"not two", "a/*/c", "a/0/1/c", false, nil},
		{"not none", "a/*", "a", false, nil},
		{"not the root", "*", "", false, nil},
		{"the empty key", "*", `\e`, true, []string{`\e`}},
		{"a key with a slash is one segment", "a/*", `a/b\/c`, true, []string{`b\/c`}},
		{"and not two", "a/*/*", `a/b\/c`, false, nil},
		{"two stars", "sections/*/paragraphs/*", "sections/2/paragraphs/10", true, []string{"2", "10"}},
		{"any number", "a/**", "a/b/c/d", true, []string{"b/c/d"}},
		{"none at the end", "a/**", "a", true, []string{""}},
		{"none at the start", "**/a", "a", true, []string{""}},
		{"none of the root", "**", "", true, []string{""}},
		{"any number in the middle", "a/**/z", "a/b/c/z", true, []string{"b/c"}},
		{"none in the middle", "a/**/z", "a/z", true, []string{""}},
		{"the last that fits", "**/z", "a/z/b/z", true, []string{"a/z/b"}},
		{"nothing that does not end so", "**/z", "a/z/b", false, nil},
		{"several, the first the shortest", "**/x/**", "a/x/b/x/c", true, []string{"a", "b/x/c"}},
		{"two in a row", "**/**", "a/b", true, []string{"", "a/b"}},
		{"any number and one", "**/*", "a/b/c", true, []string{"a/b", "c"}},
		{"one and any number", "*/**", "a/b/c", true, []string{"a", "b/c"}},
		{"not the root by any number and one", "**/*", "", false, nil},
		{"reserved segments", "article/*/*", "article/$tools/0", true, []string{"$tools", "0"}},
		{"a reserved segment by name", "**/$tools/**", "a/b/$tools/0/name", true, []string{"a/b", "0/name"}},
		{"an escaped dollar is another key", "$tools", `\$tools`, false, nil},
		{"a literal star", `a/\*`, "a/*", true, nil},
		{"a literal star is no other key", `a/\*`, "a/b", false, nil},
		{"two literal stars", `\**`, "**", true, nil},
		{"a star in a key is itself", "a*b", "a*b", true, nil},
		{"a star in a key is no wildcard", "a*", "ab", false, nil},
		{"any script", "章/*/题", "章/一/题", true, []string{"一"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := CompilePattern(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Match([]byte(tt.uri)); got != tt.match {
				t.Errorf("%q matches %q: %v", tt.pattern, tt.uri, got)
			}
			stars, ok := p.Stars(tt.uri)
			if ok != tt.match || !slices.Equal(stars, tt.stars) {
				t.Errorf("Stars gives %q, %v, want %q", stars, ok, tt.stars)
			}
			if p.String() != tt.pattern {
				t.Errorf("String gives %q", p)
			}
		})
	}
}

func TestCompilePatternRefusesWhatIsNoURI(t *testing.T) {
	for _, text := range []string{"/", "a/", "/*", "*//*", `a\`, `\x`, "./*", `\***`, `*\`} {
		if p, err := CompilePattern(text); err == nil || !isA[*URIError](err) {
			t.Errorf("CompilePattern(%q) = %v, %v", text, p, err)
		}
	}
}

func TestCompilePatternRefusesOneLongerThanAnyURI(t *testing.T) {
	long := strings.Repeat("**/", maxDocumentDepth-1) + "a"
	if _, err := CompilePattern(long); err != nil {
		t.Error(err)
	}
	if _, err := CompilePattern(long + "/a"); !isA[*LimitError](err) {
		t.Errorf("one segment more gives %v", err)
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	p, err := CompilePattern("article/**/title/*")
	if err != nil {
		t.Fatal(err)
	}
	uri := []byte("article/sections/0/title/x")
	if n := testing.AllocsPerRun(100, func() {
		if !p.Match(uri) {
			t.Error("no match")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A pattern made to fail as late as it can must not take exponential time.
func TestMatchOfAHostilePatternEndsSoon(t *testing.T) {
	p, err := CompilePattern(strings.Repeat("**/a/", 100) + "b")
	if err != nil {
		t.Fatal(err)
	}
	uri := []byte(strings.Repeat("a/", 10000) + "c")
	if p.Match(uri) {
		t.Error("matched")
	}
}

// A regular expression says the same in another way.
func TestPatternAgreesWithARegularExpression(t *testing.T) {
	part := rapid.SampledFrom([]string{"*", "**", "a", "b", "$t", `\$t`, `\e`, `a\/b`, `a\\`})
	segment := rapid.SampledFrom([]string{"a", "b", "$t", `\$t`, `\e`, `a\/b`, `a\\`})
	const one = `/(?:[^/\\]|\\.)+`
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(part, 0, 6).Draw(t, "pattern")
		uri := strings.Join(rapid.SliceOfN(segment, 0, 8).Draw(t, "uri"), "/")
		p, err := CompilePattern(strings.Join(parts, "/"))
		if err != nil {
			t.Fatal(err)
		}
		// Each segment is written with a slash in front, so that none is "".
		var re strings.Builder
		for _, s := range parts {
			switch s {
			case "*":
				re.WriteString(one)
			case "**":
				re.WriteString("(?:" + one + ")*")
			default:
				re.WriteString(regexp.QuoteMeta("/" + s))
			}
		}
		text := ""
		if uri != "" {
			text = "/" + uri
		}
		want := regexp.MustCompile("^" + re.String() + "$").MatchString(text)
		if got := p.Match([]byte(uri)); got != want {
			t.Fatalf("%q matches %q: %v, want %v", p, uri, got, want)
		}
		stars, ok := p.Stars(uri)
		if ok != want {
			t.Fatalf("Stars says %v, want %v", ok, want)
		}
		if !ok {
			return
		}
		// Put back in their places, the stars give the uri.
		back := ""
		for _, s := range parts {
			if s == "*" || s == "**" {
				s, stars = stars[0], stars[1:]
			}
			back = Join(back, s)
		}
		if back != uri || len(stars) != 0 {
			t.Fatalf("%q with its stars gives %q, want %q", p, back, uri)
		}
	})
}

// Any pattern and any bytes as a uri: nothing panics, and what Match says Stars says.
func FuzzPattern(f *testing.F) {
	for _, s := range [][2]string{{"", ""}, {"a/*/**", "a/b"}, {"**/x", `a\/x`}, {`\*`, "*"}, {"*", "a//b"}, {"**", `\`}, {"*/**/*", "/"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, uri string) {
		p, err := CompilePattern(pattern)
		if err != nil {
			return
		}
		stars, ok := p.Stars(uri)
		if ok != p.Match([]byte(uri)) {
			t.Fatalf("%q and %q: Stars says %v", pattern, uri, ok)
		}
		if _, err := Parse(uri); err != nil || !ok {
			return
		}
		for _, star := range stars {
			if _, err := Parse(star); err != nil {
				t.Fatalf("%q and %q give the star %q: %v", pattern, uri, star, err)
			}
		}
	})
}

func BenchmarkPatternMatch(b *testing.B) {
	p, err := CompilePattern("article/sections/*/**/title")
	if err != nil {
		b.Fatal(err)
	}
	uri := []byte("article/sections/3/parts/0/title")
	b.ReportAllocs()
	for b.Loop() {
		p.Match(uri)
	}
}
