package run

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/internal/wording"
)

// kind is a kind of error. Its code is the word that replicas and clients know it by.
type kind struct{ code, text string }

func (k *kind) Error() string { return "run: " + k.text }

// Kinds of errors, for errors.Is. All but ErrMoved come as an [*Error].
var (
	ErrInvalid    error = &kind{codeInvalid, "invalid request"}
	ErrAhead      error = &kind{codeInvalid, "the event was not sent yet"}
	ErrKeyReused  error = &kind{codeInvalid, "the Idempotency-Key belongs to another request"}
	ErrForbidden  error = &kind{codeForbidden, "forbidden"}
	ErrRole       error = &kind{codeForbidden, "the role may not approve this tool"}
	ErrUnknown    error = &kind{codeNotFound, "unknown"}
	ErrNoQuestion error = &kind{codeNotFound, "no such question"}
	ErrExpired    error = &kind{codeGone, "the run has expired"}
	ErrDamaged    error = &kind{codeGone, "the stored run is damaged"}
	ErrBusy       error = &kind{codeConflict, "busy"}
	ErrEnded      error = &kind{codeConflict, "the run has ended"}
	ErrAnswered   error = &kind{codeConflict, "the question was answered"}
	ErrTooLarge   error = &kind{codeTooLarge, "too large"}
	ErrLimited    error = &kind{codeRateLimited, "a limit of the caller is reached"}
	ErrOverloaded error = &kind{codeOverloaded, "overloaded"}
	ErrAway       error = &kind{codeOverloaded, "a store or a replica cannot be reached"}
	ErrDraining   error = &kind{codeDraining, "draining"}
	ErrInternal   error = &kind{codeInternal, "internal"}
	// ErrMoved says that a run cannot be served here any more, though it may continue at another replica.
	ErrMoved error = &kind{codeOverloaded, "the run moved to another replica"}
)

// Error says why the service did not do what it was asked, in a sentence for the caller.
type Error struct {
	Kind   error // one of the kinds above; errors.Is knows it
	Detail string
	Fields []Field       // what does not fit: of ErrInvalid, ErrTooLarge and ErrKeyReused
	Run    string        // the run that the error is about; "" is none
	ID     string        // of ErrInternal: the log has the cause under it
	Limit  string        // the limit that is reached; "" is none
	Retry  time.Duration // after which another attempt may succeed; 0 is unknown
}

// Field is one thing that does not fit: a JSON Pointer into the request, or the name of a query parameter or header.
type Field struct {
	Pointer   string `json:"pointer,omitempty"`
	Parameter string `json:"parameter,omitempty"`
	Header    string `json:"header,omitempty"`
	Detail    string `json:"detail"`
}

// Bounds of a Field, in bytes.
const (
	maxPointer     = 256
	maxFieldDetail = 1 << 10
)

// Clip returns the field without the ends of long texts: they come from the client, who knows them.
func (f Field) Clip() Field {
	f.Pointer, f.Detail = wording.ClipTo(f.Pointer, maxPointer), wording.ClipTo(f.Detail, maxFieldDetail)
	return f
}

// Error is the sentence for the caller.
func (e *Error) Error() string { return e.Detail }

// Is reports whether the error is of a kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

// RetryAfter is when another attempt may succeed.
func (e *Error) RetryAfter() time.Duration { return e.Retry }

// Code is the word that clients know the error by.
func (e *Error) Code() string {
	return e.Kind.(*kind).code
}

// codeOf is the code of an error of this package; "" is another error.
func codeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code()
	}
	return ""
}

// KindOf is the first kind with a code.
func KindOf(code string) error {
	for _, k := range []error{
		ErrInvalid, ErrForbidden, ErrUnknown, ErrExpired, ErrBusy, ErrTooLarge, ErrLimited, ErrOverloaded, ErrDraining,
	} {
		if k.(*kind).code == code {
			return k
		}
	}
	return ErrInternal
}

// refuse makes an error of a kind.
func refuse(kind error, detail string) *Error { return &Error{Kind: kind, Detail: detail} }

// misfitting makes the error of a request that does not fit. Its detail names the first field, for those who read no further.
func misfitting(fields ...Field) *Error {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i] = fields[i].Clip()
	}
	return &Error{Kind: ErrInvalid, Detail: describeFields(fields), Fields: fields}
}

// describeFields is a sentence about fields.
func describeFields(fields []Field) string {
	if len(fields) == 0 {
		return "the request is invalid"
	}
	f := fields[0]
	detail := f.Detail
	switch {
	case f.Pointer != "":
		detail = f.Pointer + ": " + detail
	case f.Parameter != "":
		detail = "query parameter " + f.Parameter + ": " + detail
	case f.Header != "":
		detail = "header " + f.Header + ": " + detail
	}
	if n := len(fields) - 1; n > 0 {
		detail += " (and " + strconv.Itoa(n) + " more)"
	}
	return detail
}

// tooMuch makes the error of a request that asks for more than a limit allows.
func tooMuch(limit string, f Field) *Error {
	f = f.Clip()
	return &Error{Kind: ErrTooLarge, Limit: limit, Detail: describeFields([]Field{f}), Fields: []Field{f}}
}

// overLimit makes the error of a limit that all callers share.
func overLimit(limit, detail string, retry time.Duration) *Error {
	return &Error{Kind: ErrOverloaded, Limit: limit, Detail: detail, Retry: retry}
}

func unknownRun() *Error { return refuse(ErrUnknown, "unknown run; it never existed or has expired") }

func endedRun(id string) *Error { return &Error{Kind: ErrEnded, Detail: "the run has ended", Run: id} }

func away() *Error {
	return &Error{Kind: ErrAway, Detail: "the server cannot reach its database; retry later", Retry: TapesRetry}
}

// internal makes an error under whose id the log has the cause.
func internal(detail string) *Error { return &Error{Kind: ErrInternal, Detail: detail, ID: NewID()} }

// Elsewhere is the error of what another replica has: it is to be asked in place of this one.
type Elsewhere struct{ Replica string }

func (e *Elsewhere) Error() string { return "run: the replica " + e.Replica + " has it" }
