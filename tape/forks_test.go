package tape_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// DC-10: whoever erases a session erases its words, which its forks have too.
func TestASessionIsErasedWithItsForks(t *testing.T) {
	ctx, store := t.Context(), tapetest.NewMemory(nil)
	open := func(session string) *tape.Tape {
		tp, err := tape.Open(ctx, store, "/w", session)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tp.Append(ctx, tape.NewMessage("user", "of "+session)); err != nil {
			t.Fatal(err)
		}
		return tp
	}
	fork := func(of *tape.Tape, session string, at int64) *tape.Tape {
		tp, err := of.ForkSession(ctx, session, at)
		if err != nil {
			t.Fatal(err)
		}
		return tp
	}
	s, other := open("s"), open("other")
	first := fork(s, "first", 0)
	fork(first, "of first", 0)
	fork(first, "of first, before it was a fork", 1)
	second := fork(s, "second", 0)
	fork(other, "of other", 0)

	left := func() (sessions []string) {
		for in, err := range store.Sessions(ctx, tape.SessionQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, in.Session)
		}
		slices.Sort(sessions)
		return sessions
	}
	if err := second.DeleteWithForks(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if got := left(); len(got) != 6 || slices.Contains(got, "second") {
		t.Errorf("a fork was erased; left are %q", got)
	}
	failure, told := errors.New("no"), 0
	err := s.DeleteWithForks(ctx, func(*tape.Tape) error { told++; return failure })
	if got := left(); !errors.Is(err, failure) || told != 1 || len(got) != 6 {
		t.Errorf("%v; left are %q", err, got)
	}
	if err := s.DeleteWithForks(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if got := left(); !slices.Equal(got, []string{"of other", "other"}) {
		t.Errorf("left are %q", got)
	}
}
