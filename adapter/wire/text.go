package wire

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/buger/jsonparser"
)

// ErrEscape says that a string has an escape that JSON does not know.
var ErrEscape = errors.New("an escape that JSON does not know")

// Unescape decodes what stands between the quotes of a JSON string. The result is a copy. What is not UTF-8, and half a pair of
// surrogates, becomes U+FFFD, as encoding/json has it.
func Unescape(raw []byte) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return strings.ToValidUTF8(string(raw), "\uFFFD"), nil
	}
	var small [256]byte // most pieces of an answer fit
	out, err := jsonparser.Unescape(raw, small[:])
	if err != nil {
		return "", ErrEscape
	}
	return strings.ToValidUTF8(string(out), "\uFFFD"), nil
}

// Escaped is what stands between the quotes of a JSON string, which may begin or end in the middle of a character; nil for any other value.
type Escaped []byte

// UnmarshalJSON reads a value.
func (e *Escaped) UnmarshalJSON(value []byte) error {
	*e = bytes.Clone(Unquote(value))
	return nil
}

// Unquote returns a part of a value.
func Unquote(value []byte) Escaped {
	if len(value) <= len(`""`) || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// Text decodes a text that comes in pieces, each of them the inside of a JSON string. Models cut where their tokens end, and some
// servers then cut a rune, or a pair of escaped surrogates: the start of a character is held back until the next piece. Its zero
// value is ready.
type Text struct{ held []byte }

// Next decodes the next piece.
func (t *Text) Next(raw []byte) (string, error) {
	if len(t.held) > 0 {
		if len(raw) == 0 {
			return "", nil
		}
		raw = append(t.held, raw...)
		t.held = nil
	}
	if n := Unfinished(raw); n > 0 {
		t.held = bytes.Clone(raw[len(raw)-n:])
		raw = raw[:len(raw)-n]
	}
	return Unescape(raw)
}

// Rest returns what is still held back, which will not be finished any more.
func (t *Text) Rest() string {
	s, _ := Unescape(t.held) // half a character: its escape was looked at
	t.held = nil
	return s
}

// Unfinished returns how many bytes at the end of the inside of a JSON string are the start of a character: of a rune, or an
// escaped high surrogate.
func Unfinished(raw []byte) int {
	for n := 1; n <= min(len(raw), utf8.UTFMax-1); n++ {
		b := raw[len(raw)-n]
		if b < utf8.RuneSelf {
			break
		}
		if utf8.RuneStart(b) {
			if !utf8.FullRune(raw[len(raw)-n:]) {
				return n
			}
			break
		}
	}
	if n := len(raw) - len(`\ud83d`); n >= 0 && raw[n] == '\\' && raw[n+1] == 'u' && raw[n+2]|0x20 == 'd' &&
		strings.IndexByte("89abAB", raw[n+3]) >= 0 && isHex(raw[n+4]) && isHex(raw[n+5]) {
		slashes := 0
		for n-slashes >= 0 && raw[n-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 1 { // otherwise the backslash is a character
			return len(`\ud83d`)
		}
	}
	return 0
}

func isHex(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'f'
}
