package bot

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot/prompt"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/jsonuri"
)

// Codes of errors that are not the model's server's.
const (
	CodeInvalid       = "invalid_request"
	CodeOutputInvalid = "output_invalid"
	CodeOutputRefused = "output_refused"
	CodeConflict      = "conflict"
	CodeTooLarge      = "too_large"
	CodeLimitReached  = "limit_reached" // a workflow's own bound keeps a bot from starting
	CodeInternal      = "internal"
)

// Failure is an error whose text may be shown to users; its cause is for the log. Custom bots and tasks that want to say
// more than "internal error" return one.
type Failure struct {
	Code      string // one of the protocol's; "" is CodeInternal
	Message   string
	Pointer   string // JSON Pointer into the result, where there is a place
	Retryable bool
	Filtered  bool // the content filter of the model's provider stopped the answer
	// RetryAfter is how long the model's server asks to wait before that; 0 where it does not.
	RetryAfter time.Duration
	ID         string // by which the log has the cause of what is internal; "" is none
	Cause      error
}

func (f *Failure) Error() string { return f.Message }
func (f *Failure) Unwrap() error { return f.Cause }

// Lasting says whether the same request would fail in the same way a minute later.
func (f *Failure) Lasting() bool { return !f.Retryable && f.Code != "" && f.Code != CodeInternal }

// Describe finds in err what may be shown of it: a [*Failure], or what it is made to; known is false where there was nothing,
// and the answer says only that something failed.
func Describe(err error) (f Failure, known bool) {
	if f, ok := errors.AsType[*Failure](err); ok {
		d := *f
		if d.Code == "" {
			d.Code = CodeInternal
		}
		return d, true
	}
	if e, ok := errors.AsType[*adapter.Error](err); ok {
		return Failure{Code: e.Code, Message: e.Message, Retryable: e.Retryable, Filtered: e.Filtered, RetryAfter: e.RetryAfter, Cause: e.Cause}, true
	}
	if e, ok := errors.AsType[*prompt.Error](err); ok {
		return Failure{Code: CodeInvalid, Message: "cannot render a prompt: " + e.Error()}, true
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Failure{Code: adapter.CodeTimeout, Message: "the time limit was reached", Retryable: true, Cause: err}, true
	case errors.Is(err, context.Canceled):
		return Failure{Code: CodeInternal, Message: "canceled", Cause: err}, true
	}
	return Failure{Code: CodeInternal, Message: "internal error", Cause: err}, false
}

// NewLogID returns an id by which an operator finds an error in the log that a user has seen.
func NewLogID() string {
	id := make([]byte, 6)
	rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// Internal logs what must not be shown, and returns an error that says where to find it.
func Internal(ctx context.Context, log *slog.Logger, what string, cause error, attrs ...slog.Attr) *Failure {
	name := NewLogID()
	if log != nil {
		attrs = append(attrs, slog.String("id", name), slog.Any("error", cause))
		log.LogAttrs(ctx, slog.LevelError, what, attrs...)
	}
	return &Failure{Code: CodeInternal, Message: "internal error; find it in the server's log as " + name, ID: name, Cause: cause}
}

// Panicked makes the error of a panic that was recovered. The stack goes to the log, and nothing of it to users.
func Panicked(ctx context.Context, log *slog.Logger, where string, value any) *Failure {
	cause, ok := value.(error)
	if !ok {
		cause = errors.New("panic")
	}
	return Internal(ctx, log, "panic in a bot or task", cause, slog.String("in", where), slog.Any("panic", value), slog.String("stack", string(debug.Stack())))
}

// Pointer writes a uri as a JSON Pointer (RFC 6901); "" where it is not a uri.
func Pointer(uri string) string {
	segments, err := jsonuri.Parse(uri)
	if err != nil {
		return ""
	}
	return schema.Pointer(segments)
}
