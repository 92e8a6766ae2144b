package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

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

// broken says whether the connection is what failed, or the server behind it: another try on another connection may do.
func broken(err error) bool {
	if err == nil {
		return false
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "57P01", "57P02", "57P03", "25P03", "53300":
			return true // it ends, starts, or has too many connections
		case "25006":
			return true // it has become a standby: the next connection may reach the one that writes
		}
		return strings.HasPrefix(pg.Code, "08")
	}
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return network || connect || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || pgconn.SafeToRetry(err) || pgconn.Timeout(err)
}

// collided says whether a transaction was broken off for the sake of another one, so that it can be tried again at once.
func collided(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "40001" || pg.Code == "40P01")
}

// waitedTooLong says whether a lock was not had in time.
func waitedTooLong(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// duplicate says whether there is such a row already.
func duplicate(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23505"
}

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
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case connecting:
			return &Error{textAway, err}
		case pg.Code == "53100", pg.Code == "53200", pg.Code == "54000":
			return &Error{textFull, err}
		case pg.Code == "57014", waitedTooLong(err), collided(err): // it took too long, or waited too long for a lock
			return &Error{textBusy, err}
		case broken(err), strings.HasPrefix(pg.Code, "28"), strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "58"):
			return &Error{textAway, err}
		}
		// What it says may have a statement's words in it, and values: its log has all of it.
		return fmt.Errorf("tape: the database of sessions refused a statement (SQLSTATE %s); find the cause in its log", pg.Code)
	}
	if errors.Is(err, errNoConnection) {
		return &Error{textBusy, err}
	}
	if broken(err) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{textAway, err}
	}
	return err
}

// reason is what is written to the log of an error of the database: without values, statements and passwords.
func reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.cause != nil {
		err = e.cause
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return saying(pg.Code)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Error()
	}
	switch {
	case errors.Is(err, errNoConnection):
		return errNoConnection.Error()
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		return "it did not answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, pgconn.ErrConnClosed):
		return "the connection was closed"
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return "cannot connect"
	}
	return "the connection broke"
}

// saying puts what the server has answered into words.
func saying(code string) string {
	words := "it refuses connections"
	switch {
	case code == "3D000":
		words = "the database does not exist"
	case code == "25006":
		words = "it is a read-only standby"
	case code == "53100":
		words = "its disk is full"
	case code == "53300":
		words = "it has no free connections"
	case code == "57014", code == "55P03":
		words = "a statement took too long"
	case strings.HasPrefix(code, "28"):
		words = "it refused the user or the password"
	case strings.HasPrefix(code, "57P"):
		words = "it is starting or shutting down"
	}
	return words + " (SQLSTATE " + code + ")"
}
