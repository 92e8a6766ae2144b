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

	uri    string // of the text that was written last
	indent string
	tail   string // the last two characters, at first those of an empty line
	bold   bool
	last   block
}

type block uint8

const (
	none block = iota
	heading
	paragraph
	line // with a label
	bullet
	numbered // item of a list, with all that is in it
)

// titles are keys whose text heads what they belong to; bodies are keys whose text needs no label.
var (
	titles = []string{"title", "headline", "heading", "name", "topic"}
	bodies = []string{
		"answer", "article", "body", "content", "description", "explanation", "introduction", "message", "output", "reply",
		"response", "summary", "text",
	}
)

// open begins a text or scalar, the last value of a path: the headings of what it is in, as far as they are not written, then its own.
func (l *layout) open(path []level) {
	l.indent = ""
	last := len(path) - 1
	leaf := path[last]
	heads := func(i int) bool { return i == last-1 && slices.Contains(titles, leaf.key) } // the leaf is the title of path[i]
	depth, item := 0, 0                                                                   // elements around the leaf; which one is the innermost numbered one
	named := false                                                                        // a heading was written; containers further in need none
	for i, q := range path[:last] {
		element := i > 0 && path[i-1].node.Kind() == '['
		titled := heads(i) || q.node.Kind() == '[' && path[i+1].key == "0" && heads(i+1)
		switch {
		case q.headed || i == 0:
		case element:
			q.numbered = !heads(i)
		case !named && item == 0 && !titled:
			l.head(depth+2, humanize(q.key))
			l.endLine()
			named = true
		}
		if q.headed = true; !element {
			continue
		}
		depth++
		if q.numbered {
			if item = i; i == last-1 && q.next == 0 {
				n, _ := strconv.Atoi(q.key)
				l.line(numbered)
				l.put(l.indent + strconv.Itoa(n+1) + ". ")
			}
			l.indent += "   "
		}
	}
	switch {
	case last == 0:
		l.separate(paragraph)
	case path[last-1].node.Kind() == '[':
		if item > 0 {
			l.line(numbered)
		} else {
			l.line(bullet)
		}
		l.put(l.indent + "- ")
		l.indent += "  "
	case item > 0 && item == last-1 && path[item].next == 0:
		// The number is before it.
	case item > 0:
		l.line(numbered)
		l.put(l.indent)
		l.label(leaf.key)
	case slices.Contains(titles, leaf.key):
		l.head(depth+1, "")
	case slices.Contains(bodies, leaf.key):
		l.separate(paragraph)
	default:
		l.line(line)
		l.label(leaf.key)
	}
}

// humanize makes words of a key: how_it_works is "How it works".
func humanize(key string) string {
	words := Clean(strings.NewReplacer("_", " ", "-", " ").Replace(key))
	first, n := utf8.DecodeRuneInString(words)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + words[n:]
}

// head begins a heading. On a terminal it is bold until the line ends.
func (l *layout) head(level int, words string) {
	l.separate(heading)
	if l.terminal {
		l.put("\x1b[1m")
		l.bold = true
	} else {
		l.put(strings.Repeat("#", min(level, 6)) + " ")
	}
	l.put(words)
	l.indent = ""
}

// line begins a line; lines of lists stand together.
func (l *layout) line(b block) {
	if l.last == b {
		l.endLine()
	} else {
		l.separate(b)
	}
}

func (l *layout) label(key string) {
	l.put(humanize(key) + ": ")
	l.indent += "  "
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
func (l *layout) separate(next block) {
	l.endLine()
	if l.tail != "\n\n" {
		l.put("\n")
	}
	l.last = next
}

func (l *layout) endLine() {
	if l.bold {
		l.put("\x1b[0m")
		l.bold = false
	}
	if !strings.HasSuffix(l.tail, "\n") {
		l.put("\n")
	}
}

func (l *layout) put(s string) {
	if l.err == nil {
		_, l.err = io.WriteString(l.w, s)
		l.tail += s
		l.tail = l.tail[len(l.tail)-2:]
	}
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
