package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// Repeatable reports whether a second send of a reply, so long after it was stored, does no harm: the platform takes it for the first, or it only edits
	// a message. nil: it never is.
	Repeatable func(out channel.Outbound, age time.Duration) bool
}

// repeatable reports whether a reply may be sent again after a pause that may have been sent.
func (s *Sender) repeatable(w *waiting, pause time.Duration) bool {
	return s.Repeatable != nil && s.Repeatable(w.out, time.Since(w.created)+pause)
}

// outbox sends replies that were stored, in the order of each target. A reply that is proven not to be sent is tried again, with a growing pause, for a
// day. A reply that may have been sent is sent again only if that does no harm; else the conversation gets one notice that it may be missing.
type outbox struct {
	queue *Queue
	wake  chan struct{}

	mu      sync.Mutex
	sending map[int64]bool // replies that this process is sending
	active  int            // of them, those that no turn waits for
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
	handler  *handler
}

// hold notes that a reply is being sent.
func (o *outbox) hold(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending[id] = true
}

// keep ends the event of a turn with a block that is stored until it is sent, and makes the first attempt unless an earlier reply to the same target waits.
// held reports that it is sent later. If it cannot be stored, the event has not ended.
func (p *pass) keep(ctx context.Context, o channel.Outcome, b *channel.Block, send func(context.Context) (channel.Receipt, error)) (r channel.Receipt, held bool, err error) {
	e, out := p.meta.Event, p.outbound(b)
	id, first, err := e.finish(ctx, o, &out)
	switch {
	case err != nil:
		return channel.Receipt{State: channel.NotSent}, false, &channel.NotSentError{Err: fmt.Errorf("the answer cannot be stored: %w", err)}
	case !first:
		return channel.Receipt{State: channel.NotSent}, true, nil
	}
	w := &waiting{id: id, out: out, attempts: 1, created: time.Now(), handler: e.handler}
	if r, held, err = e.queue.outbox.attempt(w, send); held {
		return r, true, nil
	}
	return r, false, err
}

// outbound is a block of the turn's answer as it is stored.
func (p *pass) outbound(b *channel.Block) channel.Outbound {
	return channel.Outbound{
		Channel: p.facts.Channel, Account: p.facts.Account, TurnID: p.result.TurnID, Session: p.result.SessionKey, Event: p.meta.Event.Key,
		Conversation: p.facts.Conversation, Block: *b,
	}
}

// start claims replies and sends them.
func (o *outbox) start() (next time.Time) {
	o.mu.Lock()
	held := slices.Sorted(maps.Keys(o.sending))
	free := sendsAtOnce - o.active
	o.mu.Unlock()
	c := o.queue.claim(free)
	if free <= 0 || len(c.Logins) == 0 {
		return time.Time{}
	}
	q := o.queue
	replies, next, err := q.kernel.Store.ClaimReplies(q.ctx, c, held)
	if err != nil {
		if q.ctx.Err() == nil {
			q.o.Log.WarnContext(q.ctx, "cannot read the replies of channels; retrying", "error", err)
		}
		return time.Now().Add(lookEvery)
	}
	for _, r := range replies {
		w := &waiting{id: r.ID, attempts: r.Attempts, created: r.Created, unsure: r.Unsure}
		if err := json.Unmarshal(r.Block, &w.out); err != nil {
			o.end(q.ctx, w, channel.Receipt{State: channel.NotSent}, err)
			continue
		}
		if !o.startSend(w, r.Login) { // the channel has ended since
			_ = q.kernel.Store.PostponeReply(q.ctx, r.ID, q.o.Replica, time.Now(), r.Unsure)
		}
	}
	return next
}

// startSend sends a reply beside the loop. started is false if its channel does not serve.
func (o *outbox) startSend(w *waiting, login string) (started bool) {
	o.queue.mu.Lock()
	defer o.queue.mu.Unlock()
	w.handler = o.queue.handlers[login]
	if w.handler == nil {
		return false
	}
	o.hold(w.id)
	o.mu.Lock()
	o.active++
	o.mu.Unlock()
	w.handler.wg.Go(func() {
		o.send(w)
		o.mu.Lock()
		o.active--
		o.mu.Unlock()
		signal(o.wake)
	})
	return true
}

