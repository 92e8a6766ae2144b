package tape

import (
	"context"
	"errors"
)

// Observer is told what a store writes, so that it can be counted. It is called synchronously, from many goroutines and sometimes under
// a lock of the store: it must not block.
type Observer interface {
	// Appended is told of a batch: how many bytes it has in the store, or why it has none.
	Appended(entries int, bytes int64, err error)
}

// Refused says of an error of Append that the store is well: the batch did not fit to the tape, or nobody waited for it any more.
func Refused(err error) bool {
	for _, known := range []error{ErrNotFound, ErrNotEmpty, ErrDeleted, ErrMoved, ErrNameCollision, ErrTooLarge, ErrInvalid, ErrLeased, ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
