// Package crcline has lines of text that end with their own checksum. A line is a JSON object, and its last member is the CRC-32C of all
// that stands before it in the line:
//
//	{"id":1,"step":"sending","crc":"0a1b2c3d"}
package crcline

import (
	"hash"
	"hash/crc32"
)

// Mark is what stands before the digits of a checksum.
const Mark = `,"crc":"`

// Size is how many bytes a line ends with: Mark, eight hexadecimal digits, a quote and a brace.
const Size = len(Mark) + 8 + len(`"}`)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// New returns a hash of the same kind, for a file as a whole.
func New() hash.Hash32 { return crc32.New(castagnoli) }

// Sum is the checksum of a line up to Mark.
func Sum(body []byte) uint32 { return crc32.Checksum(body, castagnoli) }

// Append appends the end of a line, without a line feed. The line is dst from start on, without the brace that closes its object.
func Append(dst []byte, start int) []byte {
	value := Sum(dst[start:])
	dst = append(dst, Mark...)
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[value>>shift&15])
	}
	return append(dst, `"}`...)
}

// Cut returns a line without its checksum and its brace, whether it has a checksum, and whether that matches. A line without
// one is returned as it is.
func Cut(line []byte) (body []byte, has, matches bool) {
	at := len(line) - Size
	if at < 0 {
		return line, false, false
	}
	want, ok := Read(line[at:])
	if !ok {
		return line, false, false
	}
	return line[:at], true, Sum(line[:at]) == want
}

// Read reads the checksum that text begins with, from Mark on.
func Read(text []byte) (value uint32, ok bool) {
	if len(text) < Size || string(text[:len(Mark)]) != Mark || string(text[Size-2:Size]) != `"}` {
		return 0, false
	}
	for _, c := range text[len(Mark) : Size-2] {
		switch {
		case '0' <= c && c <= '9':
			value = value<<4 | uint32(c-'0')
		case 'a' <= c && c <= 'f':
			value = value<<4 | uint32(c-'a'+10)
		default:
			return 0, false
		}
	}
	return value, true
}
