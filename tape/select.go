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
	switch {
	case q.FromLast:
		after = max(after, src.Info().LastAnchor.ID-1)
	case starts > 0:
		var start, end int64
		start, end, err = q.anchors(src)
		after, before = max(after, start), min(before, end)
	}
	return after, before, err
}

// anchors returns the bounds that the named anchors of q set.
func (q *Query) anchors(src Source) (after, before int64, err error) {
	name := q.AfterAnchor + q.FromAnchor // one of them
	end := int64(0)                      // of the anchors so far, the first that can end the range
	for e, err := range src.Entries(0, math.MaxInt64, true, true) {
		if err != nil {
			return 0, 0, err
		}
		switch found := AnchorOf(e).Name; {
		case found == name && q.FromAnchor != "":
			return e.ID - 1, math.MaxInt64, nil
		case found == name && q.UntilAnchor == "":
			return e.ID, math.MaxInt64, nil
		case found == name && end == 0:
			return 0, 0, fmt.Errorf("%w: %.140q, after the latest %.140q", ErrAnchorNotFound, q.UntilAnchor, name)
		case found == name:
			return e.ID, end, nil
		case found == q.UntilAnchor:
			end = e.ID
		}
	}
	return 0, 0, fmt.Errorf("%w: %.140q", ErrAnchorNotFound, name)
}
