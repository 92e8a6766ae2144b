package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// atOnce is how many requests are served at the same time. They take no time, but for those that wait for a disk or for the servers that
// replicas share.
const atOnce = 256

// desk runs a handler.
type desk struct {
	log *slog.Logger // of handlers that panic; nil is nowhere

	mu      sync.Mutex
	handler Handler // nil where nobody serves
	ctx     context.Context
	running int
	wg      sync.WaitGroup
	served  served
}

// open takes a handler. stop ends what it does, and waits for that.
func (d *desk) open(h Handler) (stop func(), err error) {
	if h == nil {
		panic("control: a handler is required")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.handler != nil {
		return nil, ErrServed
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.handler, d.ctx = h, ctx
	var once sync.Once
	return func() {
		once.Do(func() {
			d.mu.Lock()
			d.handler = nil
			d.mu.Unlock()
			cancel()
		})
		d.wg.Wait()
	}, nil
}

// serve serves a request, in a goroutine of its own, and calls done once, with an answer, which is not to be changed, or an error:
// [ErrGone] or an [*Error]. The handler's context has the values of ctx, and ends when the time is over. One that is being served, or was,
// is not served again: done gets the answer of the first.
func (d *desk) serve(ctx context.Context, wait time.Duration, r Request, done func([]byte, error)) {
	d.mu.Lock()
	h, end := d.handler, d.ctx
	if k := d.served.find(r, time.Now()); k != nil {
		answer, err, over := k.answer, k.err, k.over
		if !over && !k.add(done) {
			over, err = true, &Error{codeTimeout, "the request is in progress, and too many callers wait for its answer"}
		}
		d.mu.Unlock()
		if over {
			done(answer, err)
		}
		return
	}
	if h == nil {
		d.mu.Unlock()
		done(nil, ErrGone)
		return
	}
	if d.running >= atOnce {
		d.mu.Unlock()
		done(nil, &Error{codeOverloaded, fmt.Sprintf("the replica already serves %d requests, its limit", atOnce)})
		return
	}
	d.running++
	d.wg.Add(1)
	k := d.served.begin(r, done)
	d.mu.Unlock()
	go func() {
		var answer []byte
		var err error = &Error{codeInternal, "the request failed; find the cause in the replica's log"}
		defer func() {
			if p := recover(); p != nil && d.log != nil {
				d.log.LogAttrs(ctx, slog.LevelError, "panic in a request from another replica", slog.String("command", r.Command),
					slog.String("run", r.Run), slog.String("session", r.Session), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			}
			d.mu.Lock()
			wait := d.served.end(k, answer, err, time.Now())
			d.mu.Unlock()
			for _, done := range wait {
				done(answer, err)
			}
			d.mu.Lock()
			d.running--
			d.mu.Unlock()
			d.wg.Done()
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
		defer cancel()
		defer context.AfterFunc(end, cancel)()
		a, failed := h(ctx, r)
		answer, err = a, asError(failed)
		switch {
		case err != nil:
			answer = nil
		case len(answer) > MaxBody:
			answer, err = nil, &Error{"too_large", fmt.Sprintf("the answer has %d bytes; expected at most %d", len(a), MaxBody)}
		}
	}()
}

// asError is what of a handler's error goes to who asks.
func asError(err error) error {
	if err == nil {
		return nil
	}
	code := codeInternal
	if c, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); ok && c.ErrorCode() != "" {
		code = c.ErrorCode()
	}
	return &Error{code, err.Error()}
}

// ask asks the replica itself.
func (d *desk) ask(ctx context.Context, r Request) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	type result struct {
		answer []byte
		err    error
	}
	wait := patience(ctx)
	results := make(chan result, 1)
	r.Body = bytes.Clone(r.Body) // the handler may go on when nobody waits any more
	d.serve(ctx, wait, r, func(answer []byte, err error) {
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

// patience is how long a caller waits: until the deadline of ctx, or for [Patience].
func patience(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(0, time.Until(end))
	}
	return Patience
}
