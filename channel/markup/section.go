package markup

import "strings"

// goldmark's time can grow with the square of the size, of the marks, and of the cells of tables.
const (
	longDocument = 8 << 10 // documents of this size can have any number of marks
	maxDocument  = 256 << 10
	maxLine      = 32 << 10 // a line can begin thousands of lists, one in the other
	maxMarks     = 8000
	maxCells     = 16 << 10
)

// isHuge reports whether parsing a document would take too long. Such a document is not a text for people.
func isHuge(source string) bool {
	marks, lines, columns := 0, 0, 0
	for line := range strings.Lines(source) {
		if lines++; strings.TrimSpace(line) == "" {
			lines, columns = 0, 0
		}
		columns = max(columns, strings.Count(line, "|"))
		for _, mark := range "[<*_~`!&>" {
			marks += strings.Count(line, string(mark))
		}
		if len(line) > maxLine || lines*columns > maxCells {
			return true
		}
	}
	return len(source) > longDocument && marks > maxMarks || len(source) > maxDocument
}
