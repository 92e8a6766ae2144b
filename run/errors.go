package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// kind is a kind of error. Its code is the word that replicas and clients know it by.
type kind struct{ code, text string }

func (k *kind) Error() string { return "run: " + k.text }

// Codes of errors that events have, too.
const (
	codeConflict   = "conflict"
	codeTooLarge   = "too_large"
	codeOverloaded = "overloaded"
	codeDraining   = "draining"
	codeInternal   = "internal"
	codeCrashed    = "crashed"
)

// Kinds of errors, for errors.Is. All but ErrMoved come as an [*Error].
var (
	ErrInvalid    error = &kind{"invalid_request", "invalid request"}
	ErrAhead      error = &kind{"invalid_request", "the event was not sent yet"}
	ErrKeyReused  error = &kind{"invalid_request", "the Idempotency-Key belongs to another request"}
	ErrForbidden  error = &kind{"forbidden", "forbidden"}
	ErrUnknown    error = &kind{"not_found", "unknown"}
	ErrExpired    error = &kind{"gone", "the run has expired"}
	ErrDamaged    error = &kind{"gone", "the stored run is damaged"}
	ErrBusy       error = &kind{codeConflict, "busy"}
	ErrEnded      error = &kind{codeConflict, "the run has ended"}
	ErrTooLarge   error = &kind{codeTooLarge, "too large"}
	ErrLimited    error = &kind{"rate_limited", "a limit of the caller is reached"}
	ErrOverloaded error = &kind{codeOverloaded, "overloaded"}
	ErrAway       error = &kind{codeOverloaded, "a store or a replica cannot be reached"}
	ErrDraining   error = &kind{codeDraining, "draining"}
	ErrInternal   error = &kind{codeInternal, "internal"}
	// ErrMoved says that a run cannot be served here any more, though it may continue at another replica.
	ErrMoved error = &kind{codeOverloaded, "the run moved to another replica"}
)

// KindOf returns the first kind with a code.
func KindOf(code string) error {
	kinds := []error{ErrInvalid, ErrForbidden, ErrUnknown, ErrExpired, ErrBusy, ErrTooLarge, ErrLimited, ErrOverloaded, ErrDraining}
	if i := slices.IndexFunc(kinds, func(k error) bool { return k.(*kind).code == code }); i >= 0 {
		return kinds[i]
	}
	return ErrInternal
}

// Error says why the service did not do what it was asked, in a sentence for the caller.
type Error struct {
	Kind   error // one of the kinds above; errors.Is knows it
	Detail string
	Fields []Field       // what is invalid: of ErrInvalid and ErrTooLarge; Detail is about the first
	Run    string        // the run that the error is about; "" is none
	ID     string        // of ErrInternal: the log has the cause under it
	Limit  string        // the limit that is reached; "" is none
	Retry  time.Duration // after which another attempt may succeed; 0 is unknown
}

// Field is one invalid member of a request: a JSON Pointer, or the name of a query parameter or header.
type Field struct {
	Pointer   string `json:"pointer,omitempty"`
	Parameter string `json:"parameter,omitempty"`
	Header    string `json:"header,omitempty"`
	Detail    string `json:"detail"`
}

// Error is the sentence for the caller.
func (e *Error) Error() string { return e.Detail }

// Is reports whether the error is of a kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Code is the word that clients know the error by.
func (e *Error) Code() string { return e.Kind.(*kind).code }

// codeOf is the code of an error of this package; "" is another error.
func codeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code()
	}
	return ""
}

// refuse makes an error of a kind.
func refuse(kind error, detail string) *Error { return &Error{Kind: kind, Detail: detail} }

// misfitting makes the error of a request with invalid fields.
func misfitting(fields ...Field) *Error {
	return &Error{Kind: ErrInvalid, Detail: strings.TrimPrefix(fields[0].Pointer+": "+fields[0].Detail, ": "), Fields: fields}
}

// misfit makes the error of a request with one invalid member.
func misfit(pointer, detail string) *Error {
	return misfitting(Field{Pointer: pointer, Detail: detail})
}

// tooMuch makes the error of a request with a member beyond a limit.
func tooMuch(limit, pointer, detail string) *Error {
	e := misfit(pointer, detail)
	e.Kind, e.Limit = ErrTooLarge, limit
	return e
}

// Limits, in the log and in metrics.
const (
	LimitMemory   = "limit_memory"
	LimitAllRuns  = "limit_all_runs"
	LimitInput    = "limit_input"
	LimitImages   = "limit_images"
	LimitQueue    = "limit_queue"
	LimitSessions = "limit_sessions"
	LimitDisk     = "limit_disk_free"

	// Retry times of refusals.

	memoryRetry   = 10 * time.Second
	runsRetry     = 2 * time.Second  // one run of thousands ends soon
	DiskRetry     = 30 * time.Second // an operator has to make room
	SessionsRetry = 30 * time.Second // sessions do not end by themselves
	TapesRetry    = 5 * time.Second  // mostly the database is being started
)

// overLimit makes the error of a limit that all callers share.
func overLimit(limit, detail string, retry time.Duration) *Error {
	return &Error{Kind: ErrOverloaded, Limit: limit, Detail: detail, Retry: retry}
}

// littleMemory makes the error of a server that is short of memory.
func littleMemory(detail string) *Error { return overLimit(LimitMemory, detail, memoryRetry) }

// diskFull makes the error of a disk that is full or has failed.
func diskFull() *Error {
	return overLimit(LimitDisk, "the server's disk is full or has failed, so it refuses sessions and requests with an Idempotency-Key; retry later", DiskRetry)
}

// draining makes the error of a server that shuts down.
func draining() *Error {
	detail := "the server is shutting down and starts no new runs; retry on another server, or later"
	return &Error{Kind: ErrDraining, Detail: detail, Retry: 2 * time.Second}
}

// away makes the error of a database that cannot be reached.
func away() *Error {
	return &Error{Kind: ErrAway, Detail: "the server cannot reach its database; retry later", Retry: TapesRetry}
}

// internal makes an error under whose id the log has the cause, which it writes there as a message with attributes.
func (s *Service) internal(ctx context.Context, detail, message string, attrs ...any) *Error {
	e := &Error{Kind: ErrInternal, Detail: detail, ID: NewID()}
	s.log.ErrorContext(ctx, message, append([]any{"id", e.ID}, attrs...)...)
	return e
}

// Elsewhere is the error of a run or session that another replica has. The caller forwards the request to it.
type Elsewhere struct{ Replica string }

func (e *Elsewhere) Error() string { return "run: the replica " + e.Replica + " has it" }
