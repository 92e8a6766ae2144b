package adapter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"go.opentelemetry.io/otel/attribute"
)

// guarded is a model with time limits and retries around it.
type guarded struct {
	*Registry
	model    Model
	options  Options // where a request says nothing
	timeouts Timeouts
	slots    *slots // nil where requests are not bounded
	provider string // the prefix of its names, and what stands behind it
	name     string
	takes    []string // kinds of media
}

// Stream asks the model, again where that may help and nothing was passed on.
func (g *guarded) Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		q := &question{guarded: g, req: req, held: held{yield: yield}}
		err := q.prepare()
		for n := 1; err == nil; n++ {
			if err = q.attempt(ctx, n); err == nil {
				return
			}
			var counts bool
			if counts, err = q.wait(ctx, n, err); !counts {
				n--
			}
		}
		q.held.fail(err)
	}
}

// question is a request with all its attempts. It is not on the stack: a small stack is kept for as long as an answer is read, by thousands of
// goroutines. For the same reason, separate functions do what only the beginning and the end need.
type question struct {
	*guarded
	req      Request
	held     held
	price    *Price
	wasEmpty bool   // an empty answer is tried again once
	refused  *Error // of the history as it was
}

// prepare makes the request ready for its model.
func (q *question) prepare() error {
	if err := q.fit(&q.req); err != nil {
		return err
	}
	q.req.Options = q.req.Options.Over(q.options)
	if err := q.req.chooseTool(); err != nil {
		return err
	}
	q.req.Messages = history(q.req.Messages, q.provider, q.name)
	if q.Prices != nil {
		if price, known := q.Prices(q.provider, q.name); known {
			q.price = &price
		}
	}
	return nil
}

// wait decides about another attempt after the n-th has failed of err, and waits until it may begin. counts is false if the failed attempt does
// not count. failure is what the answer fails of, if there is no other attempt.
func (q *question) wait(ctx context.Context, n int, err error) (counts bool, failure error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	e := AsError(err)
	if errors.Is(e, ErrEmpty) {
		if q.wasEmpty || q.held.shown { // thoughts were shown, and would be twice
			e = empty(q.held.finish, false)
		}
		q.wasEmpty = true
	}
	refused := (e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity) && (e.Code == CodeProtocol || e.Code == CodeInvalid)
	if !q.held.shown && refused && !e.ContextLength { // for no reason that is known
		// The last resort: the provider may refuse what a provider has added to the history (MO-04).
		var had bool
		if q.req.Messages, had = without(q.req.Messages, func(*Made) bool { return true }); had {
			q.refused = e
			return false, nil // nothing was answered, so nothing is owed
		}
	}
	attempts := q.Retries.Attempts
	if attempts == 0 {
		attempts = 3
	}
	if q.held.shown || n >= attempts || !isRetryable(e) {
		return false, e
	}
	wait, ok := q.Retries.wait(n, e.RetryAfter)
	if !ok {
		return false, e
	}
	notifyRetry(ctx, e.Code, wait, n+1, attempts)
	return true, backoff.Sleep(ctx, wait)
}

// attempt asks the model for the n-th time. It has a slot of its provider from its beginning to its end. It returns the error that ended it:
// nil when the answer is complete or the reader has left.
func (q *question) attempt(ctx context.Context, n int) (err error) {
	q.held.begin("")
	var money *bill
	if q.Budget != nil {
		if money, err = q.Budget.reserve(ctx, q.provider+":"+q.name, q.price, &q.req); err != nil {
			return err
		}
		defer money.pay()
	}
	ctx, a := q.begin(ctx, &q.req, n)
	defer func() { a.end(context.Cause(ctx), err) }() // after a panic of the reader, too
	if q.slots != nil {
		if err := q.slots.acquire(ctx); err != nil {
			return err
		}
		defer q.slots.give()
		if waited := time.Since(a.began); waited >= longWait {
			a.span.SetAttributes(attribute.Float64("lingserve.slot.wait", waited.Seconds()))
		}
	}
	a.observer.Sent()
	if err := q.pass(ctx, a, money); err != nil {
		return err
	}
	if q.refused != nil { // else it was refused for something else
		cause := fmt.Sprintf("%v: %v", RedactError(q.refused), q.refused.Cause)
		q.logFallback(ctx, "without what its provider has added to the history", cause)
	}
	return nil
}

