package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
)

// exitUnread is the status of a check that could not read everything.
const exitUnread = 2

// damage is a damaged session.
type damage struct {
	Session string `json:"session"`
	Damage  string `json:"damage"`
}

// check reads all sessions to the end, and prints which are damaged.
func (t *tapes) check(ctx context.Context, _ []string) error {
	var sessions, entries, bytes, damaged int64
	for in, err := range t.store.Sessions(ctx, tape.SessionQuery{}) {
		var read int64
		var what string
		if err == nil {
			read, what, err = t.readSession(ctx, in)
		}
		if err != nil {
			printError(t.err, err)
			return exitStatus(exitUnread)
		}
		sessions, entries, bytes = sessions+1, entries+read, bytes+in.Bytes
		if what == "" {
			continue
		}
		damaged++
		if t.json {
			err = printJSON(t.out, damage{in.Session, what})
		} else {
			_, err = fmt.Fprintf(t.out, "session %s: %s\n", show(in.Session), what)
		}
		if err != nil {
			return err
		}
	}
	if !t.json {
		what := "nothing is damaged"
		if damaged > 0 {
			what = wording.Plural(damaged, "damaged session")
		}
		if _, err := fmt.Fprintf(t.out, "%s, %d entries, %d bytes: %s\n", wording.Plural(sessions, "session"), entries, bytes, what); err != nil {
			return err
		}
	}
	if damaged > 0 {
		return exitStatus(exitFailed)
	}
	return nil
}

// readSession reads a session to the end. It returns the number of entries, and the damage; a session that is deleted in the meantime has none.
func (t *tapes) readSession(ctx context.Context, in tape.Info) (entries int64, damage string, err error) {
	for _, err := range t.store.Read(ctx, in.Tape, tape.Query{Before: in.LastID + 1}) {
		switch {
		case err == nil:
			entries++
		case errors.Is(err, tape.ErrDeleted), errors.Is(err, tape.ErrNotFound):
			return entries, "", nil
		case ctx.Err() != nil, errors.Is(err, tape.ErrAway):
			return entries, "", err
		default:
			return entries, err.Error(), nil
		}
	}
	if entries < in.Entries {
		damage = fmt.Sprintf("%d entries expected, only %d readable", in.Entries, entries)
	}
	return entries, damage, nil
}
