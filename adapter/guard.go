package adapter

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
)

// guarded is a model with time limits and retries around it.
type guarded struct {
	model    Model
	options  Options // where a request says nothing
	timeouts Timeouts
	retries  Retries
	slots    *slots // nil where requests are not bounded
	provider string // the prefix of its names, and what stands behind it
	name     string
	takes    []string     // kinds of media
	observer Observer     // nil is nobody
	log      *slog.Logger // nil is none
	noted    *sync.Map    // models of which it was told
	prices   func(provider, model string) (Price, bool)
	budget   *Budget // nil is none
}

// Stream asks the model, again where that may help and nothing was passed on.
func (g *guarded) Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := g.fit(&req); err != nil {
			yield(Chunk{}, err)
			return
		}
		req.Options = req.Options.Over(g.options)
		if err := req.chooseTool(); err != nil {
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
		req.Messages = history(req.Messages, g.provider, g.name)
		var money *bill
		price := g.price()
		if g.budget != nil {
			var err error
			if money, err = g.budget.reserve(ctx, g.provider+":"+g.name, price, &req); err != nil {
				yield(Chunk{}, err)
				return
			}
			defer money.settle()
		}
		attempts := g.retries.Attempts
		if attempts == 0 {
			attempts = 3
		}
		var h held
		wasEmpty := false  // an empty answer is tried again once
		var refused *Error // of the history as it was
		for n := 1; ; n++ {
			h.begin("")
			asked, span := g.begin(ctx, &req, n)
			err := g.inSlot(asked, &attempt{span, g.observe(n), price, money}, &req, &h, yield)
			span.end(context.Cause(ctx), err)
			if err == nil {
				if refused != nil { // else it was refused for something else
					g.note(ctx, refused)
				}
				return
			}
			if ctx.Err() != nil {
				h.fail(yield, context.Cause(ctx))
				return
			}
			e := asError(err)
			if errors.Is(e, ErrEmpty) {
				if wasEmpty || h.shown { // thoughts were shown, and would be twice
					e = empty(h.finish, false)
				}
				wasEmpty = true
			}
			if !h.shown && ofRequest(e) {
				// The last resort: it may be the history that is refused for what its provider put beside it (MO-04).
				var had bool
				if req.Messages, had = without(req.Messages); had {
					refused = e
					n-- // nothing was answered, so nothing is owed
					continue
				}
			}
			if h.shown || n >= attempts || !again(e) {
				h.fail(yield, e)
				return
			}
			wait, ok := g.retries.wait(n, e.RetryAfter)
			if !ok {
				h.fail(yield, e)
				return
			}
			if err := money.again(); err != nil {
				h.fail(yield, err)
				return
			}
			notifyRetry(ctx, e.Code, wait, n+1, attempts)
			if err := backoff.Sleep(ctx, wait); err != nil {
				h.fail(yield, err)
				return
			}
		}
	}
}

// price returns the price of the model; nil where it is not known.
func (g *guarded) price() *Price {
	if g.prices == nil {
		return nil
	}
	p, ok := g.prices(g.provider, g.name)
	if !ok {
		return nil
	}
	return &p
}

// attempt is what goes along with an attempt; all may be nil.
type attempt struct {
	span  *attemptSpan
	seen  *observed
	price *Price
	money *bill
}

// inSlot is an attempt that has a slot of its provider from its beginning to its end, whatever that is. While it waits for another
// attempt, it has none.
func (g *guarded) inSlot(ctx context.Context, a *attempt, req *Request, h *held, yield func(Chunk, error) bool) (err error) {
	if o := a.seen; o != nil {
		defer func() { o.end(context.Cause(ctx), err) }() // after a panic of the reader, too
	}
	if g.slots != nil {
		if err := g.slots.take(ctx); err != nil {
			return err
		}
		defer g.slots.give()
		a.span.inSlot()
	}
	a.seen.sent()
	return g.attempt(ctx, a, req, h, yield)
}

