package tape

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Tape is a handle on the tape of one session, or of a fork. It is safe for concurrent use and holds nothing that must
// be closed.
type Tape struct {
	store     Store
	name      string
	session   string
	workspace string
	born      time.Time
}

// Name is the tape's name in its store.
func (t *Tape) Name() string { return t.name }

// Session is the id that the tape was opened with.
func (t *Tape) Session() string { return t.session }

// Workspace is the folder that the tape was opened with, absolute and with its links resolved.
func (t *Tape) Workspace() string { return t.workspace }

// Store is the store that holds the tape.
func (t *Tape) Store() Store { return t.store }

var _ = []any{context.Context(nil), json.RawMessage(nil), iter.Seq[int](nil)}
