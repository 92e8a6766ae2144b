package channel

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/turn"
)

type turnKey struct{}

// FromContext returns the turn that a context belongs to, nil for others: whatever a turn runs and that sends through a channel
// uses its Sink.
func FromContext(ctx context.Context) *Turn {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	return t
}

// WithTurn returns a context that belongs to a turn.
func WithTurn(ctx context.Context, t *Turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// send gives the turn to the agent, or to the plan's own dispatch, and returns when what it had to say is sent.
func (p *pass) send(ctx context.Context) (Admission, error) {
	p.welcome(ctx)
	p.tellLost(ctx)
	d := newDeliveries(ctx, p.k, p.sending())
	t := &Turn{
		ID: p.result.TurnID, SessionKey: p.result.SessionKey, Context: p.result.Context, Policy: p.policy.OnBusy, Timezone: p.policy.Timezone, Repeated: p.meta.Repeated, Sink: d,
		Queued: func() {
			p.inLane.Store(true)
			p.queued(ctx)
		},
	}
	var said DispatchResult
	err := p.guard(ctx, func() (err error) {
		said, err = p.dispatch(WithTurn(ctx, t), t, p.k.Agent)
		return err
	})
	refused := p.refused(err)
	if refused == "" {
		p.result.Dispatched = true
	}
	p.permanent = p.permanent || permanent(err)
	sent, err := d.end(err)
	p.tally = d.came()
	if d.lost {
		p.k.noteLost(p.result.SessionKey, d.Event)
	}
	p.result.Dispatch = p.both(said, sent)
	if refused != "" && !p.tally.Attempted {
		p.why = err
		return drop(refused), nil
	}
	p.result.Dispatched = true
	if err != nil {
		p.fail(ctx, StageDispatch, err)
		p.notify(ctx, d)
	} else if p.notify(ctx, d); p.silent() {
		p.warn(ctx, StageDispatch, "nothing_visible", nil)
	}
	return Admission{}, err
}

// refused is why the lane has not taken the turn; "" where it has.
func (p *pass) refused(err error) Reason {
	switch {
	case err == nil || p.inLane.Load():
		return ""
	case errors.Is(err, turn.ErrBusy):
		return ReasonSessionBusy
	case errors.Is(err, turn.ErrQueueFull):
		return ReasonOverloaded
	case isDraining(err):
		return ReasonDraining
	}
	return ""
}

// both is what a dispatch says of itself, and what its sink has seen: receipts overrule counts.
func (p *pass) both(said, sent DispatchResult) DispatchResult {
	if p.observing() {
		return DispatchResult{Deferred: said.Deferred, NoReply: said.NoReply}
	}
	if len(said.Receipts) == 0 && len(sent.Receipts) == 0 { // its word is all there is
		sent.Tool, sent.Block, sent.Final = sent.Tool+said.Tool, sent.Block+said.Block, sent.Final+said.Final
		p.tally.Visible = p.tally.Visible || said.Tool+said.Block+said.Final > 0
	}
	if len(sent.Receipts) == 0 {
		sent.Tool, sent.Block, sent.Final, sent.Receipts = said.Tool, said.Block, said.Final, said.Receipts
	}
	for _, r := range said.Receipts {
		p.tally.Visible = p.tally.Visible || r.State.Seen()
		p.tally.Unknown = p.tally.Unknown || r.State == UnknownWhether
	}
	p.tally.Attempted = p.tally.Attempted || p.tally.Visible || p.tally.Unknown
	sent.Deferred, sent.NoReply = said.Deferred, said.NoReply
	return sent
}

func (p *pass) observing() bool { return p.result.Admission.Kind == ObserveOnly }

// silent says whether somebody waits for an answer that has not come, without anybody having decided so (CH-125).
func (p *pass) silent() bool {
	r := &p.result.Dispatch
	kind := p.result.Class.Kind
	return (kind == EventMessage || kind == EventCommand) && p.plan.Trigger == "" && !p.observing() &&
		!r.NoReply && !r.Deferred && p.facts.Reply.Mode != ReplyNone &&
		!p.tally.Visible && !p.tally.Unknown && !p.tally.Queued && !p.tally.Denied
}

// sending is what the turn's deliveries are made of.
func (p *pass) sending() sending {
	f := p.facts
	s := sending{
		Turn: p.result.TurnID, Session: p.result.SessionKey, Channel: f.Channel, Account: f.Account, Conversation: f.Conversation.ID,
		Origin:   Origin{Sender: f.Sender, Conversation: f.Conversation},
		Delivery: p.delivery, Target: f.Reply, Observing: p.observing(), Echo: p.k.state.marks,
		Warn: func(ctx context.Context, what string, err error) {
			p.warn(ctx, StageDispatch, "part of a delivery failed", fmt.Errorf("%s: %w", what, err))
		},
	}
	if _, unaccepted := p.claim.(Unaccepted); p.claim != nil && !unaccepted && (p.k.state.ledger != nil || p.k.Outbox != nil) {
		s.Event, s.Ledger = p.key().String(), p.k.state.ledger
	}
	if p.plan.Trigger != "" {
		s.Origin.Sender = SenderFacts{} // nobody was let in
	} else if p.k.Settings != nil {
		s.Allow = p.stillAllowed
	}
	return s
}

// stillAllowed asks the gates again where the settings have changed since authorize.
func (p *pass) stillAllowed(ctx context.Context) error {
	f := p.facts
	if p.k.Settings.Policy(f.PolicyQuery()).Generation == p.policy.Generation {
		return nil // as nearly always; what follows takes a large stack
	}
	return p.k.stillAllowed(ctx, f.Channel, f.Account, Origin{Sender: f.Sender, Conversation: f.Conversation})
}

// notify tells whoever is answered that the turn has failed, where that is to be told (CH-60).
func (p *pass) notify(ctx context.Context, d *deliveries) {
	f := p.facts
	if p.err == nil && !d.holds() || p.canceled && !p.draining || p.again() || p.k.Settings != nil && !p.policy.ErrorNotice ||
		f.Conversation.Kind != Direct && !p.decision.Addressed {
		return
	}
	text := "" // unless the agent has said something
	if p.err != nil {
		text = noticeOf(p.result.TurnID)
	}
	ctx, cancel := outlive(ctx, finalizeTimeout)
	defer cancel()
	if _, err := d.notice(ctx, text); err != nil {
		p.warn(ctx, p.result.Stage, "cannot send the notice of a failed turn", err)
	}
}

// holds says whether the agent has given a notice.
func (d *deliveries) holds() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held != nil
}

// notifyOutside is notify for a turn that failed between the gates and dispatch.
func (p *pass) notifyOutside(ctx context.Context) {
	s := p.result.Stage
	if p.err == nil || p.delivery == nil || p.result.Dispatched || s != StageAssemble && s != StageRecord && s != StageDispatch {
		return
	}
	inside, cancel := outlive(ctx, finalizeTimeout)
	defer cancel()
	of := p.sending()
	of.NoSign = true
	d := newDeliveries(inside, p.k, of)
	_, _ = d.end(nil) // there is nothing to send
	p.notify(ctx, d)
}