// pass passes on one answer of the model. What is held back at the end is passed on. An answer that says nothing is an error.
func (q *question) pass(ctx context.Context, a *attempt, money *bill) error {
	ctx, w := newWatch(context.WithValue(ctx, guardKey{}, q.guarded), q.timeouts)
	defer w.stop()
	account, h := accountOf(ctx), &q.held
	// Whether its last answer began in the middle of thoughts: its server's prompt ends with the tag that begins them.
	key := q.provider + ":" + q.name + " thinks first"
	_, known := q.noted.Load(key)
	chunks, tags := 0, thinking{known: known}
	defer func() {
		if tags.known {
			q.noted.Store(key, true)
		} else if known {
			q.noted.Delete(key)
		}
	}()
	for chunk, err := range q.stream(ctx) {
		if err != nil {
			// A limit's error reaches us through the model as the cause of its context, or hidden in its own error.
			if e, ok := errors.AsType[*Error](context.Cause(ctx)); ok {
				err = e
			}
			return err
		}
		token := chunk.Text != "" || chunk.Reasoning != "" || chunk.ToolCall != nil || chunk.ToolResult != nil
		if chunk.Usage != nil {
			setCost(&chunk, q.price)
		}
		a.saw(&chunk, token)
		if money != nil {
			if err := money.add(&chunk); err != nil {
				h.shown = true
				return err
			}
		}
		tags.split(&chunk)
		w.pause()
		if account != nil {
			if err := account.pay(ctx, chunk.size()); err != nil {
				h.shown = true // it is not the model that has failed
				return err
			}
		}
		if h.forward(&chunk); h.left {
			return nil
		}
		if chunks++; chunks%yieldEvery == 0 {
			runtime.Gosched()
		}
		w.resume(token)
	}
	w.pause()
	return h.end(true)
}

// stream is not inlined: the copy of the request would stay on the stack while the answer is read.
//
//go:noinline
func (q *question) stream(ctx context.Context) iter.Seq2[Chunk, error] {
	return q.model.Stream(ctx, q.req)
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
			n += int64(len(c.Name) + len(c.Arguments))
		}
		if m.Made != nil {
			for _, p := range m.Made.Parts {
				if p.Type != PartText { // that is Content
					n += int64(len(p.Text) + len(p.Data))
				}
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

// guardKey is the context's key of the model that is asked.
type guardKey struct{}

// LogFallback logs, once for each model and fallback, that a model has refused a request and has answered the same request written in another
// way. An adapter calls it with the context of its request. refusal is what the provider said, without secrets.
func LogFallback(ctx context.Context, fallback, refusal string) {
	if g, _ := ctx.Value(guardKey{}).(*guarded); g != nil {
		g.logFallback(ctx, fallback, refusal)
	}
}

func (g *guarded) logFallback(ctx context.Context, fallback, refusal string) {
	if _, logged := g.noted.LoadOrStore(g.provider+":"+g.name+" "+fallback, true); !logged && g.Log != nil {
		g.Log.WarnContext(ctx, "model refused a request; sent it in another way", "model", g.provider+":"+g.name, "fallback", fallback, "cause", refusal)
	}
}

// isRetryable reports whether the same request is worth another attempt: not after a long wait for tokens, or for a slot, which would
// only be as long the next time.
func isRetryable(e *Error) bool {
	return e.Retryable && e.Cause != errWaited && e.Cause != errFull && e.Cause != errMemory
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
	return backoff.After(n, base, top), true
}
