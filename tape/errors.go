package tape

import (
	"errors"

	"github.com/lingserve/lingserve/store"
)

// ErrNameCollision is the error of a session whose tape's name is that of another session's tape: their ids have one hash.
// The caller has to choose another id.
var ErrNameCollision error = &codedError{"conflict", "tape: the name belongs to another session"}

// codedError is an error with the code that callers of the server get.
type codedError struct{ code, text string }

func (e *codedError) Error() string     { return e.text }
func (e *codedError) ErrorCode() string { return e.code }

// These are states that a caller branches on. What a function returns wraps one of them and says what was wrong.
var (
	ErrNotFound       = errors.New("tape: not found")                              // no such tape, blob or session
	ErrNotEmpty       = errors.New("tape: not empty")                              // a batch, an import or a fork wanted a new tape
	ErrDeleted        = errors.New("tape: erased")                                 // the session was erased after the handle was opened
	ErrMoved          = errors.New("tape: another writer appended first")          // the last id is not Batch.IfLast
	ErrAnchorNotFound = errors.New("tape: unknown anchor")                         // a query or a view names an anchor that is not there
	ErrTooLarge       = errors.New("tape: too large")                              // an entry over MaxEntry, or a bounded store is full
	ErrInvalid        = errors.New("tape: invalid")                                // an entry, a name or a query that no store takes
	ErrLeased         = errors.New("tape: another process is writing to the tape") // Leaser without waiting
)

// States of the store itself.
var (
	ErrDamaged = store.ErrDamaged // what is stored is not what was written
	ErrClosed  = store.ErrClosed
	ErrAway    = store.ErrAway   // now; nothing was written
	ErrUnsure  = store.ErrUnsure // the store went away meanwhile
)
