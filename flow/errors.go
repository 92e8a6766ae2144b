package flow

import (
	"strings"

	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/internal/yaml"
)

// FileError is a problem of a workflow file, or of a folder of workflows: File, Line and Column (both from 1; 0 if unknown), the Path of the
// value it is about, and a Message that says what was expected.
type FileError = yaml.Error

// InputError says what does not fit the workflow's input schema.
type InputError struct{ Problems []Problem }

// Problem is one misfit: a JSON Pointer (RFC 6901) into the input, "" for all of it, and what was expected there.
type Problem struct{ Pointer, Detail string }

func (e *InputError) Error() string {
	var found []string
	for _, p := range e.Problems {
		found = append(found, strings.TrimPrefix(p.Pointer+": "+p.Detail, ": "))
	}
	return "the input does not match its schema: " + strings.Join(found, "; ")
}

func list(words []string) string { return schema.List(words) }

func short(s string) string { return wording.Clip(s) }
