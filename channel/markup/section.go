package markup

import "strings"

// section is a part of a document that is parsed by itself.
type section struct {
	text    string
	gap     string // between what is seen of the one before and of this one
	between style  // of the gap
}

const (
	// sectionFrom is what a section has at least before it ends at the next good place, and sectionTo what it has at most where it has more than
	// sectionMarks marks; else it may have sectionMost. There are texts for which the parser takes a time that grows with the square of their
	// length, such as many brackets in a row.
	sectionFrom  = 4 << 10
	sectionTo    = 8 << 10
	sectionMost  = 64 << 10
	sectionMarks = 500
)

// sections cuts a long document: between blocks that are not indented, and so do not belong to a list, and if there is no such place for
// too long, wherever it must be. A block of code goes on in the next section.
func sections(source string) (list []section) {
	if len(source) <= sectionTo {
		return []section{{text: source}}
	}
	var b strings.Builder
	next := section{}
	fence, lang := "", "" // of the block of code that is open
	table := ""           // the head of the table that is open
	before := ""          // the line
	marks := 0            // in the section
	end := func(gap string) {
		if fence != "" && b.Len() > 0 {
			b.WriteString("\n" + fence)
		}
		next.text = b.String()
		list = append(list, next)
		b.Reset()
		marks = 0
		next = section{gap: gap}
		if fence != "" {
			b.WriteString(fence + lang + "\n")
			next.between = style{block: true, lang: language([]byte(lang))}
		}
	}
	blank := false
	for line := range strings.Lines(source) {
		for i := range len(line) {
			if strings.IndexByte("[<*_`~!&>", line[i]) >= 0 {
				marks++
			}
		}
		most := sectionMost
		if marks > sectionMarks {
			most = sectionTo
		}
		if b.Len() > sectionFrom && fence == "" && blank && begins(line) {
			end("\n\n")
		}
		for b.Len()+len(line) > most { // there was no good place
			if b.Len() > max(sectionFrom, len(table)) {
				end("\n")
				if fence == "" && strings.Contains(line, "|") {
					b.WriteString(table)
				}
				continue
			}
			n := place(line, most-b.Len(), Bytes)
			b.WriteString(line[:n])
			gap := ""
			if strings.TrimRight(line[:n], " \t") != line[:n] {
				gap = " "
			}
			line = line[n:]
			end(gap)
			if fence == "" {
				line = goesOn(line)
			}
		}
		b.WriteString(line)
		blank = strings.TrimSpace(line) == ""
		switch {
		case !strings.Contains(line, "|"):
			table = ""
		case table == "" && strings.Trim(line, " \t|:-\n") == "" && strings.Contains(line, "-") && len(before)+len(line) < sectionFrom:
			table = before + line
		}
		before = line
		fence, lang = fenced(line, fence, lang)
	}
	if b.Len() > 0 {
		fence = ""
		end("")
	}
	return list
}

// goesOn is the rest of a line that is cut, so that it begins no block of its own: what would be a mark is a character.
func goesOn(line string) string {
	rest := strings.TrimLeft(line, " \t")
	mark := strings.TrimLeft(rest, "0123456789")
	space := func(s string) bool { return s == "" || strings.IndexByte(" \t\n", s[0]) >= 0 }
	switch {
	case rest == "":
		return line
	case strings.IndexByte(">#=|", rest[0]) >= 0, strings.IndexByte("-+*", rest[0]) >= 0 && space(rest[1:]):
		return line[:len(line)-len(rest)] + `\` + rest
	case mark != rest && mark != "" && strings.IndexByte(".)", mark[0]) >= 0 && space(mark[1:]):
		return line[:len(line)-len(mark)] + `\` + mark
	}
	return line
}

// begins says whether a line behind an empty one begins something new: it is not indented, and no item of a list.
func begins(line string) bool {
	if strings.IndexByte(" \t\n", line[0]) >= 0 {
		return false
	}
	rest := strings.TrimLeft(line, "0123456789")
	if rest == line {
		return !(strings.IndexByte("-*+", line[0]) >= 0 && (len(line) == 1 || strings.IndexByte(" \t\n", line[1]) >= 0))
	}
	return rest == "" || rest[0] != '.' && rest[0] != ')'
}

// fenced follows blocks of code: it returns the fence that is open after a line, and what stood behind it.
func fenced(line, fence, lang string) (string, string) {
	trimmed := strings.TrimLeft(line, " ")
	if len(line)-len(trimmed) > 3 {
		return fence, lang
	}
	trimmed = strings.TrimRight(trimmed, " \t\n")
	mark := len(trimmed) - len(strings.TrimLeft(trimmed, "`"))
	if mark < 3 {
		mark = len(trimmed) - len(strings.TrimLeft(trimmed, "~"))
	}
	if mark < 3 {
		return fence, lang
	}
	behind := trimmed[mark:]
	switch {
	case fence == "" && !(trimmed[0] == '`' && strings.Contains(behind, "`")) && mark <= 64:
		return trimmed[:mark], strings.TrimSpace(behind)
	case fence != "" && behind == "" && strings.HasPrefix(trimmed, fence):
		return "", ""
	}
	return fence, lang
}
