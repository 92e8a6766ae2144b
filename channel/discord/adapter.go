package discord

import (
	"context"
	"encoding/json"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// adapter reads an event for the kernel, or the texts of one sender that are one event.
type adapter struct {
	*platform.Event
	c        *Channel
	events   []*event
	last     *event // that is answered
	answered bool   // the interaction that it is
}

// run runs the turn of an event.
func (c *Channel) run(ctx context.Context, ev *platform.Event) (channel.Result, error) {
	a := &adapter{c: c, Event: ev}
	for _, raw := range a.Meta.Event.Raws() {
		e := new(event)
		if json.Unmarshal(raw, e) != nil { // written by another version of this server
			continue
		}
		a.last, a.events = e, append(a.events, e)
		one := platform.Message{Input: c.input(e), Kind: e.Kind, Files: files(content(&e.Message))}
		if one.Kind == channel.EventCommand && !a.Kernel.HasCommand(a.Meta.Channel, a.Meta.Account, one.Input.TextForCommands) {
			one.Input.TextForCommands = "" // the agent reads what is no command of this server any more
		}
		if e.Interaction != nil {
			one.Press = e.Interaction.Press
		}
		a.Messages = append(a.Messages, one)
	}
	if e := a.last; e != nil {
		a.Sender, a.Place, a.Reply = c.sender(&e.Message), e.conversation(), e.replyPlan()
		if e.Interaction != nil {
			a.Acknowledge = func(ctx context.Context) { c.acknowledge(ctx, e.Interaction) }
		}
	}
	a.Complete, a.ShowPress, a.Finalize = a.complete, a.showPressed, a.finalize
	a.Delivery = func(*channel.Facts) *kernel.Delivery { return a.delivery() }
	return a.Run(ctx)
}

// conversation is where the event came from. A thread is a conversation in that of its channel.
func (e *event) conversation() channel.ConversationFacts {
	f := channel.ConversationFacts{Kind: channel.Direct, ID: e.Message.ChannelID, Label: e.Place.Name, SpaceID: e.Place.GuildID}
	if !e.direct() {
		f.Kind = channel.Group
	}
	if e.Place.IsThread() {
		f.ParentID = e.Place.ParentID
	}
	return f
}

// complete adds what the message replies to, and where it was forwarded from.
func (a *adapter) complete(_ context.Context, f *channel.Facts, policy channel.Policy, _ channel.Identity) (m channel.MentionFacts, quoted []platform.Attachment) {
	c, e, names := a.c, a.last, channel.NewNames(policy.Patterns)
	if parent := f.Conversation.ParentID; parent != "" {
		f.Route.ParentSessionKey = channel.SessionKey(channel.KeyParts{Channel: f.Channel, Account: f.Account, Conversation: parent})
	}
	for _, part := range a.events {
		m = channel.MergeMentions(m, c.mentions(part, names))
	}
	if to := e.Message.ReferencedMessage; to != nil && e.Kind == channel.EventMessage {
		by := c.sender(to)
		f.Supplemental.Quote = &channel.Quote{ID: to.ID, Body: textOf(content(to)), Sender: by.Label(), IsSelf: by.IsSelf, SenderAllowed: policy.Sees(f.Conversation.Kind, by.Identity())}
		if by.IsSelf {
			f.Supplemental.Quote.SenderAllowed = channel.Yes
		}
		quoted = files(content(to))
	}
	if forwards(&e.Message) { // the platform does not name the author
		f.Supplemental.Forwarded = &channel.Forwarded{FromType: "channel", FromID: e.Message.MessageReference.ChannelID, Date: content(&e.Message).Timestamp.UTC()}
	}
	return m, quoted
}

// replyPlan is where the answer goes: to the interaction, to the message, or in a direct conversation just to the channel.
func (e *event) replyPlan() channel.ReplyPlanFacts {
	to, kind, replyTo := e.Message.ChannelID, channel.Direct, ""
	if e.Interaction == nil && !e.direct() {
		kind, replyTo = channel.Group, e.Message.ID
	}
	r := platform.ReplyPlan(kind, to, "", replyTo)
	if r.NativeChannelID = to; e.Interaction != nil {
		r.DeliveryTarget = "/webhooks/" + e.Interaction.Application + "/" + e.Interaction.Token
	}
	return r
}

// finalize answers an interaction that nothing else has answered, and changes messages where they wait.
func (a *adapter) finalize(ctx context.Context, r channel.Result) error {
	switch e := a.last; {
	case e.Interaction != nil:
		a.finishInteraction(ctx, r)
	case e.Deleted != nil:
		a.ForgetWaiting(ctx, e.Deleted...)
	case e.Kind == channel.EventLifecycle:
		a.EditWaiting(ctx, e.Message.ID, textOf(content(&e.Message)))
	}
	return nil
}
