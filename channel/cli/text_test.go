package cli_test

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/lingserve/lingserve/channel/cli"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

func TestCH_162ControlCharactersAreShownAndNotObeyed(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"plain text", "Hello,\n\tworld", "Hello,\n\tworld"},
		{"other scripts", "你好, Привет, 👋 e\u0301", "你好, Привет, 👋 e\u0301"},
		{"a colour", "\x1b[31mred\x1b[0m", "␛[31mred␛[0m"},
		{"a title", "\x1b]0;owned\a", "␛]0;owned␇"},
		{"what a terminal answers to", "\x1b[6n", "␛[6n"},
		{"an 8-bit sequence", "\u009b2J", "<009B>2J"},
		{"a carriage return that writes over", "harmless\rrm -rf", "harmless␍rm -rf"},
		{"line ends of other systems", "one\r\ntwo\r\n", "one\ntwo\n"},
		{"backspaces", "a\b\bb\x7f", "a␈␈b␡"},
		{"a NUL", "a\x00b", "a␀b"},
		{"text that is turned round", "a\u202eb\u2066c", "a<202E>b<2066>c"},
		{"other newlines", "a\u2028b\u2029c\u0085d", "a<2028>b<2029>c<0085>d"},
		{"bytes that are no text", "a\xff\xc3", "a\ufffd\ufffd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := cli.Visible(test.text); got != test.want {
				t.Errorf("got %q, expected %q", got, test.want)
			}
		})
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("Hello \x1b[31mred\r\n")
	f.Add("\xff\xe4\xbd\r")
	f.Add("你好\u009b\u202e\x7f")
	f.Fuzz(func(t *testing.T, text string) {
		whole := cli.Visible(text)
		if !utf8.ValidString(whole) {
			t.Fatalf("%q is not text", whole)
		}
		for _, r := range whole {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) && r > 0x2029 {
				t.Fatalf("%q has %U", whole, r)
			}
		}
		if again := cli.Visible(whole); again != whole {
			t.Fatalf("what is visible becomes %q", again)
		}
	})
}
