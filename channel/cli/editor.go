package cli

import (
	"bufio"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// editor reads lines that a person types. [term.Terminal] edits them: it gets keys from Read, and writes to Write what it shows of the line. It
// believes that the terminal has one endless row, where each character takes one cell. The screen draws the line as it is.
type editor struct {
	in        *bufio.Reader
	screen    *screen
	interrupt func() bool // cancels answers; false if there are none
	pasting   bool

	line []rune // as term.Terminal shows it
	pos  int    // of the cursor
}

// newline is in place of a line feed while a line is edited.
const newline = "␤"

// newEditor returns a function that reads the next line. complete returns what Tab adds to the text before the cursor.
func newEditor(in io.Reader, s *screen, interrupt func() bool, complete func(string) string) func() (string, error) {
	t := term.NewTerminal(&editor{in: bufio.NewReader(in), screen: s, interrupt: interrupt}, "")
	_ = t.SetSize(math.MaxInt32, 1) // nothing is shown yet, so that nothing can fail
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		rest := complete(line[:pos])
		return line[:pos] + rest + line[pos:], pos + len(rest), true
	}
	return func() (string, error) {
		line, err := t.ReadLine()
		if errors.Is(err, term.ErrPasteIndicator) { // all of the line is pasted
			err = nil
		}
		return strings.ReplaceAll(line, newline, "\n"), err
	}
}

// Read implements [io.Reader]: it reads one key.
func (e *editor) Read(p []byte) (int, error) {
	for {
		key, err := e.key()
		if key != "" || err != nil {
			return copy(p, key), err
		}
	}
}

// Keys as term.Terminal knows them.
const (
	escape     = "\x1b"
	deleteLine = "\x05\x15" // Ctrl-E, Ctrl-U
	deleteWord = "\x17"     // Ctrl-W
	wordLeft   = "\x1b[1;3D"
	wordRight  = "\x1b[1;3C"
	home       = "\x1b[H"
	end        = "\x1b[F"
)

// sequences are the keys that term.Terminal does not know, by what follows ESC.
var sequences = map[string]string{
	"b": wordLeft, "[1;5D": wordLeft, "f": wordRight, "[1;5C": wordRight, "\x7f": deleteWord, "\r": newline,
	"[1~": home, "[7~": home, "[4~": end, "[8~": end,
}

// key returns the next key for term.Terminal; "" if it means nothing.
func (e *editor) key() (string, error) {
	r, _, err := e.in.ReadRune()
	switch {
	case err != nil:
		return "", err
	case r == '\x1b':
		return e.sequence()
	case e.pasting && (r == '\r' || r == '\n'): // terminals send \r
		if next, _ := e.in.Peek(min(1, e.in.Buffered())); r == '\r' && string(next) == "\n" {
			_, err = e.in.Discard(1)
		}
		return newline, err
	case r == utf8.RuneError, e.pasting && r != '\t' && unicode.IsControl(r):
		return "", nil
	case r == 'C'-'@' && e.interrupt():
		return "", nil
	case r == 'C'-'@':
		return deleteLine, nil
	}
	return string(r), nil
}

// sequence returns the key that begins with ESC.
func (e *editor) sequence() (string, error) {
	if !e.pasting && e.in.Buffered() == 0 { // the key Esc
		return "", nil
	}
	first, err := e.in.ReadByte()
	text := []byte{first}
	if first == 'O' { // some terminals send O for keys such as arrows
		text[0] = '['
	}
	for text[0] == '[' && (len(text) == 1 || text[len(text)-1] < '@') && err == nil {
		var c byte
		c, err = e.in.ReadByte()
		text = append(text, c)
	}
	switch key, known := sequences[string(text)]; {
	case string(text) == "[200~", string(text) == "[201~":
		e.pasting = string(text) == "[200~"
	case e.pasting:
		return "", err
	case known:
		return key, err
	case text[0] != '[':
		return "", err
	}
	return escape + string(text), err
}

// Write implements [io.Writer]: it follows what term.Terminal shows of the line.
func (e *editor) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case strings.HasPrefix(text, "\r\n"):
			n = 2
			e.screen.lineSent(e.line)
			e.line, e.pos = nil, 0
		case strings.HasPrefix(text, "\x1b["):
			n = strings.IndexAny(text, "CDHJ") + 1
			e.control(text[2:n-1], text[n-1])
		case e.pos == len(e.line):
			e.line = append(e.line, r)
			e.pos++
		default:
			e.line[e.pos] = r
			e.pos++
		}
		text = text[n:]
	}
	if e.in.Buffered() == 0 { // else more follows at once
		e.screen.setLine(e.line[:e.pos], e.line[e.pos:])
	}
	return len(p), nil
}

// control obeys a control sequence.
func (e *editor) control(number string, command byte) {
	n, err := strconv.Atoi(number)
	if err != nil {
		n = 1
	}
	switch command {
	case 'C':
		e.pos += n
	case 'D':
		e.pos -= n
	case 'H':
		e.pos = 0
	case 'J':
		e.screen.clear()
	}
}
