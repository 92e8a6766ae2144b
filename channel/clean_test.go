package channel_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
)

// CH-122
func TestAPreviewIsOneShortLineWithoutControlCharacters(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"as it is":             {"hello there", "hello there"},
		"lines and blanks":     {" a\r\n\tb  c\u2028d ", "a b c d"},
		"a terminal's escapes": {"a\x1b[31mred\x1b]0;title\x07\x00\x7f\u009b", "a[31mred]0;title"},
		"as long as may be":    {strings.Repeat("灵", 80), strings.Repeat("灵", 80)},
		"too long":             {strings.Repeat("灵", 81), strings.Repeat("灵", 80)},
		"no UTF-8":             {"a\xffb", "a\ufffdb"},
		"nothing":              {" \x1b ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := channel.Preview(tt.in); got != tt.want {
				t.Errorf("%q, expected %q", got, tt.want)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		got := channel.Preview(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")))
		if utf8.RuneCountInString(got) > 80 || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%q", got)
		}
	})
}
