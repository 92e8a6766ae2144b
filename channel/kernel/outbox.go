package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
)

// Sender sends the replies of a login that were kept. Send is required.
type Sender struct {
	Send func(context.Context, channel.Outbound) (channel.Receipt, error)
	// Reconcile asks the platform whether a reply was sent; nil: it cannot be asked.
	Reconcile func(context.Context, channel.Outbound) (channel.Receipt, error)
	// Idempotent says that the platform takes a second send with the same Block.Key for the first. IdempotentFor says that it does so for a while, which
	// begins when the reply is stored.
	Idempotent    bool
	IdempotentFor time.Duration
}

// ignoresCopies reports whether the platform will take a second send of a reply, after a pause, for the first.
func (s *Sender) ignoresCopies(w *waiting, pause time.Duration) bool {
	return s.Idempotent || time.Since(w.created)+pause < s.IdempotentFor
}

// outbox sends replies that were stored, in the order of each target. A reply that is proven not to be sent is tried again, with a growing pause, for a
// day. One of which that is not known is sent again only where that does no harm; else the conversation is told once that it may be missing.
type outbox struct {
	queue *Queue
	wake  chan struct{}

	mu      sync.Mutex
	sending map[int64]int // attempts of this process that go on
	closed  bool
	wg      sync.WaitGroup
}

const (
	sendsAtOnce  = 4 // beside those of turns
	sendTimeout  = 2 * time.Minute
	replyLife    = 24 * time.Hour
	shortestWait = 2 * time.Second
	longestWait  = 30 * time.Minute
)

// waiting is a reply that was stored.
type waiting struct {
	id       int64
	out      channel.Outbound
	attempts int // this one included
	created  time.Time
	unsure   bool
}

// hold notes that a turn makes the first attempt to send a reply.
func (o *outbox) hold(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending[id]++
}

// start claims replies and sends them.
func (o *outbox) start() (next time.Time) {
	o.mu.Lock()
	held := slices.Sorted(maps.Keys(o.sending))
	o.mu.Unlock()
	c := o.queue.claim(max(sendsAtOnce-len(held), 1))
	if len(c.Logins) == 0 {
		return time.Time{}
	}
	q := o.queue
	replies, next, err := q.kernel.Store.ClaimReplies(q.ctx, c, held)
	if err != nil {
		if q.ctx.Err() == nil {
			q.o.Log.WarnContext(q.ctx, "cannot read the replies of channels; retrying", "error", err)
		}
		return time.Time{}
	}
	for _, r := range replies {
		w := &waiting{id: r.ID, attempts: r.Attempts, created: r.Created, unsure: r.Unsure}
		if err := json.Unmarshal(r.Block, &w.out); err != nil {
			o.end(q.ctx, w, channel.Receipt{State: channel.NotSent}, err)
			continue
		}
		q.mu.Lock()
		h := q.handlers[r.Login]
		q.mu.Unlock()
		if h == nil {
			_ = q.kernel.Store.PostponeReply(q.ctx, r.ID, q.o.Replica, time.Now(), r.Unsure) // the channel has ended since
			continue
		}
		o.hold(r.ID)
		o.wg.Go(func() { o.send(w, h) })
	}
	return next
}

