package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

const (
	attemptWait = 2 * time.Second // for one answer: a disk that is slow takes less
	// How long a call waits for servers that do not answer, with the last attempt: an election takes up to 9 s.
	patience         = 13 * time.Second
	patienceDetached = 4 * time.Second // without a connection
	// Between attempts, at first and at last.
	firstPause, lastPause = 10 * time.Millisecond, 250 * time.Millisecond
)

// waits are how long is waited for servers.
type waits struct{ answer, patience, detached time.Duration }

var defaultWaits = waits{attemptWait, patience, patienceDetached}

// errChanged says that a key has changed since it was read, so that it is read again.
var errChanged = errors.New("changed meanwhile")

// awayError is a [store.ErrAway].
type awayError struct{ cause error }

func (e *awayError) Error() string { return store.ErrAway.Error() + ": " + e.cause.Error() }

// Unwrap leaves out the time of an attempt that was over: a caller would take it for its own.
func (e *awayError) Unwrap() []error {
	if errors.Is(e.cause, context.DeadlineExceeded) {
		return []error{store.ErrAway}
	}
	return []error{store.ErrAway, e.cause}
}

// unsure is the error of a write that may have been stored though it has failed.
func unsure(err error) error {
	if away, ok := errors.AsType[*awayError](err); ok {
		err = away.cause
	}
	return fmt.Errorf("%w: %w", store.ErrUnsure, err)
}

// again calls do until it succeeds or fails for good. If the servers are away for too long, the error is [store.ErrAway].
func (p *place) again(ctx context.Context, do func(ctx context.Context) error) error {
	changed := 0
	for began, pause := time.Now(), firstPause; ; {
		if err := cmp.Or(context.Cause(ctx), context.Cause(p.e.end)); err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, p.e.waits.answer)
		err := do(attempt)
		cancel()
		gone := erased(err)
		switch {
		case err == nil, final(err):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case cluster.Full(err):
			return fmt.Errorf("%w: %w", store.ErrFull, err)
		case !gone && !cluster.Passing(err) && !errors.Is(err, errChanged), p.tooLate(began):
			return &awayError{err}
		}
		if errors.Is(err, errChanged) {
			if changed++; changed == 1 {
				continue // the second time others are faster again, or a message is being stored that cannot be seen yet
			}
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-ctx.Done():
		case <-p.e.end.Done():
		}
		if gone {
			p.remake(ctx)
		}
	}
}

// tooLate reports whether a call that began then has waited long enough.
func (p *place) tooLate(began time.Time) bool {
	conn, waited := p.e.c.Conn(), time.Since(began)
	return conn.IsClosed() || waited >= p.e.waits.patience || waited >= p.e.waits.detached && !conn.IsConnected()
}

// final reports whether an error is an answer.
func final(err error) bool {
	for _, known := range []error{
		store.ErrNotFound, store.ErrMoved, store.ErrFull, store.ErrTooLarge, store.ErrInvalid, store.ErrDamaged, store.ErrClosed,
		store.ErrDeleted, store.ErrExpired,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// erased reports whether an operator may have deleted the stream.
func erased(err error) bool {
	return cluster.Code(err) == jetstream.JSErrCodeStreamNotFound || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// remake makes the stream again if it does not exist.
func (p *place) remake(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	if _, err := p.e.c.JetStream().Stream(ctx, p.name); errors.Is(err, jetstream.ErrStreamNotFound) {
		if p.make(ctx) == nil && p.remade != nil { // else the caller tries again
			p.remade()
		}
	}
}
