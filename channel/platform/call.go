package platform

import (
	"context"
	"errors"
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

// Failure is what an error of a call means.
type Failure struct {
	Busy      bool          // the platform's rate limit was reached
	After     time.Duration // with Busy: how long to wait
	Refused   bool          // the platform did not accept the call
	Permanent bool          // with Refused: it accepts no other to that place either
	Untaken   bool          // nothing of the call was done
}

// Call is a call with what may be done about its failures.
type Call struct {
	Do       func(context.Context) error // makes one attempt
	Judge    func(error) Failure         // of an error that is no [*Unreached]
	Harmless bool                        // repeating changes nothing: an edit, a question
	Brief    bool                        // what the platform asks to wait for is not waited for
}

// NotSent is the error for the kernel of a call that was certainly not accepted; any other error stays as it is.
func NotSent(err error, judge func(error) Failure) error { return failure(err, judge).notSent(err) }

func failure(err error, judge func(error) Failure) Failure {
	if _, dial := errors.AsType[*Unreached](err); dial {
		return Failure{Untaken: true}
	}
	return judge(err)
}

func (f Failure) notSent(err error) error {
	if f.Busy || f.Refused || f.Untaken {
		return &channel.NotSentError{Err: err, Permanent: f.Permanent, Retryable: f.Busy || f.Untaken, RetryAfter: f.After}
	}
	return err
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
		f, wait := failure(err, c.Judge), pauses.NextBackOff()
		told := func(err error) error {
			if open {
				return err
			}
			return f.notSent(err)
		}
		last := n > Again || ctx.Err() != nil
		switch {
		case f.Busy:
			n--
			if wait = f.After; c.Brief || waited+wait > maxWait {
				return told(err)
			}
			waited += wait
		case f.Refused, f.Untaken && last:
			return told(err)
		case f.Untaken:
		case !c.Harmless || last:
			return err
		default:
			open = true
		}
		if cause := backoff.Sleep(ctx, wait); cause != nil {
			if f.Busy || f.Untaken {
				f.After = 0
				return told(cause)
			}
			return err
		}
	}
}

// Persist makes a call until it works, ctx ends, or never reports that its error will last. tell gets each other failure and the
// pause after it.
func Persist(ctx context.Context, call func(context.Context) error, never func(error) bool, judge func(error) Failure, tell func(error, time.Duration)) error {
	for pauses := backoff.New(FirstPause, MaxPause); ; {
		err := call(ctx)
		if err == nil || ctx.Err() != nil || never(err) {
			return err
		}
		wait := max(pauses.NextBackOff(), failure(err, judge).After)
		tell(err, wait)
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}
