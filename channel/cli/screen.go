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

// screen shows the conversation on a terminal. Rows that are full stay where they are. Below them is what is drawn again with each change: the last
// row of each text that grows, and the line that is typed.
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

	last     *block // whose rows are the last ones that stay
	lastRows int    // how many of its rows these are
}

// block is a text that grows.
type block struct {
	width int      // of the terminal when the text began
	rows  []string // that are full
	row   string   // the last one
}

// takenBack is before a text in place of one that can no longer be removed.
const takenBack = "(The model has taken the text above back.)\n"

// write shows the text of a block, which is visible as it is, in place of what is shown of it.
func (s *screen) write(b *block, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, height := s.tty.size()
	if b.width == 0 {
		b.width = width
		s.growing = append(s.growing, b)
	}
	if s.last != b {
		s.last, s.lastRows = b, 0
	}
	rows := strings.SplitAfter(wrap(text, b.width), "\n")
	rows, b.row = rows[:len(rows)-1], rows[len(rows)-1]
	same, note := 0, ""
	for same < min(len(rows), len(b.rows)) && rows[same] == b.rows[same] {
		same++
	}
	remove := len(b.rows) - same
	if remove > s.lastRows || remove > 0 && s.up+remove >= height {
		same, remove, note = 0, 0, takenBack
	}
	s.lastRows += len(rows) - same - remove
	b.rows = rows
	s.draw(remove, note+strings.Join(rows[same:], ""))
}

// finish shows that a block is complete. What is written to it later is another text.
func (s *screen) finish(b *block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.growing = slices.DeleteFunc(s.growing, func(one *block) bool { return one == b })
	if b.row != "" {
		s.last = nil
		s.draw(0, b.row+"\n")
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
	s.last = nil
	s.draw(0, text+"\n")
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
	s.draw(0, "")
}

// setLine shows the line that is typed, parted at the cursor.
func (s *screen) setLine(before, after []rune) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = picture(before), strings.TrimRight(picture(after), " ")
	s.draw(0, "")
}

// lineSent shows a line among the rows that stay.
func (s *screen) lineSent(line []rune) {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, _ := s.tty.size()
	s.sign, s.before, s.after, s.last = "", "", "", nil
	s.draw(0, breakRows(prompt+strings.TrimRight(picture(line), " "), width)+"\n")
}

// clear removes all rows from the screen.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, "\x1b[H\x1b[2J")
	s.last, s.up = nil, 0
	s.draw(0, "")
}

// failure returns nil: the reader of the terminal notices that it is gone.
func (*screen) failure() error { return nil }

const clearBelow = "\x1b[J"

// draw removes a number of the rows that stay, and writes others in their place. mu is held.
func (s *screen) draw(remove int, rows string) {
	width, height := s.tty.size()
	// A line that is higher than half of the screen is shown in parts, since rows above the screen cannot be drawn again.
	before, after := []rune(s.before), []rune(s.after)
	limit := width * height / 8 // a character has at most two cells
	before, after = before[max(0, len(before)-limit):], after[:min(limit, len(after))]

	var text strings.Builder
	for _, b := range s.growing {
		if b.row != "" {
			text.WriteString(b.row + "\n")
		}
	}
	text.WriteString(s.sign + prompt + string(before))
	rest := string(after) + " "
	r, n := utf8.DecodeRuneInString(rest) // the character at the cursor
	text.WriteString(rest[:n])
	above := strings.Split(breakRows(text.String(), width), "\n")
	text.WriteString(rest[n:])
	all := breakRows(text.String(), width)

	var out strings.Builder
	out.WriteString(move(s.up+remove, 'A') + "\r" + clearBelow + strings.ReplaceAll(rows+all, "\n", "\r\n"))
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
