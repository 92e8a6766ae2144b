package platform

import (
	"context"
	"errors"
	"log/slog"
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

// Call is a call with what may be done about its failures.
type Call struct {
	Do       func(context.Context) error // makes one attempt
	Harmless bool                        // repeating changes nothing: an edit, a question
	Brief    bool                        // what the platform asks to wait for is not waited for
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

// RetryAfter returns how long the platform asks to wait after an error.
func RetryAfter(err error) time.Duration {
	_, after := effectOf(err)
	return after
}

// NotSent is the error for the kernel of a call that was certainly not accepted; any other error stays as it is.
func NotSent(err error) error {
	e, after := effectOf(err)
	return e.notSent(err, after)
}

func (e Effect) notSent(err error, after time.Duration) error {
	if e == Unknown {
		return err
	}
	return &channel.NotSentError{Err: err, Permanent: e == Permanent, Retryable: e == Busy || e == Untaken, RetryAfter: after}
}

// Run makes the call, waits for what the platform asks to wait for, and repeats what certainly was not accepted or does no harm. What it
// returns is what the kernel knows: nil, a [channel.NotSentError], or an error that leaves it open.
func (c *Call) Run(ctx context.Context) error {
	waited, pauses := time.Duration(0), backoff.New(FirstPause, MaxPause)
	open := false // an attempt before may have been accepted, so that of a later one nothing is proven
	for n := 1; ; n++ {
		err := c.Do(ctx)
		if err == nil {
			return nil
		}
		effect, after := effectOf(err)
		notSent := func(err error) error {
			if open {
				return err
			}
			return effect.notSent(err, after)
		}
		wait, last := pauses.NextBackOff(), n > Again || ctx.Err() != nil
		switch {
		case effect == Busy:
			n--
			if wait = after; c.Brief || waited+wait > maxWait {
				return notSent(err)
			}
			waited += wait
		case effect <= Permanent, effect == Untaken && last:
			return notSent(err)
		case effect == Untaken:
		case !c.Harmless || last:
			return err
		default:
			open = true
		}
		if cause := backoff.Sleep(ctx, wait); cause != nil {
			if effect == Unknown {
				return err
			}
			after = 0
			return notSent(cause)
		}
	}
}

// Persist makes a call until it works, ctx ends, or it is refused for a reason that lasts. It logs other failures.
func Persist(ctx context.Context, log *slog.Logger, message string, call func(context.Context) error, lasting ...*Kind) error {
	trouble := Trouble{Log: log}
	for pauses := backoff.New(FirstPause, MaxPause); ; {
		err := call(ctx)
		if err == nil || ctx.Err() != nil || Is(err, lasting...) {
			return err
		}
		trouble.Warn(ctx, message, "error", err)
		if err := backoff.Sleep(ctx, max(pauses.NextBackOff(), RetryAfter(err))); err != nil {
			return err
		}
	}
}
