// Package backoff has the pauses between attempts that fail: each is about twice as long as the one before.
package backoff

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Pauses returns one pause after the other.
type Pauses = backoff.ExponentialBackOff

// New returns pauses that grow from first to max. Each is shortened by up to half at random, so that callers that failed together do not
// all try again together.
func New(first, max time.Duration) *Pauses {
	return &Pauses{
		InitialInterval: min(first, max) * 3 / 4, MaxInterval: max * 3 / 4, Multiplier: 2, RandomizationFactor: 1.0 / 3,
	}
}

// After returns the pause after the n-th attempt.
func After(n int, first, max time.Duration) (pause time.Duration) {
	pauses := New(first, max)
	for range n {
		pause = pauses.NextBackOff()
	}
	return pause
}

// Sleep waits for d. It returns the cause of ctx's end if that comes first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
