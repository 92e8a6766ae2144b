package cells_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/cells"
)

// DN-14: lines end at words, and go on below their text.
func TestLinesBreakAtWords(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a paragraph", "The quick brown fox jumps over the dog", "The quick brown fox \njumps over the dog"},
		{"a full row", "The quick brown foxe jumps", "The quick brown foxe\njumps"},
		{"an element of a list", "- The quick brown fox jumps over", "- The quick brown \n  fox jumps over"},
		{"a numbered element", "12. The quick brown fox jumps", "12. The quick brown \n    fox jumps"},
		{"an indented line", "   indented text that is long", "   indented text \n   that is long"},
		{"a long word", "a " + strings.Repeat("x", 30) + " b", "a \n" + strings.Repeat("x", 30) + " b"},
		{"wide characters", "天地玄黄宇宙洪荒日月盈昃", "天地玄黄宇宙洪荒日月\n盈昃"},
		{"styles take no room", "\x1b[1mThe quick brown foxe\x1b[0m jumps", "\x1b[1mThe quick brown foxe\x1b[0m\njumps"},
		{"lines of their own", "a\n\nb\n", "a\n\nb\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, cells.Wrap(test.text, 20)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := cells.Wrap("no width is known", 0); got != "no width is known" {
		t.Errorf("got %q", got)
	}
}
