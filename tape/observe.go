package tape

import (
	"context"
	"errors"
)

// Observer counts what a store writes. It is called synchronously, from many goroutines and sometimes under
// a lock of the store: it must not block.
type Observer interface {
	// Appended is called after each append, with the size in the store or the error.
	Appended(entries int, bytes int64, err error)
}

// Refused reports whether an error of Append is not a failure of the store: the batch contradicts the tape, or the context has ended.
func Refused(err error) bool {
	for _, known := range []error{ErrNotFound, ErrNotEmpty, ErrDeleted, ErrMoved, ErrNameCollision, ErrTooLarge, ErrInvalid, ErrLeased, ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