// send makes one attempt for a reply that no turn waits for.
func (o *outbox) send(w *waiting) {
	ctx, s := w.handler.turns, &w.handler.Sender
	if w.unsure && !s.repeatable(w, 0) {
		o.after(ctx, w, channel.Receipt{State: channel.UnknownWhether}, nil)
		return
	}
	if time.Since(w.created) > replyLife {
		o.end(ctx, w, channel.Receipt{State: channel.NotSent}, errors.New("all attempts within a day have failed"))
		return
	}
	_, _, _ = o.attempt(w, func(ctx context.Context) (channel.Receipt, error) { return s.Send(ctx, w.out) })
}

// attempt sends a reply, which hold has noted. held reports that it is kept for another attempt. The end of its turn does not end the attempt, but that of
// the channel does, after the grace period.
func (o *outbox) attempt(w *waiting, send func(context.Context) (channel.Receipt, error)) (r channel.Receipt, held bool, err error) {
	ctx, cancel := context.WithTimeout(w.handler.turns, sendTimeout)
	defer cancel()
	err = o.queue.kernel.caught(ctx, func() (err error) {
		r, err = send(ctx)
		return err
	})
	r, err = channel.ReceiptOf(r, err)
	if len(r.MessageIDs) > 0 {
		f := channel.Facts{Channel: w.out.Channel, Account: w.out.Account, Conversation: w.out.Conversation}
		o.queue.kernel.guards.sent(&f, r.MessageIDs)
	}
	return r, o.after(ctx, w, r, err), err
}

// after keeps a reply for another attempt, or ends it.
func (o *outbox) after(ctx context.Context, w *waiting, r channel.Receipt, err error) (held bool) {
	s, pause := &w.handler.Sender, backoff.After(max(w.attempts, 1), shortestWait, longestWait)
	unsure := r.State == channel.UnknownWhether
	again := unsure && (s.repeatable(w, pause) || w.handler.turns.Err() != nil) // at the end of the channel, the next start decides
	if not, ok := errors.AsType[*channel.NotSentError](err); ok && not.Retryable && !not.Permanent {
		again, pause = true, max(pause, not.RetryAfter)
	}
	if !again || time.Since(w.created)+pause > replyLife {
		if !unsure || !o.sendUnsureNotice(ctx, w) {
			o.end(ctx, w, r, err)
		}
		return false
	}
	err = persist(ctx, noteFor, func(ctx context.Context) error {
		return o.queue.kernel.Store.PostponeReply(ctx, w.id, o.queue.o.Replica, time.Now().Add(pause), unsure)
	})
	o.release(w.id)
	if err != nil && !errors.Is(err, store.ErrMoved) {
		o.queue.o.Log.ErrorContext(ctx, "cannot store the state of a reply", "turn", w.out.TurnID, "channel", w.out.Channel, "error", err)
	}
	signal(o.wake)
	return true
}

// sendUnsureNotice makes the reply a notice that it may be missing, and sends that as any other. told is false if it was such a notice already, or the store does
// not take it.
func (o *outbox) sendUnsureNotice(ctx context.Context, w *waiting) (told bool) {
	send, b := w.handler.Sender.Send, &w.out.Block
	if send == nil || b.IsError {
		return false
	}
	*b = channel.Block{Kind: channel.ReplyFinal, Seq: b.Seq + 1, Payload: channel.Payload{Text: unsureNotice, IsError: true}, Target: b.Target, Key: b.Key + ":notice"}
	data, err := json.Marshal(w.out)
	if err == nil {
		err = persist(ctx, noteFor, func(ctx context.Context) error {
			return o.queue.kernel.Store.ReplaceReply(ctx, w.id, o.queue.o.Replica, data)
		})
	}
	if err != nil {
		return false
	}
	o.queue.o.Log.WarnContext(ctx, "unknown whether a reply was sent", "turn", w.out.TurnID, "channel", w.out.Channel, "attempts", w.attempts)
	w.unsure = false
	_, _, _ = o.attempt(w, func(ctx context.Context) (channel.Receipt, error) { return send(ctx, w.out) })
	return true
}

func (o *outbox) release(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sending, id)
}

// end removes a reply, with any outcome.
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
	err = persist(ctx, noteFor, func(ctx context.Context) error { return o.queue.kernel.Store.EndReply(ctx, w.id, o.queue.o.Replica) })
	o.release(w.id)
	if err != nil && !errors.Is(err, store.ErrMoved) {
		log.ErrorContext(ctx, "cannot store the end of a reply", "turn", w.out.TurnID, "channel", w.out.Channel, "error", err)
	}
	signal(o.wake)
}
