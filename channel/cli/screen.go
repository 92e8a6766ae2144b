package cli

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// style is how a text looks. Without colours all look the same.
type style string

const (
	plain  style = ""
	dim    style = "2"
	strong style = "1"
	bad    style = "31"
)

const (
	prompt     = "> "
	promptMore = "  " // of the rows after the first
)

// screen is a terminal whose last rows are the line that is being typed, and above it what was said. What is written goes above, where
// what was written before ends, also in the middle of a row: so an answer grows while somebody types.
//
// It is written to as a whole by each method, and remembers where the cursor is; nothing is ever read back.
type screen struct {
	mu            sync.Mutex
	out           io.Writer
	width, height int
	colors        bool

	// What was said.
	owner any  // who wrote last: others begin a new row
	col   int  // cells of its last row; as many as there are: the row is full
	cells int  // since the last newline
	below bool // the row is full, and the cursor is at the beginning of the one below

	hard      bool   // rows end where they are full, and not between words
	word      []byte // that it ends with
	wordCells int

	// The line that is being typed.
	editor editor
	status string // a row above it
	off    bool   // nothing is typed: before the first and after the last
	drawn  []int  // the cells of its rows, as they stand there; nil for none
	row    int    // of the cursor, within it
	column int

	buf bytes.Buffer
	err error // of the first write that failed
}

func newScreen(out io.Writer, width, height int, colors bool) *screen {
	s := &screen{out: out, colors: colors, off: true}
	s.measure(width, height)
	return s
}

// Sizes that a terminal has at least, and where it does not know its own.
const (
	minWidth, minHeight         = 8, 3
	defaultWidth, defaultHeight = 80, 24
)

func (s *screen) measure(width, height int) {
	if width <= 0 || height <= 0 {
		width, height = defaultWidth, defaultHeight
	}
	s.width, s.height = max(width, minWidth), max(height, minHeight)
}

// write writes what somebody has to say, which is visible as it is. Somebody else's begins a row.
func (s *screen) write(owner any, text string, as style) {
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	if owner != s.owner && s.col > 0 {
		s.newline()
	}
	s.owner = owner
	s.say(text, as)
	s.draw()
	s.flush()
}

// fresh ends the row of somebody who has not ended it.
func (s *screen) fresh(owner any) {
	s.mu.Lock()
	ended := s.col == 0 || s.owner != owner
	s.mu.Unlock()
	if !ended {
		s.write(owner, "\n", plain)
	}
}

// edit changes the line that is being typed.
func (s *screen) edit(change func(*editor)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	change(&s.editor)
	s.draw()
	s.flush()
}

// submit takes the line that was typed, and leaves it standing above the next one.
func (s *screen) submit() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	text := s.editor.take()
	if strings.TrimSpace(text) != "" {
		if s.col > 0 {
			s.newline()
		}
		s.owner = nil
		s.hard = true // as it stood there while it was typed
		s.say(prompt, strong)
		s.say(strings.ReplaceAll(Visible(text), "\n", "\n"+promptMore)+"\n", plain)
		s.hard = false
	}
	s.draw()
	s.flush()
	return text
}

// tell changes the row above the line.
func (s *screen) tell(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == status {
		return
	}
	s.erase()
	s.status = status
	s.draw()
	s.flush()
}

// show begins to show the line that is being typed, hide ends it.
func (s *screen) show() { s.turn(false) }
func (s *screen) hide() { s.turn(true) }

func (s *screen) turn(off bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	if off && s.col > 0 {
		s.newline()
	}
	s.off = off
	s.draw()
	s.flush()
}

// clear empties the screen but for the line.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.buf.WriteString("\x1b[H\x1b[2J")
	s.col, s.cells, s.below = 0, 0, false
	s.word, s.wordCells = s.word[:0], 0
	s.draw()
	s.flush()
}

// resize draws the line for another size. Terminals put the end of a row that has become too long on the next one, and join what they
// have parted so; the few that cut it off instead leave a piece of the line standing.
func (s *screen) resize(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.width
	s.measure(width, height)
	if s.width == before {
		s.erase()
		s.draw()
		s.flush()
		return
	}
	if s.drawn != nil {
		row := s.column / s.width
		for _, n := range s.drawn[:s.row] {
			row += max(1, (n+s.width-1)/s.width)
		}
		s.row = row
	}
	s.word, s.wordCells = s.word[:0], 0 // it stands where it stands
	if s.col > 0 {
		if s.col = s.cells % s.width; s.col == 0 && s.cells > 0 {
			s.col = s.width
		}
	}
	s.erase()
	s.draw()
	s.flush()
}

// erase takes the line away and puts the cursor where what was said ends.
func (s *screen) erase() {
	if s.drawn == nil {
		return
	}
	s.move(s.row, 'A')
	s.buf.WriteString("\r\x1b[J")
	s.drawn, s.row, s.column = nil, 0, 0
	switch {
	case s.col >= s.width:
		s.below = true
	case s.col > 0:
		s.move(1, 'A')
		s.move(s.col, 'C')
	}
}

