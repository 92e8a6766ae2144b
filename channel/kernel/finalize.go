package kernel

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/turn"
)

// finish ends the turn: it tells the sender what is to be told, ends the event, and calls the hooks.
func (p *pass) finish(ctx context.Context) {
	p.notifySender(ctx)
	p.result.Outcome = p.outcome()
	if p.result.Outcome == "" { // the event was nothing, or could not be read
		p.endEvent(ctx)
	} else {
		p.finalize(ctx)
	}
	p.acknowledge(ctx)
	p.letNext(ctx)
}

// join adds an error behind the first one of the turn.
func (p *pass) join(s channel.Stage, err error) {
	if err == nil {
		return
	}
	err = &channel.StageError{Stage: s, Err: err}
	if p.err != nil {
		err = errors.Join(p.err, err)
	}
	p.err = err
}

// outcome is what became of the turn; "" if there was no input.
func (p *pass) outcome() channel.Outcome {
	r, t := &p.result, cmp.Or(p.sink, &sink{progress: &progress{}})
	switch {
	case p.in == nil && p.hooks.Ingest != nil:
		return ""
	case p.err == nil && r.Admission.Stops():
		return channel.OutcomeBlocked
	case p.err == nil && p.observing():
		return channel.OutcomeObserved
	case p.err == nil && t.queued:
		return channel.OutcomeQueued
	case p.err == nil && t.progress.Visible:
		return channel.OutcomeVisible
	case p.err == nil && r.Dispatch.Deferred:
		return channel.OutcomeDeferred
	case p.err != nil && t.progress.Visible:
		return channel.OutcomePartial
	case t.unknown:
		return channel.OutcomeUnknown
	case p.canceled:
		return channel.OutcomeCanceled
	case p.err != nil:
		return channel.OutcomeFailed
	}
	return channel.OutcomeSilent
}

// finalize writes the history, ends the event, and tells the turn and the adapter. Each part has its own time and runs also if others have failed;
// all get the same result.
func (p *pass) finalize(ctx context.Context) {
	r := p.result
	p.started = p.trace(ctx, channel.Trace{Stage: channel.StageFinalize, Phase: channel.PhaseStart})
	var errs []error
	part := func(limit time.Duration, f func(context.Context) error) {
		ctx, cancel := outlive(ctx, limit)
		defer cancel()
		errs = append(errs, p.k.guard(ctx, func() error { return f(ctx) }))
	}
	part(finalizeTimeout+channel.LoaderTimeout, p.writeHistory)
	p.endEvent(ctx)
	if p.recorded != nil && p.turn.Record.TrackTask != nil {
		part(finalizeTimeout, func(ctx context.Context) error {
			const failed = "the task of a recorded session failed" // which does not change the turn
			p.attempt(ctx, channel.StageFinalize, failed, func() error { return p.turn.Record.TrackTask(ctx, *p.recorded) })
			return nil
		})
	}
	if p.turn != nil && p.turn.OnFinalize != nil {
		part(finalizeTimeout, func(ctx context.Context) error { return p.turn.OnFinalize(ctx, r) })
	}
	if p.hooks.Finalize != nil {
		part(finalizeTimeout, func(ctx context.Context) error { return p.hooks.Finalize(ctx, r) })
	}
	err := errors.Join(errs...)
	t := channel.Trace{Stage: channel.StageFinalize, Phase: channel.PhaseDone, Outcome: r.Outcome}
	if err != nil {
		t.Phase, t.Err = channel.PhaseError, err
	}
	p.trace(ctx, t)
	p.join(channel.StageFinalize, err)
}

// acknowledge tells the caller what to answer its platform, once.
func (p *pass) acknowledge(ctx context.Context) {
	if p.acked || p.meta.Ack == nil {
		return
	}
	p.acked = true
	ctx = context.WithoutCancel(ctx)
	p.attempt(ctx, p.result.Stage, "cannot acknowledge an event", func() error { p.meta.Ack(ctx, p.result); return nil })
}

