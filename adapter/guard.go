package adapter

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"runtime"
	"time"
)

// guarded is a model with time limits and retries around it.
type guarded struct {
	model    Model
	timeouts Timeouts
	retries  Retries
	slots    *slots // nil where requests are not bounded
	provider string // the prefix of its names, and what stands behind it
	name     string
	takes    []string // kinds of media
	observer Observer // nil is nobody
}

// Stream asks the model, again where that may help and nothing was passed on.
func (g *guarded) Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := g.fit(&req); err != nil {
			yield(Chunk{}, err)
			return
		}
		if account := accountOf(ctx); account != nil {
			release, err := account.ask(ctx, req.Size())
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			defer release()
		}
		attempts := g.retries.Attempts
		if attempts == 0 {
			attempts = 3
		}
		for n := 1; ; n++ {
			asked, span := g.begin(ctx, &req, n)
			passed, err := g.inSlot(asked, span, g.observe(n), &req, yield)
			span.end(context.Cause(ctx), err)
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				yield(Chunk{}, context.Cause(ctx))
				return
			}
			e := asError(err)
			if passed || n >= attempts || !again(e) {
				yield(Chunk{}, e)
				return
			}
			wait, ok := g.retries.wait(n, e.RetryAfter)
			if !ok {
				yield(Chunk{}, e)
				return
			}
			if err := sleep(ctx, wait); err != nil {
				yield(Chunk{}, err)
				return
			}
		}
	}
}

// inSlot is an attempt that has a slot of its provider from its beginning to its end, whatever that is. While it waits for another
// attempt, it has none.
func (g *guarded) inSlot(ctx context.Context, span *attemptSpan, o *observed, req *Request, yield func(Chunk, error) bool) (passed bool, err error) {
	if o != nil {
		defer func() { o.end(context.Cause(ctx), err) }() // after a panic of the reader, too
	}
	if g.slots != nil {
		if err := g.slots.take(ctx); err != nil {
			return false, err
		}
		defer g.slots.give()
		span.inSlot()
	}
	o.sent()
	return g.attempt(ctx, span, o, req, yield)
}

// attempt asks the model once. It says whether a chunk was passed on, and the error that ended it: nil when the answer is
// complete or the reader has left.
func (g *guarded) attempt(ctx context.Context, span *attemptSpan, o *observed, req *Request, yield func(Chunk, error) bool) (passed bool, err error) {
	ctx, w := newWatch(ctx, g.timeouts)
	defer w.stop()
	account := accountOf(ctx)
	chunks, tags := 0, thinking{}
	for chunk, err := range g.ask(ctx, req) {
		if err != nil {
			// A limit's error reaches us through the model as the cause of its context, or hidden in an error of its own.
			if e, ok := errors.AsType[*Error](context.Cause(ctx)); ok {
				err = e
			}
			return passed, err
		}
		passed = true
		token := chunk.Text != "" || chunk.Reasoning != "" || chunk.ToolCall != nil || chunk.ToolResult != nil
		if span != nil {
			span.saw(&chunk, token)
		}
		if o != nil {
			o.saw(&chunk, token)
		}
		tags.take(&chunk)
		w.pause()
		if account != nil {
			if err := account.take(ctx, chunk.size()); err != nil {
				return true, err
			}
		}
		if !yield(chunk, nil) {
			return true, nil
		}
		if chunks++; chunks%yieldEvery == 0 {
			runtime.Gosched()
		}
		w.resume(token)
	}
	return passed, nil
}

// yieldEvery is how many chunks of an answer are passed on until other goroutines have their turn. An answer that comes as fast as it is read
// never waits, so the scheduler would take the processor away from it after 10 ms only: a health check behind a hundred such answers would
// take most of a second.
const yieldEvery = 128

// Size is how many bytes of text, images and files the messages of a request have.
func (r *Request) Size() (n int64) {
	for i := range r.Messages {
		m := &r.Messages[i]
		n += int64(len(m.Content))
		for _, p := range m.Parts {
			n += int64(len(p.Text) + len(p.Image) + len(p.File))
		}
		for _, c := range m.ToolCalls {
			n += int64(len(c.Arguments))
		}
		if m.Made != nil {
			for _, p := range m.Made.Parts {
				n += int64(len(p.Text) + len(p.Data))
			}
		}
	}
	return n
}

// size is how much text a chunk has.
func (c *Chunk) size() int {
	n := len(c.Text) + len(c.Reasoning)
	if c.ToolCall != nil {
		n += len(c.ToolCall.Name) + len(c.ToolCall.Arguments)
	}
	if c.ToolResult != nil {
		n += len(c.ToolResult.Content)
	}
	if c.Beside != nil {
		n += len(c.Beside.Data)
	}
	if c.Media != nil {
		n += len(c.Media.URL)
	}
	return n
}

// ask is a function of its own so that a copy of the request is not on the stack while its answer is read.
//
//go:noinline
func (g *guarded) ask(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	return g.model.Stream(ctx, *req)
}

// again says whether the same request is worth another attempt: not after a long wait for tokens, or for a slot, which would
// only be as long the next time.
func again(e *Error) bool {
	if w, ok := errors.AsType[*waited](e.Cause); ok && w.phase != forConnection || e.Cause == errFull || e.Cause == errMemory {
		return false
	}
	return e.Retryable
}

// wait returns how long to wait after the n-th attempt; false where the provider asks for more than we wait.
func (r Retries) wait(n int, retryAfter time.Duration) (time.Duration, bool) {
	base, top := r.Base, r.Max
	if base <= 0 {
		base = 500 * time.Millisecond
	}
	if top <= 0 {
		top = 20 * time.Second
	}
	if retryAfter > 0 {
		// A little later than asked, and not all at once.
		return retryAfter + rand.N(retryAfter/10+1), retryAfter <= top
	}
	d := top
	if n < 32 && base < top>>(n-1) {
		d = base << (n - 1)
	}
	return d/2 + rand.N(d/2+1), true
}

// sleep waits, or fails with the context's cause.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
