package adapter

import (
	"context"
	"time"
)

// Retry is a pause before a model is asked once more.
type Retry struct {
	Reason  string `json:"reason"`  // the code of the [Error] of the last attempt
	Seconds int    `json:"seconds"` // of the pause, rounded up
	Attempt int    `json:"attempt"` // the number of the next attempt; the first attempt is 1
	Of      int    `json:"of"`      // the maximum number of attempts
}

// minRetryPause is the shortest pause that [OnRetry] reports. A shorter one is not noticed.
const minRetryPause = time.Second

type onRetry struct{}

// OnRetry returns a context for [Model.Stream]. Models of a [Registry] call notify before each pause of at least a second, in the goroutine
// that reads the answer.
func OnRetry(ctx context.Context, notify func(Retry)) context.Context {
	return context.WithValue(ctx, onRetry{}, notify)
}

// notifyRetry reports a pause to the function of [OnRetry], if there is one.
func notifyRetry(ctx context.Context, reason string, pause time.Duration, attempt, of int) {
	notify, _ := ctx.Value(onRetry{}).(func(Retry))
	if notify != nil && pause >= minRetryPause {
		notify(Retry{Reason: reason, Seconds: int((pause + time.Second - 1) / time.Second), Attempt: attempt, Of: of})
	}
}
