package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
)

// exitUnread is the code of a check that could not read everything.
const exitUnread = 2

// damage is what is wrong with a session, as check prints it.
type damage struct {
	Session string `json:"session"`
	Damage  string `json:"damage"`
}

// check reads all sessions to the end, and says which are damaged. It returns the exit code.
func (t *tapes) check(ctx context.Context) (code int, err error) {
	var sessions, entries, bytes, damaged int64
	for in, err := range t.store.Sessions(ctx, tape.SessionQuery{}) {
		if err != nil {
			return exitUnread, err
		}
		n, what, err := t.readable(ctx, in)
		if err != nil {
			return exitUnread, err
		}
		sessions, entries, bytes = sessions+1, entries+n, bytes+in.Bytes
		if what == "" {
			continue
		}
		damaged++
		if err := t.damage(damage{in.Session, what}); err != nil {
			return exitFailed, err
		}
	}
	if !t.json {
		what := "nothing is damaged"
		if damaged > 0 {
			what = wording.Plural(damaged, "damaged session")
		}
		if _, err := fmt.Fprintf(t.stdout, "%s, %d entries, %d bytes: %s\n", wording.Plural(sessions, "session"), entries, bytes, what); err != nil {
			return exitFailed, err
		}
	}
	if damaged > 0 {
		return exitFailed, nil
	}
	return exitOK, nil
}

// readable reads a session to the end. It returns how many entries it has read, and what is wrong; nothing of a session that is erased
// meanwhile.
func (t *tapes) readable(ctx context.Context, in tape.Info) (n int64, what string, err error) {
	for _, err := range t.store.Read(ctx, in.Tape, tape.Query{Before: in.LastID + 1}) {
		switch {
		case err == nil:
			n++
		case errors.Is(err, tape.ErrDeleted), errors.Is(err, tape.ErrNotFound):
			return n, "", nil
		case ctx.Err() != nil, errors.Is(err, tape.ErrAway):
			return n, "", err
		default:
			return n, err.Error(), nil
		}
	}
	if n < in.Entries {
		what = fmt.Sprintf("%d entries expected, only %d readable", in.Entries, n)
	}
	return n, what, nil
}

func (t *tapes) damage(d damage) error {
	if t.json {
		return printJSON(t.stdout, d)
	}
	_, err := fmt.Fprintf(t.stdout, "session %s: %s\n", show(d.Session), d.Damage)
	return err
}
