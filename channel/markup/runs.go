package markup

import (
	"regexp"
	"strings"
	"unicode"
)

// style is how a run of text looks. The zero value is plain text.
type style struct {
	bold, italic, strike, quote bool
	heading                     int  // level of a heading, in a format that has headings
	code                        bool // within a line
	block                       bool // a block of code
	lang                        string
	link                        string
	head                        string // the first lines of a table, repeated where the table goes on in another piece
}

// run is text of one style.
type run struct {
	text string
	style
	repeat string // the head to write before the text, which is the rest of a table
}

// runs is a formatted text.
type runs []run

// add appends text. Neighbors of one style become one run, unless it is so long that copying it costs too much.
func (r *runs) add(text string, s style) {
	if n := len(*r); n > 0 && (*r)[n-1].style == s && len((*r)[n-1].text) < 1<<12 {
		(*r)[n-1].text += text
	} else if text != "" {
		*r = append(*r, run{text: text, style: s})
	}
}

func (r *runs) append(other runs) {
	for _, one := range other {
		r.add(one.text, one.style)
	}
}

func (r runs) text() string {
	if len(r) == 1 {
		return r[0].text
	}
	var b strings.Builder
	for i := range r {
		b.WriteString(r[i].text)
	}
	return b.String()
}

// first returns a copy of the first n bytes.
func (r runs) first(n int) (part runs) {
	for i := 0; n > 0; i++ {
		one := r[i]
		one.text = one.text[:min(n, len(one.text))]
		part = append(part, one)
		n -= len(one.text)
	}
	return part
}

// drop drops the first n bytes. It changes r.
func (r runs) drop(n int) runs {
	for len(r) > 0 && n >= len(r[0].text) {
		n -= len(r[0].text)
		r = r[1:]
	}
	if n > 0 {
		if head := r[0].head; head != "" && n > len(head) {
			r[0].repeat = head + "\n"
		}
		r[0].text = r[0].text[n:]
	}
	return r
}

// trim drops empty lines from the beginning and white space from the end. It changes r.
func (r runs) trim() runs {
	text := r.text()
	rest := trimLines(text)
	return r.drop(len(text) - len(rest)).first(len(strings.TrimRightFunc(rest, unicode.IsSpace)))
}

// trimLines drops empty lines from the beginning of a text. It keeps the indent of the first line that is left.
func trimLines(text string) string { return text[len(emptyLines.FindString(text)):] }

var emptyLines = regexp.MustCompile(`^\s*\n`)
