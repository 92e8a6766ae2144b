package tape

import (
	"context"
	"iter"
	"time"
)

// MaxEntry is the most bytes of one entry's line.
const MaxEntry = 8 << 20

// Store holds tapes. All methods are safe for concurrent use. [CheckName] accepts the names of tapes, and [Name] returns such names.
//
// A store does not implement the rules of batches, queries and listings again: [Batch.Check], [Batch.Number], [Select] and [Info.Add] are made
// for it, and tapetest.Run checks all that is documented here.
type Store interface {
	// Append writes a batch to the end of a tape, all of it or nothing, and returns the id of its first entry. It keeps nothing of b.
	Append(ctx context.Context, name string, b Batch) (first int64, err error)

	// Import makes the tape of these entries, whose ids rise and are kept, or leaves everything as it was and returns the error: that of
	// entries, ErrNotEmpty, or its own. session and workspace are those of Batch.
	Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[Entry, error]) error

	// Read yields what q selects of the tape as it is when the reading begins. An error is the last pair: ErrNotFound for a tape that does
	// not exist, ErrDeleted if it is erased while it is read, ErrAnchorNotFound, the context's. An entry's payload and meta may be kept by the
	// reader but not changed.
	Read(ctx context.Context, name string, q Query) iter.Seq2[Entry, error]

	// Info tells about a tape without reading it. A tape that does not exist is ErrNotFound.
	Info(ctx context.Context, name string) (Info, error)

	// Sessions lists the tapes, the one with the newest entry first, without reading a tape.
	Sessions(ctx context.Context, q SessionQuery) iter.Seq2[Info, error]

	// Count returns how many sessions an owner has, see [OwnerOf]; "" counts those of all.
	Count(ctx context.Context, owner string) (int, error)

	// Unused lists at most limit sessions whose last entry is from before a date, the oldest first: all, or only those that no request has
	// named.
	Unused(ctx context.Context, before time.Time, unnamed bool, limit int) ([]Info, error)

	// Delete erases a tape and its blobs. Erasing what does not exist is no error.
	Delete(ctx context.Context, name string) error

	// PutBlob stores data beside a tape that exists and returns its handle, the same for the same data.
	PutBlob(ctx context.Context, name string, data []byte) (handle string, err error)

	// ReadBlob returns at most limit bytes from offset on, and the blob's full size. An offset at or behind the end gives no data and no error;
	// a handle of another tape is ErrNotFound; a blob that is not what was written may be ErrDamaged. offset and limit are not negative.
	ReadBlob(ctx context.Context, name, handle string, offset, limit int64) (data []byte, size int64, err error)

	// Lease gives the caller the tape's lease, whether the tape exists or not. While another process, or another caller in this one, has it,
	// Lease waits for it until ctx ends, or with wait false returns ErrLeased. The lease of a process that died is free within 30 s.
	Lease(ctx context.Context, name string, wait bool) (Lease, error)

	// Close ends the store; what was appended is durable then. Later calls give ErrClosed.
	Close() error
}

// Leaser gives leases as [Store] does.
type Leaser interface {
	Lease(ctx context.Context, name string, wait bool) (Lease, error)
}

// Lease is held until it is released or lost.
type Lease interface {
	// Lost is closed when the lease is lost, because the store could not be reached in time: stop working. Releasing it does not close it.
	Lost() <-chan struct{}
	// Release gives the lease back. It may be called more than once.
	Release()
}

// Batch is what one Append writes. The zero conditions append to the end of a tape that exists.
type Batch struct {
	// Entries of the batch, one at least. Their ids are given by the store, unless KeepIDs; a zero date becomes now.
	Entries []Entry

	// Create makes the tape: where it has an entry already, the batch is refused with ErrNotEmpty. Without Create, a
	// tape that does not exist is ErrNotFound: so a handle never brings back what was erased.
	Create bool

	// Session and Workspace, with Create, say whose tape it is, where the entries do not: those of an import are of the
	// session that was exported. See Info.
	Session, Workspace string

	// KeepIDs keeps the entries' own ids. They must rise and be above the tape's last.
	KeepIDs bool

	// IfLast, when not 0, is the last id that the tape must have, else ErrMoved.
	IfLast int64

	// Born, when not zero, is the date that the tape's first entry must have, else ErrDeleted: the tape was erased, and
	// made again under the same name.
	Born time.Time
}

// Info is what is known of a tape without reading it.
type Info struct {
	Tape       string    // its name
	Session    string    // readable id
	Workspace  string    // folder the session works in
	Title      string    // beginning of the first user message, 60 code points at most
	Agent      string    // name of the agent that the newest turn or command was for; "" where no entry names one
	Created    time.Time // date of the first entry
	Updated    time.Time // date of the last entry
	Entries    int64
	LastID     int64
	Anchors    int64
	LastAnchor AnchorRef // zero without an anchor
	Bytes      int64     // size of the entries in the store
}

// AnchorRef says where an anchor is.
type AnchorRef struct {
	ID   int64
	Name string
	Date time.Time
}

// SessionQuery selects sessions. The zero value lists all of them.
type SessionQuery struct {
	Workspace string // only of this workspace; "" is any
	Prefix    string // only those whose ids begin with it; "" is any
	After     string // Info.Cursor of the last one seen; "" begins with the newest
	Limit     int    // 0 is no limit
}
