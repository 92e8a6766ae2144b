package store

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
)

// LogOptions are the settings of a space: logs that are kept alike.
type LogOptions struct {
	Space      string // a part of a name; see [CheckKey]
	Durability Durability
	Keep       time.Duration // entries are kept at least so long; 0: until they are deleted
	MaxBytes   int64         // of all entries of the space; beyond it, Append gets ErrFull; 0: no bound
	Indexed    bool          // List works, and reading from any number and finding marks cost the same however long the log is
}

// Rev is a revision of a log. Callers compare it and keep it, and cannot read it.
type Rev string

// Revisions of [Batch].After that stand for more than themselves.
const (
	New Rev = ""  // there is no log
	Any Rev = "*" // whatever there is
)

// Entry is one entry of a log.
type Entry struct {
	N    uint64 // its number; 0 in a batch: the next number
	Data []byte // at most MaxEntry bytes
	Mark bool   // can be found without reading other entries
}

// Limits of a batch.
const (
	MaxEntry = 8 << 20
	MaxBatch = 64 << 20 // of the data of all its entries
	MaxHead  = 8 << 10
	MaxLabel = 512
)

// Batch is what one [Log].Append writes, whole or not at all.
type Batch struct {
	ID      [16]byte  // random, and the same at each attempt
	After   Rev       // the revision that the log must have
	Entries []Entry   // none: only the head and the revision change
	Head    []byte    // a summary of the log that Info returns, at most MaxHead bytes; nil: as it was
	Label   string    // with After New: lists select by it, at most MaxLabel bytes
	Updated time.Time // what Info.Updated becomes, in whole microseconds; zero: the time of the append
}

// Info is what is known of a log without reading its entries.
type Info struct {
	Name, Label    string
	Rev            Rev
	First, Last    uint64 // numbers of the first entry that is kept, or Last+1, and of the last that was written; 0 if there was none
	LastMark       uint64 // of the entries that are kept; 0: there is none
	Entries, Bytes int64  // of those that are kept; Bytes are those of their data
	Head           []byte
	Created        time.Time
	Updated        time.Time
}

// Range selects entries of a log.
type Range struct {
	From   uint64 // the lowest number; 0: from the first
	Before uint64 // all numbers are lower; 0: to the last
	Newest bool   // the highest number first
	Marks  bool   // marked entries alone
	Limit  int    // 0: all
}

// Listing selects logs of a space.
type Listing struct {
	Prefix string // of their names; logs whose name has another "/" behind it are left out, as what is in a folder of a folder
	Label  string // the label that they have; "": any
	After  Info   // only logs that come behind it: its Updated and Name are read
	Limit  int    // 0: all
}

// Has reports whether a log is in the listing, wherever it begins.
func (l *Listing) Has(in Info) bool {
	rest, ok := strings.CutPrefix(in.Name, l.Prefix)
	return ok && !strings.Contains(rest, "/") && (l.Label == "" || in.Label == l.Label)
}

// Log holds the logs of one space: named sequences of entries that are only appended to. It is safe for concurrent use. Callers must not
// change the slices that they pass or get.
//
// Numbers start at 1 and rise by one, unless a batch gives a higher one; none is given twice in the life of a log.
type Log interface {
	// Append writes a batch and returns what the log is then. It fails with ErrMoved, which is a [MovedLog], if the revision is not After,
	// unless the batch that was written behind After has the same ID: then that one's Info is the answer. An engine may have forgotten the
	// IDs of all batches but the last. A number that is not above the last is ErrInvalid. A failed Append leaves the log as it was.
	Append(ctx context.Context, name string, b Batch) (Info, error)
	// Info returns what is known of a log, or ErrNotFound. It sees every batch that was acknowledged to anyone before the call.
	Info(ctx context.Context, name string) (Info, error)
	// Read yields entries of the log as it is at the call. An error is the last that it yields, but for an ErrDamaged: that is for one
	// entry, whose number is set, and those behind it follow. A From below First is ErrExpired if entries were removed.
	Read(ctx context.Context, name string, r Range) iter.Seq2[Entry, error]
	// Trim removes, soon, the batches whose entries are all below a number. The last batch may stay. It succeeds if there is no log.
	Trim(ctx context.Context, name string, below uint64) error
	// Delete removes a log and all logs below name+"/". It succeeds if there are none. Readers end with ErrDeleted.
	Delete(ctx context.Context, name string) error
	// List yields the logs of an Indexed space, the one that was updated last first, and of one time by name.
	List(ctx context.Context, l Listing) iter.Seq2[Info, error]
	// Count returns how many logs a listing with this prefix has.
	Count(ctx context.Context, prefix string) (int, error)
	// Sync makes durable what was acknowledged in an Async space: to the logs of these names, or without names to all.
	Sync(ctx context.Context, names ...string) error
}

// LogEngine opens spaces of logs.
type LogEngine interface {
	// Log opens a space and creates it if it does not exist. Everyone who opens it must give the same options.
	Log(ctx context.Context, o LogOptions) (Log, error)
}

// MovedLog is the [ErrMoved] of a batch, and has what the log is.
type MovedLog struct{ Info }

func (m *MovedLog) Error() string {
	if m.Rev == New {
		return fmt.Sprintf("log %q: %v: it is gone", m.Name, ErrMoved)
	}
	return fmt.Sprintf("log %q: %v", m.Name, ErrMoved)
}

// Unwrap returns ErrMoved.
func (m *MovedLog) Unwrap() error { return ErrMoved }

// Check returns what is wrong with a batch for a log: an ErrInvalid or ErrTooLarge.
func (b *Batch) Check(name string) error {
	if err := CheckKey(name); err != nil {
		return err
	}
	switch {
	case b.ID == [16]byte{}:
		return fmt.Errorf("%w: the batch of %q has no ID", ErrInvalid, name)
	case len(b.Head) > MaxHead:
		return fmt.Errorf("%w: the head of %q has %d bytes, at most %d are allowed", ErrTooLarge, name, len(b.Head), MaxHead)
	case len(b.Label) > MaxLabel:
		return fmt.Errorf("%w: the label of %q has %d bytes, at most %d are allowed", ErrTooLarge, name, len(b.Label), MaxLabel)
	case b.Label != "" && b.After != New:
		return fmt.Errorf("%w: the label of %q can be set only by its first batch", ErrInvalid, name)
	}
	size, last := 0, uint64(0)
	for _, e := range b.Entries {
		if e.N != 0 && e.N <= last {
			return fmt.Errorf("%w: an entry of %q has number %d behind %d", ErrInvalid, name, e.N, last)
		}
		last = max(last+1, e.N)
		if len(e.Data) > MaxEntry {
			return fmt.Errorf("%w: an entry of %q has %d bytes, at most %d are allowed", ErrTooLarge, name, len(e.Data), MaxEntry)
		}
		size += len(e.Data)
	}
	if size > MaxBatch {
		return fmt.Errorf("%w: a batch of %q has %d bytes, at most %d are allowed", ErrTooLarge, name, size, MaxBatch)
	}
	return nil
}
