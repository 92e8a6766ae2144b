package tape

import (
	"context"
	"fmt"
	"iter"
	"math"
)

// Select yields what q selects of a tape: every store answers Read with it. A query that contradicts itself is ErrInvalid, an
// unknown anchor ErrAnchorNotFound, and the end of ctx its cause.
func Select(ctx context.Context, src Source, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		after, before, err := q.bounds(src)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		if before-after < 2 { // no id between
			return
		}
		match := newMatcher(q)
		n := 0
		for e, err := range src.Entries(after, before, q.Newest, false) {
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if match.selects(e) {
				if n++; !yield(e, nil) || n == q.Limit {
					return
				}
			}
		}
	}
}

// bounds returns the ids between which, exclusive, all entries are that q can select.
func (q *Query) bounds(src Source) (after, before int64, err error) {
	after, before = q.After, q.Before
	if before == 0 {
		before = math.MaxInt64
	}
	switch {
	case q.After < 0 || q.Before < 0 || q.Limit < 0:
		return 0, 0, fmt.Errorf("%w: expected ids and a limit of 0 or more", ErrInvalid)
	case q.FromLast && q.FromAnchor != "":
		return 0, 0, fmt.Errorf("%w: expected only one anchor to start at", ErrInvalid)
	case q.FromLast:
		return max(after, src.Info().LastAnchor.ID-1), before, nil
	case q.FromAnchor == "":
		return after, before, nil
	}
	for e, err := range src.Entries(0, math.MaxInt64, true, true) {
		if err != nil {
			return 0, 0, err
		}
		if AnchorOf(e).Name == q.FromAnchor {
			return max(after, e.ID-1), before, nil
		}
	}
	return 0, 0, fmt.Errorf("%w: %.140q", ErrAnchorNotFound, q.FromAnchor)
}
