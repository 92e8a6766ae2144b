package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/term"

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

// screen shows the conversation on a terminal, above the line that is typed. [term.Terminal] edits and draws that line; screen is the writer below it.
type screen struct {
	tty    *Terminal
	out    io.Writer
	colors bool
	line   *term.Terminal

	mu       sync.Mutex // held while something is shown
	next     shown
	frame    int // of the spinner
	spinning bool

	// Guarded by the lock of line, which calls Write.
	openRow string // the row above the line, if its text is not ended
	owner   any    // who wrote it
}

// shown is a text that is to be written above the line.
type shown struct {
	owner any
	text  string
	as    style
}

func newScreen(tty *Terminal, keys io.Reader, out io.Writer, colors bool) *screen {
	s := &screen{tty: tty, out: out, colors: colors}
	s.line = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, s}, prompt)
	return s
}

// nextText stands for the text in screen.next: so the text is laid out while no key can change the line.
var nextText = []byte{0}

// write writes a text that is visible as it is above the line. The text of another owner begins in a new row.
func (s *screen) write(owner any, text string, as style) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeLocked(shown{owner, text, as})
}

func (s *screen) writeLocked(next shown) {
	s.resize()
	s.next = next
	_, _ = s.line.Write(nextText) // the reader of the terminal notices that it is gone
}

func (s *screen) note(text string, as style) {
	s.write(nil, strings.TrimSuffix(text, "\n")+"\n", as)
}

// failure returns nil: the reader of the terminal notices that it is gone.
func (*screen) failure() error { return nil }

// working shows the next sign that an answer is awaited, or removes it.
func (s *screen) working(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !on && !s.spinning {
		return
	}
	s.spinning = on
	if on {
		s.frame++
		s.line.SetPrompt(string(spinner[s.frame%len(spinner)]) + " " + prompt)
	} else {
		s.line.SetPrompt(prompt)
	}
	s.writeLocked(shown{})
}

// resize makes the size of the terminal known to the line. It is called before each text and each key.
func (s *screen) resize() {
	_ = s.line.SetSize(s.tty.size()) // what it cannot write, the reader of the terminal notices
}

// Write is called by the line, with its lock held.
func (s *screen) Write(p []byte) (int, error) {
	var text string
	if bytes.Equal(p, nextText) {
		text = s.layout(s.next)
	} else {
		if bytes.IndexByte(p, '\n') >= 0 {
			s.openRow = "" // the line was sent, and stands below that row now
		}
		text = display(string(p))
	}
	_, err := io.WriteString(s.out, text)
	return len(p), err
}

// layout returns what writes a text above the line, which is cleared at the moment. A row that is not ended is written again, with what follows it.
func (s *screen) layout(n shown) string {
	if n.text == "" {
		return clearBelow
	}
	if n.owner != s.owner {
		s.openRow = ""
	}
	s.owner = n.owner
	width, height := s.tty.size()
	var b strings.Builder
	if s.openRow != "" {
		fmt.Fprintf(&b, "\x1b[%dA", rowsOf(s.openRow, width))
	}
	b.WriteString(clearBelow)
	text := cells.Wrap(s.openRow+strings.ReplaceAll(n.text, "\t", "    "), width)
	s.openRow = text[strings.LastIndexByte(text, '\n')+1:]
	if s.openRow != "" {
		text += "\n"
	}
	if rowsOf(s.openRow, width) > height-2 { // its beginning will not be on the screen
		s.openRow = ""
	}
	if n.as != plain && s.colors {
		text = "\x1b[" + string(n.as) + "m" + text + "\x1b[0m"
	}
	b.WriteString(strings.ReplaceAll(text, "\n", "\r\n"))
	return b.String()
}

const clearBelow = "\x1b[J"

// rowsOf returns how many rows of a terminal a line takes.
func rowsOf(line string, width int) int {
	n := 0
	for _, r := range line {
		n += cells.Of(r)
	}
	return max(1, (n+width-1)/width)
}
