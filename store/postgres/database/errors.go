package database

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// errNoConnection is the cause where all connections were in use for too long.
var errNoConnection = errors.New("all connections are in use")

// ErrNotTried is the cause if a call has not tried to reach the database, because it has been away for longer than calls wait.
var ErrNotTried = errors.New("it has been away for some time")

// Exhausted reports whether all connections were in use for too long.
func Exhausted(err error) bool { return errors.Is(err, errNoConnection) }

// Broken says whether the connection is what failed, or the server behind it: another try on another connection may do.
func Broken(err error) bool {
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

// Collided says whether a transaction was broken off for the sake of another one, so that it can be tried again at once.
func Collided(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "40001" || pg.Code == "40P01")
}

// WaitedTooLong says whether a lock was not had in time.
func WaitedTooLong(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// Duplicate says whether there is such a row already.
func Duplicate(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23505"
}

// Reason is what is written to the log of an error of the database: without values, statements and passwords.
func Reason(err error) string {
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
