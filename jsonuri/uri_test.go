package jsonuri

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The path law, JS-02.
func TestFormatWritesEachListOfSegmentsInOneWay(t *testing.T) {
	for _, tt := range []struct {
		name     string
		segments []string
		uri      string
	}{
		{"the root", nil, ""},
		{"one segment", []string{"a"}, "a"},
		{"several", []string{"outline", "0", "topic"}, "outline/0/topic"},
		{"an empty key", []string{""}, `\e`},
		{"two empty keys", []string{"", ""}, `\e/\e`},
		{"an empty key in the middle", []string{"a", "", "b"}, `a/\e/b`},
		{"the letter e", []string{"e"}, "e"},
		{"a key like the escape of the empty key", []string{`\e`}, `\\e`},
		{"a slash", []string{"a/b"}, `a\/b`},
		{"only a slash", []string{"/"}, `\/`},
		{"a backslash", []string{`a\b`}, `a\\b`},
		{"a backslash at the end", []string{`a\`, "b"}, `a\\/b`},
		{"a dot", []string{"."}, `\.`},
		{"two dots", []string{".."}, `\..`},
		{"three dots are an ordinary key", []string{"..."}, "..."},
		{"a dot in a key", []string{".a", "a."}, ".a/a."},
		{"a dollar in front", []string{"$tools"}, `\$tools`},
		{"a dollar elsewhere", []string{"a$"}, "a$"},
		{"a dollar and a slash", []string{"$/"}, `\$\/`},
		{"dots and a slash", []string{"../"}, `..\/`},
		{"any script", []string{"ключ", "键", "🙂"}, "ключ/键/🙂"},
		{"stars are ordinary in a uri", []string{"*", "**"}, "*/**"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Format(tt.segments...); got != tt.uri {
				t.Errorf("Format(%q) = %q, want %q", tt.segments, got, tt.uri)
			}
			got, err := Parse(tt.uri)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.segments, got); d != "" {
				t.Errorf("Parse(%q): %s", tt.uri, d)
			}
			if Reserved(tt.uri) {
				t.Errorf("Reserved(%q): no list of keys may give a reserved uri", tt.uri)
			}
		})
	}
}

func TestParseRefusesWhatFormatDoesNotWrite(t *testing.T) {
	for _, tt := range []struct {
		name, uri string
		offset    int
		reason    string
	}{
		{"an escape cut off", `a\`, 2, "wrong escape"},
		{"an unknown escape", `a/\x`, 2, "wrong escape"},
		{"a needless escape", `\a`, 0, "wrong escape"},
		{"the empty escape inside a segment", `a\e`, 1, "wrong escape"},
		{"the empty escape with text after it", `\eb`, 0, "wrong escape"},
		{"an escaped dollar inside a segment", `a\$b`, 1, "wrong escape"},
		{"an escaped dot before text", `\.a`, 0, "wrong escape"},
		{"three escaped dots", `\...`, 0, "wrong escape"},
		{"an escaped dot inside a segment", `a\.`, 1, "wrong escape"},
		{"a slash in front", "/a", 0, "empty segment"},
		{"a slash at the end", "a/", 2, "empty segment"},
		{"two slashes", "a//b", 2, "empty segment"},
		{"only a slash", "/", 0, "empty segment"},
		{"a bare dot", "a/./b", 2, "exactly . or .."},
		{"two bare dots", "..", 0, "exactly . or .."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.uri)
			e, ok := errors.AsType[*URIError](err)
			if !ok {
				t.Fatalf("Parse(%q) gives the error %v, want a *URIError", tt.uri, err)
			}
			if e.Offset != tt.offset || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("error %q at byte %d, want %q at byte %d", err, e.Offset, tt.reason, tt.offset)
			}
		})
	}
}

func TestURIErrorDoesNotRepeatALongURI(t *testing.T) {
	_, err := Parse(strings.Repeat("a", 1<<20) + `\`)
	if err == nil || len(err.Error()) > 300 {
		t.Fatalf("the message has %d bytes", len(err.Error()))
	}
}

func TestReservedSeesOnlyAnUnescapedDollarAtTheStartOfASegment(t *testing.T) {
	for uri, want := range map[string]bool{
		"":                      false,
		"$reasoning_context":    true,
		"article/$tools/0":      true,
		"$":                     true,
		`\$tools`:               false,
		"a$":                    false,
		`a\/$b`:                 false,
		`a\\/$b`:                true,
		`a\\\/$b`:               false,
		`\e/$x`:                 true,
		"a/b/c":                 false,
		`a/\$b/$c`:              true,
		`\\$`:                   false,
		"article/$tool_results": true,
	} {
		if got := Reserved(uri); got != want {
			t.Errorf("Reserved(%q) = %v, want %v", uri, got, want)
		}
		if got := Reserved([]byte(uri)); got != want {
			t.Errorf("Reserved of the bytes %q = %v, want %v", uri, got, want)
		}
	}
}

func TestJoinPutsTheRootInFront(t *testing.T) {
	for _, tt := range []struct{ root, uri, want string }{
		{"", "", ""},
		{"a", "", "a"},
		{"", "b/c", "b/c"},
		{"a", "b/c", "a/b/c"},
		{"a/b", `\e`, `a/b/\e`},
	} {
		if got := Join(tt.root, tt.uri); got != tt.want {
			t.Errorf("Join(%q, %q) = %q, want %q", tt.root, tt.uri, got, tt.want)
		}
	}
}

func TestAppendSegmentAllocatesNothingWhereTheBufferHasRoom(t *testing.T) {
	buf := make([]byte, 0, 64)
	segment := []byte("topic")
	if n := testing.AllocsPerRun(100, func() {
		buf = AppendSegment(buf[:0], "outline")
		buf = AppendSegment(buf, "0")
		buf = AppendSegment(buf, segment)
		buf = AppendSegment(buf, "a/b")
		Reserved(buf)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// segmentGen leans to the characters that mean something in a uri.
var segmentGen = rapid.OneOf(
	rapid.StringOf(rapid.SampledFrom([]rune(`\/.$e*a`))),
	rapid.String(),
	rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
)

// The path law, JS-02: formatting and parsing are inverse for every list of segments.
func TestFormatAndParseAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(segmentGen, 0, 6).Draw(t, "segments")
		uri := Format(want...)
		got, err := Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q → %q → %q", want, uri, got)
		}
		if Reserved(uri) {
			t.Fatalf("%q is reserved", uri)
		}
		if len(want) > 0 && uri == "" {
			t.Fatalf("%q gives the root", want)
		}
		cut := rapid.IntRange(0, len(want)).Draw(t, "cut")
		if joined := Join(Format(want[:cut]...), Format(want[cut:]...)); joined != uri {
			t.Fatalf("joined at %d: %q, want %q", cut, joined, uri)
		}
	})
}

// The path law, JS-02, from the other side: what parses is what Format writes, but for reserved segments.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "a/b", `\e`, `a\/b`, `\.`, `\..`, "$a", `\$a`, `a\`, "a//b", `\\`, `\x`, "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		segments, err := Parse(uri)
		if err != nil {
			return
		}
		if back := Format(segments...); back != uri && !Reserved(uri) {
			t.Fatalf("%q → %q → %q", uri, segments, back)
		}
		again, err := Parse(Format(segments...))
		if err != nil || !slices.Equal(again, segments) {
			t.Fatalf("%q → %q → %q, %v", uri, segments, again, err)
		}
	})
}
