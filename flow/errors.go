package flow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/schema"
)

// FileError says where a workflow file is wrong: file, line and column (both from 1; 0 when not known), and what was expected.
type FileError struct {
	File         string
	Line, Column int
	Message      string
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// InputError says what does not fit the workflow's input schema.
type InputError struct{ Problems []Problem }

// Problem is one misfit: a JSON Pointer (RFC 6901) into the input, "" for all of it, and what was expected there.
type Problem struct{ Pointer, Detail string }

func (e *InputError) Error() string {
	var b strings.Builder
	b.WriteString("the input does not fit: ")
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteString("; ")
		}
		if p.Pointer != "" {
			b.WriteString(p.Pointer + ": ")
		}
		b.WriteString(p.Detail)
	}
	return b.String()
}

// maxProblems bounds what is reported of one file: more would hide the first, which is often the cause of the rest.
const maxProblems = 50

// join sorts problems by place, so that a reader goes through the file from top to bottom.
func join(problems []*FileError) error {
	if len(problems) == 0 {
		return nil
	}
	first := problems[0].File
	slices.SortStableFunc(problems, func(a, b *FileError) int {
		if c := cmp.Compare(a.File, b.File); c != 0 {
			switch first { // the workflow's own file before those that it names
			case a.File:
				return -1
			case b.File:
				return 1
			}
			return c
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	problems = slices.CompactFunc(problems, func(a, b *FileError) bool { return *a == *b })
	var errs []error
	for i, p := range problems {
		if i == maxProblems {
			errs = append(errs, &FileError{File: first, Message: fmt.Sprintf("and %d more problems", len(problems)-i)})
			break
		}
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// suggest returns `, did you mean "x"?` with the known word that is nearest to word, or "".
func suggest(word string, known []string) string {
	best, distance := "", 3
	if len(word) <= 3 {
		distance = 2
	}
	for _, k := range known {
		if d := edits(strings.ToLower(word), strings.ToLower(k)); d < distance && d < len(k) {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// edits counts how many letters must be put in, left out, changed or swapped with their neighbour to make a of b.
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var rows [3][65]int
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, above, twoAbove := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], twoAbove[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}

func list(words []string) string { return schema.List(words) }

func short(s string) string { return schema.Short(s) }

func pointer(segments []string) string { return schema.Pointer(segments) }
