package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/turn"
)

// dispatch gives the turn to the agent, and returns when what it had to say is sent.
func (p *pass) dispatch(ctx context.Context) (channel.Admission, error) {
	p.welcome(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := p.newSink(ctx, p.turn.Delivery, cancel)
	p.sink = s
	t := &channel.Turn{
		ID: p.result.TurnID, SessionKey: p.result.SessionKey, Context: p.result.Context, Policy: p.policy.OnBusy, Timezone: p.policy.Timezone,
		Resumed: p.resumed(), Shown: s.progress.Text, Sink: s, Arrived: p.event.Arrived, Repeated: p.event.Attempts > 0,
		Queued: func() {
			p.inLane.Store(true)
			p.letNext(ctx)
		},
	}
	var said channel.DispatchResult
	err := p.k.guard(ctx, func() (err error) {
		said, err = p.answer(channel.WithTurn(ctx, t), t)
		return err
	})
	refused := p.refused(err)
	p.result.Dispatched = refused == ""
	err = s.end(ctx, err)
	p.result.Dispatch = s.result(said)
	if refused != "" && !s.final() {
		return drop(refused), nil
	}
	p.result.Dispatched = true
	if err == nil && p.silent() {
		p.warn(ctx, channel.StageDispatch, "nothing_visible", nil)
	}
	return channel.Admission{}, err
}

func (p *pass) answer(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	if p.event.Crashes >= maxCrashes {
		return channel.DispatchResult{}, errCrashed
	}
	if p.turn.Dispatch != nil {
		return p.turn.Dispatch(ctx, t)
	}
	text := p.greeting()
	switch {
	case text == "":
		return p.k.Agent.Dispatch(ctx, t)
	case t.Shown >= len(text): // before a crash
		return channel.DispatchResult{}, nil
	}
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text, Upto: len(text)})
}

// errCrashed ends the turn of an event during which the process has died too often.
var errCrashed error = lastingError("channel: the server has crashed too often during this turn")

// lastingError is the error of a turn that is not tried again.
type lastingError string

func (e lastingError) Error() string { return string(e) }
func (lastingError) Lasting() bool   { return true }

// refused is why the lane has not taken the turn; "" if it has.
func (p *pass) refused(err error) channel.Reason {
	switch {
	case err == nil || p.inLane.Load():
		return ""
	case errors.Is(err, turn.ErrBusy):
		return channel.ReasonSessionBusy
	case errors.Is(err, turn.ErrQueueFull):
		return channel.ReasonOverloaded
	case errors.Is(err, turn.ErrDraining):
		return channel.ReasonDraining
	}
	return ""
}

// silent reports whether someone waits for an answer that has not come, without anybody having decided so.
func (p *pass) silent() bool {
	r, kind := &p.result.Dispatch, p.result.Class.Kind
	return (kind == channel.EventMessage || kind == channel.EventCommand) && !p.observing() &&
		!r.NoReply && !r.Deferred && p.facts.Reply.Mode != channel.ReplyNone && !p.sink.final()
}

// notify sends a notice in place of an answer. There is one for each event at most, also if the process dies (CH-60).
func (p *pass) notify(ctx context.Context, seq int, text string) {
	if p.event.progress.Told {
		return
	}
	p.event.progress.Told = true
	outcome := channel.Outcome("")
	if p.storesEnd() && !p.result.Admission.Stops() {
		outcome = channel.OutcomeFailed
	} else if err := p.event.note(ctx, p.result.SessionKey, false); err != nil {
		p.warn(ctx, p.result.Stage, "cannot store that the sender gets a notice", err)
		return
	}
	p.sendNotice(ctx, outcome, seq, text)
}

// Notices have a Seq each, which is not that of a block: a platform that knows a message again by its key takes none for another, also if the event
// runs again.
const (
	pairingNotice = -1 - iota
	pairedNotice
	stoppedNotice
	failureNotice
	unsureNoticeSeq
)

// sendNotice sends a notice of the kernel where the message is answered, by [pass.sendBlock]. It is no part of the answer.
func (p *pass) sendNotice(ctx context.Context, o channel.Outcome, seq int, text string) {
	if p.turn.Delivery == nil || p.observing() || p.facts.Reply.Mode == channel.ReplyNone {
		return
	}
	ctx, cancel := outlive(ctx, finalizeTimeout)
	defer cancel()
	b := channel.Block{
		Kind: channel.ReplyFinal, Seq: seq, Payload: channel.Payload{Text: text, IsError: true}, Target: p.facts.Reply,
		Key: fmt.Sprintf("%s:%d", p.result.TurnID, seq),
	}
	if _, _, err := p.sendBlock(ctx, o, &b); err != nil {
		p.warn(ctx, p.result.Stage, "cannot send a notice to the sender", err)
	}
}
