package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

// Error says that the database did not do what it was asked to, for a reason that is nobody's mistake and may pass. Its text can be
// shown to anybody; what is behind it is in the log.
type Error struct {
	text  string
	cause error
}

func (e *Error) Error() string { return "tape: " + e.text }

// ErrorCode says to those who sort errors by codes that it is worth while to try again later.
func (*Error) ErrorCode() string { return "overloaded" }

// Is tells [tape.ErrAway] and [tape.ErrUnsure], for those who tell users.
func (e *Error) Is(target error) bool {
	return target == tape.ErrAway && e.text == textAway || target == tape.ErrUnsure && e.text == textUnknown
}

// Unwrap returns what the database, or the way to it, said.
func (e *Error) Unwrap() error { return e.cause }

const (
	textAway    = "the database of sessions is unreachable; retry later"
	textBusy    = "the database of sessions is overloaded; retry later"
	textFull    = "the database of sessions has no space; retry later"
	textUnknown = "the database of sessions disconnected during a write, so it may or may not be stored; check before you retry"
)

// explain makes of an error what callers are told. ctx is theirs.
func explain(ctx context.Context, err error) error {
	switch {
	case err == nil, tape.Refused(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, database.ErrNotTried) {
		return &Error{textAway, err}
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case connecting:
			return &Error{textAway, err}
		case pg.Code == "53100", pg.Code == "53200", pg.Code == "54000":
			return &Error{textFull, err}
		case pg.Code == "57014", database.WaitedTooLong(err), database.Collided(err): // it took too long, or waited too long for a lock
			return &Error{textBusy, err}
		case database.Broken(err), strings.HasPrefix(pg.Code, "28"), strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "58"):
			return &Error{textAway, err}
		}
		// What it says may have a statement's words in it, and values: its log has all of it.
		return fmt.Errorf("tape: the database of sessions refused a statement (SQLSTATE %s); find the cause in its log", pg.Code)
	}
	if database.Exhausted(err) {
		return &Error{textBusy, err}
	}
	if database.Broken(err) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{textAway, err}
	}
	return err
}
