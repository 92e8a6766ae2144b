package control

import (
	"bytes"
	"context"
	"log/slog"
	"time"
)

// Local is the control of a server that is alone: it asks itself.
type Local struct {
	desk    Desk
	replica string
}

var _ Control = (*Local)(nil)

// NewLocal returns one; log may be nil.
func NewLocal(replica string, log *slog.Logger) *Local {
	return &Local{desk: Desk{Log: log}, replica: replica}
}

// Serve implements [Control].
func (l *Local) Serve(h Handler) (stop func(), err error) { return l.desk.Open(h) }

// Replica implements [Control].
func (l *Local) Replica() string { return l.replica }

// Ask implements [Control].
func (l *Local) Ask(ctx context.Context, replica string, r Request) ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if replica != l.replica {
		return nil, ErrGone
	}
	return l.desk.Ask(ctx, r)
}

// Ask is for who asks the replica that it is itself.
func (d *Desk) Ask(ctx context.Context, r Request) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	type result struct {
		answer []byte
		err    error
	}
	wait := Wait(ctx)
	results := make(chan result, 1)
	r.Body = bytes.Clone(r.Body) // the handler may go on when nobody waits any more
	d.Go(ctx, wait, r, func(answer []byte, err error) {
		select {
		case results <- result{bytes.Clone(answer), err}: // others may get the same one
		default:
		}
	})
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case got := <-results:
		return got.answer, got.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-late.C:
		if _, ok := ctx.Deadline(); ok {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return nil, ErrSilent
	}
}
