package cli

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Keys that Chat.press handles, as characters that no text has.
const (
	keyCancel rune = 0x100000 + iota
	keyEnd
	keyBackspace
	keyDelete
	keyLeft
	keyRight
	keyNewline
	keyPaste
)

// controls are the control characters that Chat.press handles.
var controls = map[rune]rune{
	ctrl + 'B': keyLeft, ctrl + 'C': keyCancel, ctrl + 'D': keyEnd, ctrl + 'F': keyRight, ctrl + 'H': keyBackspace, 0x7f: keyBackspace, '\n': '\r',
}

const (
	ctrl  = -'@'
	known = "\x01\x05\t\x0b\x0c\r\x0e\x10\x15\x17" // controls that term.Terminal handles: Ctrl-A, E, I, K, L, M, N, P, U, W
)

// sequences are the keys that begin with ESC, by what follows it.
var sequences = map[string]string{
	"[A": "\x10", "OA": "\x10", "[B": "\x0e", "OB": "\x0e", "[C": string(keyRight), "OC": string(keyRight), "[D": string(keyLeft), "OD": string(keyLeft),
	"[H": "\x01", "OH": "\x01", "[1~": "\x01", "[7~": "\x01", "[F": "\x05", "OF": "\x05", "[4~": "\x05", "[8~": "\x05",
	"f": wordRight, "[1;5C": wordRight, "[1;3C": wordRight, "b": wordLeft, "[1;5D": wordLeft, "[1;3D": wordLeft,
	"[3~": string(keyDelete), "\x7f": "\x17", "\b": "\x17", "\r": string(keyNewline), "\n": string(keyNewline),
}

const (
	wordRight = "\x1b[1;3C"
	wordLeft  = "\x1b[1;3D"

	pasteBegin = "[200~"
	pasteEnd   = "\x1b[201~"

	maxSequence = 32 // bytes of a key; a longer sequence is dropped
)

// keyboard reads keys for term.Terminal, one with each Read: those that it would treat otherwise than the chat does are replaced.
type keyboard struct {
	in     *bufio.Reader
	before func() // is called before each key
	enter  func() // is called when a line is sent
	pasted string // of the last keyPaste
	ended  bool
}

// Read implements [io.Reader]. p has room for a key.
func (k *keyboard) Read(p []byte) (int, error) {
	k.before()
	for !k.ended {
		key, err := k.next()
		if key == "\r" {
			k.enter()
		}
		if key != "" || err != nil {
			return copy(p, key), err
		}
	}
	return 0, io.EOF
}

// next returns the next key; "" if it means nothing.
func (k *keyboard) next() (string, error) {
	r, n, err := k.in.ReadRune()
	if replacement, ok := controls[r]; ok {
		r = replacement
	}
	switch {
	case err != nil:
		return "", err
	case r == 0x1b:
		return k.sequence()
	case unicode.IsControl(r) && !strings.ContainsRune(known, r), r > keyPaste, r == utf8.RuneError && n == 1:
		return "", nil
	}
	return string(r), nil
}

func (k *keyboard) sequence() (string, error) {
	if k.in.Buffered() == 0 { // the key Esc
		return "", nil
	}
	var seq []byte
	for {
		c, err := k.in.ReadByte()
		if err != nil {
			return "", err
		}
		seq = append(seq, c)
		isLast := len(seq) == 1 && c != '[' && c != 'O' || len(seq) > 1 && (c < ' ' || c >= '@')
		switch {
		case string(seq) == pasteBegin:
			return k.paste()
		case isLast, len(seq) == maxSequence:
			return sequences[string(seq)], nil
		}
	}
}

// paste reads a pasted text. Terminals send the ends of its lines as carriage returns.
func (k *keyboard) paste() (string, error) {
	var text []byte
	for !bytes.HasSuffix(text, []byte(pasteEnd)) {
		c, err := k.in.ReadByte()
		if err != nil {
			return "", err
		}
		if text = append(text, c); len(text) > 2*maxLine { // what is too long is cut, but for what may be the mark of the end
			text = append(text[:maxLine], text[len(text)-len(pasteEnd):]...)
		}
	}
	k.pasted = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimSuffix(string(text), pasteEnd))
	return string(keyPaste), nil
}
