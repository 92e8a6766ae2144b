package webhook

import (
	"bytes"
	"context"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// event is what one turn answers: a message, or several that were combined. The first one gets the reply.
type event struct {
	*platform.Event
	c        *Channel
	messages []*message
	session  string
	answer   answer // with its Turn from the beginning
}

// run runs the turn of an event.
func (c *Channel) run(ctx context.Context, e *platform.Event) (channel.Result, error) {
	ev := &event{Event: e, c: c}
	for _, raw := range e.Meta.Event.Raws() {
		id, body, _ := bytes.Cut(raw, []byte("\n"))
		m, err := parse(body)
		if err != nil { // an earlier version of this program has accepted it
			continue
		}
		m.id = string(id)
		ev.messages = append(ev.messages, m)
	}
	c.describe(e, ev.messages)
	if c.result && e.Meta.Event.Begun {
		ev.answer, _ = c.load(ctx, e.Meta.Event.Key)
	}
	ev.answer.Turn = e.Meta.TurnID
	e.Meta.Counted = true // when it was accepted
	if c.result {
		e.Reply.DeliveryTarget = e.Meta.Event.Key // the answer does not wait for replies to other messages
	}
	e.Finalize = ev.finalize
	e.Delivery = func(f *channel.Facts) *kernel.Delivery {
		ev.session = f.Route.RouteSessionKey
		return &kernel.Delivery{Deliver: ev.deliver, Durable: true}
	}
	return e.Run(ctx)
}

func inputOf(m *message) *channel.Input {
	return &channel.Input{
		ID: m.id, RawText: m.Text, TextForAgent: m.Text, TextForCommands: m.Text,
		ConversationID: m.Conversation.ID, ThreadID: m.Conversation.Thread, SenderID: m.Sender.ID, HasMedia: len(m.Media) > 0,
	}
}

// describe adds messages to an event, which is named after the first.
func (c *Channel) describe(e *platform.Event, list []*message) {
	for _, m := range list {
		in := inputOf(m)
		in.ID = list[0].id
		one := platform.Message{Input: in, Kind: channel.EventMessage, Files: m.files}
		one.Mentions = func(names channel.Names) channel.MentionFacts {
			is := names.In(m.Text) || m.Mentioned != nil && *m.Mentioned
			return channel.MentionFacts{CanDetect: m.Mentioned != nil, WasMentioned: is, HasAnyMention: is}
		}
		e.Messages = append(e.Messages, one)
		at := m.Conversation
		e.Sender, e.Place = m.Sender, channel.ConversationFacts{Kind: at.Kind, ID: at.ID, ThreadID: at.Thread}
		e.Reply = platform.ReplyPlan(at.Kind, at.ID, at.Thread, "")
	}
	e.Complete = func(_ context.Context, _ *channel.Facts, p channel.Policy) (channel.MentionFacts, []platform.Attachment) {
		return channel.MentionFacts{CanDetect: len(p.Patterns) > 0}, nil
	}
}

// deliver stores a part of the reply for the answer, or sends it to the callback.
func (ev *event) deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	if ev.c.result {
		ev.answer.add(partOf(&b))
		ev.c.save(ctx, ev.Meta.Event.Key, ev.session, &ev.answer)
		return receiptOf(&b), nil
	}
	send := ev.c.sendRepeatedly
	if b.Kind == channel.ReplyFinal && !b.IsError { // the outbox repeats it
		send = ev.c.send
	}
	return receiptOf(&b), send(ctx, replyTo(ev.messages[0], ev.answer.Turn, partOf(&b)))
}

func receiptOf(b *channel.Block) channel.Receipt { return channel.Receipt{MessageIDs: []string{b.Key}} }

// finalize stores the answer for the requests that wait, unless the event runs again. A sender who is to be paired is answered before.
func (ev *event) finalize(ctx context.Context, r channel.Result) error {
	c := ev.c
	if !c.result || !ev.Meta.Event.Ended() && r.Admission.Reason != channel.ReasonPairingRequired {
		return nil
	}
	ev.answer.complete(r.TurnID, r.Admission, r.Outcome)
	c.save(ctx, ev.Meta.Event.Key, ev.session, &ev.answer)
	var merged answer
	merged.complete(r.TurnID, channel.Admission{Kind: channel.Handled, Reason: channel.ReasonMerged}, r.Outcome)
	for _, m := range ev.messages[1:] {
		key := channel.EventKey{Channel: c.s.Name, Account: c.s.Account, Conversation: m.Conversation.ID, Thread: m.Conversation.Thread, ID: m.id}
		c.save(ctx, key.String(), ev.session, &merged)
	}
	return nil
}
