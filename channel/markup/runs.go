package markup

import (
	"strings"
	"unicode"
)

// style is how a run of text looks. The zero value is plain text.
type style struct {
	bold, italic, strike, quote bool
	code                        bool   // in a line
	block                       bool   // of code
	lang                        string // of a block
	link                        string
	head                        string // of a table: its first lines, which stand again where it goes on in another piece
}

// run is a piece of text of one style.
type run struct {
	text string
	style
	again string // stands before the text once more: the head of the table that goes on
}

// runs collects text; neighbours of one style are one run.
type runs []run

func (r *runs) add(text string, s style) {
	if text == "" {
		return
	}
	if n := len(*r); n > 0 && (*r)[n-1].style == s {
		(*r)[n-1].text += text
		return
	}
	*r = append(*r, run{text: text, style: s})
}

// trim drops white space at both ends: empty lines before, all of it after.
func (r runs) trim() runs {
	for len(r) > 0 {
		last := &r[len(r)-1]
		if last.text = strings.TrimRightFunc(last.text, unicode.IsSpace); last.text != "" {
			break
		}
		r = r[:len(r)-1]
	}
	for len(r) > 0 {
		if r[0].text = skip(r[0].text); r[0].text != "" {
			break
		}
		r = r[1:]
	}
	return r
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

// slice is what runs have between two places of their text. first is where to begin to look, and what begins at it; it is moved
// along, so that to cut a long text takes no longer than to read it.
func (r runs) slice(from, to int, first *cursor) (part runs) {
	for first.run < len(r) && first.at+len(r[first.run].text) <= from {
		first.at += len(r[first.run].text)
		first.run++
	}
	for i, at := first.run, first.at; i < len(r) && at < to; i++ {
		text := r[i].text
		part = append(part, run{text: text[max(0, from-at):min(len(text), to-at)], style: r[i].style})
		at += len(text)
	}
	return part
}

// headAt is the head of the table that goes on at a place, with the end of its line; "" where none does. near is a run before the place.
func (r runs) headAt(place int, near cursor) string {
	for i, at := near.run, near.at; i < len(r) && at < place; i++ {
		if at+len(r[i].text) > place && r[i].head != "" && at+len(r[i].head) < place {
			return r[i].head + "\n"
		}
		at += len(r[i].text)
	}
	return ""
}

// cursor is a run, and where its text begins.
type cursor struct{ run, at int }

// cutRuns cuts runs into pieces that fit a message.
func cutRuns(r runs, to Format, l Limit) (pieces []runs) {
	text := r.text()
	for at, first := 0, (cursor{}); at < len(text); {
		again := r.headAt(at, first)
		room := l.Unit(again)
		if l.N <= 0 || room > l.N/4 {
			again, room = "", 0
		}
		n := place(text[at:], l.N-room, l.Unit)
		cut := func() runs {
			part := r.slice(at, at+n, &first).trim()
			if len(part) > 0 && part[0].head != "" {
				part[0].again = again
			}
			return part
		}
		part := cut()
		if l.Marked && l.N > 0 {
			// The markup takes room, too: how much is known when it is written.
			for limit := l.N - room; limit > 1; {
				written := l.Unit(write(part, to))
				if written <= l.N {
					break
				}
				seen := min(l.Unit(text[at:at+n]), limit)
				limit = max(1, min(seen-1, seen*l.N/written))
				n = place(text[at:], limit, l.Unit)
				part = cut()
			}
		}
		if len(part) > 0 {
			pieces = append(pieces, part)
		}
		at += n
		at = len(text) - len(skip(text[at:]))
	}
	return pieces
}

// plain is the text of runs, with the addresses of their links where there is room for them.
func plain(r runs, l Limit) string {
	with := write(r, Plain)
	if l.N <= 0 || l.Unit(with) <= l.N {
		return with
	}
	return showMarks.Replace(r.text())
}
