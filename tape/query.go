package tape

import "iter"

// Query selects entries of a tape. The zero value selects all, oldest first. All parts apply together, the limit last.
type Query struct {
	After, Before int64 // ids between these, exclusive; 0 is open

	FromAnchor string // the latest anchor of this name and what follows it
	FromLast   bool   // the last anchor of any name and what follows it; the complete tape without an anchor

	Kinds  []Kind // any of them; none is all kinds
	Text   string // only entries in which each word occurs, see Tape.Search
	Newest bool   // newest first
	Limit  int    // 0 is no limit
}

// Source is one tape as it was at one moment, as a store has it for Select.
type Source interface {
	// Info tells about the tape.
	Info() Info
	// Entries yields those with after < id < before, in order of id or, with newest, against it: all, or the anchors alone.
	Entries(after, before int64, newest, anchors bool) iter.Seq2[Entry, error]
}
