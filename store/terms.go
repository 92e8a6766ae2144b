package store

import (
	"context"
	"iter"
)

// Terms is what the [Log] of an Indexed space may implement, too: an index for searches. Callers choose the terms of each range of entries.
type Terms interface {
	// Indexed returns how far the index of a log goes. Start is the beginning of the last range that begins at n or before.
	Indexed(ctx context.Context, name string, n uint64) (Indexed, error)
	// Index adds ranges, of which the first begins behind the last entry that is indexed. It fails with ErrMoved if that is not after: another
	// caller has added ranges.
	Index(ctx context.Context, name string, after uint64, ranges []TermRange) error
	// Find yields the entries of all ranges that may have all terms of a query, in order. Marks and Limit of the range are ignored. Errors are
	// like those of [Log.Read].
	Find(ctx context.Context, name string, query []Term, r Range) iter.Seq2[Entry, error]
}

// Indexed is how far an index goes.
type Indexed struct {
	Last   uint64 // the last entry that a range has; 0: there is none
	Behind int64  // how many entries follow it
	Start  uint64 // 0: no range begins there
}

// TermRange is a range of entries and their terms.
type TermRange struct {
	First, Last uint64
	Entries     int64    // how many there are
	Terms       []string // in any order; nil: anything may be in the range
}

// Term is what a range must have: a term, or one that begins with Text.
type Term struct {
	Text   string
	Prefix bool
}
