package main

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/bench/internal/article"
)

// A shape is a kind of document that makes one part of a parser work hard; time must grow with the size of each alike (JS-04).
type shape struct {
	name string
	make func(size int) []byte
}

var shapes = []shape{
	{"article", article.JSON},
	{"one string", func(size int) []byte { return fill(`{"text":"`, "Rayleigh ", size, `"}`) }},
	{"backslashes", func(size int) []byte { return fill(`{"text":"`, `\\`, size, `"}`) }},
	{"unicode escapes", func(size int) []byte { return fill(`{"text":"`, `\ud83d\ude42`, size, `"}`) }},
	{"nested arrays", func(size int) []byte {
		return fill("[0", ","+strings.Repeat("[", depth-1)+strings.Repeat("]", depth-1), size, "]")
	}},
	{"nested objects", func(size int) []byte {
		return fill("[0", ","+strings.Repeat(`{"k":`, depth-1)+"0"+strings.Repeat("}", depth-1), size, "]")
	}},
	{"keys of one object", func(size int) []byte {
		text := []byte(`{"":0`)
		for i := 0; len(text) < size-1; i++ {
			text = append(text, `,"`...)
			text = strconv.AppendInt(text, int64(i), 36)
			text = append(text, `":0`...)
		}
		return append(text, '}')
	}},
	{"elements of one array", func(size int) []byte { return fill("[0", ",1", size, "]") }},
	{"objects of one array", func(size int) []byte { return fill("[0", `,{"name":"a","n":1}`, size, "]") }},
	{"white space", func(size int) []byte { return fill("[", " ", size, "]") }},
}

// depth is the deepest that a parser takes by default.
const depth = 512

// fill repeats part until the text has about size bytes.
func fill(start, part string, size int, end string) []byte {
	n := max(0, size-len(start)-len(end)) / len(part)
	var b bytes.Buffer
	b.Grow(size)
	b.WriteString(start)
	for range n {
		b.WriteString(part)
	}
	b.WriteString(end)
	return b.Bytes()
}
