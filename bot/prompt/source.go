package prompt

import (
	"slices"
	"sort"
	"strings"
)

// source is a template as it was read.
type source struct {
	name      string
	text      string
	rewritten string   // what pongo2 gets
	anchors   []anchor // where the two differ
	lines     []int    // offsets of the lines of text
	outLines  []int    // offsets of the lines of rewritten
	elements  []element
	roots     []string // first segments of all paths
	free      []string // paths that must come from outside
}

// anchor says that from out on the rewritten text goes on with in of the original.
type anchor struct{ out, in int }

// element is a variable or tag of a template.
type element struct {
	offset int
	needs  []path   // what must be there before it is executed
	sized  []string // names that it gives to computed values, which must not grow without bound
	// condition is that of an if or elif.
	condition *condition
}

// path is a variable that is read.
type path struct {
	segments []string
	offset   int
	bound    bool // the template itself gives the first segment
}

func (p path) String() string { return strings.Join(p.segments, ".") }

// position gives line and column of an offset of the original.
func (s *source) position(offset int) (line, column int) {
	i, found := slices.BinarySearch(s.lines, offset)
	if !found {
		i--
	}
	return i + 1, offset - s.lines[i] + 1
}

// original finds the offset in the original of a place in the rewritten text.
func (s *source) original(line, column int) int {
	if line > len(s.outLines) {
		return len(s.text)
	}
	out := s.outLines[line-1] + column - 1
	i := sort.Search(len(s.anchors), func(i int) bool { return s.anchors[i].out > out })
	offset := out
	if i > 0 {
		offset = s.anchors[i-1].in + out - s.anchors[i-1].out
	}
	if i < len(s.anchors) {
		offset = min(offset, s.anchors[i].in)
	}
	return max(0, min(offset, len(s.text)))
}

func lineOffsets(text string) []int {
	offsets := []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			offsets = append(offsets, i+1)
		}
	}
	return offsets
}
