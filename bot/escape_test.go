package bot

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// pieces runs an escaper over s cut at every i-th byte.
func pieces(t testing.TB, s string, size int) string {
	var e escaper
	var out []byte
	for len(s) > 0 {
		n := min(size, len(s))
		before := len(out)
		out = e.append(out, s[:n])
		if !utf8.Valid(out[before:]) {
			t.Fatalf("a delta is not UTF-8: %q", out[before:])
		}
		s = s[n:]
	}
	return string(e.close(out))
}

// FT-15 for text: no delta is cut within a UTF-8 sequence, and joined they are the text.
func TestTextIsEscapedWholeHoweverItIsCut(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"plain", "hello"},
		{"quotes and controls", "a\"b\\c\n\r\t\x00\x1f\x7f"},
		{"two, three and four bytes", "é€😀é"},
		{"invalid", "a\xffb\xc3(\xe2\x82z\xf0\x9f\x98"},
		{"surrogates", "\xed\xa0\x80x"},
		{"cut at the end", "ok\xe2\x82"},
		{"line separators", "a\u2028b\u2029c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := 1; size <= len(c.text); size++ {
				checkEscaped(t, c.text, size)
			}
		})
	}
}

func checkEscaped(t testing.TB, text string, size int) {
	t.Helper()
	var got string
	if err := json.Unmarshal([]byte(`"`+pieces(t, text, size)+`"`), &got); err != nil {
		t.Fatalf("cut at %d: %v", size, err)
	}
	if !utf8.ValidString(text) {
		if strings.ReplaceAll(got, "\uFFFD", "") != strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\uFFFD", "") {
			t.Fatalf("cut at %d: %q became %q", size, text, got)
		}
		if whole := pieces(t, text, len(text)); whole != pieces(t, text, size) {
			t.Fatalf("cut at %d: %q, whole: %q", size, pieces(t, text, size), whole)
		}
	} else if got != text {
		t.Fatalf("cut at %d: %q became %q", size, text, got)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("é€😀\"\n", 1)
	f.Add("a\xffb\xc3(\xe2\x82z\xf0\x9f\x98", 2)
	f.Fuzz(func(t *testing.T, text string, size int) {
		if size < 1 || len(text) == 0 {
			return
		}
		checkEscaped(t, text, size)
	})
}
