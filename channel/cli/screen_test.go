package cli

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWordsGoToTheNextRowAsAWhole(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a word that does not fit", "one two three", "one two\nthree"},
		{"a blank at the end of a row", "one twooo three", "one twooo\nthree"},
		{"a full row and a newline", "0123456789\nx", "0123456789\nx"},
		{"a word that is longer than a row", "ab 0123456789012 c", "ab\n0123456789\n012 c"},
		{"wide characters", "你好世界你好世界", "你好世界你\n好世界"},
		{"a wide character that does not fit", "123456789你", "123456789\n你"},
		{"a tab", "a\tb\tc", "a       b\nc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, typing := range []bool{false, true} { // the line is drawn between any two characters, or not at all
				v := newVT(10, 6)
				s := newScreen(v, 10, 6, false)
				if typing {
					s.show()
				}
				for _, r := range test.text {
					s.write(1, string(r), plain)
				}
				s.hide()
				if got := strings.TrimSpace(strings.Join(v.all(), "\n")); got != test.want {
					t.Errorf("typing %v: got\n%s\nexpected\n%s", typing, got, test.want)
				}
			}
		})
	}
}

// squeezed is a text without what rows are parted by.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }

// TestCH_160TheLineStaysAsItIsWhateverIsWritten draws pieces of answers, keys and sizes: what was said stands there whole and in order,
// and below it the line.
func TestCH_160TheLineStaysAsItIsWhateverIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(minWidth, 30).Draw(t, "width"), rapid.IntRange(minHeight, 12).Draw(t, "height")
		v := newVT(width, height)
		s := newScreen(v, width, height, rapid.Bool().Draw(t, "colors"))
		s.show()
		var said strings.Builder
		var line editor
		pieces := rapid.SampledFrom([]string{"a", " ", "word ", "\n", "你好", "\t", "longer-than-most-rows-of-a-small-screen", "é", "x"})
		owner := 1
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				text := strings.Join(rapid.SliceOfN(pieces, 1, 6).Draw(t, "said"), "")
				said.WriteString(text)
				s.write(owner, text, rapid.SampledFrom([]style{plain, dim}).Draw(t, "style"))
			case 2:
				text := strings.Join(rapid.SliceOfN(pieces, 1, 4).Draw(t, "typed"), "")
				line.insert(text)
				s.edit(func(e *editor) { e.insert(text) })
			case 3:
				k := key{name: rapid.SampledFrom([]keyName{keyLeft, keyHome, keyBackspace, keyUp, keyWordLeft, keyEnd}).Draw(t, "key")}
				line.press(k)
				s.edit(func(e *editor) { e.press(k) })
			case 4:
				s.tell(rapid.SampledFrom([]string{"", "… working"}).Draw(t, "status"))
			case 5:
				owner = 3 - owner
			}
			if len(v.faults) > 0 {
				t.Fatalf("the terminal was sent %v", v.faults)
			}
		}
		s.tell("")
		s.edit(func(e *editor) { e.at = len(e.text) })
		s.mu.Lock()
		rows, row, column := s.layout()
		s.mu.Unlock()
		shown := rows[max(0, row-height+2):]
		all := v.all()
		if got, want := strings.Join(all[len(all)-len(shown):], "\n"), strings.Join(trimmed(shown), "\n"); got != want {
			t.Fatalf("the line is\n%s\nexpected\n%s", got, want)
		}
		if v.row != len(all)-1 || v.col != column {
			t.Fatalf("the cursor is at %d, %d, expected %d, %d", v.row, v.col, len(all)-1, column)
		}
		if got, want := squeezed(strings.Join(all[:len(all)-len(shown)], "")), squeezed(said.String()); got != want {
			t.Fatalf("said is\n%q\nexpected\n%q\nscreen:\n%s", got, want, v.shown())
		}
		if got, want := squeezed(strings.TrimPrefix(strings.Join(rows, ""), prompt)), squeezed(line.String()); got != want {
			t.Fatalf("the line has %q, expected %q", got, want)
		}
	})
}

func trimmed(rows []string) (out []string) {
	for _, row := range rows {
		out = append(out, strings.TrimRight(row, " "))
	}
	return out
}
