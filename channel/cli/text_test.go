package cli

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

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
			if got := Visible(test.text); got != test.want {
				t.Errorf("got %q, expected %q", got, test.want)
			}
		})
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("Hello \x1b[31mred\r\n", uint64(1))
	f.Add("\xff\xe4\xbd\r", uint64(2))
	f.Add("你好\u009b\u202e\x7f", uint64(3))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		whole := Visible(text)
		if !utf8.ValidString(whole) {
			t.Fatalf("%q is not text", whole)
		}
		for _, r := range whole {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || turns(r) {
				t.Fatalf("%q has %U", whole, r)
			}
		}
		if again := Visible(whole); again != whole {
			t.Fatalf("what is visible becomes %q", again)
		}
		// It does not matter where it is cut.
		var v visible
		var b strings.Builder
		random := rand.New(rand.NewPCG(seed, 0))
		for rest := text; rest != ""; {
			n := 1 + random.IntN(len(rest))
			b.WriteString(v.add(rest[:n]))
			rest = rest[n:]
		}
		b.WriteString(v.end())
		if b.String() != whole {
			t.Fatalf("in pieces it is %q, as a whole %q", b.String(), whole)
		}
	})
}

func TestCharactersTakeTheCellsThatTerminalsGiveThem(t *testing.T) {
	for text, want := range map[string]int{"a": 1, "é": 1, "e\u0301": 1, "你": 2, "ｱ": 1, "！": 2, "한": 2, "👋": 2, "…": 1, "\u200d": 0, "❤\ufe0f": 1} {
		if got := cellsOf(text); got != want {
			t.Errorf("%q takes %d cells, expected %d", text, got, want)
		}
	}
}

func TestATextIsCutToFit(t *testing.T) {
	for _, test := range []struct {
		text  string
		cells int
		want  string
	}{
		{"hello", 5, "hello"},
		{"hello!", 5, "hell…"},
		{"你好世界", 5, "你好…"},
		{"你好世界", 4, "你…"},
		{"", 3, ""},
	} {
		if got := fit(test.text, test.cells); got != test.want {
			t.Errorf("%q in %d cells is %q, expected %q", test.text, test.cells, got, test.want)
		}
	}
}
