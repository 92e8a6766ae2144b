package flow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/edits"
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
	b.WriteString("the input does not match its schema: ")
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
	best, most := "", 2
	if len(word) <= 3 {
		most = 1
	}
	for _, k := range known {
		if d := edits.Between(strings.ToLower(word), strings.ToLower(k), most); d <= most && d < len(k) {
			best, most = k, d-1
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

func list(words []string) string { return schema.List(words) }

func short(s string) string { return schema.Short(s) }

func pointer(segments []string) string { return schema.Pointer(segments) }