// draw puts the line below what was said. The cursor is where that ends.
func (s *screen) draw() {
	if s.off {
		return
	}
	if s.col > 0 && !s.below {
		s.buf.WriteString("\r\n")
	}
	rows, row, column := s.layout()
	// More than fits is shown around the cursor. One row stays for what is said.
	room := s.height - 1
	if s.status != "" && room > 1 {
		room--
		s.styled(fit(s.status, s.width-1), dim)
		s.buf.WriteString("\r\n")
		s.drawn = append(s.drawn, cellsOf(fit(s.status, s.width-1)))
	}
	from := max(0, row-room+1)
	to := min(len(rows), from+room)
	status := len(s.drawn)
	for i := from; i < to; i++ {
		if i > from {
			s.buf.WriteString("\r\n")
		}
		if i == 0 {
			s.styled(prompt, strong)
			s.buf.WriteString(strings.TrimPrefix(rows[i], prompt))
		} else {
			s.buf.WriteString(rows[i])
		}
		s.drawn = append(s.drawn, cellsOf(rows[i]))
	}
	s.row, s.column = status+row-from, column
	s.move(to-1-row, 'A')
	s.buf.WriteByte('\r')
	s.move(column, 'C')
}

// layout is the rows of the line, and where the cursor is in them.
func (s *screen) layout() (rows []string, row, column int) {
	var b strings.Builder
	b.WriteString(prompt)
	col := len(prompt)
	end := func() {
		rows = append(rows, b.String())
		b.Reset()
		col = 0
	}
	for i, r := range s.editor.text {
		text, n := string(r), 0
		switch r {
		case '\t':
			text, n = "    ", 4
		case '\n':
			text = ""
		default:
			n = columns(r)
		}
		if col+n > s.width {
			end()
		}
		if i == s.editor.at {
			row, column = len(rows), col
			if col == s.width { // a newline that the full row is followed by
				column--
			}
		}
		if r == '\n' {
			end()
			b.WriteString(promptMore)
			col = len(promptMore)
			continue
		}
		b.WriteString(text)
		col += n
	}
	if s.editor.at == len(s.editor.text) {
		if col >= s.width {
			end()
		}
		row, column = len(rows), col
	}
	end()
	return rows, row, column
}

// say writes above the line, and counts where it ends.
func (s *screen) say(text string, as style) {
	if as != plain && s.colors {
		s.buf.WriteString("\x1b[" + string(as) + "m")
		defer s.buf.WriteString("\x1b[0m")
	}
	for _, r := range text {
		switch r {
		case '\n':
			s.newline()
		case '\t':
			if s.col >= s.width {
				s.newline()
			}
			for range min(8-s.col%8, s.width-s.col) {
				s.put(' ')
			}
		default:
			s.put(r)
		}
	}
}

// put writes one character. Where it does not fit, the word that it belongs to goes to the next row with it, unless that is longer
// than a row.
func (s *screen) put(r rune) {
	n := columns(r)
	if s.col+n > s.width {
		switch {
		case r == ' ' && !s.hard: // which ends a word here and is not to begin a row
			s.newline()
			return
		case !s.hard && n == 1 && s.wordCells > 0 && s.wordCells < s.col:
			if s.below {
				s.move(1, 'A')
			}
			s.buf.WriteByte('\r')
			s.move(s.col-s.wordCells, 'C')
			s.buf.WriteString("\x1b[K\r\n")
			s.buf.Write(s.word)
			s.below, s.col, s.cells = false, s.wordCells, s.wordCells
		default: // the terminal does it
			s.cells += s.width - s.col
			s.below, s.col = false, 0
		}
	}
	s.buf.WriteRune(r)
	s.col += n
	s.cells += n
	switch {
	case n == 1 && r != ' ' && r != '-' || n == 0 && s.wordCells > 0:
		if s.wordCells += n; s.wordCells <= s.width { // of longer ones nothing is needed
			s.word = utf8.AppendRune(s.word, r)
		}
	default:
		s.word, s.wordCells = s.word[:0], 0
	}
}

func (s *screen) newline() {
	if !s.below {
		s.buf.WriteString("\r\n")
	}
	s.below, s.col, s.cells = false, 0, 0
	s.word, s.wordCells = s.word[:0], 0
}

func (s *screen) styled(text string, as style) {
	if as == plain || !s.colors {
		s.buf.WriteString(text)
		return
	}
	s.buf.WriteString("\x1b[" + string(as) + "m" + text + "\x1b[0m")
}

// move moves the cursor by n: A is up, C is to the right.
func (s *screen) move(n int, where byte) {
	if n > 0 {
		s.buf.WriteString("\x1b[" + strconv.Itoa(n))
		s.buf.WriteByte(where)
	}
}

func (s *screen) flush() {
	if s.buf.Len() > 0 && s.err == nil {
		_, s.err = s.out.Write(s.buf.Bytes())
	}
	s.buf.Reset()
}

// gone is the error of the terminal, where nothing can be written to it any more.
func (s *screen) gone() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func cellsOf(text string) (n int) {
	for _, r := range text {
		n += columns(r)
	}
	return n
}
