package htmlpath

import (
	"errors"
	"fmt"
)

// ErrNoDocument says that text in repair mode has no tag in it.
var ErrNoDocument = errors.New("htmlpath: no HTML in the text")

// ErrClosed says that text was written to a parser after its Close.
var ErrClosed = errors.New("htmlpath: write after close")

// LimitError says which limit a document went over.
type LimitError struct {
	Limit  string // "depth", "path", "tag" or "document"
	Max    int64
	Offset int64 // bytes before the tag that is too much; of "document", the limit
}

func (e *LimitError) Error() string {
	unit := "bytes"
	if e.Limit == "depth" {
		unit = "levels"
	}
	return fmt.Sprintf("byte %d: the %s exceeds its limit of %d %s", e.Offset, e.Limit, e.Max, unit)
}
