package jsonuri

import "errors"

// ErrNoDocument says that text in repair mode holds nothing like a JSON document.
var ErrNoDocument = errors.New("jsonuri: no JSON document in the text")

// SyntaxError says where text is not JSON, and what was expected there (RFC 8259).
type SyntaxError struct {
	Offset       int64 // bytes before the error
	Line, Column int   // from 1; the column counts bytes
	Found        string
	Expected     string
}

func (e *SyntaxError) Error() string { panic("jsonuri: not built yet") }

// LimitError says which limit a document went over.
type LimitError struct {
	Limit  string // "depth", "document", "key" or "number"
	Max    int64
	Offset int64
}

func (e *LimitError) Error() string { panic("jsonuri: not built yet") }
