package markup

import (
	"regexp"
	"strings"
)

// section is a part of a document that is parsed by itself.
type section struct {
	text  string
	plain bool // shown without markup: it is not a text for people, and parsing it would take too long
}

// goldmark's time can grow with the square of the size, of the marks, and of the cells of tables. So a long document is split between
// blocks, and a section without such a place is limited.
const (
	longDocument = 8 << 10 // documents and sections of this size can have any number of marks
	minSection   = 4 << 10 // a section ends at the first good place after it
	maxSection   = 256 << 10
	maxLine      = 32 << 10 // a line can begin thousands of lists, one in the other
	maxMarks     = 8000
	maxCells     = 16 << 10
)

var (
	fenceLine = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)")
	// continues matches a line that may belong to the block before an empty line: it is indented, or an item of a list.
	continues = regexp.MustCompile(`^(?:[ \t\n]|[-*+][ \t\n]|\d+[.)])`)
)

// sections splits a long document between blocks that do not belong to a list.
func sections(source string) (list []section) {
	var b strings.Builder
	fence, blank := "", false // of the block of code at the current line; whether the line before is blank
	marks, longest, lines, columns, cells := 0, 0, 0, 0, 0
	end := func() {
		plain := b.Len() > longDocument && marks > maxMarks || b.Len() > maxSection || longest > maxLine || cells > maxCells
		list = append(list, section{b.String(), plain})
		b.Reset()
		marks, longest, cells = 0, 0, 0
	}
	for line := range strings.Lines(source) {
		if blank {
			lines, columns = 0, 0
			if len(source) > longDocument && b.Len() > minSection && fence == "" && !continues.MatchString(line) {
				end()
			}
		}
		if m := fenceLine.FindStringSubmatch(line); m != nil {
			if fence == "" {
				fence = m[1]
			} else if strings.HasPrefix(m[1], fence) && strings.TrimSpace(m[2]) == "" {
				fence = ""
			}
		}
		longest = max(longest, len(line))
		lines, columns = lines+1, max(columns, strings.Count(line, "|"))
		cells = max(cells, lines*columns)
		for _, mark := range "[<*_~`!&>" {
			marks += strings.Count(line, string(mark))
		}
		b.WriteString(line)
		blank = strings.TrimSpace(line) == ""
	}
	end()
	return list
}
