package adapter

import (
	"context"
	"fmt"
	"math"
	"net/http/httptrace"
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

// never is later than every deadline.
const never = time.Duration(math.MaxInt64)

// limit returns the limit that a setting means: the default for zero, [never] for a negative one.
func limit(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return never
	default:
		return d
	}
}

// phase is what is being waited for.
type phase struct{ name, message string }

var (
	forConnection = &phase{"connect", "the server could not connect to the model within %v"}
	forFirstToken = &phase{"first token", "the model sent no token within %v"}
	forNextToken  = &phase{"next token", "the model stopped during its answer and sent nothing for %v"}
	forEnd        = &phase{"whole answer", "the model did not finish its answer within %v"}
)

// waited is the cause of an error about waiting.
type waited struct {
	phase *phase
	limit time.Duration
}

func (w *waited) Error() string { return fmt.Sprintf("%s: limit of %v reached", w.phase.name, w.limit) }

// watch bounds the waiting in one attempt at a stream. One timer serves all limits: it is set for the nearest of them, and
// when it fires and the limit has moved meanwhile, it is set again. So a chunk costs two looks at the clock and no timer
// operation, and a stream no goroutine.
//
// Times are counted from the start, by the monotonic clock.
type watch struct {
	limits Timeouts
	cancel context.CancelCauseFunc
	start  time.Time

	mu       sync.Mutex
	timer    *time.Timer
	armed    time.Duration // when the timer fires; never when it is not running
	waiting  waited        // the phase, and its limit
	deadline time.Duration // of the phase
	total    time.Duration // of the whole answer; moves on by the time spent in the reader
	paused   bool          // the reader has the word
	since    time.Duration // of the pause
	stopped  bool
}

// newWatch starts watching. The context it returns ends, with the *Error as its cause, when a limit is reached.
func newWatch(ctx context.Context, t Timeouts) (context.Context, *watch) {
	w := &watch{start: time.Now(), limits: Timeouts{
		Connect:    limit(t.Connect, defaultConnect),
		FirstToken: limit(t.FirstToken, defaultFirstToken),
		Idle:       limit(t.Idle, defaultIdle),
		Total:      limit(t.Total, defaultTotal),
	}}
	ctx, w.cancel = context.WithCancelCause(ctx)
	// net/http says when it looks for a connection and when it has one. Models that do not use it have no such phase.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { w.enter(forConnection, w.limits.Connect) },
		GotConn: func(httptrace.GotConnInfo) { w.enter(forFirstToken, w.limits.FirstToken) },
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = waited{forFirstToken, w.limits.FirstToken}
	w.deadline, w.total, w.armed = w.limits.FirstToken, w.limits.Total, never
	w.arm(0)
	return ctx, w
}

// stop ends the watch and what runs under its context.
func (w *watch) stop() {
	w.mu.Lock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.cancel(context.Canceled)
}

// enter begins a phase before the answer.
func (w *watch) enter(p *phase, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.waiting.phase == forNextToken {
		return
	}
	now := time.Since(w.start)
	w.waiting, w.deadline = waited{p, d}, after(now, d)
	w.arm(now)
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
	spent := now - w.since
	w.paused = false
	w.total = after(w.total, spent)
	if token {
		w.waiting, w.deadline = waited{forNextToken, w.limits.Idle}, after(now, w.limits.Idle)
	} else {
		w.deadline = after(w.deadline, spent)
	}
	w.arm(now)
}

// arm makes sure that the timer fires no later than the nearest limit.
func (w *watch) arm(now time.Duration) {
	next := min(w.deadline, w.total)
	if next >= w.armed || w.stopped {
		return
	}
	w.armed = next
	if w.timer == nil {
		w.timer = time.AfterFunc(next-now, w.fire)
	} else {
		w.timer.Reset(next - now)
	}
}

// fire looks whether a limit is reached.
func (w *watch) fire() {
	w.mu.Lock()
	w.armed = never
	now := time.Since(w.start)
	if w.paused || w.stopped || now < min(w.deadline, w.total) {
		if !w.paused { // otherwise resume does it
			w.arm(now)
		}
		w.mu.Unlock()
		return
	}
	reached := w.waiting
	if w.total <= w.deadline {
		reached = waited{forEnd, w.limits.Total}
	}
	w.mu.Unlock()
	w.cancel(&Error{Code: CodeTimeout, Message: fmt.Sprintf(reached.phase.message, reached.limit), Retryable: true, Cause: &reached})
}

// after adds durations, where never stays never.
func after(t, d time.Duration) time.Duration {
	if t == never || d > never-t {
		return never
	}
	return t + d
}
