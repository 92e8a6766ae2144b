package cells

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Wrapper breaks lines at words, for a terminal of a known width. A line goes on below its text: behind its indentation, and behind the mark of
// a list. It holds the word at the end of what was written until it knows where that ends.
type Wrapper struct {
	w     io.Writer
	width int

	col  int // cells of the line so far
	hang int // cells that the next rows of the line begin with
	text bool
	word []byte
	wide int // cells of word
}

const (
	minWidth = 20 // below it, the terminal breaks the lines
	maxHang  = 12
)

// NewWrapper returns a wrapper that writes to w; w itself if the width is 0 or very small.
func NewWrapper(w io.Writer, width int) io.Writer {
	if width < minWidth {
		return w
	}
	return &Wrapper{w: w, width: width}
}

// Write writes text in UTF-8; a character must not be split.
func (w *Wrapper) Write(p []byte) (int, error) { return w.WriteString(string(p)) }

// WriteString is Write.
func (w *Wrapper) WriteString(s string) (int, error) {
	var out strings.Builder
	for i := 0; i < len(s); {
		if s[i] == '\x1b' { // a style, which takes no cell
			end := max(0, strings.IndexByte(s[i:], 'm'))
			w.word = append(w.word, s[i:i+end+1]...)
			i += end + 1
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		n := Of(r)
		switch {
		case r == '\n':
			w.flush(&out)
			out.WriteByte('\n')
			w.col, w.hang, w.text = 0, 0, false
		case r == '\t', r == ' ':
			w.flush(&out)
			if w.col < w.width { // else the row is full, and what follows begins the next one
				out.WriteByte(' ')
				w.col++
			}
		case n == 2: // between characters of this kind a line may end
			w.flush(&out)
			w.word, w.wide = append(w.word, s[i:i+size]...), n
			w.flush(&out)
		default:
			w.word, w.wide = append(w.word, s[i:i+size]...), w.wide+n
		}
		i += size
	}
	_, err := io.WriteString(w.w, out.String())
	return len(s), err
}

// flush writes the word, in the next row if it does not fit.
func (w *Wrapper) flush(out *strings.Builder) {
	if len(w.word) == 0 {
		return
	}
	switch {
	case !w.text && w.wide > 0:
		w.text, w.hang = true, min(w.col, maxHang)
		if isMark(string(w.word)) {
			w.hang = min(w.col+w.wide+1, maxHang)
		}
	case w.col+w.wide > w.width && w.col > w.hang:
		out.WriteString("\n" + strings.Repeat(" ", w.hang))
		w.col = w.hang
	}
	out.Write(w.word)
	if w.col += w.wide; w.col > w.width { // the terminal breaks a word that is longer than a row
		w.col %= w.width
	}
	w.word, w.wide = w.word[:0], 0
}

// isMark reports whether a word begins an element of a list or a quotation.
func isMark(word string) bool {
	switch word {
	case "-", "*", "+", "•", ">":
		return true
	}
	number := strings.TrimRight(word, ".)")
	return len(number) == len(word)-1 && number != "" && len(number) <= 3 && strings.Trim(number, "0123456789") == ""
}

// Wrap breaks the lines of a text at words, so that none is wider than width, and indents the rows that a line goes on in. A width of 0 is none.
func Wrap(text string, width int) string {
	if width < minWidth {
		return text
	}
	var out strings.Builder
	w := &Wrapper{w: &out, width: width}
	_, _ = w.WriteString(text) // a builder takes all
	w.flush(&out)
	return out.String()
}
