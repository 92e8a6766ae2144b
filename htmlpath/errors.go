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
	Limit  string // "depth", "path", "tag", "names" or "document"
	Max    int64
	Offset int64 // bytes before the tag that is too much; of "document", the limit
}

func (e *LimitError) Error() string {
	unit := "bytes"
	switch e.Limit {
	case "depth":
		unit = "levels"
	case "names":
		return fmt.Sprintf("byte %d: the document has more than %d different element names", e.Offset, e.Max)
	}
	return fmt.Sprintf("byte %d: the %s exceeds its limit of %d %s", e.Offset, e.Limit, e.Max, unit)
}
