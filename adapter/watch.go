package adapter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Defaults of [Timeouts].
const (
	defaultConnect    = 10 * time.Second
	defaultFirstToken = 60 * time.Second
	defaultIdle       = 60 * time.Second
	defaultTotal      = 10 * time.Minute
)

// noLimit is a hundred years: longer than anything takes, and short enough to be added to a time.
const noLimit = 100 * 365 * 24 * time.Hour

// limit returns the limit that a setting means: the default for zero, [noLimit] for a negative one.
func limit(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return noLimit
	default:
		return d
	}
}

// errWaited is the cause of an error about a time limit. Waiting once more would only take as long.
var errWaited = errors.New("the time limit was reached")

// watch bounds the waiting in one attempt at a stream. One timer serves all limits: it is set for the nearest of them, and when it fires and the
// limit has moved meanwhile, it is set again. So a chunk costs two looks at the clock and no timer operation, and a stream no goroutine. The time
// for connecting is the transport's.
//
// Times are counted from the start, by the monotonic clock.
type watch struct {
	limits Timeouts
	cancel context.CancelCauseFunc
	start  time.Time

	mu       sync.Mutex
	timer    *time.Timer
	fires    time.Duration // when the timer fires; noLimit when it is not running
	answered bool          // there was a token
	deadline time.Duration // of the first or the next token
	total    time.Duration // of the whole answer; moves on by the time spent in the reader
	paused   bool          // the reader has the chunk
	since    time.Duration // of the pause
}

// newWatch starts watching. The context it returns ends, with the *Error as its cause, when a limit is reached.
func newWatch(ctx context.Context, t Timeouts) (context.Context, *watch) {
	w := &watch{start: time.Now(), limits: Timeouts{
		FirstToken: limit(t.FirstToken, defaultFirstToken),
		Idle:       limit(t.Idle, defaultIdle),
		Total:      limit(t.Total, defaultTotal),
	}}
	ctx, w.cancel = context.WithCancelCause(ctx)
	w.deadline, w.total = w.limits.FirstToken, w.limits.Total
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fires = min(w.deadline, w.total)
	w.timer = time.AfterFunc(w.fires, w.fire)
	return ctx, w
}

// stop ends the watch and what runs under its context.
func (w *watch) stop() {
	w.pause()
	w.timer.Stop()
	w.cancel(context.Canceled)
}

// pause is called before the reader gets a chunk.
func (w *watch) pause() {
	w.mu.Lock()
	w.paused, w.since = true, time.Since(w.start)
	w.mu.Unlock()
}

// resume is called when the reader asks for more. The limit between tokens begins anew where there was one.
func (w *watch) resume(token bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.start)
	w.paused = false
	w.total += now - w.since
	if token {
		w.answered, w.deadline = true, now+w.limits.Idle
	} else {
		w.deadline += now - w.since
	}
	w.arm(now)
}

// arm makes sure that the timer fires no later than the nearest limit.
func (w *watch) arm(now time.Duration) {
	if next := min(w.deadline, w.total); next < w.fires {
		w.fires = next
		w.timer.Reset(next - now)
	}
}

// fire ends the context if a limit is reached.
func (w *watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fires = noLimit
	now := time.Since(w.start)
	switch {
	case w.paused: // resume sets the timer again
	case now < min(w.deadline, w.total):
		w.arm(now)
	case w.total <= w.deadline:
		w.expire("the model did not finish its answer within %v", w.limits.Total)
	case w.answered:
		w.expire("the model stopped during its answer and sent nothing for %v", w.limits.Idle)
	default:
		w.expire("the model sent no token within %v", w.limits.FirstToken)
	}
}

func (w *watch) expire(message string, limit time.Duration) {
	w.cancel(&Error{Code: CodeTimeout, Message: fmt.Sprintf(message, limit), Retryable: true, Cause: errWaited})
}