// attempt asks the model once. It returns the error that ended it: nil when the answer is complete or the reader has left. What h holds back at
// the end is passed on. An answer that says nothing is an error.
func (g *guarded) attempt(ctx context.Context, a *attempt, req *Request, h *held, yield func(Chunk, error) bool) error {
	if g.log != nil {
		ctx = context.WithValue(ctx, guardKey{}, g)
	}
	ctx, w := newWatch(ctx, g.timeouts)
	defer w.stop()
	account := accountOf(ctx)
	chunks, tags := 0, thinking{known: g.thinksFirst()}
	if g.noted != nil {
		defer func(before bool) {
			if tags.known != before {
				g.setThinksFirst(tags.known)
			}
		}(tags.known)
	}
	for chunk, err := range g.model.Stream(ctx, *req) {
		if err != nil {
			// A limit's error reaches us through the model as the cause of its context, or hidden in an error of its own.
			if e, ok := errors.AsType[*Error](context.Cause(ctx)); ok {
				err = e
			}
			return err
		}
		token := chunk.Text != "" || chunk.Reasoning != "" || chunk.ToolCall != nil || chunk.ToolResult != nil
		if chunk.Usage != nil {
			setCost(&chunk, a.price)
		}
		if a.span != nil {
			a.span.saw(&chunk, token)
		}
		if a.seen != nil {
			a.seen.saw(&chunk, token)
		}
		if a.money != nil {
			if err := a.money.take(&chunk); err != nil {
				h.shown = true
				return err
			}
		}
		tags.take(&chunk)
		w.pause()
		if account != nil {
			if err := account.take(ctx, chunk.size()); err != nil {
				h.shown = true // it is not the model that has failed
				return err
			}
		}
		h.said = h.said && !chunk.Restart || chunk.says()
		if (!h.shown || chunk.Usage != nil || chunk.Finish != "") && !h.take(&chunk) { // of most chunks there is nothing to take
			w.resume(token)
			continue
		}
		if len(h.chunks) > 0 && !h.flush(yield) || !yield(chunk, nil) {
			return nil
		}
		if chunks++; chunks%yieldEvery == 0 {
			runtime.Gosched()
		}
		w.resume(token)
	}
	if h.silent() {
		return empty(h.finish, true)
	}
	w.pause()
	h.flush(yield)
	return nil
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

// ofRequest says whether a provider refuses what was asked of it, for no reason that is known.
func ofRequest(e *Error) bool {
	return (e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity) && !e.ContextLength && (e.Code == CodeProtocol || e.Code == CodeInvalid)
}

// note logs, once for each model, that a history was taken only without what its provider put beside it.
func (g *guarded) note(ctx context.Context, e *Error) {
	if g.log == nil {
		return
	}
	if _, told := g.noted.LoadOrStore(g.provider+":"+g.name, true); told {
		return
	}
	g.log.WarnContext(ctx, "model refuses its own reasoning; asking without it", "model", g.provider+":"+g.name,
		"error", RedactError(e), "cause", e.Cause)
}

// thinksFirst reports whether the model's last answer began in the middle of thoughts: its server's prompt ends with the tag that begins them.
func (g *guarded) thinksFirst() bool {
	if g.noted == nil {
		return false
	}
	_, known := g.noted.Load(g.provider + ":" + g.name + " thinks first")
	return known
}

func (g *guarded) setThinksFirst(known bool) {
	if key := g.provider + ":" + g.name + " thinks first"; known {
		g.noted.Store(key, true)
	} else {
		g.noted.Delete(key)
	}
}

// guardKey is the context's key of the model that is asked.
type guardKey struct{}

// LogFallback logs, once for each model and fallback, that a model has refused a request and has answered the same request written in another
// way. An adapter calls it with the context of its request. refusal is what the provider said, without secrets.
func LogFallback(ctx context.Context, fallback, refusal string) {
	g, _ := ctx.Value(guardKey{}).(*guarded)
	if g == nil {
		return
	}
	if _, logged := g.noted.LoadOrStore(g.provider+":"+g.name+" "+fallback, true); !logged {
		g.log.WarnContext(ctx, "model refused a request; sent it in another way", "model", g.provider+":"+g.name, "fallback", fallback, "cause", refusal)
	}
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
	return backoff.After(n, base, top), true
}
