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
	c        *Channel
	k        *kernel.Kernel
	meta     kernel.Meta
	events   []*event
	last     *event // that is answered
	answered bool   // the interaction that it is
}

func (a *adapter) ingest(_ context.Context, raws [][]byte) (*channel.Input, error) {
	var list []*channel.Input
	for _, raw := range raws {
		e := new(event)
		if json.Unmarshal(raw, e) != nil || e.decode() != nil { // written by another version of this server
			continue
		}
		a.last, a.events = e, append(a.events, e)
		list = append(list, a.c.input(e))
	}
	in := channel.MergeInputs(list)
	if in != nil && a.last.kind() == channel.EventCommand && !a.k.HasCommand(a.meta.Channel, a.meta.Account, in.TextForCommands) {
		in.TextForCommands = "" // the agent reads what is no command of this server any more
	}
	return in, nil
}

func (a *adapter) classify(ctx context.Context, in *channel.Input) (channel.EventClass, error) {
	if a.last.interaction != nil {
		a.c.acknowledge(ctx, a.last.interaction)
	}
	_, isPress := press(a.last)
	return platform.Classify(in, a.last.kind(), isPress), nil
}

func (a *adapter) preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (pf channel.Preflight, err error) {
	if in.HasMedia {
		pf.History.LoadMedia = platform.ImageLoader(a.files(), a.c.media.Load)
	}
	return pf, nil
}

func (a *adapter) files() (all []platform.Attachment) {
	for _, e := range a.events {
		all = append(all, files(content(&e.message))...)
	}
	return all
}

// conversation is where the event came from. A thread is a conversation in that of its channel.
func (e *event) conversation() channel.ConversationFacts {
	f := channel.ConversationFacts{Kind: channel.Direct, ID: e.message.ChannelID, Label: e.Place.Name, SpaceID: e.Place.GuildID}
	if !e.direct() {
		f.Kind = channel.Group
	}
	if e.Place.IsThread() {
		f.ParentID = e.Place.ParentID
	}
	return f
}

func (a *adapter) resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	c, e, m := a.c, a.last, &a.last.message
	at := e.conversation()
	f, policy, who := platform.NewFacts(ctx, a.k, a.meta, c.s.Agent, in, c.sender(m), at)
	if at.ParentID != "" {
		f.Route.ParentSessionKey = channel.SessionKey(channel.KeyParts{Channel: f.Channel, Account: f.Account, Conversation: at.ParentID})
	}
	f.Reply = e.replyPlan()
	var mentions []channel.MentionFacts
	for _, part := range a.events {
		mentions = append(mentions, c.mentions(part, channel.NewNames(policy.Patterns)))
	}
	f.Access = policy.Access(who, channel.MergeMentions(mentions...))
	if p, ok := press(e); ok {
		return a.k.PressTurn(f, p, a.showPressed), nil
	}
	var quoted []platform.Attachment
	if to := m.ReferencedMessage; to != nil && e.kind() == channel.EventMessage {
		by := c.sender(to)
		allowed := policy.Sees(at.Kind, by.Identity())
		if by.IsSelf {
			allowed = channel.Yes
		}
		f.Supplemental.Quote = &channel.Quote{ID: to.ID, Body: c.text(e, content(to), false), Sender: by.Label(), IsSelf: by.IsSelf, SenderAllowed: allowed}
		quoted = files(content(to))
	}
	if forwards(m) { // the platform does not name the author
		f.Supplemental.Forwarded = &channel.Forwarded{FromType: "channel", FromID: m.MessageReference.ChannelID, Date: content(m).Timestamp.UTC()}
	}
	platform.AddMedia(ctx, &f, a.files(), quoted, a.c.media.Load)
	return &kernel.Turn{Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}, Delivery: a.delivery()}, nil
}

// replyPlan is where the answer goes: to the interaction, to the message, or in a direct conversation just to the channel.
func (e *event) replyPlan() channel.ReplyPlanFacts {
	to := e.message.ChannelID
	r := channel.ReplyPlanFacts{To: to, OriginatingTo: to, NativeChannelID: to, ReplyToID: channel.None, MessageThreadID: channel.None, Mode: channel.ReplyDirect}
	switch {
	case e.interaction != nil:
		r.DeliveryTarget = interactionTarget(e.interaction)
	case !e.direct():
		r.Mode, r.ReplyToID = channel.ReplyMessage, channel.Some(e.message.ID)
	}
	return r
}

// finalize answers an interaction that nothing else has answered, and changes messages where they wait.
func (a *adapter) finalize(ctx context.Context, r channel.Result) error {
	e := a.last
	w := channel.WindowKey{Channel: a.meta.Channel, Account: a.meta.Account, Conversation: e.message.ChannelID}
	switch {
	case e.interaction != nil:
		a.finishInteraction(ctx, r)
	case e.Type == messageUpdate:
		platform.EditWaiting(ctx, a.k, w, e.conversation().Kind, a.c.sender(&e.message), e.message.ID, a.c.text(e, content(&e.message), false))
	case e.Type != messageCreate:
		a.k.Window.Forget(ctx, w, e.deleted...)
	}
	return nil
}
