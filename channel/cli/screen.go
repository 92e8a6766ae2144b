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

	bottom *block // whose rows are the last ones above the line; guarded by the lock of line, which calls Write
}

// shown is a text that is to be written above the line.
type shown struct {
	block *block
	text  string // of the block
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

// write shows a text that is visible as it is above the line.
func (s *screen) write(b *block, text string) { s.show(shown{b, text, plain}) }

func (s *screen) show(next shown) {
	next.text = strings.ReplaceAll(next.text, "\t", "    ")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.showLocked(next)
}

func (s *screen) showLocked(next shown) {
	s.resize()
	s.next = next
	_, _ = s.line.Write(nextText) // the reader of the terminal notices that it is gone
}

func (s *screen) note(text string, as style) {
	s.show(shown{new(block), strings.TrimSuffix(text, "\n") + "\n", as})
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
	s.showLocked(shown{})
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
			s.bottom = nil // the line was sent, and is below the block now
		}
		text = display(string(p))
	}
	_, err := io.WriteString(s.out, text)
	return len(p), err
}

// takenBack is before a text in place of one that can no longer be removed.
const takenBack = "(The model has taken the text above back.)\n"

// layout returns what shows a text above the line, which is cleared at the moment. It writes the rows again from the first one that changes. If
// these are above other rows or above the screen, the text goes on below.
func (s *screen) layout(n shown) string {
	b := n.block
	if b == nil || b.text == n.text {
		return clearBelow
	}
	width, height := s.tty.size()
	same, from := commonRows(b.text, n.text, b.start), len(b.text)
	continues := strings.HasPrefix(n.text, b.text)
	text, up := n.text[min(from, len(n.text)):], 0
	if same >= b.start && s.bottom == b {
		if rows := rowsOf(b.text[same:], width); rows < height-1 {
			text, up, from, continues = n.text[same:], rows, b.start, true
		}
	}
	if !continues {
		text, from = takenBack+n.text, 0
	}
	b.text, b.start, s.bottom = n.text, from, b
	var out strings.Builder
	if up > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", up)
	}
	out.WriteString(clearBelow)
	text = cells.Wrap(text, width)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if n.as != plain && s.colors {
		text = "\x1b[" + string(n.as) + "m" + text + "\x1b[0m"
	}
	out.WriteString(strings.ReplaceAll(text, "\n", "\r\n"))
	return out.String()
}

// commonRows returns where the first row of before, behind start, begins that differs in after.
func commonRows(before, after string, start int) int {
	same := 0
	for same < len(before) && same < len(after) && before[same] == after[same] {
		same++
	}
	if same < start {
		return 0
	}
	return max(start, strings.LastIndexByte(before[:same], '\n')+1)
}

const clearBelow = "\x1b[J"

// rowsOf returns how many rows of a terminal a text takes.
func rowsOf(text string, width int) (rows int) {
	for line := range strings.Lines(cells.Wrap(text, width)) {
		n := 0
		for _, r := range strings.TrimSuffix(line, "\n") {
			n += cells.Of(r)
		}
		rows += max(1, (n+width-1)/width)
	}
	return rows
}
