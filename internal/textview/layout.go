package textview

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// layout writes a document's values as text for people, headings and lists derived from where they stand. What it writes is
// Markdown where it goes to a file, and has bold headings instead of marks where it goes to a terminal.
type layout struct {
	w        io.Writer
	terminal bool
	err      error // of the first write that failed; the rest is not written

	indent  string
	began   bool // something was written
	blank   bool // the last line is empty
	midLine bool
	bold    bool
	last    block
}

type block uint8

const (
	none block = iota
	heading
	paragraph
	line // with a label
	bullet
	item // of a numbered list, with all that is in it
)

// titles are keys whose text heads what they belong to; bodies are keys whose text needs no label.
var (
	titles = []string{"title", "headline", "heading", "name", "topic"}
	bodies = []string{
		"answer", "article", "body", "content", "description", "explanation", "introduction", "message", "output", "reply",
		"response", "summary", "text",
	}
)

// open begins the place of a text or scalar: the headings of what it is in, as far as they are not written, then its own.
func (l *layout) open(p *part) {
	l.indent = ""
	depth, in := 0, (*part)(nil) // elements around p; the innermost numbered one
	named := false               // a heading was written for p already; containers further in need none of their own
	for _, q := range p.ancestors() {
		if q.parent == nil {
			continue
		}
		element := q.parent.kind == array
		if !q.headed {
			q.headed = true
			switch {
			case element:
				q.numbered = !p.heads(q)
			case named:
			case in == nil && !p.heads(q) && !(q.kind == array && len(q.members) > 0 && p.heads(q.members[0])):
				l.head(depth+2, humanize(q.key))
				l.endLine()
				named = true
			}
		}
		if element {
			depth++
			if q.numbered {
				if in = q; in.next == 0 && p.parent == in {
					l.line(item)
					l.put(l.indent + number(in.key) + ". ")
				}
				l.indent += "   "
			}
		}
	}
	switch {
	case p.parent == nil:
		l.paragraph()
	case p.parent.kind == array:
		if in != nil {
			l.line(item)
		} else {
			l.line(bullet)
		}
		l.put(l.indent + "- ")
		l.indent += "  "
	case in != nil && in == p.parent && in.next == 0:
		// The number is before it.
	case in != nil:
		l.line(item)
		l.put(l.indent)
		l.label(p.key)
	case slices.Contains(titles, p.key):
		l.head(depth+1, "")
	case slices.Contains(bodies, p.key):
		l.paragraph()
	default:
		l.line(line)
		l.label(p.key)
	}
}

// ancestors are the containers of p, outermost first.
func (p *part) ancestors() (list []*part) {
	for q := p.parent; q != nil; q = q.parent {
		list = append(list, q)
	}
	slices.Reverse(list)
	return list
}

// heads says whether p is the title of the container q.
func (p *part) heads(q *part) bool { return p.parent == q && slices.Contains(titles, p.key) }

func number(index string) string {
	n, _ := strconv.Atoi(index)
	return strconv.Itoa(n + 1)
}

// humanize makes words of a key: how_it_works and howItWorks are "How it works".
func humanize(key string) string {
	var b strings.Builder
	runes := []rune(key)
	for i, r := range runes {
		switch {
		case r == '_' || r == '-':
			r = ' '
		case unicode.IsUpper(r) && i > 0 && unicode.IsLower(runes[i-1]):
			b.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		if i == 0 {
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
	}
	return Clean(b.String())
}

// head begins a heading. On a terminal it is bold until the line ends.
func (l *layout) head(level int, words string) {
	l.separate()
	l.last = heading
	if l.terminal {
		l.put("\x1b[1m")
		l.bold = true
	} else {
		l.put(strings.Repeat("#", min(level, 6)) + " ")
	}
	l.put(words)
	l.indent = ""
}

func (l *layout) paragraph() {
	l.separate()
	l.last = paragraph
}

// line begins a line; lines of lists stand together.
func (l *layout) line(b block) {
	if l.last == b {
		l.endLine()
	} else {
		l.separate()
	}
	l.last = b
}

func (l *layout) label(key string) {
	l.put(humanize(key) + ": ")
	if l.indent == "" {
		l.indent = "  "
	} else {
		l.indent += "  "
	}
}

// write goes on with the text that is open.
func (l *layout) write(s string) {
	s = Clean(s)
	if l.last == heading {
		s = strings.ReplaceAll(s, "\n", " ")
	}
	if l.indent != "" {
		s = strings.ReplaceAll(s, "\n", "\n"+l.indent)
	}
	l.put(s)
}

// separate makes an empty line between two blocks.
func (l *layout) separate() {
	l.endLine()
	if l.began && !l.blank {
		l.put("\n")
		l.midLine, l.blank = false, true
	}
}

func (l *layout) endLine() {
	if l.bold {
		l.put("\x1b[0m")
		l.bold = false
	}
	if l.midLine {
		l.put("\n")
		l.midLine = false
	}
}

func (l *layout) put(s string) {
	if s == "" || l.err != nil {
		return
	}
	_, l.err = io.WriteString(l.w, s)
	l.began = true
	l.blank = strings.HasSuffix(s, "\n\n") || s == "\n" && !l.midLine
	l.midLine = !strings.HasSuffix(s, "\n")
}

// Clean takes out what would let a model steer the terminal: control characters, and what changes the direction of writing.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError, unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, s)
}
