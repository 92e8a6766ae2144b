package cli

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// key is what somebody has pressed.
type key struct {
	name keyName
	text string // of keyText and keyPaste
}

type keyName uint8

const (
	keyText keyName = iota
	keyPaste
	keyEnter
	keyNewline // into the line
	keyTab
	keyBackspace
	keyDelete
	keyLeft
	keyRight
	keyWordLeft
	keyWordRight
	keyUp
	keyDown
	keyHome
	keyEnd
	keyDeleteWord
	keyDeleteNextWord
	keyDeleteToEnd
	keyDeleteToStart
	keyTranspose
	keyClear // the screen
	keyCancel
	keyEOF // or delete, where there is something
)

var controls = map[byte]keyName{
	'A' - '@': keyHome, 'B' - '@': keyLeft, 'C' - '@': keyCancel, 'D' - '@': keyEOF, 'E' - '@': keyEnd, 'F' - '@': keyRight,
	'H' - '@': keyBackspace, 'I' - '@': keyTab, 'J' - '@': keyEnter, 'K' - '@': keyDeleteToEnd, 'L' - '@': keyClear,
	'M' - '@': keyEnter, 'N' - '@': keyDown, 'P' - '@': keyUp, 'T' - '@': keyTranspose, 'U' - '@': keyDeleteToStart,
	'W' - '@': keyDeleteWord, 0x7f: keyBackspace,
}

// sequences are those after ESC, by what follows it.
var sequences = map[string]keyName{
	"[A": keyUp, "[B": keyDown, "[C": keyRight, "[D": keyLeft, "[H": keyHome, "[F": keyEnd,
	"OA": keyUp, "OB": keyDown, "OC": keyRight, "OD": keyLeft, "OH": keyHome, "OF": keyEnd,
	"[1~": keyHome, "[7~": keyHome, "[4~": keyEnd, "[8~": keyEnd, "[3~": keyDelete,
	"[1;5C": keyWordRight, "[1;3C": keyWordRight, "[1;5D": keyWordLeft, "[1;3D": keyWordLeft, "[5C": keyWordRight, "[5D": keyWordLeft,
	"f": keyWordRight, "b": keyWordLeft, "d": keyDeleteNextWord, "\x7f": keyDeleteWord, "\b": keyDeleteWord, "\r": keyNewline, "\n": keyNewline,
}

const (
	pasteBegin = "[200~"
	pasteEnd   = "\x1b[201~"

	// maxPaste bounds what a terminal can put into memory by one paste, in bytes; the rest is dropped.
	maxPaste = 1 << 20
	// maxSequence bounds the sequence of one key, in bytes: what is longer is none.
	maxSequence = 32
)

// keys reads keys out of what a terminal sends, which is cut anywhere. The zero value is ready.
type keys struct {
	held    []byte
	pasting bool
	pasted  []byte
}

// read returns the keys in data. more says that data was cut by the size of a buffer, and not by the terminal: then an ESC at its
// end is the beginning of something.
func (k *keys) read(data []byte, more bool) []key {
	data = append(k.held, data...)
	k.held = nil
	var out []key
	for len(data) > 0 {
		if k.pasting {
			end := bytes.Index(data, []byte(pasteEnd))
			if end < 0 {
				keep := tail(data, pasteEnd)
				k.paste(data[:len(data)-keep])
				k.held = bytes.Clone(data[len(data)-keep:])
				return out
			}
			k.paste(data[:end])
			data = data[end+len(pasteEnd):]
			out = append(out, key{keyPaste, pasted(k.pasted)})
			k.pasting, k.pasted = false, nil
			continue
		}
		one, n := next(data, more)
		if n == 0 {
			k.held = bytes.Clone(data)
			return out
		}
		switch {
		case one == nil:
		case one.name == keyPaste:
			k.pasting = true
		case one.name == keyText && len(out) > 0 && out[len(out)-1].name == keyText:
			out[len(out)-1].text += one.text // typed as one, drawn as one
		default:
			out = append(out, *one)
		}
		data = data[n:]
	}
	return out
}

func (k *keys) paste(data []byte) {
	k.pasted = append(k.pasted, data[:min(len(data), maxPaste-len(k.pasted))]...)
}

// tail is how many bytes at the end of data may be the beginning of mark.
func tail(data []byte, mark string) int {
	for n := min(len(mark)-1, len(data)); n > 0; n-- {
		if strings.HasPrefix(mark, string(data[len(data)-n:])) {
			return n
		}
	}
	return 0
}

// pasted is a pasted text as it goes into the line: terminals send line ends as carriage returns.
func pasted(text []byte) string {
	s := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(string(text), "\ufffd"))
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}

// next reads one key, nil for one that means nothing, and how many bytes it has: none where it is not whole.
func next(data []byte, more bool) (*key, int) {
	c := data[0]
	if c == 0x1b {
		return sequence(data, more)
	}
	if name, ok := controls[c]; ok {
		n := 1
		if c == '\r' && len(data) > 1 && data[1] == '\n' {
			n = 2
		}
		return &key{name: name}, n
	}
	if c < ' ' {
		return nil, 1
	}
	if !utf8.FullRune(data) {
		return nil, 0
	}
	r, n := utf8.DecodeRune(data)
	if r == utf8.RuneError && n == 1 || r >= 0x80 && r < 0xa0 {
		return nil, n
	}
	return &key{keyText, string(r)}, n
}

// sequence reads a key that begins with ESC.
func sequence(data []byte, more bool) (*key, int) {
	if len(data) == 1 {
		if more {
			return nil, 0
		}
		return nil, 1 // the key Esc
	}
	n := 2
	switch data[1] {
	case '[': // up to a letter or ~
		for n < len(data) && (data[n] < 0x40 || data[n] > 0x7e) {
			if data[n] < ' ' || data[n] > 0x7e || n >= maxSequence {
				return nil, n // none; what follows is something else
			}
			n++
		}
		if n == len(data) {
			return nil, 0
		}
		n++
	case 'O':
		if len(data) == 2 {
			return nil, 0
		}
		n = 3
	case 0x1b:
		return nil, 1
	}
	s := string(data[1:n])
	if s == pasteBegin {
		return &key{name: keyPaste}, n
	}
	if name, ok := sequences[s]; ok {
		return &key{name: name}, n
	}
	return nil, n
}
