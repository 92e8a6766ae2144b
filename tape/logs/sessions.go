package logs

import (
	"context"
	"iter"
	"strings"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// groupOf is the part of a session's id that ends with the first '#': the conversation of a channel, whose threads follow the mark. All
// sessions of an owner have one group. It is the label of the tape.
func groupOf(session string) string { return session[:strings.IndexByte(session, '#')+1] }

// Sessions implements [tape.Store].
func (s *Store) Sessions(ctx context.Context, q tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) {
		ctx, done, err := s.enterAll(ctx)
		if err != nil {
			yield(tape.Info{}, err)
			return
		}
		defer done()
		last, err := q.Last()
		if err != nil {
			yield(tape.Info{}, err)
			return
		}
		l := store.Listing{Label: groupOf(q.Prefix), After: store.Info{Name: last.Tape, Updated: last.Updated}}
		for left := q.Limit; ; {
			l.Limit = left
			n := 0
			for in, err := range s.space.List(ctx, l) {
				var st *state
				if err == nil {
					st, err = s.stateOf(ctx, in.Name, in)
				}
				if err != nil {
					yield(tape.Info{}, s.explain("", err))
					return
				}
				n++
				l.After = in
				switch {
				case st.importing, q.Workspace != "" && st.info.Workspace != q.Workspace, !strings.HasPrefix(st.info.Session, q.Prefix):
					continue
				case !yield(st.info, nil):
					return
				}
				left--
			}
			if l.Limit == 0 || n < l.Limit || left == 0 { // else some were not of the query, and others may follow
				return
			}
		}
	}
}

// Count implements [tape.Counter]. An import that has not ended counts.
func (s *Store) Count(ctx context.Context) (int, error) {
	ctx, done, err := s.enterAll(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	n, err := s.space.Count(ctx, "")
	return n, s.explain("", err)
}