// close waits for what is being sent until ctx ends.
func (o *outbox) close(ctx context.Context) {
	done := make(chan struct{})
	go func() { // ends with the last send, whose time is bounded
		o.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// send makes one attempt for a reply that no turn waits for.
func (o *outbox) send(w *waiting, h *handler) {
	ctx, s := context.Background(), &h.Sender
	if w.unsure && !s.ignoresCopies(w, 0) {
		r, err := channel.Receipt{State: channel.UnknownWhether}, error(nil)
		if s.Reconcile != nil {
			err = o.queue.kernel.caught(ctx, func() (err error) {
				ctx, cancel := context.WithTimeout(ctx, sendTimeout)
				defer cancel()
				r, err = s.Reconcile(ctx, w.out)
				return err
			})
		}
		if r, err = channel.ReceiptOf(r, err); r.State != channel.NotSent {
			o.after(ctx, w, s, r, err)
			return
		}
	}
	if time.Since(w.created) > replyLife {
		o.end(ctx, w, channel.Receipt{State: channel.NotSent}, errors.New("all attempts within a day have failed"))
		return
	}
	login := channel.PolicyQuery{Channel: w.out.Channel, Account: w.out.Account}
	if err := o.queue.kernel.stillAllowed(ctx, &w.out.Origin, login, ^uint64(0)); err != nil {
		o.end(ctx, w, channel.Receipt{State: channel.Suppressed}, err)
		return
	}
	w.out.Attempt = w.attempts
	_, _, _ = o.attempt(ctx, w, func(ctx context.Context, _ channel.Block) (channel.Receipt, error) { return s.Send(ctx, w.out) })
}

// attempt sends a reply, which hold has noted. held reports that it is kept for another attempt. The end of ctx does not end the attempt.
func (o *outbox) attempt(ctx context.Context, w *waiting, send func(context.Context, channel.Block) (channel.Receipt, error)) (r channel.Receipt, held bool, err error) {
	ctx, cancel := outlive(ctx, sendTimeout)
	defer cancel()
	err = o.queue.kernel.caught(ctx, func() (err error) {
		r, err = send(ctx, w.out.Block)
		return err
	})
	r, err = channel.ReceiptOf(r, err)
	if len(r.MessageIDs) > 0 {
		f := channel.Facts{Channel: w.out.Channel, Account: w.out.Account, Conversation: w.out.Origin.Conversation}
		o.queue.kernel.guards.sent(&f, r.MessageIDs)
	}
	o.queue.mu.Lock()
	h := o.queue.handlers[Login(w.out.Channel, w.out.Account)]
	o.queue.mu.Unlock()
	var s Sender
	if h != nil {
		s = h.Sender
	}
	return r, o.after(ctx, w, &s, r, err), err
}

// after keeps a reply for another attempt, or ends it.
func (o *outbox) after(ctx context.Context, w *waiting, s *Sender, r channel.Receipt, err error) (held bool) {
	pause := backoff.After(max(w.attempts, 1), shortestWait, longestWait)
	unsure := r.State == channel.UnknownWhether
	again := unsure && (s.ignoresCopies(w, pause) || s.Reconcile != nil)
	if not, ok := errors.AsType[*channel.NotSentError](err); ok && not.Retryable && !not.Permanent {
		again, pause = true, max(pause, not.RetryAfter)
	}
	if !again || time.Since(w.created)+pause > replyLife {
		o.end(ctx, w, r, err)
		if unsure {
			o.tellUnsure(ctx, w, s)
		}
		return false
	}
	err = persist(ctx, func(ctx context.Context) error {
		return o.queue.kernel.Store.PostponeReply(ctx, w.id, o.queue.o.Replica, time.Now().Add(pause), unsure)
	})
	o.release(w.id)
	if err != nil && !errors.Is(err, store.ErrMoved) {
		o.queue.o.Log.ErrorContext(ctx, "cannot store the state of a reply", "turn", w.out.TurnID, "channel", w.out.Channel, "error", err)
	}
	signal(o.wake)
	return true
}

// tellUnsure tells the conversation that a reply may be missing.
func (o *outbox) tellUnsure(ctx context.Context, w *waiting, s *Sender) {
	if s.Send == nil {
		return
	}
	out := w.out
	out.Block = channel.Block{Kind: channel.ReplyFinal, Seq: out.Block.Seq + 1, Payload: channel.Payload{Text: unsureNotice, IsError: true}, Target: out.Block.Target, Key: out.Block.Key + ":notice"}
	err := o.queue.kernel.caught(ctx, func() error {
		_, err := s.Send(ctx, out)
		return err
	})
	if err != nil {
		o.queue.o.Log.WarnContext(ctx, "cannot tell that a reply may be missing", "turn", out.TurnID, "channel", out.Channel, "error", err)
	}
}

func (o *outbox) release(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sending[id]--; o.sending[id] <= 0 {
		delete(o.sending, id)
	}
}

// end removes a reply, whatever it came to.
func (o *outbox) end(ctx context.Context, w *waiting, r channel.Receipt, err error) {
	log, attrs := o.queue.o.Log, []any{"turn", w.out.TurnID, "channel", w.out.Channel, "attempts", w.attempts, "error", err}
	switch r.State {
	case channel.Sent:
	case channel.UnknownWhether:
		log.WarnContext(ctx, "unknown whether a reply was sent", attrs...)
	case channel.Suppressed:
		log.InfoContext(ctx, "dropped a waiting reply", attrs...)
	default:
		log.ErrorContext(ctx, "gave up a reply", append(attrs, slog.String("state", r.State.String()))...)
	}
	err = persist(ctx, func(ctx context.Context) error { return o.queue.kernel.Store.EndReply(ctx, w.id, o.queue.o.Replica) })
	o.release(w.id)
	if err != nil && !errors.Is(err, store.ErrMoved) {
		log.ErrorContext(ctx, "cannot store the end of a reply", "turn", w.out.TurnID, "channel", w.out.Channel, "error", err)
	}
	signal(o.wake)
}
