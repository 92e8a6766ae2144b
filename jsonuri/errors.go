package jsonuri

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrNoDocument says that text in repair mode holds nothing like a JSON document.
var ErrNoDocument = errors.New("jsonuri: no JSON document in the text")

// ErrClosed says that text was written to a parser after its Close.
var ErrClosed = errors.New("jsonuri: write after close")

// SyntaxError says where text is not JSON, and what was expected there (RFC 8259).
type SyntaxError struct {
	Offset       int64 // bytes before the error
	Line, Column int   // from 1; the column counts bytes
	Found        string
	Expected     string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d (byte %d): found %s, expected %s", e.Line, e.Column, e.Offset, e.Found, e.Expected)
}

// LimitError says which limit a document went over.
type LimitError struct {
	Limit  string // "depth", "document", "key" or "number"; those of htmlpath are there
	Max    int64
	Offset int64
}

func (e *LimitError) Error() string {
	unit := "bytes"
	if e.Limit == "depth" {
		unit = "levels"
	}
	return fmt.Sprintf("byte %d: the %s exceeds its limit of %d %s", e.Offset, e.Limit, e.Max, unit)
}

var byteNames = map[byte]string{'\n': "a line break", '\r': "a carriage return", '\t': "a tab", '"': "a quote"}

// describe names one byte of input for a message.
func describe(c byte) string {
	switch {
	case byteNames[c] != "":
		return byteNames[c]
	case c < ' ' || c == 0x7f:
		return fmt.Sprintf("control character 0x%02X", c)
	case c < utf8.RuneSelf:
		return "'" + string(rune(c)) + "'"
	default:
		return fmt.Sprintf("byte 0x%02X", c)
	}
}

const endOfText = "the end of the text"
