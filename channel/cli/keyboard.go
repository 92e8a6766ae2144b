package cli

import (
	"bufio"
	"bytes"
	"io"
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

// controls are the control characters that mean something; term.Terminal knows those that stand for themselves.
var controls = map[rune]rune{
	'B' & 0x1f: keyLeft, 'C' & 0x1f: keyCancel, 'D' & 0x1f: keyEnd, 'F' & 0x1f: keyRight, 'H' & 0x1f: keyBackspace, 0x7f: keyBackspace, '\n': '\r', '\r': '\r', '\t': '\t',
	ctrlA: ctrlA, ctrlE: ctrlE, ctrlN: ctrlN, ctrlP: ctrlP, ctrlW: ctrlW, 'K' & 0x1f: 'K' & 0x1f, 'L' & 0x1f: 'L' & 0x1f, 'U' & 0x1f: 'U' & 0x1f,
}

const ctrlA, ctrlE, ctrlN, ctrlP, ctrlW = 'A' & 0x1f, 'E' & 0x1f, 'N' & 0x1f, 'P' & 0x1f, 'W' & 0x1f

// sequences are the keys that begin with ESC, by what follows it.
var sequences = map[string]string{
	"[A": string(rune(ctrlP)), "OA": string(rune(ctrlP)), "[B": string(rune(ctrlN)), "OB": string(rune(ctrlN)),
	"[C": string(keyRight), "OC": string(keyRight), "[D": string(keyLeft), "OD": string(keyLeft),
	"[H": string(rune(ctrlA)), "OH": string(rune(ctrlA)), "[1~": string(rune(ctrlA)), "[7~": string(rune(ctrlA)),
	"[F": string(rune(ctrlE)), "OF": string(rune(ctrlE)), "[4~": string(rune(ctrlE)), "[8~": string(rune(ctrlE)),
	"f": wordRight, "[1;5C": wordRight, "[1;3C": wordRight, "b": wordLeft, "[1;5D": wordLeft, "[1;3D": wordLeft,
	"[3~": string(keyDelete), "\x7f": string(rune(ctrlW)), "\b": string(rune(ctrlW)), "\r": string(keyNewline), "\n": string(keyNewline),
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
	key, isControl := controls[r]
	switch {
	case err != nil:
		return "", err
	case r == 0x1b:
		return k.sequence()
	case isControl:
		if next, _ := k.in.Peek(min(1, k.in.Buffered())); r == '\r' && string(next) == "\n" {
			_, _ = k.in.Discard(1)
		}
		return string(key), nil
	case unicode.IsControl(r), r >= markBase, r == utf8.RuneError && n == 1:
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
	text = bytes.TrimSuffix(text, []byte(pasteEnd))
	k.pasted = string(bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n")))
	return string(keyPaste), nil
}
