package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/cells"
)

// style is how a text looks. Without colors all texts look the same.
type style string

const (
	plain  style = ""
	dim    style = "2"
	strong style = "1"
	bad    style = "31"
)

const prompt = "> "

// spinner has the signs before the prompt while an answer is awaited.
var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// screen shows the conversation on a terminal. Rows stay where they are, but for the last ones, which are drawn again with each change:
// those of texts that grow, and the line that is typed.
type screen struct {
	tty    *Terminal
	out    io.Writer
	colors bool

	mu            sync.Mutex
	sign          string // of the spinner
	frame         int
	before, after string   // the cursor
	growing       []*block // texts that are not complete
	up            int      // how many rows the cursor is below the first one that is drawn again
}

// block is a text that grows.
type block struct {
	width int // of the terminal when the text began
	rows  []string
	kept  int // how many of the rows stay where they are
}

// takenBack is before a text in place of one that can no longer be removed.
const takenBack = "(The model has taken the text above back.)\n"

// write shows the text of a block, which is visible as it is, in place of what is shown of it.
func (s *screen) write(b *block, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.width == 0 {
		b.width, _ = s.tty.size()
		s.growing = append(s.growing, b)
	}
	rows, note := strings.Split(wrap(text, b.width), "\n"), ""
	if b.kept > len(rows) || !slices.Equal(rows[:b.kept], b.rows[:b.kept]) {
		b.kept, note = 0, takenBack
	}
	b.rows = rows
	s.draw(note)
}

// keep lets rows of the texts that grow stay where they are, until each text has so many that are drawn again. It returns the rows.
func (s *screen) keep(most int) string {
	var rows strings.Builder
	for _, b := range s.growing {
		for ; len(b.rows)-b.kept > most; b.kept++ {
			rows.WriteString(b.rows[b.kept] + "\n")
		}
	}
	return rows.String()
}

// open returns the rows that are drawn again, each with its end.
func (b *block) open() string {
	if rows := strings.TrimSuffix(strings.Join(b.rows[b.kept:], "\n"), "\n"); rows != "" {
		return rows + "\n"
	}
	return ""
}

// finish shows that a block is complete. What is written to it later is another text.
func (s *screen) finish(b *block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.growing = slices.DeleteFunc(s.growing, func(one *block) bool { return one == b })
	if rows := b.open(); rows != "" {
		s.draw(rows)
	}
	*b = block{}
}

// note writes rows.
func (s *screen) note(text string, as style) {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, _ := s.tty.size()
	text = wrap(strings.TrimSuffix(text, "\n"), width)
	if as != plain && s.colors {
		text = "\x1b[" + string(as) + "m" + text + "\x1b[0m"
	}
	s.draw(s.keep(1) + text + "\n")
}

// working shows the next sign that an answer is awaited, or removes it.
func (s *screen) working(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !on && s.sign == "" {
		return
	}
	s.sign = ""
	if on {
		s.frame++
		s.sign = string(spinner[s.frame%len(spinner)]) + " "
	}
	s.draw("")
}

// setLine shows the line that is typed, parted at the cursor.
func (s *screen) setLine(before, after []rune) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = picture(before), strings.TrimRight(picture(after), " ")
	s.draw("")
}

// lineSent shows a line among the rows that stay.
func (s *screen) lineSent(line []rune) {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, _ := s.tty.size()
	s.sign, s.before, s.after = "", "", ""
	s.draw(s.keep(1) + breakRows(prompt+strings.TrimRight(picture(line), " "), width) + "\n")
}

// clear removes all rows from the screen.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, "\x1b[H\x1b[2J")
	s.up = 0
	s.draw("")
}

// failure returns nil: the reader of the terminal notices that it is gone.
func (*screen) failure() error { return nil }

const clearBelow = "\x1b[J"

// draw writes rows that stay, and below them what is drawn again. mu is held.
func (s *screen) draw(rows string) {
	width, height := s.tty.size()
	rows += s.keep(height / 2 / max(1, len(s.growing))) // rows above the screen cannot be drawn again
	// Of a line that is higher than half of the screen, a part is shown.
	before, after := []rune(s.before), []rune(s.after)
	limit := width * height / 8 // a character has at most two cells
	before, after = before[max(0, len(before)-limit):], after[:min(limit, len(after))]

	var text strings.Builder
	for _, b := range s.growing {
		text.WriteString(b.open())
	}
	text.WriteString(s.sign + prompt + string(before))
	rest := string(after) + " "
	r, n := utf8.DecodeRuneInString(rest) // the character at the cursor
	text.WriteString(rest[:n])
	above := strings.Split(breakRows(text.String(), width), "\n")
	text.WriteString(rest[n:])
	all := breakRows(text.String(), width)

	var out strings.Builder
	out.WriteString(move(s.up, 'A') + "\r" + clearBelow + strings.ReplaceAll(rows+all, "\n", "\r\n"))
	s.up = len(above) - 1
	out.WriteString(move(strings.Count(all, "\n")-s.up, 'A') + "\r" + move(cellsOf(above[s.up])-cells.Of(r), 'C'))
	_, _ = io.WriteString(s.out, out.String()) // if the terminal is gone, its reader notices
}

// move returns what moves the cursor.
func move(n int, direction rune) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%d%c", n, direction)
}

// picture returns a part of the line as it is shown, in one row.
func picture(part []rune) string { return strings.ReplaceAll(Visible(string(part)), "\t", "␉") }

// wrap breaks a text into rows of a width, at words if possible.
func wrap(text string, width int) string {
	return breakRows(cells.Wrap(strings.ReplaceAll(text, "\t", "    "), width), width)
}

// breakRows breaks rows that are wider than a width.
func breakRows(text string, width int) string {
	var b strings.Builder
	used := 0
	for _, r := range text {
		n := cells.Of(r)
		switch {
		case r == '\n':
			used, n = 0, 0
		case used+n > width:
			b.WriteByte('\n')
			used = 0
		}
		b.WriteRune(r)
		used += n
	}
	return b.String()
}

func cellsOf(row string) (n int) {
	for _, r := range row {
		n += cells.Of(r)
	}
	return n
}
