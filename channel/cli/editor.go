package cli

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"slices"
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
	pasted    string      // of the last keyPaste

	line []rune // as term.Terminal shows it
	pos  int    // of the cursor
}

// keyPaste is a character for private use, which stands for a pasted text.
const keyPaste = '\U00100000'

// newEditor returns a function that reads the next line. complete returns what Tab adds to the text before the cursor.
func newEditor(in io.Reader, s *screen, h term.History, interrupt func() bool, complete func(string) string) func() (string, error) {
	e := &editor{in: bufio.NewReader(in), screen: s, interrupt: interrupt}
	t := term.NewTerminal(e, "")
	_ = t.SetSize(math.MaxInt32, 1) // nothing is shown yet, so that nothing can fail
	t.History = h
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		text := e.pasted
		switch key {
		case '\t':
			text = complete(line[:pos])
		case keyPaste:
		default:
			return "", 0, false
		}
		return line[:pos] + text + line[pos:], pos + len(text), true
	}
	return t.ReadLine
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
	"b": wordLeft, "[1;5D": wordLeft, "f": wordRight, "[1;5C": wordRight, "\x7f": deleteWord,
	"[1~": home, "[7~": home, "[4~": end, "[8~": end,
}

// key returns the next key for term.Terminal; "" if it means nothing.
func (e *editor) key() (string, error) {
	r, _, err := e.in.ReadRune()
	switch {
	case err != nil:
		return "", err
	case r == 'C'-'@':
		if e.interrupt() {
			return "", nil
		}
		return deleteLine, nil
	case r == utf8.RuneError, r == keyPaste:
		return "", nil
	case r != '\x1b':
		return string(r), nil
	case e.in.Buffered() == 0: // the key Esc
		return "", nil
	}
	sequence, err := e.sequence()
	switch key, known := sequences[sequence]; {
	case known:
		return key, err
	case sequence == "\r", sequence == "\n": // Alt-Enter
		e.pasted = "\n"
		return string(keyPaste), err
	case sequence == "[200~":
		return string(keyPaste), e.paste()
	case strings.HasPrefix(sequence, "["):
		return escape + sequence, err
	}
	return "", err
}

// sequence reads what follows ESC.
func (e *editor) sequence() (string, error) {
	first, err := e.in.ReadByte()
	if first != '[' && first != 'O' {
		return string(rune(first)), err
	}
	text := []byte{'['} // some terminals send O for keys such as arrows
	for len(text) == 1 || text[len(text)-1] < '@' {
		c, err := e.in.ReadByte()
		if err != nil || len(text) == 32 { // no key has more
			return "", err
		}
		text = append(text, c)
	}
	return string(text), nil
}

// maxPaste limits a pasted text, in bytes. The rest is dropped.
const maxPaste = 1 << 20

// paste reads a pasted text. Terminals send the ends of its lines as carriage returns.
func (e *editor) paste() error {
	end := []byte("\x1b[201~")
	var text []byte
	for !bytes.HasSuffix(text, end) {
		c, err := e.in.ReadByte()
		if err != nil {
			return err
		}
		if len(text) >= maxPaste+len(end) {
			text = slices.Delete(text, maxPaste, maxPaste+1)
		}
		text = append(text, c)
	}
	e.pasted = withoutControls(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(bytes.TrimSuffix(text, end))))
	return nil
}

// withoutControls returns what can be part of a line.
func withoutControls(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
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
		default:
			e.line = append(e.line[:e.pos], append([]rune{r}, e.line[min(e.pos+1, len(e.line)):]...)...)
			e.pos++
		}
		text = text[n:]
	}
	e.screen.setLine(e.line[:e.pos], e.line[e.pos:])
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
