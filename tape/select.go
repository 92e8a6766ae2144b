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
		for e, err := range src.Entries(after, before, q.Newest) {
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
	starts := 0
	for _, is := range []bool{q.AfterAnchor != "", q.FromAnchor != "", q.FromLast} {
		if is {
			starts++
		}
	}
	switch {
	case q.After < 0 || q.Before < 0 || q.Limit < 0:
		return 0, 0, fmt.Errorf("%w: expected ids and a limit of 0 or more", ErrInvalid)
	case starts > 1:
		return 0, 0, fmt.Errorf("%w: expected only one anchor to start at", ErrInvalid)
	case q.UntilAnchor != "" && q.AfterAnchor == "":
		return 0, 0, fmt.Errorf("%w: a query that ends at an anchor must start after one", ErrInvalid)
	}
	after, before = q.After, q.Before
	if before == 0 {
		before = math.MaxInt64
	}
	if starts == 0 {
		return after, before, nil
	}
	start, end, err := q.anchors(src)
	return max(after, start), min(before, end), err
}

// anchors returns the bounds that the anchors of q set.
func (q *Query) anchors(src Source) (after, before int64, err error) {
	name := q.AfterAnchor + q.FromAnchor // one of them
	end := int64(0)                      // of the anchors so far, the first that can end the range
	for a, err := range src.Anchors() {
		switch {
		case err != nil:
			return 0, 0, err
		case q.FromLast, a.Name == name && q.FromAnchor != "":
			return a.ID - 1, math.MaxInt64, nil
		case a.Name != name:
			if a.Name == q.UntilAnchor {
				end = a.ID
			}
		case q.UntilAnchor == "":
			return a.ID, math.MaxInt64, nil
		case end == 0:
			return 0, 0, fmt.Errorf("%w: %.140q, after the latest %.140q", ErrAnchorNotFound, q.UntilAnchor, name)
		default:
			return a.ID, end, nil
		}
	}
	if q.FromLast {
		return 0, math.MaxInt64, nil
	}
	return 0, 0, fmt.Errorf("%w: %.140q", ErrAnchorNotFound, name)
}
