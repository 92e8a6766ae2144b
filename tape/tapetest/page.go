package tapetest

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/tape"
)

// Page yields what q selects of these sessions, the newest entry first: what [tape.Store.Sessions] has to yield.
func Page(infos []tape.Info, q tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) {
		last, err := q.Last()
		if err != nil {
			yield(tape.Info{}, err)
			return
		}
		infos = slices.SortedFunc(slices.Values(infos), newer)
		n := 0
		for _, info := range infos {
			switch {
			case q.Workspace != "" && info.Workspace != q.Workspace, !strings.HasPrefix(info.Session, q.Prefix), q.After != "" && newer(last, info) >= 0, tape.IsFork(info.Tape):
				continue
			case q.Limit > 0 && n == q.Limit, !yield(info, nil):
				return
			}
			n++
		}
	}
}

// newer orders sessions by their last entry, and those of one moment by name.
func newer(a, b tape.Info) int {
	if c := b.Updated.Compare(a.Updated); c != 0 {
		return c
	}
	return cmp.Compare(a.Tape, b.Tape)
}
