package adapter

import (
	"errors"
	"strings"
	"time"
)

// Codes of an [Error].
const (
	CodeInvalid     = "invalid_request"
	CodeAuth        = "upstream_auth"
	CodeRateLimited = "upstream_rate_limited"
	CodeUnavailable = "upstream_unavailable"
	CodeTimeout     = "upstream_timeout"
	CodeProtocol    = "upstream_protocol"
	CodeOverloaded  = "overloaded"      // it is we who make no more requests at once, or have no memory; see [Slots], [Ledger]
	CodeTooLarge    = "too_large"       // we have no memory for such an answer; see [Ledger]
	CodeBudget      = "budget_exceeded" // it would cost more than it may; see [Budget]
)

// Error is what went wrong between us and a provider. Its text is safe to show: it names no key, no URL and nothing that the
// provider wrote. What the provider wrote, shortened and with secrets taken out, is in the unwrapped cause, for the log.
type Error struct {
	Code          string
	Message       string
	Retryable     bool
	RetryAfter    time.Duration // how long the provider asked to wait; 0 when it did not
	ContextLength bool          // the request was too long for the model
	Filtered      bool          // the provider's content filter stopped the answer
	OfModel       bool          // we know without asking that this model cannot do it; another one may
	Refused       bool          // it is the messages that were refused: they will be each time they are sent
	Notice        string        // for the author of the message, if it is better than the text for the code; may be ""
	Status        int           // HTTP status, 0 without one
	Cause         error
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.Cause }

// Lasting says whether the same request would fail in the same way a minute later.
func (e *Error) Lasting() bool { return !e.Retryable && e.Code != CodeOverloaded }

// AsError returns the *Error of what a model failed with; one that says nothing where it is another error, whose text may not be shown.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeProtocol, Message: "the model failed", Cause: err}
}

// Explain is an error for who operates the server: its text with what the provider said about it, without secrets. Callers never get to see it.
func Explain(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if e, ok := errors.AsType[*Error](err); ok && e.Cause != nil {
		if cause := e.Cause.Error(); !strings.Contains(text, cause) {
			text += " (" + cause + ")"
		}
	}
	return Redact(text)
}