// endEvent decides what becomes of the event: it ends, or it is given back to be run again, or by another process.
func (p *pass) endEvent(ctx context.Context) {
	e, a := p.event, p.result.Admission
	switch {
	case e.over:
	case p.handedOver() || p.err == nil && a.Reason == channel.ReasonDraining:
		e.release(store.EventRelease{})
	case p.willRunLater():
		e.release(store.EventRelease{Failed: true, Due: time.Now().Add(retries[e.Attempts])})
	case p.err == nil && a.Reason == channel.ReasonPairingRequired && p.hasCode(ctx):
		e.release(store.EventRelease{Parked: p.facts.Sender.ID})
	default:
		e.finish(cmp.Or(p.result.Outcome, channel.OutcomeBlocked))
	}
}

// hasCode reports whether the sender knows a code to be paired with, or was paired meanwhile.
func (p *pass) hasCode(ctx context.Context) bool {
	paired, requested, _ := p.k.Pairing.State(ctx, p.facts.Channel, p.facts.Account, p.facts.Sender.ID)
	return paired == channel.Yes || requested
}

// willRunLater reports whether the event will run again: its turn has failed before anything was visible, for a reason that may pass.
func (p *pass) willRunLater() bool {
	e := p.event
	switch {
	case p.meta.Event == nil:
		return false
	case p.handedOver():
		return true
	case e.over, e.Attempts >= len(retries), p.sink != nil && p.sink.final():
		return false
	case p.err == nil:
		return p.result.Admission.Reason == channel.ReasonOverloaded
	}
	return !p.canceled && !turn.Lasting(p.err)
}

// writeHistory forgets what the answered turn has seen of the window, or keeps a message that was not answered for a later one.
func (p *pass) writeHistory(ctx context.Context) error {
	switch {
	case p.sink != nil && (p.sink.progress.Visible || p.sink.queued) && !p.handedOver() && p.snapshot != nil && len(p.snapshot.Entries) > 0:
		p.k.Window.Consume(ctx, p.snapshot)
	case p.err == nil && p.result.Admission.Kind == channel.Drop:
		if f := p.unanswered(); f != nil {
			p.attempt(ctx, channel.StageFinalize, "cannot write the history", func() error { return p.k.Window.Record(ctx, p.recording(f)) })
		}
	}
	return nil
}

// recording is how a message is stored in the window.
func (p *pass) recording(f *channel.Facts) channel.Recording {
	r := channel.Recording{HistoryHint: p.preflight.History, MessageID: f.MessageID, Time: f.Timestamp, Message: f.Message, Input: p.in, Media: f.Media}
	r.Sender = f.Sender
	if r.Key == (channel.WindowKey{}) {
		r.Key = f.WindowKey()
	}
	return r
}

// unanswered is the message that is kept for a later mention; nil if it is not, because no stage has said so or its sender may not talk here.
func (p *pass) unanswered() *channel.Facts {
	f, hint := p.facts, p.preflight.History
	record := p.result.Admission.RecordHistory
	if f == nil { // the stage preflight has dropped it
		if !record && !hint.RecordOnDrop || p.preflight.Access == nil {
			return nil
		}
		f = &channel.Facts{
			Channel: p.meta.Channel, Account: p.meta.Account, MessageID: p.in.ID, Timestamp: p.in.Timestamp,
			Sender: hint.Sender, Conversation: hint.Conversation, Access: *p.preflight.Access,
			Message: p.preflight.Message, Supplemental: p.preflight.Supplemental, Media: p.preflight.Media,
		}
		if f.Conversation.ID == "" {
			f.Conversation.ID, f.Conversation.ThreadID = p.in.ConversationID, p.in.ThreadID
		}
		f.Sender.ID = cmp.Or(f.Sender.ID, p.in.SenderID)
	} else if !record {
		return nil
	}
	d := p.decision
	if !p.gated {
		d = channel.Evaluate(*f)
	}
	if !d.Talks || f.Conversation.Kind == channel.Direct || f.Supplemental.HidesMessage(f.Access.Visibility) {
		return nil
	}
	return f
}
