package htmlpath

import (
	"errors"

	"github.com/lingserve/lingserve/jsonuri"
)

// ErrNoDocument says that text in repair mode has no tag in it.
var ErrNoDocument = errors.New("htmlpath: no HTML in the text")

// ErrClosed says that text was written to a parser after its Close.
var ErrClosed = errors.New("htmlpath: write after close")

// LimitError says which limit a document went over: "depth", "path", "tag" or "document". Its Offset counts the bytes before the tag
// that is too much; of "document", it is the limit.
type LimitError = jsonuri.LimitError
