package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// FT-15: wherever a server cuts what it sends as content, in bytes or in escapes, what comes out is whole characters, and
// together what was meant.
func TestTextCutAnywhereIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		meant := rapid.StringOf(rapid.SampledFrom([]rune("aü€🙂\"\\\n𝄞ud83"))).Draw(t, "meant")
		escaped, _ := json.Marshal(meant)
		raw := string(escaped[1 : len(escaped)-1])
		if rapid.Bool().Draw(t, "ascii") {
			raw = toASCII(raw)
		}
		var text Text
		var got strings.Builder
		for raw != "" {
			n := rapid.IntRange(0, len(raw)).Draw(t, "cut")
			for inEscape(raw, n) {
				n++ // a server does not send half an escape: that is not JSON
			}
			s, err := text.Next([]byte(raw[:n]))
			if err != nil {
				t.Fatalf("%v in %q", err, raw[:n])
			}
			if !utf8.ValidString(s) || strings.Contains(s, "\uFFFD") {
				t.Fatalf("half a character: %q", s)
			}
			got.WriteString(s)
			raw = raw[n:]
		}
		if s := got.String() + text.Rest(); s != meant {
			t.Fatalf("%q, want %q", s, meant)
		}
	})
}

// inEscape says whether cutting raw before n cuts an escape.
func inEscape(raw string, n int) bool {
	for i := 0; i < n; {
		size := 1
		if raw[i] == '\\' {
			size = 2
			if raw[i+1] == 'u' {
				size = 6
			}
		}
		if i += size; i > n {
			return true
		}
	}
	return false
}

// toASCII escapes what is not ASCII, as Python's json does.
func toASCII(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
}

func TestWhatIsNoCharacterBecomesTheReplacementCharacter(t *testing.T) {
	for raw, want := range map[string]string{
		"":           "",
		`\ud83d`:     "\uFFFD",
		`\udc00x`:    "\uFFFDx",
		`\ud83d\n`:   "\uFFFD\n",
		"a\xe2\x82":  "a\uFFFD",
		"\xffb":      "\uFFFDb",
		`\\ud83d`:    `\ud83d`,
		`\/\"\b\u00`: "error",
		`\x`:         "error",
		`\`:          "error",
	} {
		var text Text
		got, err := text.Next([]byte(raw))
		if got += text.Rest(); err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

// A decoded string is a copy: what it was decoded from is read over.
func TestTextStaysWhenItsBytesAreReadOver(t *testing.T) {
	for _, raw := range []string{"plain", `esc\naped`, "café"} {
		b := []byte(raw)
		s, err := Unescape(b)
		if err != nil {
			t.Fatal(err)
		}
		was := strings.Clone(s)
		for i := range b {
			b[i] = 'x'
		}
		if s != was {
			t.Errorf("%q became %q", was, s)
		}
	}
}

// Any bytes at all: what encoding/json reads of them as a string, where it reads them as one.
func FuzzUnescape(f *testing.F) {
	for _, s := range []string{"", "a", `\ud83d\ude42`, `\ud83d`, `\\ud83d`, "\xff", `\u12`, `a\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := Unescape([]byte(raw))
		if !utf8.ValidString(got) {
			t.Fatalf("not UTF-8: %q", got)
		}
		var want string
		if json.Unmarshal([]byte(`"`+raw+`"`), &want) == nil && (err != nil || strings.ReplaceAll(got, "\uFFFD", "") != strings.ReplaceAll(want, "\uFFFD", "")) {
			t.Fatalf("%q: %q %v, want %q", raw, got, err, want)
		}
	})
}
