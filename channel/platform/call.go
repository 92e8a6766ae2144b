package platform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/backoff"
)

const (
	maxWait = 60 * time.Second // how long a turn waits for what the platform asks for, in all

	// Again is how often a call is repeated after a connection that was refused, or after any failure where repeating is harmless.
	Again = 3

	// FirstPause is the longest pause before the first repetition, MaxPause that before any.
	FirstPause = 500 * time.Millisecond
	MaxPause   = 30 * time.Second
)

// Effect is what a refusal means for what was to be sent.
type Effect uint8

// The effects.
const (
	Refused   Effect = iota // the call was not accepted
	Permanent               // nor is any other to that place
	Busy                    // the rate limit was reached
	Untaken                 // nothing was done of the call, which may be repeated
	Unknown                 // the call may have been accepted
)

// Kind is what refusals mean.
type Kind struct {
	Text   string // for the log
	Effect Effect
}

// Kinds that every platform has.
var (
	RateLimited = &Kind{"the platform's rate limit was reached", Busy}
	NotTaken    = &Kind{"the platform is unavailable at the moment", Untaken}
	Down        = &Kind{"the platform is unavailable at the moment", Unknown} // it may have done a part of the work
	Otherwise   = &Kind{"the platform refused the call", Refused}
)

// KindOfStatus returns what the status of an HTTP answer means that says no more.
func KindOfStatus(status int) *Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return RateLimited
	case status == http.StatusServiceUnavailable:
		return NotTaken
	case status >= http.StatusInternalServerError:
		return Down
	}
	return Otherwise
}

// Refusal is a call that a platform has refused. It has no text of the platform's, which may repeat what was sent.
type Refusal struct {
	Kind       *Kind
	Code       string        // of the platform: "status 403"
	RetryAfter time.Duration // with [Busy]
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s (%s)", r.Kind.Text, r.Code) }

// Is reports whether an error is a refusal of one of the kinds.
func Is(err error, kinds ...*Kind) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && slices.Contains(kinds, r.Kind)
}

// Unreached is an attempt whose connection was refused, or that was not begun: nothing of it was sent.
type Unreached struct{ Err error }

func (u *Unreached) Error() string { return "cannot connect to the platform: " + u.Err.Error() }

// Unwrap is why.
func (u *Unreached) Unwrap() error { return u.Err }

// Bare returns the error of a transport without the address, which may have a secret in it. It is an [*Unreached] if there was no connection; else, if the
// call has ended with ctx, the cause of that.
func Bare(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	op, isOp := errors.AsType[*net.OpError](err)
	if _, isDNS := errors.AsType[*net.DNSError](err); isDNS || isOp && op.Op == "dial" {
		return &Unreached{err}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// effectOf returns what an error means, and how long the platform asks to wait.
func effectOf(err error) (e Effect, after time.Duration) {
	if _, ok := errors.AsType[*Unreached](err); ok {
		return Untaken, 0
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Kind.Effect, r.RetryAfter
	}
	return Unknown, 0
}

// NotSent returns the error for the kernel: a [channel.NotSentError] if the call was certainly not accepted, else err.
func NotSent(err error) error {
	effect, after := effectOf(err)
	if effect == Unknown {
		return err
	}
	return &channel.NotSentError{Err: err, Permanent: effect == Permanent, Retryable: effect == Busy || effect == Untaken, RetryAfter: after}
}

// Repeat makes a call, of which do is one attempt. It waits for what the platform asks to wait for, unless the call is brief, and repeats what certainly
// was not accepted, or is harmless: an edit, a question. It returns what the kernel knows: nil, a [channel.NotSentError], or an error that leaves it open.
func Repeat(ctx context.Context, harmless, brief bool, do func(context.Context) error) error {
	pauses, waited, repeated := backoff.New(FirstPause, MaxPause), time.Duration(0), 0
	unknown := false // an attempt may have been accepted, so that no later refusal proves anything
	for {
		err := do(ctx)
		if err == nil {
			return nil
		}
		repeat := false
		effect, pause := effectOf(err)
		switch effect {
		case Busy:
			waited += pause
			repeat = !brief && waited <= maxWait
		case Untaken, Unknown:
			repeat = repeated < Again && (effect == Untaken || harmless)
			pause = pauses.NextBackOff()
			repeated++
		}
		unknown = unknown || effect == Unknown
		if repeat {
			ended := backoff.Sleep(ctx, pause)
			if ended == nil {
				continue
			}
			if effect != Unknown {
				err = fmt.Errorf("%w: %w", ended, err)
			}
		}
		if unknown {
			return err
		}
		return NotSent(err)
	}
}

// Persist makes a call until it works, ctx ends, or it is refused for a reason that lasts. It logs other failures.
func Persist(ctx context.Context, log *slog.Logger, message string, call func(context.Context) error, lasting ...*Kind) error {
	for pauses := backoff.New(FirstPause, MaxPause); ; {
		err := call(ctx)
		if err == nil || ctx.Err() != nil || Is(err, lasting...) {
			return err
		}
		log.WarnContext(ctx, message, "error", err)
		_, after := effectOf(err)
		if err := backoff.Sleep(ctx, max(pauses.NextBackOff(), after)); err != nil {
			return err
		}
	}
}
