package postgres

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestPackedTextIsTakenByAColumnAndComesBack(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"plain 天气":     "plain 天气",
		`C:\dir`:       `C:\\dir`,
		"a\x00b":       `a\0b`,
		"\xff\xfe天":    `\xff\xfe天`,
		"\ufffd":       "\ufffd", // which is a character
		`\x41 and \0`:  `\\x41 and \\0`,
		"\\\x00\\\xc3": `\\\0\\\xc3`,
	} {
		if got := pack(text); got != want {
			t.Errorf("%q is packed as %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		text := string(rapid.SliceOf(rapid.SampledFrom([]byte("ax0\\\x00\xff\xe5\xa4\xa9"))).Draw(r, "text"))
		packed := pack(text)
		if !utf8.ValidString(packed) || strings.IndexByte(packed, 0) >= 0 {
			t.Errorf("%q is packed as %q, which no column takes", text, packed)
		}
		if got := unpack(packed); got != text {
			t.Errorf("%q comes back as %q", text, got)
		}
	})
}
